//! The heads of requests and of answers.

use std::io;

use reqwest::{
    Method, Url,
    header::{self, ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue},
};

use super::{
    USER_AGENT,
    direct::{authority, names},
};

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

/// Writes the head of a request whose body has this length.
pub(super) fn write_head(
    method: &Method,
    url: &Url,
    headers: &HeaderMap,
    length: usize,
) -> Vec<u8> {
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut head = Vec::with_capacity(512);
    for part in [method.as_str(), " ", target, " HTTP/1.1\r\n"] {
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
    // Nobody is in the way whom it would help.
    line(b"accept-encoding", b"identity");
    for (name, value) in headers.iter().filter(|(name, _)| !is_own(name)) {
        line(name.as_str().as_bytes(), value.as_bytes());
    }
    if length > 0 || method == Method::POST {
        line(b"content-length", length.to_string().as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    head
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

/// Reads a head and its length; `None` if it is not there as a whole.
pub(super) fn parse(bytes: &[u8]) -> io::Result<Option<(usize, Head)>> {
    let mut parsed = [httparse::EMPTY_HEADER; MAX];
    let mut response = httparse::Response::new(&mut parsed);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_LENGTH => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(invalid("its head is too long")),
        Err(error) => return Err(invalid(&format!("what it says is not HTTP: {error}"))),
    };
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for header in response.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(header.value)) else {
            return Err(invalid("what it says is not HTTP: invalid header"));
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
