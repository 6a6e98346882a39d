//! Servers at an address that hang, flood, redirect and lie: none of them hangs the client, and each has a clear error.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use loopwright_mcp::{HttpServer, McpClient, McpServer, ServerHealth};
use serde_json::{Map, Value, json};

use crate::world::World;

/// Longer than every limit of the clients below: whoever needs it hangs.
const HANG: Duration = Duration::from_mins(1);

const SHORT: Duration = Duration::from_secs(2);

/// The most memory that this process may have while it is flooded, in KiB.
const MAX_MEMORY: u64 = 512 << 10;

/// Serves one kind of bad answers, and returns the address.
fn serve(mode: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                BadServer { mode, address: format!("http://{address}") }.handle(stream)
            });
        }
    });
    format!("http://{address}/mcp")
}

struct BadServer {
    mode: &'static str,
    address: String,
}

impl BadServer {
    /// Answers one request. Whoever is gone needs no answer.
    fn handle(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut first = String::new();
        reader.read_line(&mut first).ok()?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut out = Answer(stream);
        let method = message["method"].as_str().unwrap_or_default();
        let id = &message["id"];
        if let Some(mode) = self.mode.strip_prefix("call_") {
            return match method {
                "tools/call" if mode == "half_character" => {
                    out.stream()?;
                    let result = r#"{"content":[{"type":"text","text":"\ud83d!"}]}"#;
                    let event = format!(
                        "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n"
                    );
                    out.write(event.as_bytes())
                }
                "tools/call" => self.misbehave(mode, &mut out),
                _ => behave(&first, method, id, &mut out),
            };
        }
        self.misbehave(self.mode, &mut out)
    }

    fn misbehave(&self, mode: &str, out: &mut Answer) -> Option<()> {
        let address = &self.address;
        match mode {
            "silent" => out.wait(),
            "closes" => None,
            "no_http" => out.write(b"220 mail.example.com ESMTP\r\n"),
            "redirect_elsewhere" => out.status("307 Gone", "Location: http://127.0.0.1:9/mcp\r\n"),
            "redirect_file" => out.status("307 Gone", "Location: file:///etc/passwd\r\n"),
            "redirect_loop" => out.status("307 Gone", &format!("Location: {address}/mcp\r\n")),
            "401" => out.status("401 No", ""),
            "401_loop" => {
                let challenge = format!("Bearer resource_metadata=\"{address}/x\"");
                out.status("401 No", &format!("WWW-Authenticate: {challenge}\r\n"))
            }
            "403" => out.status("403 No", ""),
            "404" => out.status("404 No", ""),
            "429" => out.status("429 No", "Retry-After: 100000\r\n"),
            "500" => out.status("500 No", ""),
            "html" => out.body("text/html", "<h1>Log\u{1b}[2J in</h1>"),
            "no_type" => out.body("", "{}"),
            "broken_json" => out.body("application/json", "{\"jsonrpc\": \"2.0\", oops}"),
            "empty" => out.body("application/json", ""),
            "other_json" => out.body("application/json", "[1, 2, 3]"),
            "wrong_id" => {
                let answer = json!({"jsonrpc": "2.0", "id": 4711, "result": {}}).to_string();
                out.body("application/json", &answer)
            }
            "half" => out.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
            ),
            "endless_headers" => {
                out.write(b"HTTP/1.1 200 OK\r\n")?;
                out.flood(b"X-Flood: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n")
            }
            "endless_continue" => out.flood(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(4096)),
            "endless_trailers" => {
                out.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                      Transfer-Encoding: chunked\r\n\r\n0\r\n",
                )?;
                out.flood(&b"X-Flood: x\r\n".repeat(4096))
            }
            "endless_json" => {
                out.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n\"")?;
                out.flood(&vec![b'x'; 1 << 16])
            }
            "endless_error" => {
                out.write(b"HTTP/1.1 500 No\r\nContent-Type: text/plain\r\n\r\n")?;
                out.flood(&vec![b'x'; 1 << 16])
            }
            "endless_line" => {
                out.stream()?;
                out.write(b"data: ")?;
                out.flood(&vec![b'x'; 1 << 16])
            }
            "endless_comments" => {
                out.stream()?;
                out.flood(b": still here\n\n")
            }
            "endless_events" => {
                out.stream()?;
                out.flood(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
            }
            "silent_stream" => {
                out.stream()?;
                out.wait()
            }
            "ended_stream" => out.stream(),
            "resumption_loop" => {
                out.stream()?;
                out.write(b"id: 1\nretry: 0\ndata:\n\n")
            }
            "noise_stream" => {
                out.stream()?;
                out.write(b"\xff\xfe\x00 what\n\ndata: nothing\n\n")
            }
            mode => panic!("unknown mode {mode}"),
        }
    }
}

/// Does what a server does.
fn behave(first: &str, method: &str, id: &Value, out: &mut Answer) -> Option<()> {
    if !first.starts_with("POST") {
        return out.status("405 No", "");
    }
    match method {
        "initialize" => out.answer(
            id,
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "bad", "version": "1" },
            }),
        ),
        "tools/list" => {
            let tool = json!({"name": "echo", "inputSchema": {"type": "object"}});
            out.answer(id, &json!({ "tools": [tool] }))
        }
        _ if id.is_null() => out.status("202 Accepted", ""),
        _ => {
            let error = json!({"code": -32601, "message": "unknown method"});
            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
            out.body("application/json", &answer.to_string())
        }
    }
}

struct Answer(TcpStream);

impl Answer {
    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.0.write_all(bytes).ok()
    }

    fn status(&mut self, status: &str, headers: &str) -> Option<()> {
        let head =
            format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n");
        self.write(head.as_bytes())
    }

    fn body(&mut self, kind: &str, body: &str) -> Option<()> {
        let kind =
            if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\n{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        self.write(head.as_bytes())
    }

    fn answer(&mut self, id: &Value, result: &Value) -> Option<()> {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.body("application/json", &answer.to_string())
    }

    fn stream(&mut self) -> Option<()> {
        self.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        )
    }

    fn flood(&mut self, bytes: &[u8]) -> Option<()> {
        loop {
            self.write(bytes)?;
        }
    }

    /// Says nothing until the client is gone.
    fn wait(&mut self) -> Option<()> {
        self.0.read(&mut [0; 16]).ok().map(drop)
    }
}

fn client(world: &World, mode: &'static str) -> McpClient {
    let server = McpServer::http("bad", HttpServer::new(serve(mode)))
        .with_startup_timeout(SHORT * 2)
        .with_call_timeout(SHORT)
        .with_max_call_time(SHORT * 2);
    McpClient::new(server, world.host())
}

/// What the process has had at most, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Meets all kinds side by side, and returns those with another error than the expected one.
async fn failures(cases: &[(&'static str, &str)], is_call: bool) -> Vec<String> {
    let world = World::new();
    let world = &world;
    let failures = join_all(cases.iter().map(async |(mode, expected)| {
        let client = client(world, mode);
        let asked = async {
            if is_call {
                client.call_tool("echo", Map::new()).await.map(|it| it.to_string())
            } else {
                client.tools().await.map(|it| format!("{it:?}"))
            }
        };
        let error = match tokio::time::timeout(HANG, asked).await {
            Err(_) => "hangs".to_owned(),
            Ok(Ok(fine)) => format!("no error: {fine}"),
            Ok(Err(error)) => error.to_string(),
        };
        let is_connected = !is_call && client.status().health == ServerHealth::Connected;
        let closes = tokio::time::timeout(HANG, client.close()).await.is_ok();
        // Addresses can hold secrets, and names of Rust types tell users nothing.
        let leaks = error.contains("127.0.0.1") || error.contains("rmcp");
        let is_clear = error.contains(expected) && !error.chars().any(char::is_control);
        let is_bad = is_connected || leaks || !is_clear || !closes;
        is_bad.then(|| format!("{mode}: {error}{}", if closes { "" } else { "; closing hangs" }))
    }));
    failures.await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_bad_answers_has_an_error() {
    let cases = [
        ("silent", "no response within 4 s"),
        ("closes", "the request failed"),
        ("no_http", "the request failed: "),
        (
            "redirect_elsewhere",
            "the redirect was not followed: the server redirects to another server",
        ),
        ("redirect_file", "status 307"),
        ("redirect_loop", "the redirect was not followed: too many redirects"),
        ("401", "requires a login; run `loopwright mcp login bad`"),
        ("401_loop", "requires a login; run `loopwright mcp login bad`"),
        ("403", "responded with status 403 Forbidden"),
        ("404", "responded with status 404 Not Found"),
        ("429", "responded with status 429"),
        ("500", "responded with status 500"),
        ("html", "the response has the content type `text/html`"),
        ("no_type", "the response has no content type"),
        ("broken_json", "could not parse JSON response"),
        ("empty", "could not parse JSON response"),
        ("other_json", "could not parse JSON response"),
        ("wrong_id", "did not finish starting"),
        ("half", "the response was cut off"),
        ("endless_headers", "the request failed: "),
        ("silent_stream", "no response within 4 s"),
        ("ended_stream", "the server closed the connection"),
        ("resumption_loop", "did not finish starting"),
        ("noise_stream", "did not finish starting"),
        ("endless_comments", "no response within 4 s"),
        ("endless_events", "no response within 4 s"),
    ];
    assert_eq!(failures(&cases, false).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn announcements_and_trailers_without_end_or_pause_reach_the_time_limits() {
    for mode in ["endless_continue", "endless_trailers"] {
        let expected = if mode == "endless_continue" { "no response within 4 s" } else { "" };
        assert_eq!(failures(&[(mode, expected)], false).await, Vec::<String>::new());
    }
    for (mode, expected) in [
        ("call_endless_continue", "did not respond to `tools/call` within 2 s"),
        ("call_endless_trailers", ""),
    ] {
        assert_eq!(failures(&[(mode, expected)], true).await, Vec::<String>::new());
    }
    assert!(peak_memory() < MAX_MEMORY, "{} KiB", peak_memory());
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_answers_to_calls_are_errors() {
    let cases = [
        ("call_silent", "did not respond to `tools/call` within 2 s"),
        ("call_closes", "the request failed"),
        ("call_redirect_elsewhere", "the server redirects to another server"),
        ("call_401", "requires a login"),
        ("call_404", "responded with status 404"),
        ("call_500", "responded with status 500"),
        ("call_html", "the response has the content type `text/html`"),
        ("call_broken_json", "could not parse JSON response"),
        ("call_half", "the response was cut off"),
        ("call_silent_stream", "did not respond to `tools/call` within 2 s"),
        ("call_ended_stream", "the server closed the connection"),
        ("call_half_character", "no error: {\"content\":[{\"text\":\"\u{fffd}!\""),
        ("call_resumption_loop", "the server closed the connection"),
        ("call_endless_comments", "did not respond to `tools/call` within 2 s"),
        ("call_endless_events", "did not respond to `tools/call` within 2 s"),
    ];
    assert_eq!(failures(&cases, true).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_fills_no_memory() {
    let cases = [
        ("endless_json", "exceeded the maximum size of 16777216 bytes"),
        ("endless_error", "responded with status 500"),
        ("endless_line", "did not finish starting"),
    ];
    assert_eq!(failures(&cases, false).await, Vec::<String>::new());
    let calls = [
        ("call_endless_json", "exceeded the maximum size of 16777216 bytes"),
        ("call_endless_error", "responded with status 500"),
        ("call_endless_line", "MCP server `bad`"),
    ];
    assert_eq!(failures(&calls, true).await, Vec::<String>::new());
    assert!(peak_memory() < MAX_MEMORY, "{} KiB", peak_memory());
}
