//! Network access of a sandbox by host name: a proxy that connects only to granted hosts.
//!
//! It runs in the agent's process, outside the sandbox. It accepts connections from a socket that
//! was created in the network of the sandbox, which has no other exit.

mod client_hello;
mod connect;
mod request;
mod upstream;

use std::ffi::OsString;
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use self::client_hello::ClientHello;
use self::connect::{Connector, Refused};
use self::request::{Kind, Request};
use self::upstream::Upstream;
use crate::access::{Log, NetworkAccess, Traffic};
use crate::domain::AllowedDomain;
use crate::linux::gate::{self, PORT};
use crate::policy::Network;

/// Connections at a time; more wait.
const MAX_CONNECTIONS: usize = 128;

/// How long a client may take to say what it wants.
const FIRST_WORDS: Duration = Duration::from_secs(30);

/// Variables that name certificates of authorities, which a machine may have of its own.
const AUTHORITIES: [&str; 9] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "NIX_SSL_CERT_FILE",
];

/// Where such certificates are seen in a sandbox.
const AUTHORITY_PLACES: [&str; 5] =
    ["/etc/ssl/certs", "/etc/pki", "/etc/ca-certificates", "/usr", "/nix/store"];

/// Returns the variables by which programs find the proxy, and trust whom the user trusts.
pub(crate) fn variables(
    network: &Network,
    own: impl Fn(&str) -> Option<OsString>,
) -> Vec<(String, OsString)> {
    let Network::Domains(_) = network else { return Vec::new() };
    let place = format!("http://127.0.0.1:{PORT}");
    let mut variables = Vec::new();
    for name in ["http_proxy", "https_proxy", "all_proxy"] {
        variables.push((name.to_owned(), place.clone().into()));
        variables.push((name.to_ascii_uppercase(), place.clone().into()));
    }
    for name in ["no_proxy", "NO_PROXY"] {
        variables.push((name.to_owned(), "localhost,127.0.0.1,::1".into()));
    }
    // Node reads the others only if it is told to.
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".into()));
    for name in AUTHORITIES {
        let is_seen = |value: &OsString| {
            let path = std::path::Path::new(value);
            let has_parent = path.components().any(|part| part == std::path::Component::ParentDir);
            !has_parent && AUTHORITY_PLACES.iter().any(|place| path.starts_with(place))
        };
        variables.extend(own(name).filter(is_seen).map(|value| (name.to_owned(), value)));
    }
    variables
}

/// A proxy for one command. Dropping it closes all of its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    log: Log,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Serves connections of a socket that arrives over a channel, once it has arrived.
    pub(crate) fn start(channel: OwnedFd, domains: Vec<AllowedDomain>) -> Self {
        let log = Log::default();
        let upstream = Upstream::found(|name| std::env::var(name).ok());
        let connector = Connector::new(domains, upstream);
        let serving = log.clone();
        let task = tokio::spawn(async move {
            match receive_listener(channel).await {
                Ok(listener) => serve(listener, Arc::new(connector), serving).await,
                Err(error) => serving.fail(&error),
            }
        });
        Self { log, task }
    }

    /// Returns what was reached and refused so far.
    pub(crate) fn accesses(&self) -> Vec<NetworkAccess> {
        self.log.accesses()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn receive_listener(channel: OwnedFd) -> io::Result<TcpListener> {
    let channel = std::os::unix::net::UnixStream::from(channel);
    channel.set_nonblocking(true)?;
    let channel = tokio::net::UnixStream::from_std(channel)?;
    loop {
        channel.readable().await?;
        let received = channel.try_io(tokio::io::Interest::READABLE, || gate::receive(&channel));
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => {
                let listener = StdTcpListener::from(received?);
                listener.set_nonblocking(true)?;
                return TcpListener::from_std(listener);
            }
        }
    }
}

async fn serve(listener: TcpListener, connector: Arc<Connector>, log: Log) {
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((client, _)) => {
                let (connector, log) = (Arc::clone(&connector), log.clone());
                connections.spawn(async move {
                    // An error belongs to a connection, which is closed; what matters of it is in the log.
                    answer(client, &connector, &log).await.ok();
                    drop(place);
                });
            }
            // Too many descriptors are open, or the client is gone already.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Serves one request.
async fn answer(mut client: TcpStream, connector: &Connector, log: &Log) -> io::Result<()> {
    let (head, rest) = match timeout(FIRST_WORDS, read_head(&mut client)).await {
        Ok(read) => read?,
        Err(_) => return Ok(()),
    };
    let request = match request::read(&head) {
        Ok(request) => request,
        Err(bad) => {
            log.refuse(bad.host.as_deref().unwrap_or("?"), 0, bad.reason);
            return refuse(client, bad.status, bad.reason).await;
        }
    };
    let Request { host, port, kind } = request;
    let found = match connector.grants(&host, port) {
        Ok(()) => connector.resolve(&host, port).await,
        Err(refused) => Err(refused),
    };
    let server = match found {
        Ok(server) => server,
        Err(refused) => return refuse_host(client, log, (&host, port), refused).await,
    };
    match kind {
        Kind::Tunnel => {
            // Before anything is promised, so that the client is told what keeps it from its host.
            let stream = match connector.connect(&host, port, &server, upstream::Way::Tunnel).await
            {
                Ok(stream) => stream,
                Err(refused) => return refuse_host(client, log, (&host, port), refused).await,
            };
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            let hello = match read_hello(&mut client, rest, &host).await? {
                Ok(hello) => hello,
                Err(reason) => {
                    log.refuse(&host, port, reason);
                    return Ok(());
                }
            };
            relay(client, stream, &hello, None, log.reach(&host, port)).await
        }
        Kind::Plain { head, body } => {
            match connector.connect(&host, port, &server, upstream::Way::Plain).await {
                Ok(stream) => {
                    let head = connector.head_for(&host, port, head, &server);
                    let traffic = log.reach(&host, port);
                    let early =
                        usize::try_from(body).map_or(rest.len(), |body| body.min(rest.len()));
                    let first = [head.as_slice(), &rest[..early]].concat();
                    relay(client, stream, &first, Some(body - early as u64), traffic).await
                }
                Err(refused) => refuse_host(client, log, (&host, port), refused).await,
            }
        }
    }
}

/// Reads to the end of a head. Returns it, and what has arrived after it.
async fn read_head(client: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut read = Vec::with_capacity(1024);
    loop {
        let from = read.len().saturating_sub(3);
        if client.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = read[from..].windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(end) = end {
            let rest = read.split_off(from + end + 4);
            return Ok((read, rest));
        }
        if read.len() > request::MAX_HEAD {
            return Ok((read, Vec::new()));
        }
    }
}

/// Reads the first message of TLS, and holds the name in it against the one that was granted.
async fn read_hello(
    client: &mut TcpStream,
    mut read: Vec<u8>,
    host: &str,
) -> io::Result<Result<Vec<u8>, &'static str>> {
    let reading = async {
        loop {
            match client_hello::read(&read) {
                ClientHello::Named(name) if name == host => return Ok(Ok(read)),
                ClientHello::Named(_) => {
                    return Ok(Err("the TLS connection names a different server than the request"));
                }
                ClientHello::Refused(reason) => return Ok(Err(reason)),
                ClientHello::Partial => {}
            }
            if client.read_buf(&mut read).await? == 0 {
                return Ok(Err("the connection does not begin with TLS"));
            }
        }
    };
    match timeout(FIRST_WORDS, reading).await {
        Ok(read) => read,
        Err(_) => Ok(Err("the connection does not begin with TLS")),
    }
}

/// Passes bytes on in both directions; in that of the server no more than the rest of the body, if that is known.
async fn relay(
    client: TcpStream,
    mut server: TcpStream,
    first: &[u8],
    body: Option<u64>,
    traffic: Traffic,
) -> io::Result<()> {
    server.write_all(first).await?;
    traffic.sent(first.len());
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_plain = body.is_some();
    let sending = async {
        let mut to_server = to_server;
        let mut from_client = from_client.take(body.unwrap_or(u64::MAX));
        copy(&mut from_client, &mut to_server, |count| traffic.sent(count)).await?;
        if is_plain {
            // A server of plain HTTP may take the end of the stream for that of the client.
            std::future::pending::<()>().await;
        }
        to_server.shutdown().await
    };
    let receiving = async {
        let mut to_client = to_client;
        copy(from_server, &mut to_client, |count| traffic.received(count)).await?;
        to_client.shutdown().await
    };
    if is_plain {
        tokio::select! {
            result = receiving => result,
            result = sending => result,
        }
    } else {
        tokio::try_join!(sending, receiving).map(drop)
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl AsyncWrite + Unpin),
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
        count(read);
    }
}

async fn refuse_host(
    client: TcpStream,
    log: &Log,
    (host, port): (&str, u16),
    refused: Refused,
) -> io::Result<()> {
    let (status, reason) = refused.record(log, host, port);
    refuse(client, status, &reason).await
}

async fn refuse(mut client: TcpStream, status: u16, reason: &str) -> io::Result<()> {
    let phrase = match status {
        403 => "Forbidden",
        411 => "Length Required",
        502 => "Bad Gateway",
        _ => "Bad Request",
    };
    let body = format!("sandbox: {reason}\n");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         X-Loopwright-Refused: 1\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    client.shutdown().await
}

#[cfg(test)]
mod tests;
