//! TLS and proxies: servers on this machine, found by names that only a proxy knows.

use std::future::pending;

use futures_util::future::{Either, select};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot,
    },
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{connect::Tls, head::USER_AGENT, proxy::Proxies, *};

/// Valid for `server.test`, `localhost` and `127.0.0.1`, until 2126.
const CERTIFICATE: &[u8] = include_bytes!("../../tests/tls/server.der");
const KEY: &[u8] = include_bytes!("../../tests/tls/server.key.der");
const AUTHORITY: &[u8] = include_bytes!("../../tests/tls/authority.der");

const ANNOUNCED: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const OVER_AND_OVER: &str = "the server sends too many interim responses";

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What a server does with each request of a connection.
#[derive(Clone, Copy)]
enum Behaviour {
    /// Answers with this status line, headers and body.
    Answer(&'static [u8]),
    /// Answers so before it has read the body, and reads nothing any more.
    Early(&'static [u8]),
    /// Writes this first, then that without end.
    Endless(&'static str, &'static str),
    /// Reads requests and answers none.
    Silent,
    /// Answers so once, and closes the connection although nothing said so.
    Once(&'static [u8]),
    /// Answers so, connects to this port as a tunnel leads there.
    Tunnel(&'static str, u16),
}

/// A server that tells what it was asked, head by head.
struct Server {
    port: u16,
    heads: UnboundedReceiver<String>,
    connections: UnboundedReceiver<()>,
    closed: UnboundedReceiver<()>,
}

impl Server {
    async fn start(is_tls: bool, behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (send_heads, heads) = unbounded_channel();
        let (send_connections, connections) = unbounded_channel();
        let (send_closed, closed) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                send_connections.send(()).ok();
                let (heads, closed) = (send_heads.clone(), send_closed.clone());
                tokio::spawn(async move {
                    if is_tls {
                        if let Ok(mut stream) = acceptor().accept(stream).await {
                            serve(&mut stream, behaviour, &heads).await.ok();
                            if matches!(behaviour, Behaviour::Once(_)) {
                                stream.shutdown().await.ok();
                            }
                        }
                    } else {
                        serve(&mut { stream }, behaviour, &heads).await.ok();
                    }
                    closed.send(()).ok();
                });
            }
        });
        Self { port, heads, connections, closed }
    }

    fn head(&mut self) -> String {
        self.heads.try_recv().unwrap()
    }

    fn connections(&mut self) -> usize {
        std::iter::from_fn(|| self.connections.try_recv().ok()).count()
    }
}

fn acceptor() -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificates = vec![CertificateDer::from(CERTIFICATE)];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let mut config = config.with_single_cert(certificates, key).unwrap();
    config.alpn_protocols.push(b"http/1.1".to_vec());
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(
    stream: &mut impl Duplex,
    behaviour: Behaviour,
    heads: &UnboundedSender<String>,
) -> std::io::Result<()> {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse().unwrap());
        heads.send(head).ok();
        if !matches!(behaviour, Behaviour::Early(_)) {
            stream.read_exact(&mut vec![0; length]).await?;
        }
        match behaviour {
            Behaviour::Answer(answer) => stream.write_all(answer).await?,
            Behaviour::Silent => {}
            Behaviour::Early(answer) => {
                stream.write_all(answer).await?;
                stream.flush().await?;
                return pending().await;
            }
            Behaviour::Once(answer) => {
                stream.write_all(answer).await?;
                return stream.flush().await;
            }
            Behaviour::Endless(start, again) => {
                stream.write_all(start.as_bytes()).await?;
                loop {
                    stream.write_all(again.as_bytes()).await?;
                }
            }
            Behaviour::Tunnel(answer, port) => {
                stream.write_all(answer.as_bytes()).await?;
                let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
                copy_bidirectional(stream, &mut server).await?;
                return Ok(());
            }
        }
        stream.flush().await?;
    }
}

/// A client that trusts the servers here, with these variables.
fn client(vars: &[(&str, String)]) -> Http {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(AUTHORITY)).unwrap();
    let var = |name: &str| vars.iter().find(|(it, _)| *it == name).map(|(_, value)| value.clone());
    let mut pool = connection::Pool::default();
    pool.proxies = Proxies::from_vars(var).into();
    pool.tls = Some(Tls::trusting(roots).unwrap());
    Http(Arc::new(Inner { pool: pool.into(), ..Inner::default() }))
}

fn through(scheme: &str, proxy: &Server) -> Http {
    client(&[("ALL_PROXY", format!("{scheme}u:p@localhost:{}", proxy.port))])
}

async fn ask_with(http: &Http, url: &str, body: Bytes) -> Result<(u16, Vec<u8>), HttpError> {
    let mut response = http.post(url.parse().unwrap(), HeaderMap::new(), body).await?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), body))
}

async fn ask(http: &Http, url: &str) -> Result<String, HttpError> {
    let (status, body) = ask_with(http, url, Bytes::from_static(b"question")).await?;
    assert_eq!(status, 200);
    Ok(String::from_utf8(body).unwrap())
}

async fn refusal(http: &Http, url: &str) -> String {
    let error = ask(http, url).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network, "{error:?}");
    error.message
}

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
const OPEN: &str = "HTTP/1.1 200 OK\r\n\r\n";

#[tokio::test]
async fn a_connection_with_tls_is_used_again() {
    let mut server = Server::start(true, Behaviour::Answer(HELLO)).await;
    let (http, url) = (client(&[]), format!("https://localhost:{}/v1?a=b", server.port));
    for _ in 0..3 {
        assert_eq!(ask(&http, &url).await.unwrap(), "hello");
    }
    assert_eq!(server.connections(), 1);
    let head = server.head();
    assert!(head.starts_with("POST /v1?a=b HTTP/1.1\r\nhost: localhost:"), "{head}");
    let welcome = if cfg!(feature = "gzip") { "gzip" } else { "identity" };
    assert!(head.contains(&format!("\r\naccept-encoding: {welcome}\r\n")), "{head}");
}

#[tokio::test]
async fn a_connection_with_tls_that_was_closed_is_not_used_again() {
    let mut server = Server::start(true, Behaviour::Once(HELLO)).await;
    let (http, url) = (client(&[]), format!("https://127.0.0.1:{}", server.port));
    for _ in 0..3 {
        assert_eq!(ask(&http, &url).await.unwrap(), "hello");
        server.closed.recv().await.unwrap();
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_server_with_tls_may_answer_before_it_has_read_everything() {
    let answer = b"HTTP/1.1 413 X\r\ncontent-length: 8\r\n\r\ntoo much";
    let server = Server::start(true, Behaviour::Early(answer)).await;
    let url = format!("https://localhost:{}", server.port);
    let answer = ask_with(&client(&[]), &url, vec![0; 16 << 20].into()).await.unwrap();
    assert_eq!(answer, (413, b"too much".to_vec()));
}

#[tokio::test]
async fn a_large_request_arrives_whole() {
    let server = Server::start(true, Behaviour::Answer(HELLO)).await;
    let url = format!("https://localhost:{}", server.port);
    let answer = ask_with(&client(&[]), &url, vec![0; 4 << 20].into()).await.unwrap();
    assert_eq!(answer, (200, b"hello".to_vec()));
}

/// A body. A receiver learns when it is dropped.
struct Tracked {
    bytes: Vec<u8>,
    _dropped: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[tokio::test]
async fn the_body_of_a_request_is_dropped_before_the_response_comes() {
    for is_tls in [false, true] {
        let server = Server::start(is_tls, Behaviour::Silent).await;
        let scheme = if is_tls { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{}", server.port).parse().unwrap();
        let (sender, dropped) = oneshot::channel();
        let body = Bytes::from_owner(Tracked { bytes: vec![0; 1 << 20], _dropped: sender });
        let http = client(&[]);
        let response = pin!(http.post(url, HeaderMap::new(), body));
        // In time: the response never comes.
        let first = timeout(Duration::from_secs(30), select(response, dropped)).await.unwrap();
        assert!(matches!(first, Either::Right((Err(_), _))), "{scheme}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_show_who_it_is_is_refused() {
    let mut server = Server::start(true, Behaviour::Answer(HELLO)).await;
    let url = format!("https://localhost:{}", server.port);
    let message = refusal(&Http::default(), &url).await;
    let expected = format!("no connection to {url}: invalid peer certificate: UnknownIssuer");
    assert_eq!(message, expected);
    let url = format!("https://127.0.0.2:{}", server.port);
    let message = refusal(&client(&[]), &url).await;
    assert!(message.starts_with(&format!("no connection to {url}: ")), "{message}");
    assert!(server.heads.try_recv().is_err());
}

#[tokio::test]
async fn a_user_in_the_address_is_sent_as_a_header() {
    let mut server = Server::start(false, Behaviour::Answer(HELLO)).await;
    ask(&client(&[]), &format!("http://us%20er@localhost:{}", server.port)).await.unwrap();
    let head = server.head();
    assert!(head.contains("\r\nauthorization: Basic dXMgZXI6\r\n"), "{head}");
    assert!(!head.contains("us%20er"), "{head}");
}

#[tokio::test]
async fn a_proxy_reads_what_is_not_encrypted() {
    for (scheme, is_tls) in [("http://", false), ("https://", true), ("", false)] {
        let mut proxy = Server::start(is_tls, Behaviour::Answer(HELLO)).await;
        let http = through(scheme, &proxy);
        for _ in 0..2 {
            assert_eq!(ask(&http, "http://server.test/v1?a=b#c").await.unwrap(), "hello");
        }
        assert_eq!(proxy.connections(), 1);
        let head = proxy.head();
        let start = "POST http://server.test/v1?a=b HTTP/1.1\r\nhost: server.test\r\n";
        assert!(head.starts_with(start), "{head}");
        assert!(head.contains("\r\nproxy-authorization: Basic dTpw\r\n"), "{head}");
    }
}

#[tokio::test]
async fn a_proxy_tunnels_what_is_encrypted() {
    for (scheme, is_tls) in [("http://", false), ("https://", true)] {
        let mut server = Server::start(true, Behaviour::Answer(HELLO)).await;
        let mut proxy = Server::start(is_tls, Behaviour::Tunnel(OPEN, server.port)).await;
        let http = through(scheme, &proxy);
        for _ in 0..2 {
            assert_eq!(ask(&http, "https://server.test/v1").await.unwrap(), "hello");
        }
        assert_eq!((proxy.connections(), server.connections()), (1, 1));
        let agent = format!("user-agent: {USER_AGENT}");
        let expected = format!(
            "CONNECT server.test:443 HTTP/1.1\r\nhost: server.test:443\r\n{agent}\r\n\
             proxy-authorization: Basic dTpw\r\n\r\n"
        );
        assert_eq!(proxy.head(), expected);
        let head = server.head();
        assert!(head.starts_with("POST /v1 HTTP/1.1\r\n") && !head.contains("proxy-"), "{head}");
    }
}

#[tokio::test]
async fn a_proxy_that_gives_no_tunnel_is_named_with_the_reason() {
    let server = Server::start(true, Behaviour::Answer(HELLO)).await;
    for (answer, reason) in [
        ("HTTP/1.1 407 X\r\n\r\n", "the proxy requires a user name and a password"),
        ("HTTP/1.1 403 X\r\n\r\n", "the proxy responded with status 403"),
        ("HTTP/1.1 101 X\r\n\r\n", "the response switches to a protocol that was not requested"),
        (
            "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            "the proxy sent unexpected data after its response to CONNECT",
        ),
        ("nonsense\r\n\r\n", "the response is not HTTP: invalid HTTP version"),
    ] {
        let proxy = Server::start(false, Behaviour::Tunnel(answer, server.port)).await;
        let message = refusal(&through("", &proxy), "https://server.test").await;
        let place = format!("the proxy at localhost:{}", proxy.port);
        assert_eq!(message, format!("no connection to https://server.test: {place}: {reason}"));
    }
    let proxy =
        Server::start(false, Behaviour::Endless("HTTP/1.1 200 OK\r\na: ", "xxxxxxxx")).await;
    let message = refusal(&through("", &proxy), "https://server.test").await;
    assert!(message.ends_with("the response headers are too long"), "{message}");
    let message = refusal(&client(&[("ALL_PROXY", "socks5://a".into())]), "https://b").await;
    assert!(message.contains("the proxy at a:80: SOCKS is not supported"), "{message}");
}

#[tokio::test]
async fn announcing_an_answer_without_end_is_given_up_on_every_way() {
    let endless = Behaviour::Endless("", ANNOUNCED);
    for is_tls in [false, true] {
        let scheme = if is_tls { "https" } else { "http" };
        // The server.
        let mut server = Server::start(is_tls, endless).await;
        let url = format!("{scheme}://localhost:{}", server.port);
        assert!(refusal(&client(&[]), &url).await.ends_with(OVER_AND_OVER));
        server.closed.recv().await.unwrap();
        // A proxy, to a request that it reads, and to one for a tunnel.
        for url in ["http://server.test", "https://server.test"] {
            let mut proxy = Server::start(is_tls, endless).await;
            let message = refusal(&through(&format!("{scheme}://"), &proxy), url).await;
            assert!(message.ends_with(OVER_AND_OVER), "{message}");
            proxy.closed.recv().await.unwrap();
        }
        // The server behind a tunnel.
        let mut server = Server::start(true, endless).await;
        let proxy = Server::start(is_tls, Behaviour::Tunnel(OPEN, server.port)).await;
        let http = through(&format!("{scheme}://"), &proxy);
        assert!(refusal(&http, "https://server.test").await.ends_with(OVER_AND_OVER));
        server.closed.recv().await.unwrap();
    }
}

#[tokio::test]
async fn trailers_without_end_are_given_up_with_tls_too() {
    let start = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
    let mut server = Server::start(true, Behaviour::Endless(start, "a: b\r\n")).await;
    let message = refusal(&client(&[]), &format!("https://localhost:{}", server.port)).await;
    assert!(message.ends_with("the response trailers are too long"), "{message}");
    server.closed.recv().await.unwrap();
}

#[cfg(feature = "gzip")]
mod gzip {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn answer(text: &[u8], cut: usize) -> &'static [u8] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        let mut body = encoder.finish().unwrap();
        body.truncate(body.len() - cut);
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
        );
        [head.into_bytes(), body].concat().leak()
    }

    #[tokio::test]
    async fn a_compressed_answer_is_read() {
        let text = "hello ".repeat(1 << 20);
        let server = Server::start(true, Behaviour::Answer(answer(text.as_bytes(), 0))).await;
        let (http, url) = (client(&[]), format!("https://localhost:{}", server.port));
        for _ in 0..2 {
            assert!(ask(&http, &url).await.unwrap() == text);
        }
    }

    #[tokio::test]
    async fn a_compressed_answer_comes_in_pieces_that_are_bounded() {
        let server = Server::start(true, Behaviour::Answer(answer(&vec![0; 32 << 20], 0))).await;
        let url = format!("https://localhost:{}", server.port).parse().unwrap();
        let mut response = client(&[]).post(url, HeaderMap::new(), Bytes::new()).await.unwrap();
        let mut length = 0;
        while let Some(chunk) = response.chunk().await.unwrap() {
            assert!(chunk.len() <= 5 << 20, "{}", chunk.len());
            length += chunk.len();
        }
        assert_eq!(length, 32 << 20);
    }

    #[tokio::test]
    async fn half_a_compressed_answer_is_an_error() {
        for cut in [1, 12] {
            let server = Server::start(true, Behaviour::Answer(answer(b"hello", cut))).await;
            let message =
                refusal(&client(&[]), &format!("https://localhost:{}", server.port)).await;
            assert!(message.contains("the compressed response cannot be read: "), "{message}");
        }
    }

    #[tokio::test]
    async fn nothing_need_not_be_compressed() {
        let empty = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n";
        let server = Server::start(true, Behaviour::Answer(empty)).await;
        let url = format!("https://localhost:{}", server.port);
        assert_eq!(ask(&client(&[]), &url).await.unwrap(), "");
    }
}
