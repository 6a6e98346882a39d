//! Requests to other servers than providers, such as for web pages.

use std::{fmt, io, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use loopwright_core::BoxError;
use url::Url;

use crate::http::{Dial, Http, HttpError, HttpResponse, Timeouts};

/// Requests pages over HTTP/1.1, on connections from a [`Dial`]; clones share their connections.
///
/// It follows no redirects and stores no cookies. With a [`Dial`], it uses no proxy, because a proxy
/// would resolve names itself. With the feature `gzip`, responses can be compressed. Dropping a
/// request closes its connection.
#[derive(Clone, Debug)]
pub struct WebClient(Http);

/// A response whose body has not been read yet. Dropping it closes the connection.
#[derive(Debug)]
pub struct WebResponse(HttpResponse);

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebBody {
    /// The decompressed bytes.
    pub bytes: Vec<u8>,
    /// Whether the body was longer than requested.
    pub is_cut: bool,
}

/// A failed request. It names the server, but neither path nor query.
#[derive(Debug)]
pub struct WebError(HttpError);

impl WebClient {
    /// Creates a client with these timeouts.
    pub fn new(dial: Arc<dyn Dial>, timeouts: Timeouts) -> Self {
        Self(Http::dialing(timeouts, dial))
    }

    /// Makes requests as those of providers, with the proxies of the environment.
    pub fn with_proxies(timeouts: Timeouts) -> Self {
        Self(Http::new(timeouts))
    }

    /// Requests a page.
    ///
    /// # Errors
    ///
    /// Returns an error if no response arrives in time, or a header cannot be sent.
    pub async fn get(&self, url: &Url, headers: &[(&str, &str)]) -> Result<WebResponse, WebError> {
        let headers = headers_of(headers)?;
        self.0.get(url.clone(), headers).await.map(WebResponse).map_err(WebError)
    }

    /// Sends a request with a body, such as JSON.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub async fn post(
        &self,
        url: &Url,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<WebResponse, WebError> {
        let headers = headers_of(headers)?;
        self.0.post(url.clone(), headers, body.into()).await.map(WebResponse).map_err(WebError)
    }
}

impl WebResponse {
    /// Returns the status.
    pub fn status(&self) -> u16 {
        self.0.status()
    }

    /// Returns the value of a header, or `None` if it is missing or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.header(name)
    }

    /// Returns the next piece of the body, decompressed; `None` at its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is lost or times out.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, WebError> {
        self.0.chunk().await.map_err(WebError)
    }

    /// Reads the body, at most this number of bytes after decompression.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is lost or times out.
    pub async fn body(mut self, max_bytes: usize) -> Result<WebBody, WebError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.0.chunk().await.map_err(WebError)? {
            let room = max_bytes - bytes.len();
            bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Ok(WebBody { bytes, is_cut: true });
            }
        }
        Ok(WebBody { bytes, is_cut: false })
    }
}

fn headers_of(pairs: &[(&str, &str)]) -> Result<HeaderMap, WebError> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::try_from(*name).map_err(|error| WebError::invalid(error.into()))?;
        let value =
            HeaderValue::try_from(*value).map_err(|error| WebError::invalid(error.into()))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

impl WebError {
    fn invalid(source: BoxError) -> Self {
        let error = io::Error::new(io::ErrorKind::InvalidInput, source);
        Self(HttpError::invalid_header(error))
    }

    /// Returns `true` if no part of the request was sent, for example because the server refused the
    /// connection. `false` means that the server may have received the request.
    pub fn is_unsent(&self) -> bool {
        self.0.is_unsent
    }
}

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for WebError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
