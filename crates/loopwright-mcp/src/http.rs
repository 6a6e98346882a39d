//! Servers at a URL.

mod ending;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::transport::common::unix_socket::UnixSocketError;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{DynamicTransportError, UnixSocketHttpClient};

pub(crate) use self::ending::{Before, EndingClient};
use crate::config::{HttpServer, McpServer};
use crate::error::McpError;
use crate::launch::McpHost;
use crate::text;

/// Redirects that are followed, on the same server only.
const MAX_REDIRECTS: usize = 3;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);

/// What requests to a server at an address are made with.
pub(crate) struct Endpoint {
    pub(crate) client: EndpointClient,
    pub(crate) config: StreamableHttpClientTransportConfig,
}

/// How an address is reached.
pub(crate) enum EndpointClient {
    /// Over a network.
    Network(reqwest::Client),
    /// Through a socket of this machine.
    Socket(UnixSocketHttpClient),
}

/// The path of requests to a socket, unless the address names another.
const SOCKET_PATH: &str = "/mcp";

/// How addresses of sockets begin.
pub(crate) const SOCKET: &str = "unix:";

/// Makes what requests to a server at an address are made with.
pub(crate) fn endpoint(
    server: &McpServer,
    address: &HttpServer,
    host: &McpHost,
) -> Result<Endpoint, McpError> {
    let url = host.expand(server, &address.url)?;
    let mut headers = HashMap::new();
    for (name, value) in &address.headers {
        let value = host.expand(server, value)?;
        let is_valid = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value));
        let (Ok(name), Ok(mut value)) = is_valid else {
            let name = text::line(name);
            let reason = format!("header `{name}` has a name or a value that HTTP does not allow");
            return Err(McpError::Invalid { server: server.name.clone(), reason });
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let (client, url) = if let Some(socket) = url.strip_prefix(SOCKET) {
        socket_client(server, socket)?
    } else {
        check(server, &url)?;
        let client = client().map_err(|error| McpError::Invalid {
            server: server.name.clone(),
            reason: format!("the HTTP client could not be created: {error}"),
        })?;
        (EndpointClient::Network(client), url)
    };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.custom_headers = headers;
    Ok(Endpoint { client, config })
}

/// Makes a client of `/path/to/socket` or `/path/to/socket?path=/where`.
fn socket_client(server: &McpServer, socket: &str) -> Result<(EndpointClient, String), McpError> {
    let (socket, path) = socket.split_once("?path=").unwrap_or((socket, SOCKET_PATH));
    let socket = socket.strip_prefix("//").filter(|it| it.starts_with('/')).unwrap_or(socket);
    if !socket.starts_with('/') || !path.starts_with('/') {
        let reason = "the address of a socket must be `unix:/path/to/socket` or `unix:/path/to/socket?path=/mcp`";
        return Err(McpError::Invalid { server: server.name.clone(), reason: reason.to_owned() });
    }
    let url = format!("http://localhost{path}");
    Ok((EndpointClient::Socket(UnixSocketHttpClient::new(socket, &url)), url))
}

fn check(server: &McpServer, url: &str) -> Result<(), McpError> {
    let invalid = |reason: String| McpError::Invalid { server: server.name.clone(), reason };
    let parsed = reqwest::Url::parse(url)
        .map_err(|error| invalid(format!("the address cannot be used: {error}")))?;
    match parsed.scheme() {
        "http" | "https" if parsed.has_host() => Ok(()),
        _ => Err(invalid("the address must begin with `https://` or `http://`".to_owned())),
    }
}

/// Why a request to a server at an address has failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HttpFailure {
    /// The server wants a login, and does not say where.
    LoginRequired,
    /// What happened, which names no address, as addresses can hold secrets.
    Other(String),
}

/// Returns why a request has failed, or `None` if that was no request to an address.
pub(crate) fn failure(error: &DynamicTransportError) -> Option<HttpFailure> {
    if let Some(error) = error.error.downcast_ref::<StreamableHttpError<UnixSocketError>>() {
        return Some(stream_failure(error, socket_failure));
    }
    let error = error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>()?;
    Some(stream_failure(error, request_failure))
}

fn stream_failure<E: std::error::Error + Send + Sync + 'static>(
    error: &StreamableHttpError<E>,
    of_client: impl FnOnce(&E) -> String,
) -> HttpFailure {
    HttpFailure::Other(match error {
        StreamableHttpError::Client(error) => of_client(error),
        StreamableHttpError::HttpStatus(error) => {
            format!("the server responded with status {}", error.status)
        }
        StreamableHttpError::UnexpectedContentType(kind) => match kind {
            Some(kind) => format!(
                "the response has the content type `{}`; the address may belong to another \
                    service",
                text::line(kind)
            ),
            None => "the response has no content type".to_owned(),
        },
        StreamableHttpError::UnexpectedServerResponse(response) => {
            match response.strip_prefix("HTTP ") {
                Some(status) if status.starts_with("401") => {
                    return HttpFailure::LoginRequired;
                }
                Some(status) => {
                    let status = status.trim_end_matches([' ', ':']);
                    format!("the server responded with status {}", text::line(status))
                }
                None => text::line(response),
            }
        }
        other => text::line(&other.to_string()),
    })
}

/// What happened at a socket, whose address is no secret and named all the same nowhere.
fn socket_failure(error: &UnixSocketError) -> String {
    let what = match error {
        UnixSocketError::Io(error) => match error.kind() {
            ErrorKind::NotFound => "the socket does not exist; start the server first".to_owned(),
            ErrorKind::ConnectionRefused => {
                "no server is listening on the socket; start the server".to_owned()
            }
            _ => format!("no connection: {error}"),
        },
        error => format!("the request failed: {}", text::chain(error)),
    };
    text::line(&what)
}

fn request_failure(error: &reqwest::Error) -> String {
    let what = match error {
        error if error.is_timeout() => "the request took too long",
        error if error.is_connect() => "no connection",
        error if error.is_redirect() => "the redirect was not followed",
        error if error.is_body() || error.is_decode() => "the response was cut off",
        _ => "the request failed",
    };
    // What the error itself says names the address.
    let mut reason = what.to_owned();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !reason.contains(&cause_text) {
            reason = format!("{reason}: {cause_text}");
        }
        source = cause.source();
    }
    text::line(&reason)
}

/// Sets the cryptography of the rest of the program for HTTP clients, which a client needs before it is created. If another
/// one is installed already, that one is used.
pub(crate) fn choose_cryptography() {
    rustls::crypto::ring::default_provider().install_default().ok();
}

/// Makes an HTTP client whose headers stay with one server.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    choose_cryptography();
    let redirects = reqwest::redirect::Policy::custom(|attempt| {
        let origin = attempt.previous().first().map(reqwest::Url::origin);
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if origin.is_some_and(|origin| origin == attempt.url().origin()) {
            attempt.follow()
        } else {
            attempt.error("the server redirects to another server")
        }
    });
    reqwest::Client::builder().redirect(redirects).connect_timeout(CONNECT).build()
}
