//! The head of a request to the proxy.

use crate::domain::host_name;

/// A request that can be understood in one way only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) kind: Kind,
}

/// What is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A connection for TLS.
    Tunnel,
    /// A request in plain text, with the head that the server gets, and the length of the body.
    Plain { head: Vec<u8>, body: u64 },
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadRequest {
    pub(super) status: u16,
    pub(super) reason: &'static str,
    /// The host that was named, if one was.
    pub(super) host: Option<String>,
}

/// A head is not longer.
pub(super) const MAX_HEAD: usize = 64 << 10;

/// Headers that concern the connection to the proxy, or that could make of it something else.
const OF_THE_CONNECTION: [&str; 11] = [
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "http2-settings",
    "expect",
    "host",
];

fn bad(status: u16, reason: &'static str) -> BadRequest {
    BadRequest { status, reason, host: None }
}

/// Reads a head, which ends with an empty line.
pub(super) fn read(head: &[u8]) -> Result<Request, BadRequest> {
    const MALFORMED: &str = "the request is malformed";
    let head = head.strip_suffix(b"\r\n\r\n").ok_or(bad(400, MALFORMED))?;
    let head = std::str::from_utf8(head).map_err(|_| bad(400, MALFORMED))?;
    let mut lines = head.split("\r\n");
    let is_clean = |line: &str| line.bytes().all(|byte| byte == b'\t' || (32..127).contains(&byte));
    let first = lines.next().filter(|line| is_clean(line)).ok_or(bad(400, MALFORMED))?;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(bad(400, MALFORMED))?;
        // A value may hold text of any language, and no line of its own.
        let is_value = !value.bytes().any(|byte| byte == b'\r' || byte == b'\n' || byte == 0);
        if !is_token(name) || !is_value {
            return Err(bad(400, MALFORMED));
        }
        headers.push((name, value.trim_matches([' ', '\t'])));
    }
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad(400, MALFORMED));
    };
    if !is_token(method) || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(bad(400, MALFORMED));
    }
    let (host, port, path) = if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        (host, port, None)
    } else {
        let (host, port, path) = absolute(target)?;
        (host, port, Some(path))
    };
    let named = |reason| BadRequest { status: 403, reason, host: Some(host.clone()) };
    let default = if path.is_some() { 80 } else { 443 };
    check_host(&headers, (&host, port, default)).map_err(named)?;
    let kind = match path {
        None => Kind::Tunnel,
        Some(path) => {
            let body = body_length(&headers)?;
            let host = if port == 80 { host.clone() } else { format!("{host}:{port}") };
            let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
            for (name, value) in &headers {
                if !OF_THE_CONNECTION.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                    head.extend([name, ": ", value, "\r\n"]);
                }
            }
            head.push_str("Connection: close\r\n\r\n");
            Kind::Plain { head: head.into_bytes(), body }
        }
    };
    Ok(Request { host, port, kind })
}

/// A request names its host twice, and both times the same one.
fn check_host(
    headers: &[(&str, &str)],
    (host, port, default): (&str, u16, u16),
) -> Result<(), &'static str> {
    const OTHER: &str = "the header `Host` names a different server than the request";
    let mut named = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let Some((_, value)) = named.next() else { return Ok(()) };
    match authority(value, Some(default)) {
        Ok((of, at)) if of == host && at == port && named.next().is_none() => Ok(()),
        _ => Err(OTHER),
    }
}

fn body_length(headers: &[(&str, &str)]) -> Result<u64, BadRequest> {
    let is = |name: &str, known: &str| name.eq_ignore_ascii_case(known);
    if headers.iter().any(|(name, _)| is(name, "transfer-encoding")) {
        return Err(bad(411, "a request in plain text needs the header `Content-Length`"));
    }
    let mut lengths = headers.iter().filter(|(name, _)| is(name, "content-length"));
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(0),
        (Some((_, length)), None) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().map_err(|_| bad(400, "the request is malformed"))
        }
        _ => Err(bad(400, "the request is malformed")),
    }
}

/// Reads `http://host:port/path`. Without it, a request is one for the proxy itself.
fn absolute(target: &str) -> Result<(String, u16, String), BadRequest> {
    let is_plain = |scheme: &str| scheme.eq_ignore_ascii_case("http");
    let rest = match target.split_once("://") {
        Some((scheme, rest)) if is_plain(scheme) => rest,
        Some(_) => {
            return Err(bad(400, "plain-text requests through the proxy must use `http://`"));
        }
        None => return Err(bad(400, "this is a proxy, not a server")),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = authority(&rest[..end], Some(80))?;
    let path = &rest[end..];
    if path.contains('#') {
        return Err(bad(400, "the request is malformed"));
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((host, port, path))
}

/// Reads `host:port`. A user name is refused, because it could be taken for the host.
fn authority(text: &str, default: Option<u16>) -> Result<(String, u16), BadRequest> {
    let refused = |reason| {
        let shown: String = text.chars().filter(char::is_ascii_graphic).take(100).collect();
        BadRequest { status: 403, reason, host: Some(shown) }
    };
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            (name, port.parse().map_err(|_| refused("the port is not a number"))?)
        }
        Some(_) => return Err(refused("the host is not a valid host name")),
        None => (text, default.ok_or(refused("the port is missing"))?),
    };
    match host_name(name) {
        Some(host) => Ok((host, port)),
        None => Err(refused("the host is not a valid host name")),
    }
}

fn is_token(text: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

#[cfg(test)]
mod tests;
