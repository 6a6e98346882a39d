//! Requests to a server, and what arrives until one is answered.

use std::sync::Arc;
use std::time::Duration;

#[expect(
    deprecated,
    reason = "server log messages are deprecated, and the protocol has no replacement yet"
)]
use rmcp::model::{LoggingLevel, SetLevelRequest, SetLevelRequestParams};
use rmcp::{
    RoleClient,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
        RequestId, RequestMetaObject, ServerResult,
    },
    service::{Peer, PeerRequestOptions, RequestHandle, ServiceError},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::McpServer;
use crate::error::McpError;
use crate::http::{self, HttpFailure};
use crate::listeners::{Listener, Listeners, Questions, Report, ServerAsk};
use crate::stdio::EndReason;
use crate::text;

/// How long a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Without a report of progress.
    pub(crate) idle: Duration,
    /// In all.
    pub(crate) total: Duration,
}

/// What sends requests on a connection. Clones share the connection, which ends without them.
#[derive(Clone)]
pub(crate) struct Requester {
    pub(crate) server: Arc<McpServer>,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) end: EndReason,
    pub(crate) listeners: Listeners,
}

/// A request that waits for its answer. Dropping it tells the server that the answer is not awaited any more.
pub(crate) struct PendingRequest {
    requester: Requester,
    method: &'static str,
    handle: RequestHandle<RoleClient>,
    listener: Listener,
    /// The answer, while reports from before it are still to be taken.
    answer: Option<ServerResult>,
    abandoned: Abandoned,
    limits: Limits,
    idle_ends: Instant,
    total_ends: Instant,
}

/// What arrives while a request waits.
#[expect(
    clippy::large_enum_variant,
    reason = "it is destructured immediately, and most are answers"
)]
pub(crate) enum Arrival {
    /// The answer; nothing else follows.
    Answer(ServerResult),
    /// What the server reports.
    Report(Report),
    /// The server asks something, and works on once it has the answer.
    Ask(ServerAsk),
}

impl Requester {
    /// Sends a request.
    pub(crate) async fn send(
        &self,
        method: &'static str,
        request: ClientRequest,
        limits: Limits,
        questions: Questions,
    ) -> Result<PendingRequest, McpError> {
        let mut options = PeerRequestOptions::no_options();
        if questions == Questions::Taken && self.is_stateless() {
            options = options.with_meta(log_meta());
        }
        let mut listener = self.listeners.listen(questions);
        let sent = self.peer.send_request_with_option(request, options).await;
        let handle = sent.map_err(|error| self.error(method, &error))?;
        listener.name(&handle.progress_token);
        let abandoned = Abandoned { peer: self.peer.clone(), id: Some(handle.id.clone()) };
        let now = Instant::now();
        Ok(PendingRequest {
            requester: self.clone(),
            method,
            handle,
            listener,
            answer: None,
            abandoned,
            limits,
            idle_ends: now + limits.idle,
            total_ends: now + limits.total,
        })
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        request: ClientRequest,
        limits: Limits,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, McpError> {
        let mut pending = self.send(method, request, limits, Questions::Left).await?;
        loop {
            if let Arrival::Answer(answer) = pending.next(cancel).await? {
                return Ok(answer);
            }
        }
    }

    /// Asks a server of an earlier revision for log messages. Those of 2026-07-28 are asked for with each call.
    #[expect(deprecated, reason = "earlier revisions of the protocol have log messages")]
    pub(crate) fn ask_for_log(&self) {
        let has_log = self.peer.peer_info().is_some_and(|it| it.capabilities.logging.is_some());
        if !has_log || self.is_stateless() {
            return;
        }
        let level = SetLevelRequestParams::new(LoggingLevel::Info);
        let request = ClientRequest::SetLevelRequest(SetLevelRequest::new(level));
        let time = self.server.startup_timeout;
        let (requester, limits) = (self.clone(), Limits { idle: time, total: time });
        // Nothing waits for it, and a server that refuses it works all the same.
        tokio::spawn(async move {
            let never = CancellationToken::new();
            requester.request("logging/setLevel", request, limits, &never).await.ok();
        });
    }

    fn is_stateless(&self) -> bool {
        self.peer.peer_info().is_some_and(|it| !it.protocol_version.has_initialize())
    }

    pub(crate) fn unexpected(&self, method: &'static str) -> McpError {
        self.failed(format!("the response to `{method}` violates the protocol"))
    }

    pub(crate) fn failed(&self, reason: String) -> McpError {
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
                HttpFailure::Other(reason) => self.failed(reason),
            };
        }
        match error {
            ServiceError::McpError(data) => {
                McpError::Refused { server, method, message: text::line(&data.message) }
            }
            ServiceError::TransportClosed => {
                let reason = self.end.get();
                self.failed(reason.unwrap_or_else(|| "the server closed the connection".to_owned()))
            }
            ServiceError::UnexpectedResponse => self.unexpected(method),
            other => {
                let reason = self.end.get().unwrap_or_else(|| text::line(&text::chain(other)));
                self.failed(reason)
            }
        }
    }
}

impl PendingRequest {
    /// Waits for what arrives next. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self, cancel: &CancellationToken) -> Result<Arrival, McpError> {
        if let Some(answer) = self.answer.take() {
            return Ok(self.rest(answer));
        }
        tokio::select! {
            biased;
            answer = &mut self.handle.rx => {
                self.abandoned.id = None;
                let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                let answer = answer.map_err(|error| self.requester.error(self.method, &error))?;
                // What is reported from now on is about other requests.
                self.listener.reports.close();
                Ok(self.rest(answer))
            }
            () = cancel.cancelled() => {
                Err(self.requester.failed(format!("`{}` was cancelled", self.method)))
            }
            // What arrives without end must not hide that the time is over.
            () = tokio::time::sleep_until(self.total_ends) => {
                let is_total = self.total_ends <= self.idle_ends;
                Err(self.timeout(if is_total { self.limits.total } else { self.limits.idle }))
            }
            Some(ask) = self.listener.asks.recv() => Ok(Arrival::Ask(ask)),
            Some(report) = self.listener.reports.recv() => {
                if matches!(report, Report::Progress(_)) {
                    self.idle_ends = Instant::now() + self.limits.idle;
                }
                Ok(Arrival::Report(report))
            }
            () = tokio::time::sleep_until(self.idle_ends) => Err(self.timeout(self.limits.idle)),
        }
    }

    fn timeout(&self, after: Duration) -> McpError {
        let server = self.requester.server.name.clone();
        McpError::Timeout { server, method: self.method, after }
    }

    /// Returns a report from before the answer, or the answer if there is none left.
    fn rest(&mut self, answer: ServerResult) -> Arrival {
        match self.listener.reports.try_recv() {
            Ok(report) => {
                self.answer = Some(answer);
                Arrival::Report(report)
            }
            Err(_) => Arrival::Answer(answer),
        }
    }

    /// Leaves questions of the server to other calls while this one waits for the user.
    pub(crate) fn hold(&self) {
        self.listener.leave_questions();
    }

    /// Takes questions again.
    pub(crate) fn release(&self) {
        self.listener.take_questions();
    }

    /// Takes the time off the limits for which the server has waited for an answer of the client.
    pub(crate) fn extend_limits(&mut self, asked_at: Instant) {
        let now = Instant::now();
        self.idle_ends = now + self.limits.idle;
        self.total_ends += now - asked_at;
    }
}

/// Asks for the log messages of a call.
#[expect(
    deprecated,
    reason = "log messages during calls are deprecated, and the protocol has no replacement yet"
)]
fn log_meta() -> RequestMetaObject {
    let mut meta = RequestMetaObject::default();
    meta.set_log_level(LoggingLevel::Info);
    meta
}

/// Tells the server about a request whose answer is not awaited any more.
struct Abandoned {
    peer: Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for Abandoned {
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
