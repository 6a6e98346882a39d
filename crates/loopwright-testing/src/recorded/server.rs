//! A server on this machine that responds as a provider did.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{
    delivery::{Chunking, Mutation},
    scenario::{RecordedResponse, Recording},
};

/// The delivery of recorded responses, and initial faults.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Delivery {
    /// The pieces of streams.
    pub chunking: Chunking,
    /// The rewriting of server-sent events.
    pub mutation: Option<Mutation>,
    /// Faults of the first requests, one after the other, before recorded responses are sent.
    pub faults: Vec<Fault>,
    /// The value of `retry-after` in faults.
    pub retry_after: Option<String>,
}

impl Delivery {
    /// Adds an initial fault.
    #[must_use]
    pub fn with_faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.faults.extend(faults);
        self
    }

    /// Sends this `retry-after` with every fault.
    #[must_use]
    pub fn with_retry_after(mut self, value: impl Into<String>) -> Self {
        self.retry_after = Some(value.into());
        self
    }
}

/// A fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A response with this status and an error in the provider's form.
    Status(u16),
    /// No response: the connection is closed.
    Drop,
    /// The recorded response, but the connection is closed after this number of bytes of its body.
    Cut(usize),
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// The index of its exchange in the recording.
    pub exchange: usize,
    /// The path with its query.
    pub path: String,
    /// The headers, by lowercase names.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// The injected fault.
    pub fault: Option<Fault>,
}

impl Received {
    /// Returns the body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A server on this machine that replays the exchanges of a recording, one after the other.
///
/// It accepts any path and any method. Requests after the last exchange get status 599. Dropping it
/// closes its port.
#[derive(Debug)]
pub struct ReplayServer {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    recording: Arc<Recording>,
    delivery: Delivery,
    received: Mutex<Vec<Received>>,
}

impl Drop for ReplayServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ReplayServer {
    /// Starts the server on a free port.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is free.
    pub async fn start(recording: Arc<Recording>, delivery: Delivery) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared { recording, delivery, received: Mutex::default() });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { url, shared, task })
    }

    /// Returns the address, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the requests so far, oldest first.
    pub fn received(&self) -> Vec<Received> {
        self.shared.log().clone()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A client may go away in the middle of anything.
            let _gone = serve(stream, &shared).await;
        });
    }
}

async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut bytes).await? {
        let answer = shared.answer(request);
        stream.write_all(&answer.bytes).await?;
        if answer.closes {
            return stream.shutdown().await;
        }
    }
    Ok(())
}

/// What is sent for one request.
struct Answer {
    bytes: Vec<u8>,
    closes: bool,
}

impl Answer {
    fn json(status: u16, body: &Value, retry_after: Option<&str>) -> Self {
        let body = body.to_string();
        let wait = retry_after.map(|it| format!("retry-after: {it}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status} .\r\ncontent-type: application/json\r\n{wait}\
             content-length: {}\r\n\r\n",
            body.len()
        );
        Self { bytes: (head + &body).into_bytes(), closes: false }
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: Received) -> Answer {
        let mut log = self.log();
        let exchange = log.iter().filter(|it| it.fault.is_none()).count();
        let fault = self.delivery.faults.get(log.len()).copied();
        log.push(Received { exchange, fault, ..request });
        drop(log);
        let retry_after = self.delivery.retry_after.as_deref();
        let Some(recorded) = self.recording.exchanges.get(exchange) else {
            return Answer::json(599, &json!({ "error": "the recording ends here" }), None);
        };
        match fault {
            None => self.recorded(&recorded.response, None),
            Some(Fault::Cut(length)) => self.recorded(&recorded.response, Some(length)),
            Some(Fault::Drop) => Answer { bytes: Vec::new(), closes: true },
            Some(Fault::Status(status)) => {
                let api = self.recording.api(recorded);
                Answer::json(status, &error_body(api, status), retry_after)
            }
        }
    }

    /// Writes a recorded answer, or its beginning.
    fn recorded(&self, response: &RecordedResponse, cut: Option<usize>) -> Answer {
        /// What is said about the way a body is sent, which is now another one.
        const OF_THE_WAY: [&str; 5] =
            ["content-length", "transfer-encoding", "content-encoding", "connection", "keep-alive"];
        let mut bytes = format!("HTTP/1.1 {} .\r\n", response.status).into_bytes();
        for (name, value) in &response.headers {
            if !OF_THE_WAY.contains(&name.as_str()) {
                bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
        }
        let mutated = match self.delivery.mutation {
            Some(mutation) if response.is_event_stream() => mutation.apply(&response.body),
            _ => response.body.to_vec(),
        };
        let sent = &mutated[..cut.unwrap_or(mutated.len()).min(mutated.len())];
        if response.is_stream() {
            bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            for piece in self.delivery.chunking.pieces(sent) {
                bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                bytes.extend_from_slice(piece);
                bytes.extend_from_slice(b"\r\n");
            }
            if cut.is_none() {
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        } else {
            bytes
                .extend_from_slice(format!("content-length: {}\r\n\r\n", mutated.len()).as_bytes());
            bytes.extend_from_slice(sent);
        }
        Answer { bytes, closes: cut.is_some() }
    }
}

/// Returns an error in the form of a wire's providers.
fn error_body(api: &str, status: u16) -> Value {
    let message = format!("injected: status {status}");
    match api {
        "anthropic-messages" => {
            let kind = match status {
                400 => "invalid_request_error",
                401 => "authentication_error",
                404 => "not_found_error",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                _ => "api_error",
            };
            json!({ "type": "error", "error": { "type": kind, "message": message } })
        }
        "gemini-generate" => {
            let word = match status {
                400 => "INVALID_ARGUMENT",
                401 => "UNAUTHENTICATED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                503 => "UNAVAILABLE",
                _ => "INTERNAL",
            };
            json!({ "error": { "code": status, "message": message, "status": word } })
        }
        "cohere-chat" | "bedrock-converse" => json!({ "message": message }),
        "ollama-chat" => json!({ "error": message }),
        _ => {
            let kind = if status == 429 { "rate_limit_exceeded" } else { "server_error" };
            let error = json!({ "message": message, "type": kind, "param": null, "code": null });
            json!({ "error": error })
        }
    }
}

/// Reads a request. Returns `None` if the client went away. `bytes` holds what arrived beyond it.
async fn read_request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Option<Received>> {
    loop {
        if let Some((request, length)) = parse_request(bytes)? {
            bytes.drain(..length);
            return Ok(Some(request));
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns a request that has arrived as a whole, and its length.
fn parse_request(bytes: &[u8]) -> io::Result<Option<(Received, usize)>> {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let mut lines = head.lines();
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = match headers.get("content-length") {
        Some(length) => length.parse().map_err(io::Error::other)?,
        None if headers.contains_key("transfer-encoding") => {
            return Err(io::Error::other("the server takes requests of known length only"));
        }
        None => 0,
    };
    let end = head_end + 4 + length;
    let Some(body) = bytes.get(head_end + 4..end) else { return Ok(None) };
    let (path, body) = (path.to_owned(), body.to_vec());
    Ok(Some((Received { exchange: 0, path, headers, body, fault: None }, end)))
}

#[cfg(test)]
mod tests;
