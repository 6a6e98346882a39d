//! A server on this machine that answers what it is told to.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{Duration, sleep},
};

/// What the server does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Answers with a body of known length.
    Whole { status: u16, headers: String, body: String },
    /// Answers with a stream in pieces, and ends it well.
    Stream(Vec<String>),
    /// Answers with a stream in pieces, and closes the connection in the middle of it.
    Broken(Vec<String>),
    /// Answers with a stream in pieces, and then says nothing for ever.
    Stalled(Vec<String>),
    /// Announces more than it sends.
    Short(String),
    /// Closes the connection.
    Drop,
    /// Says nothing.
    Silence,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &(impl ToString + ?Sized)) -> Self {
        Self::Whole { status, headers: String::new(), body: body.to_string() }
    }

    /// Answers with an error and headers of its own, each ending with CRLF.
    pub(crate) fn error(status: u16, headers: &str) -> Self {
        let body = r#"{"error":{"message":"no","type":"test"}}"#.to_owned();
        Self::Whole { status, headers: headers.to_owned(), body }
    }

    /// Answers with these words as a stream.
    pub(crate) fn words(words: &[&str]) -> Self {
        let mut events: Vec<_> = words.iter().map(|word| content_event(word)).collect();
        events.push(finish_event("stop"));
        events.push("data: [DONE]\n\n".to_owned());
        Self::Stream(events)
    }
}

pub(crate) fn content_event(word: &str) -> String {
    let word = Value::from(word);
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{word}}}}}]}}\n\n")
}

pub(crate) fn finish_event(reason: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}],\
         \"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}}}\n\n"
    )
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| {
            line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name))
        })?;
        Some(line.split_once(':')?.1.trim())
    }
}

/// Answers requests in turn; the last reply answers all further ones.
pub(crate) struct Server {
    pub(crate) address: String,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<Mutex<usize>>,
    closed: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Arc<Vec<Reply>> = Arc::new(replies.into_iter().collect());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let connections: Arc<Mutex<usize>> = Arc::default();
        let closed: Arc<Mutex<usize>> = Arc::default();
        let (log, count, gone) =
            (Arc::clone(&received), Arc::clone(&connections), Arc::clone(&closed));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let (replies, log, gone) =
                    (Arc::clone(&replies), Arc::clone(&log), Arc::clone(&gone));
                tokio::spawn(async move {
                    drop(serve(stream, &replies, &log).await);
                    *gone.lock().unwrap() += 1;
                });
            }
        });
        Self { address, received, connections, closed, task }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// Waits until a connection was closed.
    pub(crate) async fn closed(&self) {
        while *self.closed.lock().unwrap() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    replies: &[Reply],
    log: &Mutex<Vec<Received>>,
) -> std::io::Result<()> {
    while let Some(received) = read_request(&mut stream).await? {
        let reply = {
            let mut log = log.lock().unwrap();
            log.push(received);
            replies[(log.len() - 1).min(replies.len() - 1)].clone()
        };
        match reply {
            Reply::Whole { status, headers, body } => {
                let length = body.len();
                let head =
                    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n");
                stream.write_all((head + &body).as_bytes()).await?;
            }
            Reply::Short(body) => {
                let length = body.len() + 10;
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all((head + &body).as_bytes()).await?;
                return Ok(());
            }
            Reply::Stream(pieces) => {
                write_stream(&mut stream, &pieces).await?;
                stream.write_all(b"0\r\n\r\n").await?;
            }
            Reply::Broken(pieces) => return write_stream(&mut stream, &pieces).await,
            Reply::Stalled(pieces) => {
                write_stream(&mut stream, &pieces).await?;
                return wait_for_close(stream).await;
            }
            Reply::Drop => return Ok(()),
            Reply::Silence => return wait_for_close(stream).await,
        }
    }
    Ok(())
}

async fn wait_for_close(mut stream: TcpStream) -> std::io::Result<()> {
    while stream.read(&mut [0]).await? > 0 {}
    Ok(())
}

async fn write_stream(stream: &mut TcpStream, pieces: &[String]) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: r1\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for piece in pieces {
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        stream.write_all(chunk.as_bytes()).await?;
        stream.flush().await?;
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let received = Received { head, body: Vec::new() };
            let length = received.header("content-length").map_or(0, |it| it.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = bytes[end + 4..end + 4 + length].to_vec();
                return Ok(Some(Received { body, ..received }));
            }
        }
        match stream.read(&mut buffer).await? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
