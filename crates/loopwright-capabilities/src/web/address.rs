//! Reachable addresses.

use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use loopwright_models::Dial;
use loopwright_sandbox::is_public_address;
use tokio::net::{TcpStream, lookup_host};

/// Addresses of one host that are tried.
const MAX_ADDRESSES: usize = 4;

/// The network for page requests. It resolves names and connects to addresses; between the two, the
/// addresses are checked.
#[async_trait]
pub trait WebNetwork: Send + Sync {
    /// Resolves a name to its addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if the name cannot be resolved.
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Connects to a checked address. Dropping the future ends the attempt.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The network of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNetwork;

#[async_trait]
impl WebNetwork for SystemNetwork {
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host((host, port)).await?.collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

/// Connects with machines of the internet only.
pub(super) struct PublicOnly<N>(pub(super) N);

#[async_trait]
impl<N: WebNetwork> Dial for PublicOnly<N> {
    async fn dial(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let found = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => self.0.lookup(host, port).await?,
        };
        let (public, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| is_public_address(address.ip()));
        let mut failed = match others.first() {
            Some(address) => io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the host resolves to {}, which is not a public address", address.ip()),
            ),
            None => io::Error::new(io::ErrorKind::NotFound, "the host has no address"),
        };
        for address in public.into_iter().take(MAX_ADDRESSES) {
            match self.0.connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}
