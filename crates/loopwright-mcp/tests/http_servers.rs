//! Servers at an address that never come to an answer.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::time::Duration;

use loopwright_mcp::{HttpServer, McpClient, McpServer, ProtocolChoice};
use serde_json::{Value, json};

use crate::world::{World, call};

/// How long a client waits for an endless answer.
const SHORT: Duration = Duration::from_millis(300);

/// A server of the host, which answers as it should up to one method, and then without end.
struct Endless {
    address: String,
    /// Says so when an endless answer begins. On a busy machine a client may give up before that.
    begun: mpsc::Receiver<()>,
    /// Says so when the other side has closed an endless answer.
    closed: mpsc::Receiver<()>,
}

impl Endless {
    /// Answers `method` with `start`, and then with `again` over and over.
    fn start(method: &'static str, start: &'static str, again: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (beginning, begun) = mpsc::channel();
        let (closing, closed) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tell = (beginning.clone(), closing.clone());
                std::thread::spawn(move || serve(stream, method, (start, again), &tell));
            }
        });
        Self { address, begun, closed }
    }

    fn client(&self, world: &World, startup: Duration) -> McpClient {
        let server = McpServer::http("fake", HttpServer::new(self.address.as_str()))
            .with_protocol(ProtocolChoice::V2025_11_25)
            .with_startup_timeout(startup)
            .with_call_timeout(SHORT);
        McpClient::new(server, world.host())
    }

    /// Waits until an endless answer was closed.
    fn wait_closed(&self, again: &str) {
        let closed = self.closed.recv_timeout(Duration::from_secs(20));
        assert!(closed.is_ok(), "{again:?} is still read");
    }
}

fn serve(
    stream: TcpStream,
    method: &str,
    (start, again): (&str, &str),
    (beginning, closing): &(mpsc::Sender<()>, mpsc::Sender<()>),
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(message) = read_message(&mut reader) {
        if message["method"] == method {
            beginning.send(()).ok();
            let mut written = stream.write_all(start.as_bytes());
            while written.is_ok() {
                written = stream.write_all(again.as_bytes());
                // The other side should wait for this server, and not for its own parser.
                std::thread::sleep(Duration::from_millis(1));
            }
            closing.send(()).ok();
            return;
        }
        let answer = answer(&message);
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads one request; null if it has no body, and nothing at the end of the connection.
fn read_message(reader: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap_or_default())
}

fn answer(message: &Value) -> String {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        }),
        Some("tools/list") => {
            json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })
        }
        Some(_) => return "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
        None => {
            return "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
    };
    body(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

fn body(message: &Value) -> String {
    let body = message.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

const ANNOUNCED: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                       transfer-encoding: chunked\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_to_the_handshake_is_given_up_and_closed() {
    for (start, again) in endless() {
        let world = World::new();
        let server = Endless::start("initialize", start, again);
        let client = server.client(&world, SHORT);
        while server.begun.try_recv().is_err() {
            assert!(client.connect().await.is_err(), "{again:?}");
        }
        server.wait_closed(again);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_to_a_call_is_given_up_and_closed() {
    for (start, again) in endless() {
        let world = World::new();
        let server = Endless::start("tools/call", start, again);
        let client = server.client(&world, Duration::from_secs(20));
        while server.begun.try_recv().is_err() {
            let (told, _) = call(&client, "mcp__fake__echo", json!({})).await;
            assert!(told.contains("fake"), "{again:?}: {told}");
        }
        server.wait_closed(again);
    }
}

/// What answers may hold without end: announcements, headers, bodies and trailers.
fn endless() -> Vec<(&'static str, &'static str)> {
    let trailers = concat!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
        "transfer-encoding: chunked\r\n\r\n0\r\n"
    );
    vec![
        ("", ANNOUNCED),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        (CHUNKED, "1\r\n \r\n"),
        (trailers, "a: b\r\n"),
        ("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", ": x\n\n"),
        ("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ", "x"),
    ]
}

/// Serves on a socket of this machine as a server should, and tells the first line of each request.
fn serve_socket(listener: UnixListener) -> mpsc::Receiver<String> {
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut first = String::new();
            reader.read_line(&mut first).ok();
            sender.send(first.trim().to_owned()).ok();
            let Some(message) = read_message(&mut reader) else { continue };
            let answer = match message["method"].as_str() {
                Some("tools/call") => {
                    let result =
                        json!({ "content": [{ "type": "text", "text": "from a socket" }] });
                    body(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
                }
                _ => answer(&message),
            };
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    requests
}

fn at_socket(world: &World, address: &str) -> McpClient {
    let server = McpServer::http("fake", HttpServer::new(address))
        .with_protocol(ProtocolChoice::V2025_11_25);
    McpClient::new(server, world.host())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reached_through_a_socket_of_this_machine() {
    let world = World::new();
    let socket = world.folder.path().join("server.sock");
    let requests = serve_socket(UnixListener::bind(&socket).unwrap());
    let socket = socket.display();
    for (address, path) in [
        (format!("unix:{socket}"), "/mcp"),
        (format!("unix://{socket}"), "/mcp"),
        (format!("unix:{socket}?path=/other"), "/other"),
    ] {
        let client = at_socket(&world, &address);
        let (told, _) = call(&client, "mcp__fake__echo", json!({})).await;
        assert_eq!(told, "from a socket");
        assert_eq!(requests.recv().unwrap(), format!("POST http://localhost{path} HTTP/1.1"));
        client.close().await;
        while requests.try_recv().is_ok() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_no_server_serves_has_a_clear_error() {
    let world = World::new();
    let closed = world.folder.path().join("closed.sock");
    drop(UnixListener::bind(&closed).unwrap());
    for (address, expected) in [
        ("unix:/does/not/exist".to_owned(), "the socket does not exist; start the server first"),
        (format!("unix:{}", closed.display()), "no server is listening on the socket"),
        ("unix:relative".to_owned(), "must be `unix:/path/to/socket`"),
    ] {
        let error = at_socket(&world, &address).connect().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{address}: {error}");
    }
}
