//! Proxy settings from the environment.

use std::net::IpAddr;

use http::{HeaderValue, Uri, uri::Scheme};
use url::{Host, Url};

use super::head::basic;

/// The proxies that the environment names, by the variables and rules of curl.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    exceptions: Vec<Exception>,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) scheme: ProxyScheme,
    /// Without brackets.
    pub(super) host: Box<str>,
    pub(super) port: u16,
    /// The user that it wants to know. `None` means that the environment names none.
    pub(super) authorization: Option<HeaderValue>,
}

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyScheme {
    Http,
    Https,
    /// Known, and not spoken here.
    Socks,
}

/// Servers that no proxy leads to.
#[derive(Debug, PartialEq, Eq)]
enum Exception {
    All,
    /// A domain with all that is below it, without a leading dot.
    Domain(Box<str>),
    /// All addresses that share this number of leading bits.
    Network(IpAddr, u32),
}

impl Proxies {
    /// Reads the environment.
    pub(super) fn from_env() -> Self {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    pub(super) fn from_vars(var: impl Fn(&str) -> Option<String>) -> Self {
        // A CGI program gets `HTTP_PROXY` from a header of the request that it serves.
        if var("REQUEST_METHOD").is_some() {
            return Self::default();
        }
        let first = |upper, lower| var(upper).or_else(|| var(lower)).unwrap_or_default();
        let all = Proxy::parse(&first("ALL_PROXY", "all_proxy"));
        let exceptions = first("NO_PROXY", "no_proxy");
        Self {
            http: Proxy::parse(&first("HTTP_PROXY", "http_proxy")).or_else(|| all.clone()),
            https: Proxy::parse(&first("HTTPS_PROXY", "https_proxy")).or(all),
            exceptions: exceptions.split(',').filter_map(Exception::parse).collect(),
        }
    }

    /// Returns the proxy that leads to a server; servers on this machine are reached without.
    pub(super) fn leading_to(&self, url: &Url) -> Option<&Proxy> {
        let proxy = if url.scheme() == "http" { &self.http } else { &self.https };
        let proxy = proxy.as_ref()?;
        let host = host_of(url);
        let address: Option<IpAddr> = host.parse().ok();
        let is_excepted = || self.exceptions.iter().any(|it| it.covers(host, address));
        (!is_loopback(url) && !is_excepted()).then_some(proxy)
    }
}

impl Proxy {
    /// Reads an address; one without a scheme is of a proxy that speaks HTTP.
    fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let scheme = match uri.scheme() {
            None => ProxyScheme::Http,
            Some(scheme) if *scheme == Scheme::HTTP => ProxyScheme::Http,
            Some(scheme) if *scheme == Scheme::HTTPS => ProxyScheme::Https,
            Some(scheme) if scheme.as_str().starts_with("socks") => ProxyScheme::Socks,
            Some(_) => return None,
        };
        let authority = uri.authority()?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let authorization = user.and_then(|user| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let mut value = HeaderValue::try_from(basic(user, password)).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let port = if scheme == ProxyScheme::Https { 443 } else { 80 };
        let port = authority.port_u16().unwrap_or(port);
        let host = authority.host().trim_matches(['[', ']']).into();
        Some(Self { scheme, host, port, authorization })
    }
}

impl Exception {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Network(address, bits(address)));
        }
        if let Some((address, length)) = text.split_once('/')
            && let (Ok(address), Ok(length)) = (address.parse::<IpAddr>(), length.parse::<u32>())
            && length <= bits(address)
        {
            return Some(Self::Network(address, length));
        }
        match text {
            "" => None,
            "*" => Some(Self::All),
            _ => Some(Self::Domain(text.strip_prefix('.').unwrap_or(text).into())),
        }
    }

    /// Returns `true` if it covers a host, which may be an address.
    fn covers(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::All, None) => true,
            (Self::Domain(domain), None) => {
                let Some(start) = host.len().checked_sub(domain.len()) else { return false };
                let ends_so = host.get(start..).is_some_and(|it| it.eq_ignore_ascii_case(domain));
                ends_so && (start == 0 || host.as_bytes()[start - 1] == b'.')
            }
            (Self::Network(IpAddr::V4(network), length), Some(IpAddr::V4(address))) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= *length
            }
            (Self::Network(IpAddr::V6(network), length), Some(IpAddr::V6(address))) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= *length
            }
            _ => false,
        }
    }
}

/// Returns `true` if a URL names this machine: `localhost`, or a loopback address. Requests to it need neither a proxy nor
/// TLS.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The host of an address, without brackets.
pub(super) fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_matches(['[', ']'])
}

const fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

#[cfg(test)]
mod tests;
