//! A connection to a server, from the handshake to the end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient,
    model::{
        ClientRequest, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
        SubscriptionFilter,
    },
    service::{ClientInitializeError, Peer, RunningService},
    transport::{StreamableHttpClientTransport, Transport},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::changes::{ChangeSubscription, Changes};
use crate::config::{McpServer, ProtocolChoice, ServerSampling, ServerTransport};
use crate::discovery::UsableDiscovery;
use crate::error::McpError;
use crate::handler::Handler;
use crate::http::{self, EndingClient, EndpointClient, HttpFailure};
use crate::in_order::InOrder;
use crate::launch::McpHost;
use crate::listeners::Listeners;
use crate::log::ServerLog;
use crate::login;
use crate::request::{Limits, Requester};
use crate::stdio::{EndReason, StdioTransport};
use crate::text;
use crate::tools::{ListedTool, Listing};

/// Pages of a list that are read.
const MAX_PAGES: usize = 200;

/// How long a server may take to answer the requests that end a connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection that has completed its handshake. Dropping it ends the server's processes.
pub(crate) struct Connection {
    pub(crate) requests: Requester,
    service: tokio::sync::Mutex<Option<RunningService<RoleClient, Handler>>>,
    stop: CancellationToken,
    /// Ends requests to an address.
    exchanges: CancellationToken,
    _guard: DropGuard,
    pub(crate) changes: Changes,
    pub(crate) info: ConnectionInfo,
}

/// The result of the handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "capabilities that do not depend on each other")]
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
    /// Whether the server completes arguments.
    pub has_completions: bool,
    /// Whether the revision has no sessions, as 2026-07-28.
    pub is_stateless: bool,
}

impl Connection {
    /// Starts a server and completes the handshake within the time that the configuration allows.
    pub(crate) async fn open(
        server: &Arc<McpServer>,
        host: &McpHost,
        log: &ServerLog,
        changes: &Changes,
    ) -> Result<Self, McpError> {
        let opening = Self::open_untimed(server, host, log, changes);
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
        changes: &Changes,
    ) -> Result<Self, McpError> {
        let handler = Handler {
            roots: host.roots().into(),
            server: server.name.clone(),
            answers: host.answers().cloned(),
            listeners: Listeners::default(),
            samples: server.sampling != ServerSampling::Deny,
            changes: changes.clone(),
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
        let exchanges = CancellationToken::new();
        let unfinished = exchanges.clone().drop_guard();
        let outcome = match &server.transport {
            ServerTransport::Stdio(stdio) => {
                let child = host.start(server, stdio).await.map_err(|it| (it, EndedBy::Error))?;
                let transport = StdioTransport::new(child, log.clone(), end.clone());
                serve(handler, log, &end, transport, lifecycle).await
            }
            ServerTransport::Http(address) => {
                let by_error = |error| (error, EndedBy::Error);
                let endpoint = http::endpoint(server, address, host).map_err(by_error)?;
                let config = endpoint.config;
                match endpoint.client {
                    EndpointClient::Socket(client) => {
                        let client = EndingClient::new(client, exchanges.clone());
                        let transport = StreamableHttpClientTransport::with_client(client, config);
                        serve(handler, log, &end, transport, lifecycle).await
                    }
                    EndpointClient::Network(client) => {
                        let authorized = login::of_host(server, host, &config.uri, &client).await;
                        if let Some((client, before)) = authorized.map_err(by_error)? {
                            let client = EndingClient::new(client, exchanges.clone());
                            let client = client.with_before(before);
                            let transport =
                                StreamableHttpClientTransport::with_client(client, config);
                            serve(handler, log, &end, transport, lifecycle).await
                        } else {
                            let client = EndingClient::new(client, exchanges.clone());
                            let transport =
                                StreamableHttpClientTransport::with_client(client, config);
                            serve(handler, log, &end, transport, lifecycle).await
                        }
                    }
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
        let requests = Requester {
            server: Arc::clone(server),
            peer,
            end,
            listeners: handler.listeners.clone(),
        };
        requests.ask_for_log();
        Ok(Self {
            requests,
            service: tokio::sync::Mutex::new(Some(service)),
            _guard: stop.clone().drop_guard(),
            stop,
            exchanges,
            changes: handler.changes.clone(),
            info,
        })
    }

    /// Returns `true` if requests cannot succeed any more.
    pub(crate) fn is_closed(&self) -> bool {
        let Requester { end, peer, .. } = &self.requests;
        self.stop.is_cancelled() || end.get().is_some() || peer.is_transport_closed()
    }

    /// Returns within a second after the connection has ended.
    pub(crate) async fn ended(&self) {
        while !self.is_closed() {
            let stopped = self.stop.cancelled();
            tokio::time::timeout(Duration::from_secs(1), stopped).await.ok();
        }
    }

    /// Ends the connection and every process of the server, and waits for that. A server at an address that does not
    /// answer the requests at the end has [`FAREWELL`] for it.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        let service = self.service.lock().await.take();
        if let Some(mut service) = service {
            let mut closing = pin!(service.close());
            if tokio::time::timeout(FAREWELL, &mut closing).await.is_err() {
                self.exchanges.cancel();
                tokio::time::timeout(FAREWELL, closing).await.ok();
            }
        }
    }

    /// Lists the tools, within the bounds of lists.
    pub(crate) async fn list_tools(&self) -> Result<Listing, McpError> {
        let server = &self.requests.server;
        let mut listing = Listing::default();
        if self.info.has_resources {
            listing.add_resource_tools(server);
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
            let answer = self.request("tools/list", request, server.startup_timeout).await?;
            let ServerResult::ListToolsResult(page) = answer else {
                return Err(self.requests.unexpected("tools/list"));
            };
            let tools = page.tools.into_iter().map(ListedTool::from);
            if !listing.extend(server, tools) {
                return Ok(listing);
            }
            match page.next_cursor {
                None => return Ok(listing),
                Some(next) if Some(&next) == cursor.as_ref() => {
                    listing
                        .notes
                        .push("the tool list repeats a page and was truncated after it".to_owned());
                    return Ok(listing);
                }
                Some(next) => cursor = Some(next),
            }
        }
        listing
            .notes
            .push(format!("the tool list has more than {MAX_PAGES} pages and was truncated"));
        Ok(listing)
    }

    /// Returns what waits for reports of changes; with 2026-07-28 they have to be subscribed to.
    pub(crate) fn change_subscription(&self) -> ChangeSubscription {
        let ConnectionInfo { has_tools, has_resources, has_prompts, .. } = self.info;
        let mut filter = SubscriptionFilter::builder();
        if has_tools {
            filter = filter.tools_list_changed();
        }
        if has_resources {
            filter = filter.resources_list_changed();
        }
        if has_prompts {
            filter = filter.prompts_list_changed();
        }
        let has_any = has_tools || has_resources || has_prompts;
        let peer = &self.requests.peer;
        let peer = (self.info.is_stateless && has_any).then(|| (peer.clone(), filter.build()));
        ChangeSubscription { peer, changes: self.changes.clone(), stop: self.stop.clone() }
    }

    /// Returns why the connection ended by itself, or `None` if the client ended it.
    pub(crate) fn end_error(&self) -> Option<McpError> {
        let is_own = self.stop.is_cancelled();
        let reason = self.requests.end.get();
        (!is_own).then(|| {
            self.requests
                .failed(reason.unwrap_or_else(|| "the server closed the connection".to_owned()))
        })
    }

    /// Sends a request and waits for its answer at most this long.
    async fn request(
        &self,
        method: &'static str,
        request: ClientRequest,
        timeout: Duration,
    ) -> Result<ServerResult, McpError> {
        let limits = Limits { idle: timeout, total: timeout };
        self.requests.request(method, request, limits, &CancellationToken::new()).await
    }
}

/// Who ended a connection that has not completed its handshake.
enum EndedBy {
    /// The process of the server ended, or broke the protocol.
    Itself,
    /// The client, or something on the way.
    Error,
}

/// Shakes hands over a transport, whose reports are taken in order.
async fn serve<T: Transport<RoleClient> + 'static>(
    handler: &Handler,
    log: &ServerLog,
    end: &EndReason,
    transport: T,
    lifecycle: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, Handler>, ClientInitializeError> {
    let transport = UsableDiscovery::new(transport);
    let transport = InOrder::new(transport, handler.listeners.clone(), log.clone(), end.clone());
    handler.clone().serve_with_lifecycle(transport, lifecycle).await
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
        has_completions: info.capabilities.completions.is_some(),
        is_stateless: !info.protocol_version.has_initialize(),
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
            "the server's response violates the protocol".to_owned()
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "the server supports none of this client's protocol revisions".to_owned()
        }
        ClientInitializeError::ConnectionClosed(_) => "the server closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(data) => text::line(&data.message),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_reason(fallback),
        other => text::line(&text::chain(other)),
    }
}

fn last_words(log: &ServerLog) -> String {
    log.last().map(|line| format!("; last output: {}", text::line(&line))).unwrap_or_default()
}
