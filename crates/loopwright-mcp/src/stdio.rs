//! Servers that run as processes: lines over the pipes of a sandboxed child.

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_sandbox::{NetworkOutcome, OutputStream, SandboxChild};
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::discovery::discovery;
use crate::log::ServerLog;
use crate::repair::repaired;

/// The longest message that a server may send, in bytes.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;

/// Input of a server that does not read. More of it waits with the callers.
const MAX_UNSENT: usize = 1 << 20;

/// Lines that are no messages, which a server may write to its standard output before it is given up.
const MAX_NOISE: usize = 1_000;

/// How long a server has to answer the question for its revisions before it is asked for a sign of life. Servers of
/// earlier revisions refuse the question, and some say nothing.
const DISCOVERY: Duration = Duration::from_secs(1);

/// The id of the request for a sign of life.
const PROBE: &str = "loopwright-probe";

/// How long a server has to end once it is asked to.
const GRACE: Duration = Duration::from_millis(500);

/// Why a connection ended. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndReason(Arc<Mutex<Option<String>>>);

impl EndReason {
    /// Records a reason; the first one stays.
    pub(crate) fn set(&self, reason: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    /// Returns the reason, or `None` if the connection has not ended by itself.
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The transport of a process. Dropping it ends every process of the server.
pub(crate) struct StdioTransport {
    outgoing: mpsc::Sender<Outgoing>,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    pump: Option<JoinHandle<()>>,
    stop: CancellationToken,
    _guard: DropGuard,
}

impl StdioTransport {
    /// Takes over a process whose input is piped.
    pub(crate) fn new(child: SandboxChild, log: ServerLog, end: EndReason) -> Self {
        let (outgoing, from_client) = mpsc::channel(16);
        let (to_client, incoming) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let reader = LineReader { line: Vec::new(), noise: 0, log: log.clone() };
        let pump = Pump {
            child,
            discovery: Discovery::None,
            reader,
            log,
            end,
            stop: stop.clone(),
            from_client,
            to_client,
        };
        Self {
            outgoing,
            incoming,
            pump: Some(tokio::spawn(pump.run())),
            _guard: stop.clone().drop_guard(),
            stop,
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        let discovery = discovery(&item);
        let is_handshake = is_handshake(&item);
        let line = serde_json::to_vec(&item).map(|mut line| {
            line.push(b'\n');
            Outgoing { line, discovery, is_handshake }
        });
        async move {
            let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            outgoing.send(line?).await.map_err(closed)
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.stop.cancel();
        if let Some(pump) = self.pump.take() {
            pump.await.ok();
        }
        Ok(())
    }
}

/// A message for the server.
struct Outgoing {
    line: Vec<u8>,
    /// Its id, if it asks for the revisions of the server.
    discovery: Option<RequestId>,
    /// Whether it starts the handshake of earlier revisions.
    is_handshake: bool,
}

fn is_handshake(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(it) if matches!(it.request, ClientRequest::InitializeRequest(_)))
}

/// A question for the revisions that the server has not answered yet, or has answered too late.
enum Discovery {
    None,
    Open {
        id: RequestId,
        /// When the server is asked for a sign of life.
        probe_at: Instant,
    },
    /// The server reads requests in order: if it answers this one first, it does not answer the question.
    Probed(RequestId),
    GivenUp(RequestId),
}

/// What is done with a message.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Pass,
    Drop,
    /// The question is answered as a server of an earlier revision does.
    GiveUp(RequestId),
}

impl Discovery {
    async fn is_late(&self) {
        match self {
            Self::Open { probe_at, .. } => tokio::time::sleep_until(*probe_at).await,
            Self::None | Self::Probed(_) | Self::GivenUp(_) => std::future::pending().await,
        }
    }

    /// The client does not wait any longer: a server that starts slowly answers the question before the handshake.
    fn give_up(&mut self) {
        if let Self::Open { id, .. } | Self::Probed(id) = self {
            *self = Self::GivenUp(id.clone());
        }
    }

    /// Takes note of a message.
    fn hear(&mut self, message: &ServerJsonRpcMessage) -> Heard {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if id == Some(&RequestId::String(PROBE.into())) {
            let Self::Probed(asked) = &*self else { return Heard::Drop };
            let asked = asked.clone();
            *self = Self::GivenUp(asked.clone());
            return Heard::GiveUp(asked);
        }
        match self {
            Self::Open { id: asked, .. } | Self::Probed(asked) if id == Some(asked) => {
                *self = Self::None;
                Heard::Pass
            }
            Self::GivenUp(asked) if id == Some(asked) => Heard::Drop,
            _ => Heard::Pass,
        }
    }
}

/// Moves bytes between the process and the client.
struct Pump {
    child: SandboxChild,
    reader: LineReader,
    log: ServerLog,
    end: EndReason,
    stop: CancellationToken,
    discovery: Discovery,
    from_client: mpsc::Receiver<Outgoing>,
    to_client: mpsc::Sender<ServerJsonRpcMessage>,
}

/// What happened next.
enum Next {
    Stop,
    Send(Outgoing),
    Probe,
    Output(Option<(OutputStream, bytes::Bytes)>),
}

impl Pump {
    async fn run(mut self) {
        loop {
            let may_send = self.child.queued_stdin() < MAX_UNSENT;
            let next = tokio::select! {
                biased;
                () = self.stop.cancelled() => Next::Stop,
                Some(message) = self.from_client.recv(), if may_send => Next::Send(message),
                () = self.discovery.is_late() => Next::Probe,
                output = self.child.read() => Next::Output(output),
            };
            match next {
                Next::Stop => break,
                Next::Send(message) => {
                    self.child.queue_stdin(&message.line);
                    if message.is_handshake {
                        self.discovery.give_up();
                    }
                    if let Some(id) = message.discovery {
                        let probe_at = Instant::now() + DISCOVERY;
                        self.discovery = Discovery::Open { id, probe_at };
                    }
                }
                Next::Probe => self.probe(),
                Next::Output(None) => return self.ended().await,
                Next::Output(Some((OutputStream::Stderr, bytes))) => self.log.push_bytes(&bytes),
                Next::Output(Some((OutputStream::Stdout, bytes))) => {
                    self.note_refused();
                    if let Err(reason) = self.receive(&bytes).await {
                        self.end.set(reason);
                        break;
                    }
                }
            }
        }
        drop(self.to_client);
        self.child.close_stdin();
        self.child.stop(GRACE).await;
    }

    /// Notes the hosts that the sandbox refused: the server may not say why its request failed.
    fn note_refused(&self) {
        for access in self.child.network_accesses() {
            if let NetworkOutcome::Refused { reason } = &access.outcome {
                self.log.refuse(&access.host, reason);
            }
        }
    }

    async fn receive(&mut self, bytes: &[u8]) -> Result<(), String> {
        for received in self.reader.push(bytes)? {
            match received {
                Received::Message(message) => {
                    let message = match self.discovery.hear(&message) {
                        Heard::Pass => *message,
                        Heard::Drop => continue,
                        Heard::GiveUp(id) => {
                            let error =
                                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None);
                            ServerJsonRpcMessage::error(error, Some(id))
                        }
                    };
                    let sent = tokio::select! {
                        biased;
                        () = self.stop.cancelled() => return Ok(()),
                        sent = self.to_client.send(message) => sent,
                    };
                    if sent.is_err() {
                        self.stop.cancel();
                    }
                }
                // What cannot be understood is refused, so that the server does not wait for an answer.
                Received::Invalid(id) => {
                    if self.child.queued_stdin() >= MAX_UNSENT {
                        return Err(
                            "the server sends requests but does not read the responses".to_owned()
                        );
                    }
                    let error = ErrorData::invalid_request("invalid request", None);
                    let refusal = ClientJsonRpcMessage::error(error, Some(id));
                    if let Ok(mut line) = serde_json::to_vec(&refusal) {
                        line.push(b'\n');
                        self.child.queue_stdin(&line);
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks for a sign of life, which every server may be asked for at any time.
    fn probe(&mut self) {
        if let Discovery::Open { id, .. } = &self.discovery {
            self.discovery = Discovery::Probed(id.clone());
            let probe = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{PROBE}\",\"method\":\"ping\"}}\n");
            self.child.queue_stdin(probe.as_bytes());
        }
    }

    /// The process is gone: says how it ended.
    async fn ended(self) {
        let outcome = self.child.wait().await.outcome;
        let reason = match self.log.last() {
            Some(line) => {
                format!("the server {outcome}; last output: {}", crate::text::line(&line))
            }
            None => format!("the server {outcome}"),
        };
        self.end.set(reason);
    }
}

/// Finds messages in the standard output.
struct LineReader {
    line: Vec<u8>,
    noise: usize,
    log: ServerLog,
}

/// A line that is a message, or should have been.
enum Received {
    Message(Box<ServerJsonRpcMessage>),
    /// A request that cannot be understood.
    Invalid(RequestId),
}

/// What can be read of a message whose other values are unreadable, such as a number that is too large.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Value,
    method: Option<IgnoredAny>,
}

impl LineReader {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<Received>, String> {
        let mut received = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > MAX_MESSAGE {
                return Err(format!(
                    "the server sent a message of more than {} MiB",
                    MAX_MESSAGE >> 20
                ));
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                received.extend(self.read(line.trim_ascii())?);
            }
        }
        Ok(received)
    }

    fn read(&mut self, line: &[u8]) -> Result<Option<Received>, String> {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        if line.is_empty() {
            return Ok(None);
        }
        if let Ok(message) = serde_json::from_slice(line) {
            return Ok(Some(Received::Message(Box::new(message))));
        }
        if let Ok(message) = serde_json::from_slice(&repaired(line)) {
            return Ok(Some(Received::Message(Box::new(message))));
        }
        match serde_json::from_slice(line) {
            Ok(head) if line.starts_with(b"{") => self.misread(line, head),
            _ => self.noise(line),
        }
    }

    /// Handles JSON that is no message of the protocol.
    fn misread(&mut self, line: &[u8], head: Head) -> Result<Option<Received>, String> {
        let id = serde_json::from_value::<RequestId>(head.id).ok();
        match (id, head.method) {
            (Some(id), Some(_)) => Ok(Some(Received::Invalid(id))),
            (Some(id), None) => {
                // The request that it answers must not wait for another answer.
                let message = "the server sent a response that violates the protocol";
                let error = ErrorData::internal_error(message, None);
                let error = ServerJsonRpcMessage::error(error, Some(id));
                Ok(Some(Received::Message(Box::new(error))))
            }
            (None, _) => self.noise(line),
        }
    }

    /// Keeps a line that is no message with the log: some programs greet on their standard output.
    fn noise(&mut self, line: &[u8]) -> Result<Option<Received>, String> {
        self.noise += 1;
        self.log
            .push(&format!("stdout: {}", String::from_utf8_lossy(&line[..line.len().min(1_000)])));
        if self.noise > MAX_NOISE {
            return Err(format!(
                "the server wrote more than {MAX_NOISE} lines to standard output that are not \
                    protocol messages"
            ));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hear(discovery: &mut Discovery, message: Value) -> Heard {
        discovery.hear(&serde_json::from_value(message).unwrap())
    }

    #[test]
    fn answers_that_the_client_does_not_wait_for_any_longer_are_dropped() {
        let refusal = json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, "message": "?"}});
        let sign_of_life = json!({"jsonrpc": "2.0", "id": PROBE, "result": {}});
        let asked = RequestId::Number(0);
        for late in [[&refusal, &sign_of_life], [&sign_of_life, &refusal]] {
            let mut discovery = Discovery::Probed(asked.clone());
            discovery.give_up();
            for message in late {
                assert_eq!(hear(&mut discovery, message.clone()), Heard::Drop, "{message}");
            }
        }
        let mut discovery = Discovery::Probed(asked.clone());
        assert_eq!(hear(&mut discovery, sign_of_life.clone()), Heard::GiveUp(asked.clone()));
        assert_eq!(hear(&mut discovery, refusal.clone()), Heard::Drop);
        let mut discovery = Discovery::Probed(asked);
        assert_eq!(hear(&mut discovery, refusal), Heard::Pass);
        assert_eq!(hear(&mut discovery, sign_of_life), Heard::Drop);
    }
}
