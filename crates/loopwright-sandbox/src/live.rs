//! A running command, from the agent's side.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::access::NetworkAccess;
use crate::capture::Capture;
use crate::command::Stdin;
use crate::guarantee::Guarantees;
use crate::home::copied_caches;
use crate::job::{self, Event, HelperCommand, LaunchRequest};
use crate::output::{ExitOutcome, Limit, Output, OutputStream, TimeoutKind};
use crate::policy::{Network, OutputLimits};
use crate::proxy::Proxy;

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// How long output is waited for when every process that could be ended has ended. Only a backend
/// without namespaces can leave a process that holds a stream open.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The agent's ends of what connects it with a command.
pub(crate) struct ChildIo {
    pub(crate) socket: StdUnixStream,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) stdin: Option<OwnedFd>,
    /// Where the socket arrives through which hosts are reached by name.
    pub(crate) gate: Option<OwnedFd>,
}

/// A command and the helper that watches over it. Dropping it closes the connection, upon which the helper ends
/// every process of the command.
#[derive(Debug)]
pub(crate) struct Live {
    helper: tokio::process::Child,
    socket: UnixStream,
    inbox: Vec<u8>,
    stdout: Source,
    stderr: Source,
    stdin: Option<pipe::Sender>,
    unsent: BytesMut,
    close_stdin: Closing,
    held: VecDeque<(OutputStream, Bytes)>,
    caps: OutputLimits,
    idle: Option<Duration>,
    grace: Duration,
    last_output: Instant,
    began: Instant,
    driver: &'static str,
    staged: bool,
    copied_caches: bool,
    proxy: Option<Proxy>,
    enforced: Guarantees,
    notes: Vec<String>,
    stopping: bool,
    ended: Option<Ended>,
}

/// How the command ended, and when that was heard.
#[derive(Clone, Copy, Debug)]
struct Ended {
    outcome: ExitOutcome,
    elapsed: Duration,
    heard: Instant,
}

/// One stream of output.
#[derive(Debug)]
struct Source {
    pipe: Option<pipe::Receiver>,
    buffer: BytesMut,
    capture: Capture,
}

/// When the command's input ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    WhenSent,
    Later,
}

/// What one step brought.
enum Step {
    Output(OutputStream, Bytes),
    Progress,
    Done,
}

/// What there is to do.
enum Ready {
    Output(OutputStream),
    Input,
    Message,
    Late,
}

impl Live {
    /// Takes over the ends, sends the job and waits until the command runs.
    pub(crate) async fn start(
        helper: tokio::process::Child,
        ends: ChildIo,
        job: &LaunchRequest,
        stdin: Stdin,
    ) -> io::Result<Result<Self, job::Refusal>> {
        let began = Instant::now();
        ends.socket.set_nonblocking(true)?;
        let caps = job.policy.output;
        let (unsent, close_stdin) = match stdin {
            Stdin::Bytes(bytes) => (BytesMut::from(bytes), Closing::WhenSent),
            Stdin::Null => (BytesMut::new(), Closing::WhenSent),
            Stdin::Piped => (BytesMut::new(), Closing::Later),
        };
        let mut live = Self {
            helper,
            socket: UnixStream::from_std(ends.socket)?,
            inbox: Vec::new(),
            stdout: Source::new(ends.stdout, caps)?,
            stderr: Source::new(ends.stderr, caps)?,
            stdin: ends.stdin.map(pipe::Sender::from_owned_fd).transpose()?,
            unsent,
            close_stdin,
            held: VecDeque::new(),
            caps,
            idle: job.policy.limits.idle_timeout,
            grace: job.policy.limits.grace,
            last_output: began,
            began,
            driver: job.backend.name(),
            staged: job.policy.staging.is_some(),
            copied_caches: copied_caches(job.backend, &job.policy).next().is_some(),
            proxy: match (ends.gate, &job.policy.network) {
                (Some(gate), Network::Domains(domains)) => {
                    Some(Proxy::start(gate, domains.clone()))
                }
                _ => None,
            },
            enforced: Guarantees::default(),
            notes: Vec::new(),
            stopping: false,
            ended: None,
        };
        live.send(&job::frame(job)?).await?;
        match live.first_event().await? {
            Event::Started { enforced, notes } => {
                (live.enforced, live.notes) = (enforced, notes);
                live.began = Instant::now();
                live.last_output = Instant::now();
                live.close_empty_stdin();
                Ok(Ok(live))
            }
            Event::Refused(refusal) => {
                live.helper.wait().await.ok();
                Ok(Err(refusal))
            }
            Event::Ended { outcome, elapsed, notes } => {
                live.notes = notes;
                live.end(outcome, elapsed);
                Ok(Ok(live))
            }
        }
    }

    async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.socket.writable().await?;
            match self.socket.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn first_event(&mut self) -> io::Result<Event> {
        loop {
            if let Some(event) = job::take(&mut self.inbox)? {
                return Ok(event);
            }
            self.socket.readable().await?;
            if self.receive()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Takes what has arrived from the helper; zero at the end of the connection.
    fn receive(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 4096];
        match self.socket.try_read(&mut buffer) {
            Ok(count) => {
                self.inbox.extend_from_slice(&buffer[..count]);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(usize::MAX),
            Err(error) => Err(error),
        }
    }

    /// The next piece of output; nothing when the command has ended and all was read. Can be dropped at any time.
    pub(crate) async fn read(&mut self) -> Option<(OutputStream, Bytes)> {
        if let Some(held) = self.held.pop_front() {
            return Some(held);
        }
        loop {
            match self.step().await {
                Step::Output(stream, bytes) => return Some((stream, bytes)),
                Step::Progress => {}
                Step::Done => return None,
            }
        }
    }

    /// Sends input, and keeps output that arrives meanwhile for the next reading.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(bytes);
        while !self.unsent.is_empty() {
            if self.stdin.is_none() {
                self.unsent.clear();
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match self.step().await {
                Step::Output(stream, bytes) => self.held.push_back((stream, bytes)),
                Step::Progress => {}
                Step::Done => self.stdin = None,
            }
        }
        Ok(())
    }

    pub(crate) fn queue_stdin(&mut self, bytes: &[u8]) {
        if self.stdin.is_some() {
            self.unsent.extend_from_slice(bytes);
        }
    }

    pub(crate) fn queued_stdin(&self) -> usize {
        self.unsent.len()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.close_stdin = Closing::WhenSent;
        self.close_empty_stdin();
    }

    fn close_empty_stdin(&mut self) {
        if self.unsent.is_empty() && self.close_stdin == Closing::WhenSent {
            self.stdin = None;
        }
    }

    async fn step(&mut self) -> Step {
        if self.ended.is_some() && self.stdout.pipe.is_none() && self.stderr.pipe.is_none() {
            return Step::Done;
        }
        match self.ready().await {
            Ready::Output(stream) => self.take_output(stream),
            Ready::Input => self.feed(),
            Ready::Message => self.take_message(),
            Ready::Late => self.late(),
        }
    }

    async fn ready(&self) -> Ready {
        tokio::select! {
            () = readable(&self.stdout) => Ready::Output(OutputStream::Stdout),
            () = readable(&self.stderr) => Ready::Output(OutputStream::Stderr),
            () = writable(self.stdin.as_ref()), if !self.unsent.is_empty() => Ready::Input,
            _ = self.socket.readable(), if self.ended.is_none() => Ready::Message,
            () = until(self.deadline()) => Ready::Late,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.ended {
            Some(ended) => Some(ended.heard + LAST_WORDS),
            None if self.stopping => None,
            None => self.idle.and_then(|idle| self.last_output.checked_add(idle)),
        }
    }

    fn take_output(&mut self, stream: OutputStream) -> Step {
        let source = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let Some(bytes) = source.take() else { return Step::Progress };
        self.last_output = Instant::now();
        let total = self.stdout.capture.total() + self.stderr.capture.total();
        if self.caps.kill.is_some_and(|kill| total > kill) {
            self.stop(ExitOutcome::LimitReached(Limit::Output), Duration::ZERO);
        }
        Step::Output(stream, bytes)
    }

    fn feed(&mut self) -> Step {
        if let Some(stdin) = &self.stdin {
            match stdin.try_write(&self.unsent) {
                Ok(count) => self.unsent.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The command reads no more, which is its right.
                Err(_) => {
                    self.stdin = None;
                    self.unsent.clear();
                }
            }
        }
        self.close_empty_stdin();
        Step::Progress
    }

    fn take_message(&mut self) -> Step {
        let received = self.receive();
        // The last words may have arrived together with the end of the connection, or with the first.
        match (job::take(&mut self.inbox), received) {
            (Ok(Some(Event::Ended { outcome, elapsed, notes })), _) => {
                self.notes.extend(notes);
                self.end(outcome, elapsed);
            }
            (Ok(_), Ok(1..)) => {}
            (Ok(_) | Err(_), _) => self.end(ExitOutcome::Lost, self.began.elapsed()),
        }
        Step::Progress
    }

    fn end(&mut self, outcome: ExitOutcome, elapsed: Duration) {
        self.ended = Some(Ended { outcome, elapsed, heard: Instant::now() });
        self.stdin = None;
        self.unsent.clear();
    }

    /// Time has run out: for output, or for the last of it. What is there already counts as in time.
    fn late(&mut self) -> Step {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            if let Step::Output(stream, bytes) = self.take_output(stream) {
                return Step::Output(stream, bytes);
            }
        }
        if self.ended.is_some() {
            (self.stdout.pipe, self.stderr.pipe) = (None, None);
        } else {
            self.stop(ExitOutcome::TimedOut(TimeoutKind::Idle), self.grace);
        }
        Step::Progress
    }

    /// Asks the helper to end the command.
    fn stop(&mut self, cause: ExitOutcome, grace: Duration) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        let sent = job::frame(&HelperCommand::Stop { cause, grace })
            .and_then(|frame| Ok(self.socket.try_write(&frame)? == frame.len()));
        if !matches!(sent, Ok(true)) {
            // No process listens; the end of the connection is understood by the process that is left.
            self.helper.start_kill().ok();
        }
    }

    /// Ends the command and waits for its last process.
    pub(crate) async fn cancel(mut self, grace: Option<Duration>) -> Output {
        self.stopping = false;
        let grace = grace.unwrap_or(self.grace);
        self.stop(ExitOutcome::Cancelled, grace);
        self.wait().await
    }

    pub(crate) async fn wait(mut self) -> Output {
        if self.close_stdin == Closing::Later {
            self.close_stdin();
        }
        self.held.clear();
        while self.read().await.is_some() {}
        let (outcome, elapsed) = match self.ended {
            Some(ended) => (ended.outcome, ended.elapsed),
            None => (ExitOutcome::Lost, self.began.elapsed()),
        };
        let network = self.network_accesses();
        let mut helper = self.helper;
        if outcome == ExitOutcome::Lost {
            helper.wait().await.ok();
        } else {
            // It has said how all processes ended. Now it ends itself, and the kernel takes the command's mounts apart.
            tokio::spawn(async move { helper.wait().await.ok() });
        }
        Output {
            stdout: self.stdout.capture.finish(),
            stderr: self.stderr.capture.finish(),
            outcome,
            elapsed,
            enforced: self.enforced,
            driver: self.driver.to_owned(),
            notes: self.notes,
            staged: self.staged,
            copied_caches: self.copied_caches,
            network,
        }
    }

    pub(crate) fn network_accesses(&self) -> Vec<NetworkAccess> {
        self.proxy.as_ref().map(Proxy::accesses).unwrap_or_default()
    }
}

impl Source {
    fn new(pipe: OwnedFd, caps: OutputLimits) -> io::Result<Self> {
        Ok(Self {
            pipe: Some(pipe::Receiver::from_owned_fd(pipe)?),
            buffer: BytesMut::new(),
            capture: Capture::new(caps.head, caps.tail),
        })
    }

    /// Reads what is there. At the end of the stream it is closed, and no longer waited for.
    fn take(&mut self) -> Option<Bytes> {
        let pipe = self.pipe.as_ref()?;
        self.buffer.reserve(CHUNK);
        match pipe.try_read_buf(&mut self.buffer) {
            Ok(1..) => {
                let bytes = self.buffer.split().freeze();
                self.capture.push(&bytes);
                Some(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Ok(0) | Err(_) => {
                self.pipe = None;
                None
            }
        }
    }
}

async fn readable(source: &Source) {
    match &source.pipe {
        Some(pipe) => drop(pipe.readable().await),
        None => pending().await,
    }
}

async fn writable(stdin: Option<&pipe::Sender>) {
    match stdin {
        Some(pipe) => drop(pipe.writable().await),
        None => pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => pending().await,
    }
}
