//! Connections: what clients that are slow, loud or many cost.

use std::time::Duration;

use loopwright_server::{ConnectionLimits, listen};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use crate::{api::answering, world::HOST};

/// Listens with limits, and returns what ends it.
async fn listening(limits: ConnectionLimits) -> (TcpListenerAddress, CancellationToken) {
    let world = answering(&[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, shutdown) = (listener.local_addr().unwrap(), CancellationToken::new());
    let ends = shutdown.clone();
    let task = tokio::spawn(async move {
        listen(listener, world.app.clone(), limits, ends).await.unwrap();
        drop(world);
    });
    (TcpListenerAddress { address, task }, shutdown)
}

struct TcpListenerAddress {
    address: std::net::SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl TcpListenerAddress {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and returns what comes until the server closes the connection.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // A server that refuses closes before everything is sent.
        stream.write_all(bytes).await.ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn head(more: &str) -> String {
    format!("GET /healthz HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n{more}\r\n")
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn heads_that_are_malformed_large_or_smuggle_are_refused() {
    // Bytes of TLS are a head that never ends, so one case waits for this.
    let limits =
        ConnectionLimits { head_timeout: Duration::from_secs(2), ..ConnectionLimits::default() };
    let (server, _shutdown) = listening(limits).await;
    let post = "POST /v1/sessions HTTP/1.1\r\n";
    let large = format!("x: {}\r\n", "a".repeat(64 << 10));
    let many = ["x-1: 1\r\n"; 100].concat();
    let cases = [
        (head(""), "200"),
        (head(&large), "431"),
        (head(&many), "431"),
        (head("bad header\r\n"), "400"),
        (head("x: a\0b\r\n"), "400"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400"),
        (format!("GET /{} HTTP/1.1\r\nhost: {HOST}\r\n\r\n", "a".repeat(100 << 10)), "431|414|400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "400|none|505"),
        ("\x16\x03\x01\x02\x00\x01\x00\x01".to_owned() + &"\0".repeat(99), "400|none"),
        // Two lengths, or a length beside chunks, could hide a request from a proxy.
        (
            format!("{post}host: {HOST}\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello"),
            "400",
        ),
        (format!("{post}host: {HOST}\r\ncontent-length: -1\r\n\r\n"), "400"),
        (format!("{post}host: {HOST}\r\ntransfer-encoding: xchunked\r\n\r\n"), "400"),
        (
            format!(
                "{post}host: {HOST}\r\nconnection: close\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\nhost: {HOST}\r\n\r\n"
            ),
            "400|401",
        ),
    ];
    for (request, expect) in cases {
        let answer = server.send(request.as_bytes()).await;
        let found = status(&answer);
        assert!(
            expect.split('|').any(|it| it == found),
            "{found}: {:?}",
            &request[..80.min(request.len())]
        );
        assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_sends_no_head_is_sent_away_and_others_are_served() {
    let limits = ConnectionLimits {
        connections: 3,
        head_timeout: Duration::from_millis(200),
        ..ConnectionLimits::default()
    };
    let (server, _shutdown) = listening(limits).await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").await.unwrap();
        slow.push(stream);
    }
    // All connections are taken, until the slow ones are sent away.
    assert_eq!(status(&server.send(head("").as_bytes()).await), "200");
    for mut stream in slow {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        assert!(!String::from_utf8_lossy(&answer).contains("200 OK"));
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_answers_what_it_has_begun_and_ends() {
    let (server, shutdown) = listening(ConnectionLimits::default()).await;
    let mut idle = server.connect().await;
    idle.write_all(head("").replace("close", "keep-alive").as_bytes()).await.unwrap();
    let mut bytes = [0; 12];
    idle.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"HTTP/1.1 200");
    shutdown.cancel();
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    server.task.await.unwrap();
}
