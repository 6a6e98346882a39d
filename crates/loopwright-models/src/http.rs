//! Carries requests to providers.

use std::{
    error::Error as _,
    fmt,
    future::Future,
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use loopwright_core::{BoxError, ModelErrorKind};
use reqwest::{Client, RequestBuilder, Url, header::HeaderMap, redirect};

/// How long to wait for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the first byte of an answer's body. Long: a provider may think before it says anything.
    pub first_byte: Duration,
    /// For every further piece of an answer.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::new(10 * 60, 0),
            idle: Duration::new(5 * 60, 0),
        }
    }
}

/// Carries requests over HTTP; clones share their connections.
///
/// Redirects are not followed, because a key must not be sent to anyone else. Servers on this machine
/// are spoken to without a proxy. Dropping a request closes its connection.
#[derive(Clone, Default)]
pub struct Http(Arc<Inner>);

#[derive(Default)]
struct Inner {
    timeouts: Timeouts,
    remote: OnceLock<Client>,
    local: OnceLock<Client>,
}

impl Http {
    /// Carries requests within these times.
    pub fn new(timeouts: Timeouts) -> Self {
        Self(Arc::new(Inner { timeouts, ..Inner::default() }))
    }

    pub(crate) async fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, HttpError> {
        let client = self.client(&url)?;
        self.send(client.post(url.clone()).headers(headers).body(body), &url).await
    }

    pub(crate) async fn get(&self, url: Url, headers: HeaderMap) -> Result<Answer, HttpError> {
        let client = self.client(&url)?;
        self.send(client.get(url.clone()).headers(headers), &url).await
    }

    async fn send(&self, request: RequestBuilder, url: &Url) -> Result<Answer, HttpError> {
        let timeouts = self.0.timeouts;
        let sent = within(timeouts.first_byte, request.send()).await?;
        let response = sent.map_err(|error| HttpError::of(error, url))?;
        Ok(Answer { response, wait: timeouts.first_byte, idle: timeouts.idle })
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
            .user_agent(concat!("loopwright/", env!("CARGO_PKG_VERSION")));
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

/// An answer whose body is read piece by piece.
#[derive(Debug)]
pub(crate) struct Answer {
    response: reqwest::Response,
    /// How long to wait for the next piece.
    wait: Duration,
    idle: Duration,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn is_success(&self) -> bool {
        self.response.status().is_success()
    }

    /// Returns a header's value if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Returns the next piece of the body; nothing at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let chunk = within(self.wait, self.response.chunk()).await?;
        self.wait = self.idle;
        chunk.map_err(|error| HttpError::of(error, self.response.url()))
    }

    /// Returns the body, or as much of it as arrives and fits.
    pub(crate) async fn body(mut self, most: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = self.chunk().await {
            body.extend_from_slice(&chunk[..chunk.len().min(most - body.len())]);
            if body.len() == most {
                break;
            }
        }
        body
    }

    /// Reads what is left, if it comes at once, so that the connection can be used again.
    pub(crate) async fn drain(mut self) {
        const PATIENCE: Duration = Duration::from_millis(20);
        self.wait = PATIENCE;
        self.idle = PATIENCE;
        for _ in 0..4 {
            if !matches!(self.chunk().await, Ok(Some(_))) {
                return;
            }
        }
    }
}

/// Why an answer did not arrive. Says where to but shows neither path, query nor user of the address.
#[derive(Debug)]
pub(crate) struct HttpError {
    pub(crate) kind: ModelErrorKind,
    pub(crate) message: String,
    pub(crate) source: Option<BoxError>,
}

impl HttpError {
    fn of(error: reqwest::Error, url: &Url) -> Self {
        let place = url.origin().ascii_serialization();
        let (kind, message) = if error.is_connect() && error.is_timeout() {
            (ModelErrorKind::Timeout, format!("no connection to {place} in time"))
        } else if error.is_connect() {
            (ModelErrorKind::Network, format!("no connection to {place}"))
        } else if error.is_timeout() {
            (ModelErrorKind::Timeout, format!("no answer from {place} in time"))
        } else if error.is_builder() {
            (ModelErrorKind::InvalidRequest, "the request cannot be sent".to_owned())
        } else {
            (ModelErrorKind::Network, format!("the connection to {place} broke"))
        };
        let message = match root(&error) {
            Some(cause) => format!("{message}: {cause}"),
            None => message,
        };
        Self { kind, message, source: Some(error.without_url().into()) }
    }
}

fn root(error: &reqwest::Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(next) = cause.source() {
        cause = next;
    }
    Some(cause.to_string())
}

async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Result<T, HttpError> {
    tokio::time::timeout(time, future).await.map_err(|_| HttpError {
        kind: ModelErrorKind::Timeout,
        message: format!("nothing came for {} seconds", time.as_secs_f64()),
        source: None,
    })
}
