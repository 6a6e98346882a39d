//! HTTP/1.1 without TLS to servers that are reached directly: models on this machine, gateways beside the
//! program.
//!
//! A connection is polled by whoever waits for its answer: no task of its own, no wake-up of another thread
//! for each piece, and no buffer while nothing is there to be read. A thousand agents that wait cost a
//! thousand sockets and little more.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, IoSlice},
    mem::MaybeUninit,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use reqwest::{
    Method, Url,
    header::{HeaderMap, HeaderValue},
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::Interest,
    net::{TcpStream, lookup_host},
    runtime::Handle,
    task::coop::consume_budget,
    time::timeout,
};

use super::{
    HttpError,
    body::{Framing, Piece},
    head::{Head, invalid, parse, write_head},
};

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(90);

/// How long a connection is silent before its other end is asked whether it is there.
const PROBED: Duration = Duration::from_secs(15);

/// How much is read at once when it is not known how much comes.
const READ: usize = 8 * 1024;

/// The most that is read at once.
const MAX_READ: usize = 64 * 1024;

/// How often an answer may be announced before it comes.
const MAX_ANNOUNCED: u32 = 32;

/// Connections that wait to be used again, by the server that they lead to.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Arc<str>, VecDeque<Idle>>>);

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

#[derive(Debug)]
struct Connection {
    /// The server.
    to: Arc<str>,
    /// A connection lives and dies with the runtime that it was made in.
    runtime: tokio::runtime::Id,
    stream: TcpStream,
    /// What was read and not yet taken.
    buffer: BytesMut,
    /// How often the answer to the request under way was only announced.
    announced: u32,
}

/// An answer whose body is read piece by piece. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    framing: Framing,
    can_be_used_again: bool,
    connection: Option<Connection>,
    pool: Arc<Pool>,
}

impl Pool {
    /// Sends a request, and returns when the head of the answer is there.
    pub(super) async fn send(
        self: &Arc<Self>,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &[u8],
        connect: Duration,
    ) -> Result<Response, HttpError> {
        let mut connection = match self.take(authority(url)) {
            Some(connection) => connection,
            None => Connection::open(url, connect).await?,
        };
        let broke = |error: io::Error| HttpError::broke(url, error);
        let head = write_head(method, url, headers, body.len());
        let early = connection.write(&head, body).await.map_err(broke)?;
        drop(head);
        let is_sent = early.is_none();
        let answered = match early {
            Some(head) => head,
            None => connection.read_head().await.map_err(broke)?,
        };
        let Head { status, headers, is_kept } = answered;
        let framing = Framing::of(status, &headers).map_err(broke)?;
        let can_be_used_again = is_sent && is_kept && framing.has_an_end();
        let (connection, pool) = (Some(connection), Arc::clone(self));
        Ok(Response { status, headers, framing, can_be_used_again, connection, pool })
    }

    fn take(&self, to: &str) -> Option<Connection> {
        let runtime = Handle::current().id();
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = idle.get_mut(to)?;
        while let Some(Idle { connection, since }) = idle.pop_back() {
            if since.elapsed() < IDLE && connection.runtime == runtime && connection.is_open() {
                return Some(connection);
            }
        }
        None
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, idle| {
            while idle.front().is_some_and(|it| it.since.elapsed() >= IDLE) {
                idle.pop_front();
            }
            !idle.is_empty()
        });
        let to = Arc::clone(&connection.to);
        idle.entry(to).or_default().push_back(Idle { connection, since: Instant::now() });
    }
}

impl Connection {
    async fn open(url: &Url, connect: Duration) -> Result<Self, HttpError> {
        let stream = match dial(url, connect).await {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(HttpError::not_connected_in_time(url));
            }
            Err(error) => return Err(HttpError::not_connected(url, error)),
        };
        // What is written is written at once and whole.
        stream.set_nodelay(true).ok();
        // A server that is gone without a word is found out although it is only waited for.
        let probes = TcpKeepalive::new().with_time(PROBED).with_interval(PROBED).with_retries(3);
        SockRef::from(&stream).set_tcp_keepalive(&probes).ok();
        let (to, runtime) = (authority(url).into(), Handle::current().id());
        Ok(Self { to, runtime, stream, buffer: BytesMut::new(), announced: 0 })
    }

    /// Returns `true` if the server neither closed the connection nor said anything that nobody asked for.
    fn is_open(&self) -> bool {
        let looked = SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Writes a request. A server may answer before it has read everything, and says then why it does not
    /// want more: the head of that answer is returned.
    async fn write(&mut self, mut head: &[u8], mut body: &[u8]) -> io::Result<Option<Head>> {
        while !(head.is_empty() && body.is_empty()) {
            match self.stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(written) => {
                    let of_head = written.min(head.len());
                    (head, body) = (&head[of_head..], &body[written - of_head..]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let ready = self.stream.ready(Interest::READABLE | Interest::WRITABLE).await?;
                    if !ready.is_readable() {
                        continue;
                    }
                    match self.read(READ)? {
                        Some(0) => return Err(cut_short()),
                        Some(_) => {
                            let head = self.head()?;
                            if head.is_some() {
                                return Ok(head);
                            }
                        }
                        None => {}
                    }
                }
                // The reason may have been said before the door was closed.
                Err(error) => return self.read_head().await.map(Some).map_err(|_| error),
            }
        }
        Ok(None)
    }

    async fn read_head(&mut self) -> io::Result<Head> {
        loop {
            if let Some(head) = self.head()? {
                return Ok(head);
            }
            if self.fill(READ).await? == 0 {
                return Err(cut_short());
            }
        }
    }

    /// Takes the head of an answer, if it was read as a whole; what is only announced is not yet the answer.
    fn head(&mut self) -> io::Result<Option<Head>> {
        while let Some((length, head)) = parse(&self.buffer)? {
            let _head = self.buffer.split_to(length);
            match head.status {
                101 => return Err(invalid("it changes the protocol, which was not asked for")),
                100..200 if self.announced == MAX_ANNOUNCED => {
                    return Err(invalid("it announces an answer over and over again"));
                }
                100..200 => self.announced += 1,
                _ => return Ok(Some(head)),
            }
        }
        Ok(None)
    }

    /// Waits until something can be read, and reads it: so many bytes, none at the end of the stream.
    async fn fill(&mut self, most: usize) -> io::Result<usize> {
        loop {
            if self.buffer.is_empty() {
                self.buffer = BytesMut::new();
            }
            consume_budget().await;
            self.stream.readable().await?;
            if let Some(read) = self.read(most)? {
                return Ok(read);
            }
        }
    }

    /// Reads what is there; `None` if there is nothing yet.
    fn read(&mut self, most: usize) -> io::Result<Option<usize>> {
        self.buffer.reserve(most);
        match self.stream.try_read_buf(&mut self.buffer) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Response {
    /// Returns the next piece of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let Some(connection) = &mut self.connection else { return Ok(None) };
            match self.framing.take(&mut connection.buffer)? {
                Piece::Bytes(bytes) => return Ok(Some(bytes)),
                Piece::End => {
                    self.end();
                    return Ok(None);
                }
                Piece::Missing(wanted) => {
                    let most = usize::try_from(wanted).unwrap_or(MAX_READ).clamp(READ, MAX_READ);
                    if connection.fill(most).await? > 0 {
                        continue;
                    }
                    self.connection = None;
                    return if self.framing.has_an_end() { Err(cut_short()) } else { Ok(None) };
                }
            }
        }
    }

    fn end(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.can_be_used_again
            && connection.buffer.is_empty()
        {
            self.pool.give_back(Connection { buffer: BytesMut::new(), announced: 0, ..connection });
        }
    }
}

/// Connects to a server, which may have several addresses: each of them gets its share of the time.
async fn dial(url: &Url, time: Duration) -> io::Result<TcpStream> {
    let port = url.port_or_known_default().unwrap_or_default();
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let addresses: Vec<_> = timeout(time, lookup_host((host, port))).await??.collect();
    let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(late) => failure = late.into(),
        }
    }
    Err(failure)
}

/// The server of an address, as a `Host` header names it.
pub(super) fn authority(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed before the answer was complete")
}

/// Reads one value of a header as a list.
pub(super) fn names(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim)
}
