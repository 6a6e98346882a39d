//! The proxy that the user of this machine has, which some networks can only be left through.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The proxy of the agent's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Upstream {
    /// `host:port`.
    place: String,
    /// The value of the header with its password.
    authorization: Option<String>,
    /// Hosts that are reached without it.
    direct: Vec<String>,
}

/// How a host is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By a tunnel.
    Tunnel,
    /// By a request in plain text.
    Plain,
}

const VARIABLES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "http_proxy", "HTTP_PROXY"];

/// The head of an answer is not longer.
const MAX_HEAD: usize = 16 << 10;

impl Upstream {
    /// Returns the proxy that these variables name. One that does not speak HTTP is not used.
    pub(super) fn found(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let value =
            VARIABLES.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))?;
        let direct = variable("NO_PROXY").or_else(|| variable("no_proxy")).unwrap_or_default();
        let direct = direct
            .split(',')
            .map(|name| name.trim().trim_start_matches("*.").trim_start_matches('.'));
        let direct = direct.filter(|name| !name.is_empty()).map(str::to_ascii_lowercase).collect();
        let rest = match value.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return None,
            None => value.as_str(),
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let place = if has_port { place.to_owned() } else { format!("{place}:80") };
        let authorization = user.map(|user| format!("Basic {}", base64(&decoded(user))));
        Some(Self { place, authorization, direct })
    }

    pub(super) fn is_for(&self, host: &str) -> bool {
        !self.direct.iter().any(|name| {
            name == "*"
                || host == name
                || host.strip_suffix(name.as_str()).is_some_and(|it| it.ends_with('.'))
        })
    }

    /// Connects with a host; for a plain request, with the proxy itself.
    pub(super) async fn connect(&self, host: &str, port: u16, way: Way) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.place).await?;
        if way == Way::Plain {
            return Ok(stream);
        }
        let mut head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        self.authorize(&mut head);
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        // Byte by byte: what comes after the head belongs to the host.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > MAX_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            answer.push(stream.read_u8().await?);
        }
        let first = String::from_utf8_lossy(&answer);
        let first = first.lines().next().unwrap_or_default();
        match first.split(' ').nth(1) {
            Some("200") => Ok(stream),
            _ => Err(io::Error::other(format!("this machine's proxy responded with `{first}`"))),
        }
    }

    /// Names the host in the first line of a request again, as a proxy expects it.
    pub(super) fn head(&self, host: &str, port: u16, head: Vec<u8>) -> Vec<u8> {
        let Ok(text) = String::from_utf8(head) else { return Vec::new() };
        let Some((method, rest)) = text.split_once(' ') else { return Vec::new() };
        let Some((first, rest)) = rest.split_once("\r\n") else { return Vec::new() };
        let mut head = format!("{method} http://{host}:{port}{first}\r\n");
        self.authorize(&mut head);
        head.push_str(rest);
        head.into_bytes()
    }

    fn authorize(&self, head: &mut String) {
        if let Some(value) = &self.authorization {
            head.extend(["Proxy-Authorization: ", value, "\r\n"]);
        }
    }
}

/// Resolves `%` and two digits.
fn decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|_| *byte == b'%').and_then(|it| std::str::from_utf8(it).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    decoded
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let get = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = get(0) << 16 | get(1) << 8 | get(2);
        for index in 0..4_usize {
            let digit = DIGITS[(word >> (18 - 6 * index) & 63) as usize];
            text.push(if index <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Upstream, base64};

    fn found(variables: &[(&str, &str)]) -> Option<Upstream> {
        let value = |name: &str| {
            let variable = variables.iter().find(|(known, _)| *known == name);
            variable.map(|(_, value)| (*value).to_owned())
        };
        Upstream::found(value)
    }

    #[test]
    fn the_environment_names_the_proxy_and_who_needs_none() {
        let upstream = found(&[
            ("HTTPS_PROXY", "http://ann:pass%40word@proxy.internal:3128/"),
            ("NO_PROXY", "localhost, .internal,example.com"),
        ]);
        let upstream = upstream.unwrap();
        assert_eq!(upstream.place, "proxy.internal:3128");
        assert_eq!(upstream.authorization.as_deref(), Some("Basic YW5uOnBhc3NAd29yZA=="));
        let hosts = ["a.internal", "example.com", "b.example.com", "notexample.com", "crates.io"];
        assert_eq!(hosts.map(|host| upstream.is_for(host)), [false, false, false, true, true]);
        assert_eq!(found(&[("http_proxy", "proxy")]).unwrap().place, "proxy:80");
        assert_eq!(found(&[("ALL_PROXY", "socks5://127.0.0.1:1080")]), None);
        assert_eq!(found(&[("HTTPS_PROXY", "")]), None);
    }

    #[test]
    fn a_plain_request_names_its_host_to_the_proxy() {
        let upstream = found(&[("HTTPS_PROXY", "http://a:b@proxy:1")]).unwrap();
        let head = b"GET /path HTTP/1.1\r\nHost: granted.example\r\n\r\n".to_vec();
        let head = upstream.head("granted.example", 80, head);
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "GET http://granted.example:80/path HTTP/1.1\r\nProxy-Authorization: Basic YTpi\r\n\
             Host: granted.example\r\n\r\n"
        );
    }

    #[test]
    fn base64_is_padded() {
        let texts = ["", "f", "fo", "foo", "foob"];
        assert_eq!(
            texts.map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
