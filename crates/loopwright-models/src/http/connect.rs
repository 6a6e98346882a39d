//! Connections to servers: TCP, TLS, and proxy tunnels.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::ServerName,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::{Position, Url};

use super::{
    connection::Connection,
    head::{authority, invalid, write_tunnel_head},
    proxy::{Proxy, ProxyScheme, host_of},
    stream::Stream,
};

/// How long a connection is silent before its other end is asked whether it is there.
const PROBED: Duration = Duration::from_secs(15);

/// How long what was written may stay unacknowledged.
#[cfg(target_os = "linux")]
const ACKNOWLEDGED: Duration = Duration::from_secs(30);

/// How long one of a server's addresses is tried alone before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// Connects to servers, and decides which of them are allowed.
#[async_trait::async_trait]
pub trait Dial: Send + Sync {
    /// Connects to a host, which is a name or an address without brackets. Called for every new
    /// connection. Dropping the future ends the attempt.
    ///
    /// # Errors
    ///
    /// Returns an error if the host is not allowed or cannot be reached; the error says which.
    async fn dial(&self, host: &str, port: u16) -> io::Result<TcpStream>;
}

/// What TLS needs to know.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    server: Arc<ClientConfig>,
    /// For proxies, with which no protocol is agreed on.
    proxy: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts these authorities, with the cryptography that the process has chosen, or that of `ring`.
    pub(super) fn trusting(roots: RootCertStore) -> Result<Self, rustls::Error> {
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
        let proxy = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut server = proxy.clone();
        server.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Self { server: server.into(), proxy: proxy.into() })
    }

    /// Trusts the authorities that Mozilla trusts.
    pub(super) fn standard() -> io::Result<Self> {
        static STANDARD: LazyLock<Result<Tls, rustls::Error>> = LazyLock::new(|| {
            Tls::trusting(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() })
        });
        STANDARD.clone().map_err(io::Error::other)
    }
}

/// Connects to a server that wants TLS, or through a proxy.
pub(super) async fn connect(
    url: &Url,
    proxy: Option<&Proxy>,
    tls: &Tls,
    dial: Option<&dyn Dial>,
    time: Duration,
) -> io::Result<Stream> {
    let host = host_of(url);
    let Some(proxy) = proxy else {
        return encrypt(dial_server(url, dial, time).await?, host, &tls.server).await;
    };
    let stream = through(proxy, url, tls, time).await.map_err(|error| {
        let message = format!("the proxy at {}:{}: {error}", proxy.host, proxy.port);
        io::Error::new(error.kind(), message)
    })?;
    if url.scheme() == "http" { Ok(stream) } else { encrypt(stream, host, &tls.server).await }
}

/// Connects to a proxy, which tunnels what is encrypted.
async fn through(proxy: &Proxy, url: &Url, tls: &Tls, time: Duration) -> io::Result<Stream> {
    if proxy.scheme == ProxyScheme::Socks {
        let message = "SOCKS is not supported; use an HTTP or HTTPS proxy";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let mut stream = dial(&proxy.host, proxy.port, time).await?;
    if proxy.scheme == ProxyScheme::Https {
        stream = encrypt(stream, &proxy.host, &tls.proxy).await?;
    }
    if url.scheme() == "http" { Ok(stream) } else { tunnel(stream, url, proxy).await }
}

/// Asks a proxy for a tunnel to a server.
async fn tunnel(stream: Stream, url: &Url, proxy: &Proxy) -> io::Result<Stream> {
    let port = url.port_or_known_default().unwrap_or_default();
    let to = format!("{}:{port}", &url[Position::BeforeHost..Position::AfterHost]);
    let mut connection = Connection::new(authority(url).into(), stream);
    let head = match connection.write(&write_tunnel_head(&to, proxy), &[]).await? {
        Some(head) => head,
        None => connection.read_head().await?,
    };
    match head.status {
        200..300 => connection.into_stream().ok_or_else(|| {
            invalid(
                "the proxy sent unexpected data after \
            its response to CONNECT",
            )
        }),
        407 => Err(io::Error::other("the proxy requires a user name and a password")),
        status => Err(io::Error::other(format!("the proxy responded with status {status}"))),
    }
}

async fn encrypt(stream: Stream, host: &str, config: &Arc<ClientConfig>) -> io::Result<Stream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::clone(config));
    Ok(Stream::Tls(Box::new(connector.connect(name, stream).await?)))
}

/// Connects to the server of an address, without TLS.
pub(super) async fn dial_server(
    url: &Url,
    by: Option<&dyn Dial>,
    time: Duration,
) -> io::Result<Stream> {
    let (host, port) = (host_of(url), url.port_or_known_default().unwrap_or_default());
    match by {
        Some(by) => Ok(Stream::Tcp(timeout(time, by.dial(host, port)).await??)),
        None => dial(host, port, time).await,
    }
}

/// Connects to a server within this time.
async fn dial(host: &str, port: u16, time: Duration) -> io::Result<Stream> {
    let mut addresses = timeout(time, lookup_host((host, port))).await??;
    let Some(first) = addresses.next() else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    };
    let others: Vec<_> = addresses.collect();
    let stream = if others.is_empty() {
        timeout(time, TcpStream::connect(first)).await??
    } else {
        timeout(time, Box::pin(race(first, others))).await??
    };
    // What is written is written at once and whole.
    stream.set_nodelay(true).ok();
    // A server that is gone without a word is found out although it is only waited for.
    let probes = TcpKeepalive::new().with_time(PROBED).with_interval(PROBED).with_retries(3);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&probes).ok();
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(ACKNOWLEDGED)).ok();
    Ok(Stream::Tcp(stream))
}

/// Tries a server's addresses in turn, each as soon as the one before has failed or had its head start. The families alternate, so
/// that one that leads nowhere costs one head start.
async fn race(first: SocketAddr, others: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let (there, here): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|address| address.is_ipv4() != first.is_ipv4());
    let mut queues = [there.into_iter(), here.into_iter()];
    let mut attempts = FuturesUnordered::from_iter([TcpStream::connect(first)]);
    loop {
        let failure = match timeout(HEAD_START, attempts.next()).await {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => Some(error),
            Ok(None) | Err(_) => None,
        };
        let next = queues[0].next().or_else(|| queues[1].next());
        queues.swap(0, 1);
        match (next, failure) {
            (Some(address), _) => attempts.push(TcpStream::connect(address)),
            (None, Some(error)) if attempts.is_empty() => return Err(error),
            (None, _) => {}
        }
    }
}
