//! HTTP requests to providers.

mod body;
mod connect;
mod connection;
mod error;
#[cfg(feature = "gzip")]
mod gzip;
mod head;
mod proxy;
mod stream;

use std::{
    fmt,
    future::Future,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, header::HeaderMap};
use loopwright_core::ModelErrorKind;
use url::Url;

pub use self::connect::Dial;
pub(crate) use self::error::HttpError;
pub use self::proxy::is_loopback;
use crate::{
    record::{Exchange, ExchangeEnd, ExchangeRecorder, Recorder, Request, Response},
    replay::{RecordingError, Replay},
};

/// The timeouts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The timeout for a connection.
    pub connect: Duration,
    /// The timeout for the first byte of a response body. It is long, because a model may reason
    /// before it writes.
    pub first_byte: Duration,
    /// The timeout for each further piece of a response.
    pub idle: Duration,
    /// The timeout for a complete response; `None` means no limit.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::new(10 * 60, 0),
            idle: Duration::new(5 * 60, 0),
            total: None,
        }
    }
}

/// Sends requests over HTTP; clones share their connections.
///
/// Redirects are not followed, because a key must not be sent to another host. Dropping a request
/// closes its connection. `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` work as in curl;
/// connections to this machine use no proxy. SOCKS is not supported.
///
/// Connections use HTTP/1.1, and need no task while they wait, and without TLS no buffer. The sizes
/// of headers and trailers and the number of interim responses are limited.
#[derive(Clone, Default)]
pub struct Http(Arc<Inner>);

#[derive(Default)]
struct Inner {
    timeouts: Timeouts,
    mode: Mode,
    pool: Arc<connection::Pool>,
}

/// Where answers come from, and whether they are kept.
#[derive(Default)]
enum Mode {
    #[default]
    Live,
    Recording(Arc<Recorder>),
    Replaying(Replay),
}

impl Http {
    /// Creates a transport with these timeouts.
    pub fn new(timeouts: Timeouts) -> Self {
        Self::in_mode(timeouts, Mode::Live)
    }

    /// Creates a transport that appends each completed exchange to this file, without keys. The
    /// file contains requests and responses, so protect it like these.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written. If a later write fails, the next request
    /// fails.
    pub fn recording(path: impl AsRef<Path>, timeouts: Timeouts) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let recorder = Recorder::open(path)
            .map_err(|source| RecordingError::File { path: path.into(), source })?;
        Ok(Self::in_mode(timeouts, Mode::Recording(Arc::new(recorder))))
    }

    /// Creates a transport that replays a recording and never uses the network.
    ///
    /// The response to a request is that of the first unused exchange with the same method, path,
    /// query and body (compared as JSON, regardless of field order). A request that was not
    /// recorded fails with an error whose source is a [`ReplayMiss`](crate::ReplayMiss). Providers
    /// need no keys.
    ///
    /// ```
    /// use loopwright_core::{Clock as _, InferCx, LlmConfig, ModelCache, ModelProvider as _, DiscardDeltas};
    /// use loopwright_core::{SystemClock, messages::{InferenceRequest, Message, Prompt, Turn}};
    /// use loopwright_models::{Http, Providers};
    /// # use tokio_util::sync::CancellationToken;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/hello.jsonl");
    /// let providers = Providers::new().with_http(Http::replaying(recording)?);
    /// let model = providers.resolve(Some(&LlmConfig::named("openai/gpt-4.1-mini")))?;
    /// let turns = [Turn::from_message(Message::user("Say hello."))?];
    /// let prompt = Prompt::of(turns.into_iter().collect());
    /// let request = InferenceRequest { prompt, ..InferenceRequest::default() };
    /// let cx = InferCx {
    ///     deltas: &mut DiscardDeltas,
    ///     cancel: &CancellationToken::new(),
    ///     deadline: None,
    ///     clock: &SystemClock::default(),
    ///     memory: &mut ModelCache::default(),
    /// };
    /// assert_eq!(model.infer(&request, cx).await?.message.text(), "Hello!");
    /// # Ok::<(), loopwright_core::BoxError>(())
    /// # })?;
    /// # Ok::<(), loopwright_core::BoxError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is not a recording.
    pub fn replaying(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let replay = Replay::open(path.as_ref())?;
        Ok(Self::in_mode(Timeouts::default(), Mode::Replaying(replay)))
    }

    /// Sends requests over connections from a custom dialer, without a proxy.
    pub(crate) fn dialing(timeouts: Timeouts, dial: Arc<dyn Dial>) -> Self {
        let mut pool = connection::Pool::default();
        pool.proxies = proxy::Proxies::default().into();
        pool.dial = Some(dial);
        Self(Arc::new(Inner { timeouts, pool: pool.into(), ..Inner::default() }))
    }

    fn in_mode(timeouts: Timeouts, mode: Mode) -> Self {
        Self(Arc::new(Inner { timeouts, mode, ..Inner::default() }))
    }

    /// Returns `true` if answers come from a recording.
    pub(crate) fn is_replaying(&self) -> bool {
        matches!(self.0.mode, Mode::Replaying(_))
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        self.0.timeouts
    }

    pub(crate) async fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, HttpError> {
        self.send(Method::POST, url, headers, body).await
    }

    pub(crate) async fn get(
        &self,
        url: Url,
        headers: HeaderMap,
    ) -> Result<HttpResponse, HttpError> {
        self.send(Method::GET, url, headers, Bytes::new()).await
    }

    async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<HttpResponse, HttpError> {
        let mut tape: Option<Box<ExchangeRecorder>> = match &self.0.mode {
            Mode::Live => None,
            Mode::Recording(recorder) => {
                recorder.check()?;
                Some(ExchangeRecorder::new(recorder, method.as_str(), &url, &headers, &body).into())
            }
            Mode::Replaying(replay) => {
                let request = Request::of(method.as_str(), &url, &headers, &body);
                return HttpResponse::recorded(replay.take(&request)?);
            }
        };
        let timeouts = self.0.timeouts;
        let pool = &self.0.pool;
        let sending = pool.send(&method, &url, &headers, body, timeouts.connect);
        let sent = within(timeouts.first_byte, pin!(sending)).await.and_then(|sent| sent);
        let sent = sent.map(|response| Source::Live(Box::new(response), url));
        let source = sent.inspect_err(|error| {
            if let Some(tape) = &mut tape {
                tape.end = error.end();
            }
        })?;
        if let Some((tape, (status, headers))) = tape.as_mut().zip(source.head()) {
            tape.head(status, headers);
        }
        Ok(HttpResponse { source, tape, wait: timeouts.first_byte, idle: timeouts.idle })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("timeouts", &self.0.timeouts).finish_non_exhaustive()
    }
}

/// An answer whose body is read piece by piece.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    source: Source,
    /// Where it is recorded. Boxed as recorded responses are, because both are rare.
    tape: Option<Box<ExchangeRecorder>>,
    /// How long to wait for the next piece.
    wait: Duration,
    idle: Duration,
}

#[derive(Debug)]
enum Source {
    Live(Box<connection::Response>, Url),
    /// From a recording, with the bytes that are still to come.
    Recorded(Box<Response>, Option<Bytes>, ExchangeEnd),
}

impl Source {
    /// Returns status and headers of an answer that is none of a recording's.
    fn head(&self) -> Option<(u16, &HeaderMap)> {
        match self {
            Self::Live(response, _) => Some((response.status, &response.headers)),
            Self::Recorded(..) => None,
        }
    }
}

impl HttpResponse {
    fn recorded(exchange: Exchange) -> Result<Self, HttpError> {
        let Some(response) = exchange.response else {
            return Err(HttpError::recorded(exchange.end, "no response was recorded"));
        };
        let bytes = response.body.bytes().map(Bytes::from);
        let source = Source::Recorded(response.into(), bytes, exchange.end);
        Ok(Self { source, tape: None, wait: Duration::MAX, idle: Duration::MAX })
    }

    pub(crate) fn status(&self) -> u16 {
        match &self.source {
            Source::Live(response, _) => response.status,
            Source::Recorded(response, _, _) => response.status,
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status())
    }

    /// Returns the value of a header, or `None` if it is missing or not text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        match &self.source {
            Source::Recorded(response, _, _) => response.headers.get(name).map(String::as_str),
            live @ Source::Live(..) => live.head()?.1.get(name)?.to_str().ok(),
        }
    }

    /// Returns the next piece of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let chunk = match &mut self.source {
            Source::Live(response, url) => {
                let chunk = within(self.wait, pin!(response.chunk())).await;
                chunk.and_then(|chunk| chunk.map_err(|error| HttpError::broke(url, error)))
            }
            Source::Recorded(_, bytes, end) => match (bytes.take(), *end) {
                (Some(bytes), _) if !bytes.is_empty() => Ok(Some(bytes)),
                (_, ExchangeEnd::Complete) => Ok(None),
                (_, end) => Err(HttpError::recorded(end, "the recorded response was cut off")),
            },
        };
        self.wait = self.idle;
        if let Some(tape) = &mut self.tape {
            match &chunk {
                Ok(Some(bytes)) => tape.chunk(bytes),
                Ok(None) => tape.end = ExchangeEnd::Complete,
                Err(error) => tape.end = error.end(),
            }
        }
        chunk
    }

    /// Says that nothing more is wanted.
    fn is_enough(&mut self) {
        if let Some(tape) = &mut self.tape {
            tape.end = ExchangeEnd::Complete;
        }
    }

    /// Returns the body, or as much of it as arrives and fits.
    pub(crate) async fn body(mut self, most: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = self.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(most - body.len())]);
            if body.len() == most {
                self.is_enough();
                break;
            }
        }
        body
    }

    /// Reads what is left, if it comes at once, so that the connection can be used again.
    pub(crate) async fn drain(mut self) {
        const PATIENCE: Duration = Duration::from_millis(20);
        self.is_enough();
        self.wait = PATIENCE;
        self.idle = PATIENCE;
        for _ in 0..4 {
            if !matches!(self.chunk().await, Ok(Some(_))) {
                break;
            }
        }
        self.is_enough();
    }
}

/// Waits no longer than that. What is waited for is pinned by the caller: an async function that takes a future
/// has room for it twice.
async fn within<T>(
    time: Duration,
    future: Pin<&mut impl Future<Output = T>>,
) -> Result<T, HttpError> {
    tokio::time::timeout(time, future).await.map_err(|_| HttpError {
        kind: ModelErrorKind::Timeout,
        message: format!("no data arrived for {} seconds", time.as_secs_f64()),
        source: None,
        is_unsent: false,
    })
}

#[cfg(test)]
mod tests;
