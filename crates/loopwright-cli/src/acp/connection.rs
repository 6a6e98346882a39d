//! The connection with the editor: messages that are read, written and waited for.

use std::collections::HashMap;
use std::io::{self, BufRead, Read as _, Write as _};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self as threads, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::future::{Either, select};
use serde_json::{Value, json};

use super::error::RpcError;
use crate::console;
use crate::render::json_line;

/// The longest message, in bytes. Pictures are part of messages.
const MAX_LINE: u64 = 64 << 20;

/// A message of the editor.
#[derive(Debug)]
pub(super) enum Incoming {
    /// It wants an answer.
    Request { id: Value, method: String, params: Value },
    /// It wants none.
    Notification { method: String, params: Value },
    /// It is no message.
    Invalid { id: Value, error: RpcError },
}

/// What a line is.
#[derive(Debug)]
enum Line {
    Incoming(Incoming),
    /// It answers a request of the agent.
    Response {
        id: Value,
        result: Result<Value, RpcError>,
    },
}

impl Line {
    fn read(line: &[u8]) -> Self {
        let invalid = |id, error| Self::Incoming(Incoming::Invalid { id, error });
        let mut message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                let error = RpcError::parse(format!("the message is not valid JSON: {error}"));
                return invalid(Value::Null, error);
            }
        };
        let id = message.get("id").cloned();
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => {
                Self::Incoming(Incoming::Request { id, method: method.to_owned(), params })
            }
            (Some(method), None) => {
                Self::Incoming(Incoming::Notification { method: method.to_owned(), params })
            }
            (None, Some(id)) if message.get("error").is_some_and(|it| !it.is_null()) => {
                Self::Response { id, result: Err(RpcError::of(&message["error"])) }
            }
            (None, Some(id)) if message.get("result").is_some() => {
                Self::Response { id, result: Ok(message["result"].take()) }
            }
            (None, id) => {
                let error =
                    RpcError::invalid_request("the message has neither a method nor a result");
                invalid(id.unwrap_or_default(), error)
            }
        }
    }
}

/// Reads messages on a thread of its own until standard input ends. The same thread delivers responses, so that other
/// threads may wait for them.
pub(super) fn read_stdin(connection: &Arc<Connection>) -> mpsc::UnboundedReceiver<Incoming> {
    let (sender, receiver) = mpsc::unbounded();
    let connection = Arc::clone(connection);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(line) = next(&mut input) {
            match line {
                Line::Response { id, result } => connection.settle(&id, result),
                Line::Incoming(message) => {
                    if sender.unbounded_send(message).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// Reads the next message; `None` at the end.
fn next(input: &mut impl BufRead) -> Option<Line> {
    loop {
        let mut line = Vec::new();
        let length = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
        if length == 0 {
            return None;
        }
        if length as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            skip_line(input)?;
            let error = RpcError::invalid_request("the message is longer than 64 MiB");
            return Some(Line::Incoming(Incoming::Invalid { id: Value::Null, error }));
        }
        if !line.trim_ascii().is_empty() {
            return Some(Line::read(&line));
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> Option<()> {
    loop {
        let buffer = input.fill_buf().ok()?;
        let end = buffer.iter().position(|it| *it == b'\n');
        let length = end.map_or(buffer.len(), |it| it + 1);
        input.consume(length);
        if end.is_some() || length == 0 {
            return Some(());
        }
    }
}

/// What is written to the editor.
#[derive(Debug, Default)]
pub(super) struct Connection {
    last_id: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
    /// Held while a message is written.
    writing: Mutex<()>,
    is_closed: AtomicBool,
    /// Whether standard input has ended.
    is_deaf: AtomicBool,
}

type Response = Result<Value, RpcError>;

/// What waits for a response.
#[derive(Debug)]
enum Waiting {
    Task(oneshot::Sender<Response>),
    Thread(threads::Sender<Response>),
}

impl Connection {
    /// Writes a message. An editor that is gone has read enough.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output does not take it.
    fn write(&self, message: &Value) -> io::Result<()> {
        let line = json_line(message)?;
        let _guard = lock(&self.writing);
        let mut output = io::stdout();
        writeln!(output, "{line}").and_then(|()| output.flush())
    }

    fn send(&self, message: &Value) {
        if let Err(error) = self.write(message)
            && !self.is_closed.swap(true, Relaxed)
        {
            console::tell(&format!("cannot write to the client: {error}"));
        }
    }

    /// Answers a request.
    pub(super) fn respond(&self, id: &Value, result: Result<Value, RpcError>) {
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        match result {
            Ok(result) => message["result"] = result,
            Err(error) => message["error"] = error.to_json(),
        }
        self.send(&message);
    }

    /// Tells the editor what happens in a session.
    ///
    /// # Errors
    ///
    /// Returns an error if standard output does not take it.
    pub(super) fn update(&self, session: &str, update: &Value) -> io::Result<()> {
        let params = json!({"sessionId": session, "update": update});
        self.write(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    }

    /// Asks the editor something and waits for the answer. Returns `None` if `withdrawn` finishes first: the editor is told
    /// that the answer has become unnecessary, and a late answer is ignored.
    pub(super) async fn request_unless(
        &self,
        method: &str,
        params: &Value,
        withdrawn: impl Future<Output = ()>,
    ) -> Option<Response> {
        let (sender, answer) = oneshot::channel();
        let id = self.start(method, params, Waiting::Task(sender));
        match select(answer, pin!(withdrawn)).await {
            Either::Left((answer, _)) => Some(answer.unwrap_or_else(|_| Err(closed()))),
            Either::Right(_) => {
                lock(&self.waiting).remove(&id);
                let params = json!({"requestId": id});
                let method = "$/cancel_request";
                self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
                None
            }
        }
    }

    /// Asks the editor something and waits on this thread for the answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the editor refuses, goes away, or does not answer in time.
    pub(super) fn request_blocking(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Response {
        let (sender, answer) = threads::channel();
        let id = self.start(method, params, Waiting::Thread(sender));
        let answer = answer.recv_timeout(limit);
        lock(&self.waiting).remove(&id);
        answer.unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Err(RpcError::internal(format!(
                "the client did not answer `{method}` within {} s",
                limit.as_secs()
            ))),
            RecvTimeoutError::Disconnected => Err(closed()),
        })
    }

    fn start(&self, method: &str, params: &Value, waiting: Waiting) -> u64 {
        let id = self.last_id.fetch_add(1, Relaxed) + 1;
        lock(&self.waiting).insert(id, waiting);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        if self.is_deaf.load(Relaxed) {
            lock(&self.waiting).remove(&id);
        }
        id
    }

    /// Delivers the response to a request. Unexpected responses are ignored.
    fn settle(&self, id: &Value, result: Response) {
        let waiting = id.as_u64().and_then(|id| lock(&self.waiting).remove(&id));
        match waiting {
            Some(Waiting::Task(waiting)) => drop(waiting.send(result)),
            Some(Waiting::Thread(waiting)) => drop(waiting.send(result)),
            None => {}
        }
    }

    /// Ends all pending requests.
    pub(super) fn close(&self) {
        self.is_deaf.store(true, Relaxed);
        lock(&self.waiting).clear();
    }
}

fn closed() -> RpcError {
    RpcError::internal("the client has closed the connection")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Line> {
        let mut input = text.as_bytes();
        std::iter::from_fn(|| next(&mut input)).collect()
    }

    #[test]
    fn a_line_is_a_message() {
        let lines = "{\"id\":1,\"method\":\"a\",\"params\":[2]}\n\n{\"method\":\"b\"}\n\
            {\"id\":3,\"result\":null}\n{\"id\":4,\"error\":{\"code\":-1,\"message\":\"no\"}}";
        let told: Vec<String> = read(lines).iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(
            told,
            [
                "Incoming(Request { id: Number(1), method: \"a\", params: Array [Number(2)] })",
                "Incoming(Notification { method: \"b\", params: Null })",
                "Response { id: Number(3), result: Ok(Null) }",
                "Response { id: Number(4), result: Err(RpcError { code: -1, message: \"no\" }) }",
            ]
        );
    }

    #[test]
    fn an_invalid_message_is_answered_and_does_not_end_the_connection() {
        let told = read("nonsense\n[]\n7\n{\"id\":5}\n{\"method\":\"b\"}\n");
        let invalid = |it: &Line| matches!(it, Line::Incoming(Incoming::Invalid { .. }));
        assert_eq!(told.iter().map(invalid).collect::<Vec<_>>(), [true, true, true, true, false]);
    }
}
