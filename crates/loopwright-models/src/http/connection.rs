//! HTTP/1.1 connections: through TLS, through proxies, or directly to models and gateways on this
//! machine.
//!
//! A connection is polled by the task that waits for its response: it needs no task of its own, no
//! wake-up of another thread for each piece, and, without TLS, no buffer while there is no data. A
//! thousand waiting agents cost a thousand sockets and little more.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    fmt,
    future::poll_fn,
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{Method, header::HeaderMap};
use tokio::{io::AsyncWrite as _, runtime::Handle, time::timeout};
use url::{Position, Url};

#[cfg(feature = "gzip")]
use super::gzip::Gunzip;
use super::{
    body::{Framing, Piece},
    connect::{Dial, Tls, connect, dial_server},
    error::HttpError,
    head::{Head, Route, invalid, parse, write_head},
    proxy::{Proxies, Proxy},
    stream::Stream,
};

/// The time for which an unused connection is kept.
const IDLE: Duration = Duration::from_secs(90);

/// How much is read at once when it is not known how much comes.
const READ: usize = 8 * 1024;

/// The most that is read at once.
const MAX_READ: usize = 64 * 1024;

/// How often an answer may be announced before it comes.
const MAX_ANNOUNCED: u32 = 32;

/// Connections to servers, those that wait to be used again among them.
#[derive(Default)]
pub(super) struct Pool {
    /// By the server that they lead to.
    idle: Mutex<HashMap<Arc<str>, VecDeque<Idle>>>,
    /// Read from the environment by the first request.
    pub(super) proxies: OnceLock<Proxies>,
    /// `None` means the authorities that Mozilla trusts.
    pub(super) tls: Option<Tls>,
    /// Who connects; `None` means this program, with whichever server is asked for.
    pub(super) dial: Option<Arc<dyn Dial>>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

#[derive(Debug)]
pub(super) struct Connection {
    /// The server.
    to: Arc<str>,
    /// A connection lives and dies with the runtime that it was made in.
    runtime: tokio::runtime::Id,
    stream: Stream,
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
    #[cfg(feature = "gzip")]
    gzip: Option<Box<Gunzip>>,
    connection: Option<Connection>,
    pool: Arc<Pool>,
}

impl Pool {
    /// Sends a request, and returns when the head of the answer is there. Drops the body as soon as it is sent.
    pub(super) async fn send(
        self: &Arc<Self>,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: Bytes,
        connect: Duration,
    ) -> Result<Response, HttpError> {
        let proxy = self.proxies.get_or_init(Proxies::from_env).leading_to(url);
        let is_plain = url.scheme() == "http";
        let mut connection = match self.take(&server(url)) {
            Some(connection) => connection,
            None => self.open(url, proxy, connect).await?,
        };
        let broke = |error: io::Error| HttpError::broke(url, error);
        // On this machine or beside it, a compressed answer costs more than it saves.
        let accepts_gzip =
            cfg!(feature = "gzip") && (proxy.is_some() || !is_plain || self.dial.is_some());
        let route = Route { proxy: proxy.filter(|_| is_plain), accepts_gzip };
        let head = write_head(method, url, headers, body.len(), route);
        let early = connection.write(&head, &body).await.map_err(broke)?;
        // A response may take minutes.
        drop((head, body));
        let is_sent = early.is_none();
        let answered = match early {
            Some(head) => head,
            None => connection.read_head().await.map_err(broke)?,
        };
        let Head { status, headers, is_kept } = answered;
        #[cfg(feature = "gzip")]
        let (headers, gzip) = Gunzip::of(headers);
        let framing = Framing::of(status, &headers).map_err(broke)?;
        Ok(Response {
            status,
            headers,
            framing,
            can_be_used_again: is_sent && is_kept && framing.has_an_end(),
            #[cfg(feature = "gzip")]
            gzip,
            connection: Some(connection),
            pool: Arc::clone(self),
        })
    }

    async fn open(
        &self,
        url: &Url,
        proxy: Option<&Proxy>,
        time: Duration,
    ) -> Result<Connection, HttpError> {
        let opened = if url.scheme() == "http" && proxy.is_none() {
            dial_server(url, self.dial.as_deref(), time).await
        } else {
            let tls = self.tls.clone().map_or_else(Tls::standard, Ok);
            match tls {
                // Handshakes are large, and rare.
                Ok(tls) => {
                    timeout(time, Box::pin(connect(url, proxy, &tls, self.dial.as_deref(), time)))
                        .await
                        .unwrap_or_else(|late| Err(late.into()))
                }
                Err(error) => Err(error),
            }
        };
        match opened {
            Ok(stream) => Ok(Connection::new(server(url).into(), stream)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(HttpError::not_connected_in_time(url))
            }
            Err(error) => Err(HttpError::not_connected(url, error)),
        }
    }

    fn take(&self, to: &str) -> Option<Connection> {
        let runtime = Handle::current().id();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = idle.get_mut(to)?;
        while let Some(Idle { mut connection, since }) = idle.pop_back() {
            if since.elapsed() < IDLE
                && connection.runtime == runtime
                && connection.stream.is_open()
            {
                return Some(connection);
            }
        }
        None
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub(super) fn new(to: Arc<str>, stream: Stream) -> Self {
        let runtime = Handle::current().id();
        Self { to, runtime, stream, buffer: BytesMut::new(), announced: 0 }
    }

    /// Returns the stream, or `None` if more was read from it than was taken.
    pub(super) fn into_stream(self) -> Option<Stream> {
        self.buffer.is_empty().then_some(self.stream)
    }

    /// Writes a request. A server may answer before it has read everything, and says then why it does not
    /// want more: the head of that answer is returned.
    pub(super) async fn write(
        &mut self,
        mut head: &[u8],
        mut body: &[u8],
    ) -> io::Result<Option<Head>> {
        loop {
            match self.write_or_read(head, body).await {
                Progress::Flushed(Ok(())) => return Ok(None),
                Progress::Written(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Progress::Written(Ok(written)) => {
                    let of_head = written.min(head.len());
                    (head, body) = (&head[of_head..], &body[written - of_head..]);
                }
                // The reason may have been said before the door was closed.
                Progress::Written(Err(error)) | Progress::Flushed(Err(error)) => {
                    return self.read_head().await.map(Some).map_err(|_| error);
                }
                Progress::Read(read) => {
                    if read? == 0 {
                        return Err(cut_short());
                    }
                    let head = self.head()?;
                    if head.is_some() {
                        return Ok(head);
                    }
                }
            }
        }
    }

    /// Writes what can be written, or else reads what is there.
    async fn write_or_read(&mut self, head: &[u8], body: &[u8]) -> Progress {
        let Self { stream, buffer, .. } = self;
        let slices = [IoSlice::new(head), IoSlice::new(body)];
        poll_fn(|cx| {
            let pinned = Pin::new(&mut *stream);
            let progress = if head.is_empty() && body.is_empty() {
                pinned.poll_flush(cx).map(Progress::Flushed)
            } else {
                pinned.poll_write_vectored(cx, &slices).map(Progress::Written)
            };
            match progress {
                Poll::Pending => stream.poll_fill(cx, buffer, READ).map(Progress::Read),
                progress @ Poll::Ready(_) => progress,
            }
        })
        .await
    }

    pub(super) async fn read_head(&mut self) -> io::Result<Head> {
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
                101 => {
                    return Err(invalid(
                        "the response switches to a protocol that was not requested",
                    ));
                }
                100..200 if self.announced == MAX_ANNOUNCED => {
                    return Err(invalid("the server sends too many interim responses"));
                }
                100..200 => self.announced += 1,
                _ => return Ok(Some(head)),
            }
        }
        Ok(None)
    }

    /// Waits until something can be read, and reads it: so many bytes, none at the end of the stream.
    async fn fill(&mut self, max: usize) -> io::Result<usize> {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
        }
        poll_fn(|cx| self.stream.poll_fill(cx, &mut self.buffer, max)).await
    }
}

impl Response {
    /// Returns the next piece of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        #[cfg(feature = "gzip")]
        if self.gzip.is_some() {
            return self.decoded_chunk().await;
        }
        self.raw_chunk().await
    }

    #[cfg(feature = "gzip")]
    async fn decoded_chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.gzip.as_mut().map_or(Ok(None), |gzip| gzip.next())? {
                return Ok(Some(bytes));
            }
            let read = self.raw_chunk().await?;
            match (&mut self.gzip, read) {
                (Some(gzip), Some(bytes)) => gzip.push(bytes),
                (gzip, _) => return gzip.take().map_or(Ok(None), |gzip| gzip.finish()),
            }
        }
    }

    async fn raw_chunk(&mut self) -> io::Result<Option<Bytes>> {
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

/// What waits for what: a request that is written, and an answer that may come before its end.
#[derive(Debug)]
enum Progress {
    Written(io::Result<usize>),
    Flushed(io::Result<()>),
    Read(io::Result<usize>),
}

/// The server of an address with its scheme, without a user.
fn server(url: &Url) -> Cow<'_, str> {
    if url.username().is_empty() && url.password().is_none() {
        Cow::Borrowed(&url[..Position::AfterPort])
    } else {
        Cow::Owned(url.origin().ascii_serialization())
    }
}

fn cut_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the connection was closed before the response was complete",
    )
}
