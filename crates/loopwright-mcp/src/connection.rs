//! A connection to a server, from the handshake to the end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
        ListToolsRequest, PaginatedRequestParams, ProtocolVersion, RequestId, ServerResult,
        SubscriptionFilter,
    },
    service::{ClientInitializeError, Peer, PeerRequestOptions, RunningService, ServiceError},
    transport::StreamableHttpClientTransport,
};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::{McpServer, ProtocolChoice, ServerTransport};
use crate::error::McpError;
use crate::handler::{Handler, Progress, ProgressListeners};
use crate::http::{self, EndingClient, HttpFailure};
use crate::launch::McpHost;
use crate::log::ServerLog;
use crate::login;
use crate::stdio::{EndReason, StdioTransport};
use crate::text;
use crate::tools::{ListedTool, Listing};

/// Pages of a list that are read.
const MAX_PAGES: usize = 200;

/// How long a server may take to answer the requests that end a connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection that has completed its handshake. Dropping it ends the server's processes.
pub(crate) struct Connection {
    server: Arc<McpServer>,
    peer: Peer<RoleClient>,
    service: tokio::sync::Mutex<Option<RunningService<RoleClient, Handler>>>,
    stop: CancellationToken,
    /// Ends requests to an address.
    requests: CancellationToken,
    _guard: DropGuard,
    end: EndReason,
    progress: ProgressListeners,
    pub(crate) tools_changed: Arc<Notify>,
    pub(crate) info: ConnectionInfo,
}

/// The result of the handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The revision of the protocol.
    pub protocol: String,
    /// The name and version of the server's program, as it reports them.
    pub implementation: Option<String>,
    /// The server's own instructions, sanitized and truncated.
    pub instructions: Option<String>,
    /// Whether the server has tools.
    pub has_tools: bool,
    /// Whether the server has resources.
    pub has_resources: bool,
    /// Whether the server has prompts.
    pub has_prompts: bool,
}

impl Connection {
    /// Starts a server and completes the handshake within the time that the configuration allows.
    pub(crate) async fn open(
        server: &Arc<McpServer>,
        host: &McpHost,
        log: &ServerLog,
    ) -> Result<Self, McpError> {
        let opening = Self::open_untimed(server, host, log);
        match tokio::time::timeout(server.startup_timeout, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(McpError::Handshake {
                server: server.name.clone(),
                reason: format!(
                    "no response within {} s{}",
                    server.startup_timeout.as_secs_f32(),
                    last_words(log)
                ),
            }),
        }
    }

    async fn open_untimed(
        server: &Arc<McpServer>,
        host: &McpHost,
        log: &ServerLog,
    ) -> Result<Self, McpError> {
        let handler = Handler {
            roots: host.roots().into(),
            server: server.name.clone(),
            answers: host.answers().cloned(),
            log: log.clone(),
            progress: ProgressListeners::default(),
            tools_changed: Arc::default(),
        };
        let first = Self::shake_hands(server, host, log, &handler, server.protocol).await;
        match first {
            // Old servers that cannot stand an unknown first request get a second chance.
            Err((error, EndedBy::Itself)) if server.protocol == ProtocolChoice::Auto => {
                let again = ProtocolChoice::V2025_11_25;
                Self::shake_hands(server, host, log, &handler, again).await.map_err(|_| error)
            }
            other => other.map_err(|(error, _)| error),
        }
    }

    async fn shake_hands(
        server: &Arc<McpServer>,
        host: &McpHost,
        log: &ServerLog,
        handler: &Handler,
        protocol: ProtocolChoice,
    ) -> Result<Self, (McpError, EndedBy)> {
        let end = EndReason::default();
        let lifecycle = lifecycle(protocol);
        // Ends the requests of a handshake that fails or that is given up.
        let requests = CancellationToken::new();
        let unfinished = requests.clone().drop_guard();
        let outcome = match &server.transport {
            ServerTransport::Stdio(stdio) => {
                let child = host.start(server, stdio).await.map_err(|it| (it, EndedBy::Error))?;
                let transport = StdioTransport::new(child, log.clone(), end.clone());
                handler.clone().serve_with_lifecycle(transport, lifecycle).await
            }
            ServerTransport::Http(address) => {
                let by_error = |error| (error, EndedBy::Error);
                let endpoint = http::endpoint(server, address, host).map_err(by_error)?;
                let authorized = match host.logins() {
                    Some(logins) => {
                        let url = &endpoint.config.uri;
                        let kept = logins.credentials(server, url);
                        let client = endpoint.client.clone();
                        login::authorized(server, url, kept, client).await.map_err(by_error)?
                    }
                    None => None,
                };
                if let Some(client) = authorized {
                    let client = EndingClient::new(client, requests.clone());
                    let transport =
                        StreamableHttpClientTransport::with_client(client, endpoint.config);
                    handler.clone().serve_with_lifecycle(transport, lifecycle).await
                } else {
                    let client = EndingClient::new(endpoint.client, requests.clone());
                    let transport =
                        StreamableHttpClientTransport::with_client(client, endpoint.config);
                    handler.clone().serve_with_lifecycle(transport, lifecycle).await
                }
            }
        };
        let service = outcome.map_err(|error| {
            let by = if end.get().is_some() { EndedBy::Itself } else { EndedBy::Error };
            (handshake_error(server, &error, &end), by)
        })?;
        let peer = service.peer().clone();
        if let Some(version) = unknown_version(&peer) {
            let reason =
                format!("the server uses protocol revision `{version}`, which is not supported");
            let error = McpError::Handshake { server: server.name.clone(), reason };
            return Err((error, EndedBy::Error));
        }
        let info = info(&peer);
        let stop = CancellationToken::new();
        unfinished.disarm();
        Ok(Self {
            server: Arc::clone(server),
            peer,
            service: tokio::sync::Mutex::new(Some(service)),
            _guard: stop.clone().drop_guard(),
            stop,
            requests,
            end,
            progress: handler.progress.clone(),
            tools_changed: Arc::clone(&handler.tools_changed),
            info,
        })
    }

    /// Returns `true` if requests cannot succeed any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.stop.is_cancelled() || self.end.get().is_some() || self.peer.is_transport_closed()
    }

    /// Ends the connection and every process of the server, and waits for that. A server at an address that does not
    /// answer the requests at the end has [`FAREWELL`] for it.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        let service = self.service.lock().await.take();
        if let Some(mut service) = service {
            let mut closing = pin!(service.close());
            if tokio::time::timeout(FAREWELL, &mut closing).await.is_err() {
                self.requests.cancel();
                tokio::time::timeout(FAREWELL, closing).await.ok();
            }
        }
    }

    /// Lists the tools, within the bounds of lists.
    pub(crate) async fn list_tools(&self) -> Result<Listing, McpError> {
        let mut listing = Listing::default();
        if self.info.has_resources {
            listing.add_resource_tools(&self.server);
        }
        if !self.info.has_tools {
            return Ok(listing);
        }
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let request = ListToolsRequest {
                params: cursor
                    .clone()
                    .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor))),
                ..ListToolsRequest::default()
            };
            let request = ClientRequest::ListToolsRequest(request);
            let answer = self.request("tools/list", request, self.server.startup_timeout).await?;
            let ServerResult::ListToolsResult(page) = answer else {
                return Err(self.unexpected("tools/list"));
            };
            let tools = page.tools.into_iter().map(ListedTool::from);
            if !listing.extend(&self.server, tools) {
                return Ok(listing);
            }
            match page.next_cursor {
                None => return Ok(listing),
                Some(next) if Some(&next) == cursor.as_ref() => {
                    listing.notes.push(
                        "the list of tools repeats a page and was truncated there".to_owned(),
                    );
                    return Ok(listing);
                }
                Some(next) => cursor = Some(next),
            }
        }
        listing
            .notes
            .push(format!("the list of tools has more than {MAX_PAGES} pages and was truncated"));
        Ok(listing)
    }

    /// Returns how the server reports that its tools have changed; with 2026-07-28 that has to be subscribed to.
    pub(crate) fn change_subscription(&self) -> ChangeSubscription {
        let info = self.peer.peer_info();
        let is_stateless = info.is_some_and(|it| !it.protocol_version.has_initialize());
        let peer = (is_stateless && self.info.has_tools).then(|| self.peer.clone());
        ChangeSubscription { peer, stop: self.stop.clone() }
    }

    /// Returns why the connection ended by itself, or `None` if the client ended it.
    pub(crate) fn end_error(&self) -> Option<McpError> {
        let is_own = self.stop.is_cancelled();
        let reason = self.end.get();
        (!is_own).then(|| {
            self.connection_error(
                reason.unwrap_or_else(|| "the server closed the connection".to_owned()),
            )
        })
    }

    /// Sends a request and waits for its answer at most this long.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        request: ClientRequest,
        timeout: Duration,
    ) -> Result<ServerResult, McpError> {
        let limits = Limits { idle: timeout, total: timeout };
        self.request_with_progress(method, request, limits, &CancellationToken::new(), |_| {}).await
    }

    /// Sends a request, and reports its progress. Dropping the future, or cancelling, tells the server.
    pub(crate) async fn request_with_progress(
        &self,
        method: &'static str,
        request: ClientRequest,
        limits: Limits,
        cancel: &CancellationToken,
        mut on_progress: impl FnMut(Progress) + Send,
    ) -> Result<ServerResult, McpError> {
        let options = PeerRequestOptions::no_options();
        let sent = self.peer.send_request_with_option(request, options).await;
        let mut handle = sent.map_err(|error| self.error(method, &error))?;
        let mut listener = self.progress.listen(&handle.progress_token);
        let mut abandoned = Abandoned { peer: &self.peer, id: Some(handle.id.clone()) };
        let start = tokio::time::Instant::now();
        let mut idle_ends = start + limits.idle;
        let total_ends = start + limits.total;
        loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    abandoned.id = None;
                    let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                    return answer.map_err(|error| self.error(method, &error));
                }
                () = cancel.cancelled() => {
                    return Err(self.connection_error(format!("`{method}` was cancelled")));
                }
                Some(progress) = listener.receiver.recv() => {
                    idle_ends = tokio::time::Instant::now() + limits.idle;
                    on_progress(progress);
                }
                () = tokio::time::sleep_until(idle_ends.min(total_ends)) => {
                    let after = if total_ends <= idle_ends { limits.total } else { limits.idle };
                    return Err(McpError::Timeout { server: self.server.name.clone(), method, after });
                }
            }
        }
    }

    pub(crate) fn unexpected(&self, method: &'static str) -> McpError {
        self.connection_error(format!("the response to `{method}` violates the protocol"))
    }

    fn connection_error(&self, reason: String) -> McpError {
        McpError::Connection { server: self.server.name.clone(), reason }
    }

    pub(crate) fn error(&self, method: &'static str, error: &ServiceError) -> McpError {
        let server = self.server.name.clone();
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            let challenge = error.auth_challenge().map(ToOwned::to_owned);
            return McpError::LoginRequired { server, challenge };
        }
        if let ServiceError::TransportSend(error) = error
            && let Some(failure) = http::failure(error)
        {
            return match failure {
                HttpFailure::LoginRequired => McpError::LoginRequired { server, challenge: None },
                HttpFailure::Other(reason) => self.connection_error(reason),
            };
        }
        match error {
            ServiceError::McpError(data) => {
                McpError::Refused { server, method, message: text::line(&data.message) }
            }
            ServiceError::TransportClosed => {
                let reason = self.end.get();
                self.connection_error(
                    reason.unwrap_or_else(|| "the server closed the connection".to_owned()),
                )
            }
            ServiceError::UnexpectedResponse => self.unexpected(method),
            other => {
                let reason = self.end.get().unwrap_or_else(|| text::line(&chain(other)));
                self.connection_error(reason)
            }
        }
    }
}

/// How a server reports that its tools have changed.
pub(crate) struct ChangeSubscription {
    /// The connection, if reports have to be subscribed to.
    peer: Option<Peer<RoleClient>>,
    stop: CancellationToken,
}

impl ChangeSubscription {
    /// Waits for a change. Returns `false` when the connection has ended.
    pub(crate) async fn wait(self, changed: &Notify) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = self.subscribed(changed) => true,
        }
    }

    async fn subscribed(&self, changed: &Notify) {
        if let Some(peer) = &self.peer {
            let filter = SubscriptionFilter::builder().tools_list_changed().build();
            if let Ok(mut subscription) = peer.listen(filter).await
                && let Ok(Some(_)) = subscription.next().await
            {
                return;
            }
        }
        // There is nothing to subscribe to, or the server has ended the subscription.
        changed.notified().await;
    }
}

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Without a report of progress.
    pub(crate) idle: Duration,
    /// In all.
    pub(crate) total: Duration,
}

/// Who ended a connection that has not completed its handshake.
enum EndedBy {
    /// The process of the server ended, or broke the protocol.
    Itself,
    /// The client, or something on the way.
    Error,
}

/// Tells the server about a request whose answer is not awaited any more.
struct Abandoned<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.peer.clone();
        let params = CancelledNotificationParam::new(Some(id), None);
        let notification = CancelledNotification::new(params);
        runtime.spawn(async move {
            peer.send_notification(ClientNotification::CancelledNotification(notification))
                .await
                .ok();
        });
    }
}

fn lifecycle(protocol: ProtocolChoice) -> ClientLifecycleMode {
    match protocol {
        ProtocolChoice::Auto => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
        ProtocolChoice::V2026_07_28 => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        ProtocolChoice::V2025_11_25 => ClientLifecycleMode::Initialize,
    }
}

fn unknown_version(peer: &Peer<RoleClient>) -> Option<String> {
    let version = peer.peer_info()?.protocol_version.clone();
    let is_known = ProtocolVersion::KNOWN_VERSIONS.contains(&version);
    (!is_known).then(|| text::line(&version.to_string()))
}

fn info(peer: &Peer<RoleClient>) -> ConnectionInfo {
    let Some(info) = peer.peer_info() else { return ConnectionInfo::default() };
    let implementation = info.server_info.as_ref();
    let implementation =
        implementation.map(|it| text::line(&format!("{} {}", it.name, it.version)));
    ConnectionInfo {
        protocol: text::line(&info.protocol_version.to_string()),
        implementation,
        instructions: info
            .instructions
            .as_deref()
            .map(|it| text::clean(&text::cut(it, text::MAX_DESCRIPTION))),
        has_tools: info.capabilities.tools.is_some(),
        has_resources: info.capabilities.resources.is_some(),
        has_prompts: info.capabilities.prompts.is_some(),
    }
}

fn handshake_error(server: &McpServer, error: &ClientInitializeError, end: &EndReason) -> McpError {
    let name = server.name.clone();
    if error.is_authorization_required() || error.auth_challenge().is_some() {
        let challenge = error.auth_challenge().map(ToOwned::to_owned);
        return McpError::LoginRequired { server: name, challenge };
    }
    let reason = match http_failure(error) {
        Some(HttpFailure::LoginRequired) => {
            return McpError::LoginRequired { server: name, challenge: None };
        }
        Some(HttpFailure::Other(reason)) => reason,
        None => end.get().unwrap_or_else(|| handshake_reason(error)),
    };
    McpError::Handshake { server: name, reason }
}

fn http_failure(error: &ClientInitializeError) -> Option<HttpFailure> {
    match error {
        ClientInitializeError::TransportError { error, .. } => http::failure(error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => http_failure(fallback),
        _ => None,
    }
}

fn handshake_reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            "its response violates the protocol".to_owned()
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it supports none of the supported protocol revisions".to_owned()
        }
        ClientInitializeError::ConnectionClosed(_) => "the server closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(data) => text::line(&data.message),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_reason(fallback),
        other => text::line(&chain(other)),
    }
}

/// Joins the texts of an error and its causes, without repeating what an error says of its cause.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn last_words(log: &ServerLog) -> String {
    log.last().map(|line| format!("; last output: {}", text::line(&line))).unwrap_or_default()
}
