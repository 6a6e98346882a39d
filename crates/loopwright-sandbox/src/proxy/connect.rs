//! Connecting with hosts that were granted.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::upstream::{Upstream, Way};
use crate::access::Log;
use crate::address::is_public_address;
use crate::domain::AllowedDomain;

/// How long a host may take to respond.
const CONNECTING: Duration = Duration::from_secs(30);

/// Addresses of one host that are tried.
const MAX_ADDRESSES: usize = 8;

/// Knows what was granted, and the way there.
pub(super) struct Connector {
    domains: Vec<AllowedDomain>,
    upstream: Option<Upstream>,
}

/// Where a host is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// At one of these addresses. It is not looked up a second time, since the answer could be another one.
    At(Vec<SocketAddr>),
    /// Only the proxy of this machine's user knows.
    Upstream,
}

/// Why a host is not reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It may not be.
    Forbidden(String),
    /// It cannot be.
    Unreachable(String),
}

impl Refused {
    /// Records it. Returns a status of HTTP and the reason.
    pub(super) fn record(self, log: &Log, host: &str, port: u16) -> (u16, String) {
        match self {
            Self::Forbidden(reason) => {
                log.refuse(host, port, &reason);
                (403, reason)
            }
            Self::Unreachable(reason) => {
                log.fail_to_reach(host, port, &reason);
                (502, reason)
            }
        }
    }
}

impl Connector {
    pub(super) fn new(domains: Vec<AllowedDomain>, upstream: Option<Upstream>) -> Self {
        Self { domains, upstream }
    }

    /// Decides whether a host may be reached. A refused name is not resolved: its text could leak
    /// data to whatever server answers for it.
    pub(super) fn grants(&self, host: &str, port: u16) -> Result<(), Refused> {
        if self.domains.iter().any(|domain| domain.matches(host, port)) {
            return Ok(());
        }
        let is_named = self.domains.iter().any(|domain| domain.names(host));
        Err(Refused::Forbidden(if is_named {
            format!("port {port} of `{host}` is not granted")
        } else {
            format!("`{host}` is not a granted host")
        }))
    }

    /// Finds the addresses of a host that was granted.
    pub(super) async fn resolve(&self, host: &str, port: u16) -> Result<Server, Refused> {
        let given = self.domains.iter().filter(|domain| domain.matches(host, port));
        let given: Vec<IpAddr> = given.filter_map(AllowedDomain::address).collect();
        if !given.is_empty() {
            return Ok(Server::At(given.into_iter().map(|at| SocketAddr::new(at, port)).collect()));
        }
        if self.upstream_for(host).is_some() {
            return Ok(Server::Upstream);
        }
        let unreachable = |error: &dyn std::fmt::Display| {
            Refused::Unreachable(format!("`{host}` cannot be resolved: {error}"))
        };
        let found = match timeout(CONNECTING, lookup_host((host, port))).await {
            Ok(found) => found.map_err(|error| unreachable(&error))?,
            Err(late) => return Err(unreachable(&late)),
        };
        public(host, found)
    }

    /// Connects with a host, at one of the addresses that were found.
    pub(super) async fn connect(
        &self,
        host: &str,
        port: u16,
        server: &Server,
        way: Way,
    ) -> Result<TcpStream, Refused> {
        let connecting = async {
            match (server, self.upstream_for(host)) {
                (Server::At(addresses), _) => TcpStream::connect(addresses.as_slice()).await,
                (Server::Upstream, Some(upstream)) => upstream.connect(host, port, way).await,
                (Server::Upstream, None) => Err(io::ErrorKind::NotConnected.into()),
            }
        };
        let connected = match timeout(CONNECTING, connecting).await {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(late) => Err(late.to_string()),
        };
        connected
            .map_err(|error| Refused::Unreachable(format!("`{host}` cannot be reached: {error}")))
    }

    /// Returns the head of a plain request as the next server expects it.
    pub(super) fn head_for(
        &self,
        host: &str,
        port: u16,
        head: Vec<u8>,
        server: &Server,
    ) -> Vec<u8> {
        match (server, self.upstream_for(host)) {
            (Server::Upstream, Some(upstream)) => upstream.head(host, port, head),
            _ => head,
        }
    }

    fn upstream_for(&self, host: &str) -> Option<&Upstream> {
        self.upstream.as_ref().filter(|upstream| upstream.is_for(host))
    }
}

/// Leaves out the addresses that no name may lead to.
fn public(host: &str, found: impl Iterator<Item = SocketAddr>) -> Result<Server, Refused> {
    let (allowed, others): (Vec<SocketAddr>, Vec<SocketAddr>) =
        found.take(MAX_ADDRESSES * 4).partition(|address| is_public_address(address.ip()));
    if allowed.is_empty() {
        let reason = match others.first() {
            Some(address) => {
                format!("`{host}` resolves to {}, which is not a public address", address.ip())
            }
            None => return Err(Refused::Unreachable(format!("`{host}` has no address"))),
        };
        return Err(Refused::Forbidden(reason));
    }
    Ok(Server::At(allowed.into_iter().take(MAX_ADDRESSES).collect()))
}

#[cfg(test)]
mod tests {
    use super::{Connector, Refused, Server, public};

    fn connector(domains: &[&str]) -> Connector {
        Connector::new(domains.iter().map(|text| text.parse().unwrap()).collect(), None)
    }

    #[test]
    fn only_granted_hosts_and_ports_are_reached() {
        let connector = connector(&["granted.example", "*.below.example", "ported.example:8443"]);
        for (host, port, is_granted) in [
            ("granted.example", 443, true),
            ("granted.example", 22, false),
            ("other.example", 443, false),
            ("granted.example.other.example", 443, false),
            ("a.below.example", 80, true),
            ("below.example", 443, false),
            ("ported.example", 8443, true),
            ("ported.example", 443, false),
        ] {
            assert_eq!(connector.grants(host, port).is_ok(), is_granted, "{host}:{port}");
        }
    }

    #[test]
    fn an_answer_with_private_addresses_leads_to_the_others_only() {
        let addresses = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|text| text.parse().unwrap()).collect();
            public("rebinding.example", texts.into_iter())
        };
        let mixed = addresses(&["127.0.0.1:443", "1.1.1.1:443", "[::1]:443"]);
        assert_eq!(mixed, Ok(Server::At(vec!["1.1.1.1:443".parse().unwrap()])));
        let private = addresses(&["[::ffff:169.254.169.254]:443"]);
        assert!(matches!(private, Err(Refused::Forbidden(_))));
        assert!(matches!(addresses(&[]), Err(Refused::Unreachable(_))));
    }

    #[tokio::test]
    async fn a_host_with_an_address_of_its_own_is_not_looked_up() {
        let connector = connector(&["internal.example@10.0.0.5"]);
        let found = connector.resolve("internal.example", 443).await;
        assert_eq!(found, Ok(Server::At(vec!["10.0.0.5:443".parse().unwrap()])));
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_refused() {
        let connector = connector(&["localhost"]);
        let found = connector.resolve("localhost", 443).await;
        assert!(matches!(found, Err(Refused::Forbidden(_))), "{found:?}");
    }
}
