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
use socket2::SockRef;
use tokio::{io::Interest, net::TcpStream, runtime::Handle, task::coop::consume_budget};

use super::{
    HttpError,
    body::{Framing, Piece},
    head::{Head, parse, write_head},
};

/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(90);

/// How much is read at once when it is not known how much comes.
const READ: usize = 8 * 1024;

/// The most that is read at once.
const READ_MOST: usize = 64 * 1024;

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
        let is_sent = connection.write(&head, body).await.map_err(broke)?;
        drop(head);
        let Head { status, headers, is_kept } = connection.read_head().await.map_err(broke)?;
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
        let idle = idle.entry(Arc::clone(&connection.to)).or_default();
        while idle.front().is_some_and(|it| it.since.elapsed() >= IDLE) {
            idle.pop_front();
        }
        idle.push_back(Idle { connection, since: Instant::now() });
    }
}

impl Connection {
    async fn open(url: &Url, connect: Duration) -> Result<Self, HttpError> {
        let port = url.port_or_known_default().unwrap_or_default();
        let host = url.host_str().unwrap_or_default();
        let opening = TcpStream::connect((host.trim_matches(['[', ']']), port));
        let opened = tokio::time::timeout(connect, opening).await;
        let stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(HttpError::not_connected(url, error)),
            Err(_) => return Err(HttpError::not_connected_in_time(url)),
        };
        // What is written is written at once and whole.
        stream.set_nodelay(true).ok();
        let (to, runtime) = (authority(url).into(), Handle::current().id());
        Ok(Self { to, runtime, stream, buffer: BytesMut::new() })
    }

    /// Tells whether the server neither closed the connection nor said anything that nobody asked for.
    fn is_open(&self) -> bool {
        let looked = SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        looked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Writes a request; tells whether all of it was wanted. A server may answer before it has read
    /// everything, and says then why it does not want more.
    async fn write(&mut self, mut head: &[u8], mut body: &[u8]) -> io::Result<bool> {
        while !(head.is_empty() && body.is_empty()) {
            match self.stream.try_write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(written) => {
                    let of_head = written.min(head.len());
                    (head, body) = (&head[of_head..], &body[written - of_head..]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let ready = self.stream.ready(Interest::READABLE | Interest::WRITABLE).await?;
                    if ready.is_readable() && self.read(READ)?.is_some() {
                        return Ok(false);
                    }
                }
                Err(error) => {
                    // The reason may have been said before the door was closed.
                    return if matches!(self.read(READ), Ok(Some(1..))) {
                        Ok(false)
                    } else {
                        Err(error)
                    };
                }
            }
        }
        Ok(true)
    }

    async fn read_head(&mut self) -> io::Result<Head> {
        loop {
            if let Some((length, head)) = parse(&self.buffer)? {
                let _head = self.buffer.split_to(length);
                // What is announced is not yet the answer.
                if head.status >= 200 {
                    return Ok(head);
                }
                continue;
            }
            if self.fill(READ).await? == 0 {
                return Err(cut_short());
            }
        }
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

    /// Reads what is there; nothing if there is nothing yet.
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
    /// Returns the next piece of the body; nothing at its end.
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
                    let most = usize::try_from(wanted).unwrap_or(READ_MOST).clamp(READ, READ_MOST);
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
            self.pool.give_back(Connection { buffer: BytesMut::new(), ..connection });
        }
    }
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
