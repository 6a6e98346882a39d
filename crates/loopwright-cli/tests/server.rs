//! A provider on this machine that plays a scenario.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// What the provider answers to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Pieces of a streamed answer.
    Stream(Vec<Value>),
    /// Pieces of a streamed answer, with this time before each.
    Slow(Vec<Value>, Duration),
    /// A whole answer.
    Whole(u16, Value),
    /// A streamed answer of so many bytes that then stays open.
    Flood(usize),
    /// Nothing, for as long as anybody waits.
    Nothing,
}

/// A provider on this machine. Each request gets the next reply.
pub(crate) struct Server {
    pub(crate) url: String,
    requests: Receiver<(String, Value)>,
}

impl Server {
    pub(crate) fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        let replies: Vec<Reply> = replies.into_iter().collect();
        std::thread::spawn(move || {
            for reply in replies {
                let (stream, _) = listener.accept().unwrap();
                let sender = sender.clone();
                std::thread::spawn(move || answer(stream, &reply, &sender));
            }
        });
        Self { url, requests }
    }

    /// Returns `true` if a request came that no one has taken.
    pub(crate) fn was_asked(&self) -> bool {
        self.requests.try_recv().is_ok()
    }

    /// Returns the body of a request that came and that no one has taken.
    pub(crate) fn taken(&self) -> Option<Value> {
        self.requests.try_recv().ok().map(|(_, body)| body)
    }

    /// Waits for the next request and returns its body.
    pub(crate) fn request(&self) -> Value {
        self.requests.recv_timeout(Duration::from_mins(1)).unwrap().1
    }

    /// Returns the results of calls in the last request that came.
    pub(crate) fn results(&self) -> Vec<Value> {
        let (_, body) = self.heard().pop().unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        messages.filter(|it| it["role"] == "tool").map(|it| it["content"].clone()).collect()
    }

    /// Returns the heads, in small letters, and the bodies of all requests that came.
    pub(crate) fn heard(&self) -> Vec<(String, Value)> {
        self.requests.try_iter().collect()
    }
}

/// Returns what users said in a request.
pub(crate) fn said(request: &Value) -> Vec<Value> {
    let messages = request["messages"].as_array().unwrap().iter();
    messages.filter(|it| it["role"] == "user").map(|it| it["content"].clone()).collect()
}

/// An address where no process listens.
pub(crate) fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/v1", listener.local_addr().unwrap())
}

fn answer(mut stream: TcpStream, reply: &Reply, requests: &Sender<(String, Value)>) {
    let (heads, body) = read_request(&stream);
    requests.send((heads, serde_json::from_slice(&body).unwrap_or(Value::Null))).ok();
    let head = |status: u16, kind: &str| {
        format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n")
    };
    // A caller that has read enough closes the connection.
    match reply {
        Reply::Whole(status, value) => {
            write!(stream, "{}{value}", head(*status, "application/json")).ok();
        }
        Reply::Stream(pieces) => {
            write!(stream, "{}", head(200, "text/event-stream")).ok();
            for piece in pieces {
                write!(stream, "data: {piece}\n\n").ok();
            }
            write!(stream, "data: [DONE]\n\n").ok();
        }
        Reply::Slow(pieces, pause) => {
            write!(stream, "{}", head(200, "text/event-stream")).ok();
            for piece in pieces {
                std::thread::sleep(*pause);
                write!(stream, "data: {piece}\n\n").ok();
            }
            write!(stream, "data: [DONE]\n\n").ok();
        }
        Reply::Flood(bytes) => {
            write!(stream, "{}", head(200, "text/event-stream")).ok();
            let line = format!("{}\n", "x".repeat(99));
            for _ in 0..bytes.div_ceil(line.len()) {
                if write!(stream, "data: {}\n\n", delta(json!({"content": line}))).is_err() {
                    return;
                }
            }
            wait(&mut stream);
        }
        Reply::Nothing => wait(&mut stream),
    }
}

fn wait(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).ok();
}

fn read_request(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut heads) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        heads = heads + &line + "\n";
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (heads, body)
}

/// A piece of a streamed answer.
pub(crate) fn delta(delta: impl Into<Value>) -> Value {
    let delta = delta.into();
    json!({
        "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
    })
}

pub(crate) fn last(reason: &str) -> Value {
    json!({
        "id": "c", "object": "chat.completion.chunk", "created": 0, "model": "test",
        "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60},
    })
}

fn call(command: &str) -> Value {
    tool_call("bash", &json!({"command": command}))
}

fn tool_call(tool: &str, arguments: &Value) -> Value {
    json!({
        "index": 0, "id": "call_1", "type": "function",
        "function": {"name": tool, "arguments": arguments.to_string()},
    })
}

/// Says something in two pieces, and stops for a reason.
pub(crate) fn streamed(text: &str, reason: &str) -> Reply {
    let (one, two) = text.split_at(text.len() / 2);
    let pieces = [one, two].map(|text| delta(json!({"content": text})));
    Reply::Stream(pieces.into_iter().chain([last(reason)]).collect())
}

/// Says something and calls `bash`, in pieces.
pub(crate) fn streamed_call(text: &str, command: &str) -> Reply {
    streamed_tool(text, "bash", &json!({"command": command}))
}

/// Says something and calls a tool, in pieces.
pub(crate) fn streamed_tool(text: &str, tool: &str, arguments: &Value) -> Reply {
    let call = delta(json!({"tool_calls": [tool_call(tool, arguments)]}));
    Reply::Stream(vec![delta(json!({"content": text})), call, last("tool_calls")])
}

/// Says something, and calls `bash` if there is a command, in one piece.
pub(crate) fn whole(text: &str, command: Option<&str>) -> Reply {
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(command) = command {
        message["tool_calls"] = json!([call(command)]);
    }
    let reason = if command.is_some() { "tool_calls" } else { "stop" };
    Reply::Whole(
        200,
        json!({
            "id": "c", "object": "chat.completion", "created": 0, "model": "test",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60},
        }),
    )
}

/// An error as providers word it.
pub(crate) fn error(status: u16, message: &str) -> Reply {
    Reply::Whole(status, json!({"error": {"message": message, "type": "error"}}))
}
