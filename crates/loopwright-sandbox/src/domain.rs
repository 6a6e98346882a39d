//! Hosts that a command may reach by name.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A host that a command may reach by name, as written in a configuration.
///
/// | text | what may be reached |
/// |---|---|
/// | `example.com` | the host, on port 443 with TLS and on port 80 with HTTP |
/// | `*.example.com` | all hosts below the domain, not the domain itself |
/// | `example.com:8443` | the host on this port alone |
/// | `registry.internal@10.0.0.5` | the host at this address alone, which may be a private one |
///
/// ```
/// use loopwright_sandbox::AllowedDomain;
///
/// let domain: AllowedDomain = "*.Example.com".parse().unwrap();
/// assert_eq!(domain.to_string(), "*.example.com");
/// assert!(domain.matches("static.example.com", 443));
/// assert!(!domain.matches("example.com", 443));
/// assert!(!domain.matches("static.example.com", 22));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowedDomain {
    name: String,
    is_below: bool,
    port: Option<u16>,
    address: Option<IpAddr>,
}

/// The error of an invalid host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host name; write `example.com`, `*.example.com` or `example.com:8443`")]
pub struct InvalidDomain(String);

/// Ports that a host may be reached on when none is named.
const USUAL_PORTS: [u16; 2] = [443, 80];

impl AllowedDomain {
    /// Returns `true` if this host may be reached on this port. The host must be in lowercase.
    pub fn matches(&self, host: &str, port: u16) -> bool {
        let is_port = self.port.map_or_else(|| USUAL_PORTS.contains(&port), |own| own == port);
        is_port && self.names(host)
    }

    /// Returns `true` if the host matches, on any port.
    pub fn names(&self, host: &str) -> bool {
        if !self.is_below {
            return self.name == host;
        }
        let start = host.strip_suffix(self.name.as_str());
        start.is_some_and(|start| start.len() > 1 && start.ends_with('.'))
    }

    /// Returns the fixed address of the host, if there is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Returns the name without a pattern, or `None` if this is a pattern.
    pub fn host(&self) -> Option<&str> {
        (!self.is_below).then_some(self.name.as_str())
    }
}

/// Returns a host name in small letters without the dot at its end, or `None` if it is none, or if
/// it is an address. Programs read texts such as `0x7f.1` or `2130706433` as addresses, so a name
/// has to end with a letter's label.
pub(crate) fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            && !label.starts_with('-')
    };
    let last = name.rsplit('.').next()?;
    let is_number = last.starts_with(|first: char| first.is_ascii_digit());
    let is_name = name.len() <= 253 && name.split('.').all(is_label) && !is_number;
    is_name.then(|| name.to_ascii_lowercase())
}

impl FromStr for AllowedDomain {
    type Err = InvalidDomain;

    fn from_str(text: &str) -> Result<Self, InvalidDomain> {
        let invalid = || InvalidDomain(text.chars().take(200).collect());
        let (place, address) = match text.trim().split_once('@') {
            Some((place, address)) => {
                let address = address.trim_start_matches('[').trim_end_matches(']');
                (place, Some(address.parse().map_err(|_| invalid())?))
            }
            None => (text.trim(), None),
        };
        let (name, port) = match place.split_once(':') {
            Some((name, port)) => {
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|port| is_number && *port != 0);
                (name, Some(port.ok_or_else(invalid)?))
            }
            None => (place, None),
        };
        let below = name.strip_prefix("*.");
        let name = host_name(below.unwrap_or(name)).ok_or_else(invalid)?;
        // A pattern for a whole top-level domain names nobody.
        let is_too_wide = below.is_some() && !name.contains('.');
        if is_too_wide || (below.is_some() && address.is_some()) {
            return Err(invalid());
        }
        Ok(Self { name, is_below: below.is_some(), port, address })
    }
}

impl fmt::Display for AllowedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_below {
            f.write_str("*.")?;
        }
        f.write_str(&self.name)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match self.address {
            Some(address) => write!(f, "@{address}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for AllowedDomain {
    type Error = InvalidDomain;

    fn try_from(text: String) -> Result<Self, InvalidDomain> {
        text.parse()
    }
}

impl From<AllowedDomain> for String {
    fn from(domain: AllowedDomain) -> Self {
        domain.to_string()
    }
}

#[cfg(test)]
mod tests;
