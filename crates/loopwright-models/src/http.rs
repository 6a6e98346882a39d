//! Carries requests to providers: by `reqwest`, or directly where there is neither TLS nor a proxy.

mod body;
mod direct;
mod error;
mod head;

use std::{
    fmt,
    future::Future,
    net::IpAddr,
    path::Path,
    pin::{Pin, pin},
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use loopwright_core::ModelErrorKind;
use reqwest::{Client, Method, Url, header::HeaderMap, redirect};

pub(crate) use self::error::HttpError;
use crate::{
    record::{Exchange, ExchangeEnd, ExchangeRecorder, Recorder, Request, Response},
    replay::{RecordingError, Replay},
};

/// What this program calls itself.
const USER_AGENT: &str = concat!("loopwright/", env!("CARGO_PKG_VERSION"));

/// How long to wait for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte of an answer's body. Long: a provider may think before it says anything.
    pub first_byte: Duration,
    /// For every further piece of an answer.
    pub idle: Duration,
    /// For a whole answer, however steadily it comes; no limit if there is none.
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

/// Carries requests over HTTP; clones share their connections.
///
/// Redirects are not followed, because a key must not be sent to anyone else. Servers on this machine
/// are spoken to without a proxy. Dropping a request closes its connection.
///
/// A server that is reached without TLS and without a proxy is spoken to in HTTP/1.1, on connections that
/// need neither a task nor a buffer while they wait; every other one by `reqwest`.
#[derive(Clone, Default)]
pub struct Http(Arc<Inner>);

#[derive(Default)]
struct Inner {
    timeouts: Timeouts,
    mode: Mode,
    /// For servers that a proxy may lead to.
    remote: OnceLock<Client>,
    /// For servers on this machine that want TLS.
    local: OnceLock<Client>,
    /// For all others.
    direct: Arc<direct::Pool>,
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
    /// Carries requests within these times.
    pub fn new(timeouts: Timeouts) -> Self {
        Self::in_mode(timeouts, Mode::Live)
    }

    /// Carries requests, and adds each exchange to this file when it ends, without its keys. What was
    /// asked and answered is in the file: it deserves the same care.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. If that happens later, the next request fails.
    pub fn recording(path: impl AsRef<Path>, timeouts: Timeouts) -> Result<Self, RecordingError> {
        let path = path.as_ref();
        let recorder = Recorder::open(path)
            .map_err(|source| RecordingError::File { path: path.into(), source })?;
        Ok(Self::in_mode(timeouts, Mode::Recording(Arc::new(recorder))))
    }

    /// Answers from a recording, and never from the network.
    ///
    /// A request is answered by the first exchange of the same method, path, query and body (as JSON,
    /// whatever the order of its fields) that did not answer yet. One that was not recorded fails with
    /// an error whose source is a [`ReplayMiss`](crate::ReplayMiss). Providers need no keys.
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
    /// If the file cannot be read or is no recording.
    pub fn replaying(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let replay = Replay::open(path.as_ref())?;
        Ok(Self::in_mode(Timeouts::default(), Mode::Replaying(replay)))
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
        let mut tape = match &self.0.mode {
            Mode::Live => None,
            Mode::Recording(recorder) => {
                recorder.check()?;
                Some(ExchangeRecorder::new(recorder, method.as_str(), &url, &headers, &body))
            }
            Mode::Replaying(replay) => {
                let request = Request::of(method.as_str(), &url, &headers, &body);
                return HttpResponse::recorded(replay.take(&request)?);
            }
        };
        let timeouts = self.0.timeouts;
        let sent = if is_direct(&url) {
            let pool = &self.0.direct;
            let sending = pool.send(&method, &url, &headers, &body, timeouts.connect);
            let sent = within(timeouts.first_byte, pin!(sending)).await.and_then(|sent| sent);
            sent.map(|response| Source::Direct(response, url))
        } else {
            let request = self.client(&url)?.request(method, url.clone());
            let sending = request.headers(headers).body(body).send();
            let sent = within(timeouts.first_byte, pin!(sending)).await;
            let sent = sent.and_then(|sent| sent.map_err(|error| HttpError::of(error, &url)));
            sent.map(Source::Remote)
        };
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

    fn client(&self, url: &Url) -> Result<Client, HttpError> {
        let is_local = is_loopback(url);
        let slot = if is_local { &self.0.local } else { &self.0.remote };
        if let Some(client) = slot.get() {
            return Ok(client.clone());
        }
        let builder = Client::builder()
            .connect_timeout(self.0.timeouts.connect)
            .redirect(redirect::Policy::none())
            .user_agent(USER_AGENT);
        let builder = if is_local { builder.no_proxy() } else { builder };
        let client = builder.build().map_err(|error| HttpError::of(error, url))?;
        Ok(slot.get_or_init(|| client).clone())
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("timeouts", &self.0.timeouts).finish_non_exhaustive()
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|it| it.is_loopback())
}

/// Returns `true` if nothing stands between here and the server.
fn is_direct(url: &Url) -> bool {
    static HAS_PROXY: LazyLock<bool> = LazyLock::new(|| {
        let variables = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
        variables.into_iter().any(|it| std::env::var_os(it).is_some_and(|it| !it.is_empty()))
    });
    let has_user = !url.username().is_empty() || url.password().is_some();
    url.scheme() == "http" && !has_user && (is_loopback(url) || !*HAS_PROXY)
}

/// An answer whose body is read piece by piece.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    source: Source,
    /// Where it is recorded.
    tape: Option<ExchangeRecorder>,
    /// How long to wait for the next piece.
    wait: Duration,
    idle: Duration,
}

#[derive(Debug)]
enum Source {
    Remote(reqwest::Response),
    Direct(direct::Response, Url),
    /// From a recording, with the bytes that are still to come.
    Recorded(Response, Option<Bytes>, ExchangeEnd),
}

impl Source {
    /// Returns status and headers of an answer that is none of a recording's.
    fn head(&self) -> Option<(u16, &HeaderMap)> {
        match self {
            Self::Remote(response) => Some((response.status().as_u16(), response.headers())),
            Self::Direct(response, _) => Some((response.status, &response.headers)),
            Self::Recorded(..) => None,
        }
    }
}

impl HttpResponse {
    fn recorded(exchange: Exchange) -> Result<Self, HttpError> {
        let Some(response) = exchange.response else {
            return Err(HttpError::recorded(exchange.end, "no answer came when this was recorded"));
        };
        let bytes = response.body.bytes().map(Bytes::from);
        let source = Source::Recorded(response, bytes, exchange.end);
        Ok(Self { source, tape: None, wait: Duration::MAX, idle: Duration::MAX })
    }

    pub(crate) fn status(&self) -> u16 {
        match &self.source {
            Source::Remote(response) => response.status().as_u16(),
            Source::Direct(response, _) => response.status,
            Source::Recorded(response, _, _) => response.status,
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status())
    }

    /// Returns a header's value if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        match &self.source {
            Source::Recorded(response, _, _) => response.headers.get(name).map(String::as_str),
            live => live.head()?.1.get(name)?.to_str().ok(),
        }
    }

    /// Returns the next piece of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let chunk = match &mut self.source {
            Source::Remote(response) => {
                let chunk = within(self.wait, pin!(response.chunk())).await;
                chunk.and_then(|chunk| chunk.map_err(|error| HttpError::of(error, response.url())))
            }
            Source::Direct(response, url) => {
                let chunk = within(self.wait, pin!(response.chunk())).await;
                chunk.and_then(|chunk| chunk.map_err(|error| HttpError::broke(url, error)))
            }
            Source::Recorded(_, bytes, end) => match (bytes.take(), *end) {
                (Some(bytes), _) if !bytes.is_empty() => Ok(Some(bytes)),
                (_, ExchangeEnd::Complete) => Ok(None),
                (_, end) => {
                    Err(HttpError::recorded(end, "the answer broke off when this was recorded"))
                }
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
        message: format!("nothing came for {} seconds", time.as_secs_f64()),
        source: None,
    })
}
