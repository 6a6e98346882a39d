//! The heads of requests and responses.

use std::io;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::{
    Method,
    header::{
        self, ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, HOST, HeaderMap, HeaderName,
        HeaderValue,
    },
};
use percent_encoding::percent_decode_str;
use url::{Position, Url};

use super::proxy::Proxy;

/// What this program calls itself.
pub(super) const USER_AGENT: &str = concat!("loopwright/", env!("CARGO_PKG_VERSION"));

/// A head that is longer than this is none.
const MAX_LENGTH: usize = 64 * 1024;

/// The most headers that an answer may have.
const MAX: usize = 100;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// The server leaves the connection open.
    pub(super) is_kept: bool,
}

/// What a request's head depends on besides the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Route<'p> {
    /// The proxy that reads the request and passes it on. `None` means that the server reads it, perhaps through the tunnel of a
    /// proxy.
    pub(super) proxy: Option<&'p Proxy>,
    /// A compressed answer is welcome.
    pub(super) accepts_gzip: bool,
}

/// Writes the head of a request whose body has this length.
pub(super) fn write_head(
    method: &Method,
    url: &Url,
    headers: &HeaderMap,
    length: usize,
    route: Route<'_>,
) -> Vec<u8> {
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let server = if route.proxy.is_some() { ["http://", authority(url)] } else { [""; 2] };
    let mut head = Vec::with_capacity(512);
    for part in [method.as_str(), " ", server[0], server[1], target, " HTTP/1.1\r\n"] {
        head.extend_from_slice(part.as_bytes());
    }
    let mut line = |name: &[u8], value: &[u8]| {
        for part in [name, b": ", value, b"\r\n"] {
            head.extend_from_slice(part);
        }
    };
    line(b"host", headers.get(HOST).map_or(authority(url).as_bytes(), HeaderValue::as_bytes));
    if !headers.contains_key(header::USER_AGENT) {
        line(b"user-agent", USER_AGENT.as_bytes());
    }
    if !headers.contains_key(ACCEPT) {
        line(b"accept", b"*/*");
    }
    let is_compressed = route.accepts_gzip && !headers.contains_key(ACCEPT_ENCODING);
    line(b"accept-encoding", if is_compressed { b"gzip" } else { b"identity" });
    if !headers.contains_key(AUTHORIZATION)
        && let Some(user) = user_of(url)
    {
        line(b"authorization", user.as_bytes());
    }
    if let Some(value) = route.proxy.and_then(|proxy| proxy.authorization.as_ref()) {
        line(b"proxy-authorization", value.as_bytes());
    }
    for (name, value) in headers.iter().filter(|(name, _)| !is_own(name)) {
        line(name.as_str().as_bytes(), value.as_bytes());
    }
    if length > 0 || method == Method::POST {
        line(b"content-length", length.to_string().as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Writes the head of the request that asks a proxy for a tunnel to a server.
pub(super) fn write_tunnel_head(to: &str, proxy: &Proxy) -> Vec<u8> {
    let mut head = format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\nuser-agent: {USER_AGENT}\r\n");
    if let Some(value) = proxy.authorization.as_ref().and_then(|value| value.to_str().ok()) {
        head.extend(["proxy-authorization: ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// The user whom an address names, as a header does.
fn user_of(url: &Url) -> Option<String> {
    let has_user = !url.username().is_empty() || url.password().is_some();
    has_user.then(|| basic(url.username(), url.password().unwrap_or_default()))
}

/// Writes a user, percent-encoded as in an address, for a header.
pub(super) fn basic(user: &str, password: &str) -> String {
    let decode = |text| percent_decode_str(text).decode_utf8_lossy();
    format!("Basic {}", BASE64.encode(format!("{}:{}", decode(user), decode(password))))
}

/// What is said here about the connection and the body, whatever a caller says.
fn is_own(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "host"
            | "accept-encoding"
            | "connection"
            | "content-length"
            | "expect"
            | "transfer-encoding"
    )
}

/// Reads a head and its length. Returns `None` if it is not there as a whole.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(usize, Head)>> {
    let mut parsed = [httparse::EMPTY_HEADER; MAX];
    let mut response = httparse::Response::new(&mut parsed);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_LENGTH => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(invalid("the response headers are too long")),
        Err(error) => return Err(invalid(&format!("the response is not HTTP: {error}"))),
    };
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for header in response.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(header.value)) else {
            return Err(invalid("the response is not HTTP: invalid header"));
        };
        headers.append(name, value);
    }
    let says = |word: &str| {
        let values = headers.get_all(CONNECTION).into_iter();
        values.flat_map(names).any(|it| it.eq_ignore_ascii_case(word))
    };
    let is_kept = if response.version == Some(1) { !says("close") } else { says("keep-alive") };
    let status = response.code.unwrap_or_default();
    Ok(Some((length, Head { status, headers, is_kept })))
}

/// Says what is wrong with an answer.
pub(super) fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests;

/// The server of an address, as a `Host` header names it.
pub(super) fn authority(url: &Url) -> &str {
    &url[Position::BeforeHost..Position::AfterPort]
}

/// Reads one value of a header as a list.
pub(super) fn names(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or_default().split(',').map(str::trim)
}
