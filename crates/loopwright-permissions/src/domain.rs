//! Hosts of URLs, and patterns of hosts.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns the host of a URL in small letters, or `None` if programs could read the URL in different ways.
pub(crate) fn host(url: &str) -> Option<String> {
    let is_odd = |c: char| !c.is_ascii_graphic() || matches!(c, '\\' | '%');
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    // Some programs read `https://a#@b` as a request to `b`.
    let is_cut = rest[authority.len()..].starts_with(['?', '#']) && rest.contains('@');
    let is_scheme =
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !is_scheme || scheme.is_empty() || authority.contains(is_odd) || url.contains('\\') || is_cut
    {
        return None;
    }
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    plain(host)
}

/// Returns a host without its port and in small letters.
pub(crate) fn plain(host: &str) -> Option<String> {
    let name = if host.starts_with('[') {
        let (name, port) = host.split_once(']')?;
        if !(port.is_empty() || is_port(port)) {
            return None;
        }
        // An address has many forms.
        let address: Ipv6Addr = name[1..].parse().ok()?;
        return Some(
            address.to_ipv4_mapped().map_or_else(|| format!("[{address}]"), |it| it.to_string()),
        );
    } else {
        match host.split_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some(_) => return None,
            None => host,
        }
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    (is_name && !is_odd_address(name)).then(|| name.to_ascii_lowercase())
}

/// Returns `true` for a number such as `2130706433`, `0x7f.1` or `127.1`, which programs read as an address, unless it has
/// the usual form.
fn is_odd_address(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let digits = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_number = match digits {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    is_number && name.parse::<Ipv4Addr>().is_err()
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A pattern of hosts: `example.com`, `*.example.com` or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DomainPattern {
    Any,
    Host(String),
    /// All hosts below a domain, and not the domain itself.
    Below(String),
}

impl DomainPattern {
    /// Reads a pattern. Returns `None` if it can be no host.
    pub(crate) fn new(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        let below = text.strip_prefix("*.");
        let name = below.unwrap_or(text);
        if name.contains(':') && !name.starts_with('[') || name.ends_with('.') {
            return None;
        }
        let name = plain(name).filter(|name| !name.starts_with('.') && !name.contains(".."))?;
        Some(if below.is_some() { Self::Below(name) } else { Self::Host(name) })
    }

    pub(crate) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Host(name) => name == host,
            Self::Below(name) => host
                .strip_suffix(name.as_str())
                .is_some_and(|start| start.len() > 1 && start.ends_with('.')),
        }
    }

    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Below(one), Self::Below(other)) => {
                one == other || other.ends_with(&format!(".{one}"))
            }
            (pattern, Self::Host(host)) => pattern.matches(host),
            _ => false,
        }
    }
}
