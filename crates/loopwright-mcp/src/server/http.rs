//! Tools over HTTP.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderMap, Method, Request, Response, StatusCode};
use bytes::Bytes;
use http_body::Body;
use http_body_util::{Full, combinators::BoxBody};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio_util::sync::CancellationToken;

use super::{ToolServer, calls::Calls, handler::Handler};

/// How many sessions of clients of revision 2025-11-25 there may be.
const MAX_SESSIONS: usize = 256;

/// How long such a session may be silent. A call that reports no progress is silent.
const MAX_SILENCE: Duration = Duration::from_hours(1);

/// The header that names a session.
const SESSION: &str = "mcp-session-id";

/// A [`ToolServer`] over streamable HTTP, in both revisions: sessions for clients of 2025-11-25, none for those of 2026-07-28.
/// Mount [`handle`](Self::handle) as the route `/mcp` of a server. Clones share their sessions.
///
/// It does not distinguish principals. For several principals, create one server for each, so that no principal can
/// continue the calls of another.
#[derive(Clone)]
pub struct HttpToolServer {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

impl HttpToolServer {
    /// Serves requests whose host is this machine (`localhost`, `127.0.0.1`, `::1`), and refuses those of pages of other
    /// origins, so that no web page can reach the server, not even through a host name that leads to this machine.
    /// Cancelling the token ends all sessions and streams.
    pub fn on_loopback(server: ToolServer, shutdown: CancellationToken) -> Self {
        let origins = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
        let config = StreamableHttpServerConfig::default().with_allowed_origins(origins);
        Self::new(server, config.with_cancellation_token(shutdown))
    }

    /// Serves all requests of at most `max_body` bytes, for routers that have already checked the host, the origin and the
    /// sender of the request. Cancelling the token ends all sessions and streams.
    pub fn behind_checks(server: ToolServer, max_body: usize, shutdown: CancellationToken) -> Self {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(max_body);
        Self::new(server, config.with_cancellation_token(shutdown))
    }

    fn new(server: ToolServer, config: StreamableHttpServerConfig) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(MAX_SILENCE);
        let (sessions, calls) = (Arc::new(sessions), Arc::new(Calls::new()));
        let handler = move || Ok(Handler::new(server.clone(), Arc::clone(&calls)));
        Self {
            service: StreamableHttpService::new(handler, Arc::clone(&sessions), config),
            sessions,
        }
    }

    /// Responds to a request.
    pub async fn handle<B>(
        &self,
        request: Request<B>,
    ) -> Response<impl Body<Data = Bytes, Error = Infallible> + Send + 'static>
    where
        B: Body + Send + 'static,
        B::Error: fmt::Display,
    {
        let begins = request.method() == Method::POST && !has_session(request.headers());
        if begins && self.sessions.sessions.read().await.len() >= MAX_SESSIONS {
            let text = format!("more than {MAX_SESSIONS} sessions; try again later");
            let mut response = Response::new(BoxBody::new(Full::new(Bytes::from(text))));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return response;
        }
        self.service.handle(request).await
    }
}

fn has_session(headers: &HeaderMap) -> bool {
    headers.contains_key(SESSION)
}

impl fmt::Debug for HttpToolServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpToolServer").finish_non_exhaustive()
    }
}
