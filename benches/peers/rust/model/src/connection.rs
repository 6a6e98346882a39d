//! A connection: requests one after another, each answered with one write.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{answer, plan::Plan, seen};

/// How many headers a request may have.
const HEADERS: usize = 64;

/// What the head of a request says.
struct Head {
    path: String,
    /// Bytes of the head.
    length: usize,
    /// Bytes of the body, if it says how many.
    body: Option<usize>,
    is_last: bool,
}

/// Answers until the other side has enough.
pub(crate) async fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        let head = loop {
            if let Some(head) = parse(&buffer)? {
                break head;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let came = seen::now();
        let Some(body) = head.body else {
            return stream.write_all(b"HTTP/1.1 411 Length Required\r\n\r\n").await;
        };
        let end = head.length + body;
        buffer.reserve(end.saturating_sub(buffer.len()));
        while buffer.len() < end {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let answer = reply(&head.path, &buffer[head.length..end], came).await;
        stream.write_all(&answer).await?;
        if head.is_last {
            return Ok(());
        }
        buffer.drain(..end);
    }
}

/// The head of a request, when all of it is there.
fn parse(buffer: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(buffer).map_err(|error| io::Error::other(error.to_string()))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let value = |name: &str| {
        let header = request.headers.iter().find(|it| it.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let body = match value("content-length") {
        Some(length) => length.parse().ok(),
        None => value("transfer-encoding").is_none().then_some(0),
    };
    let is_last = value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(Some(Head { path: request.path.unwrap_or_default().to_owned(), length, body, is_last }))
}

async fn reply(path: &str, body: &[u8], came: u64) -> Vec<u8> {
    if path.ends_with("/chat/completions") {
        let plan = Plan::read(body);
        seen::request(body.len(), came);
        if plan.lat > 0 {
            tokio::time::sleep(Duration::from_millis(plan.lat)).await;
        }
        return if plan.streams {
            streamed(&answer::events(&plan))
        } else {
            whole("200 OK", &answer::whole(&plan))
        };
    }
    match path {
        "/reset" => {
            seen::reset();
            whole("200 OK", "{}")
        }
        "/stats" => whole("200 OK", &seen::to_json()),
        _ => whole("404 Not Found", "{}"),
    }
}

fn whole(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Each event is a chunk, and all of them are one write.
fn streamed(events: &[String]) -> Vec<u8> {
    let mut answer = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
         transfer-encoding: chunked\r\n\r\n",
    );
    for event in events {
        let length = format!("{:x}", event.len());
        answer.extend([&length, "\r\n", event, "\r\n"]);
    }
    answer += "0\r\n\r\n";
    answer.into_bytes()
}
