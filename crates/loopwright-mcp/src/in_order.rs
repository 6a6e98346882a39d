//! Reports of a server, taken in the order in which they arrive.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
#[expect(deprecated, reason = "servers of all revisions send log messages")]
use rmcp::model::LoggingMessageNotificationParam;
use rmcp::model::{
    ClientJsonRpcMessage, JsonRpcMessage, ProgressNotificationParam, RequestId,
    ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use serde_json::Value;

use crate::listeners::{Listeners, Progress};
use crate::log::ServerLog;
use crate::stdio::EndReason;

/// Requests of a server that wait for responses at the same time.
const MAX_OPEN_REQUESTS: usize = 1_000;

/// A transport that passes progress and log messages to the requests that wait before it hands on what follows them. The
/// library handles each notification in a task of its own, which may run after the response that was sent later.
pub(crate) struct InOrder<T> {
    inner: T,
    listeners: Listeners,
    log: ServerLog,
    end: EndReason,
    open: Arc<Mutex<OpenRequests>>,
}

/// Requests of the server that it has no response to yet.
#[derive(Default)]
struct OpenRequests {
    ids: HashSet<RequestId>,
    /// Responses that are being sent.
    unsent: usize,
}

impl<T> InOrder<T> {
    pub(crate) fn new(inner: T, listeners: Listeners, log: ServerLog, end: EndReason) -> Self {
        Self { inner, listeners, log, end, open: Arc::default() }
    }

    /// Counts the requests of the server. Returns `false` if it sends them without waiting for responses: each one
    /// takes memory until it can be answered.
    fn count_request(&self, message: &ServerJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                let mut open = lock(&self.open);
                open.ids.insert(request.id.clone());
                if open.ids.len().max(open.unsent) > MAX_OPEN_REQUESTS {
                    self.end.set(format!(
                        "the server sent more than {MAX_OPEN_REQUESTS} requests without waiting for responses"
                    ));
                    return false;
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(it) = &notification.notification
                    && let Some(id) = &it.params.request_id
                {
                    lock(&self.open).ids.remove(id);
                }
            }
            _ => {}
        }
        true
    }

    fn take_report(&self, message: &ServerJsonRpcMessage) {
        let JsonRpcMessage::Notification(notification) = message else { return };
        match &notification.notification {
            ServerNotification::ProgressNotification(progress) => self.progress(&progress.params),
            ServerNotification::LoggingMessageNotification(log) => self.log(&log.params),
            _ => {}
        }
    }

    fn progress(&self, params: &ProgressNotificationParam) {
        let ProgressNotificationParam { progress_token, progress, total, message, .. } = params;
        let progress = Progress { done: *progress, total: *total, message: message.clone() };
        self.listeners.progress(progress_token, progress);
    }

    #[expect(deprecated, reason = "servers of all revisions send log messages")]
    fn log(&self, params: &LoggingMessageNotificationParam) {
        let data = match &params.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let level = format!("{:?}", params.level).to_lowercase();
        self.log.push(&format!("[{level}] {data}"));
        self.listeners.log(&level, &data);
    }
}

fn lock(open: &Mutex<OpenRequests>) -> MutexGuard<'_, OpenRequests> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for InOrder<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let (open, sending) = (Arc::clone(&self.open), self.inner.send(item));
        async move {
            let Some(id) = answered else { return sending.await };
            lock(&open).unsent += 1;
            let sent = sending.await;
            let mut open = lock(&open);
            open.unsent -= 1;
            open.ids.remove(&id);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.inner.receive().await?;
        if !self.count_request(&message) {
            return None;
        }
        self.take_report(&message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
