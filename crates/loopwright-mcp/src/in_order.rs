//! Reports of a server, taken in the order in which they arrive.

use std::borrow::Cow;

use rmcp::RoleClient;
#[expect(deprecated, reason = "servers of all revisions send log messages")]
use rmcp::model::LoggingMessageNotificationParam;
use rmcp::model::{
    ClientJsonRpcMessage, JsonRpcMessage, ProgressNotificationParam, ServerJsonRpcMessage,
    ServerNotification,
};
use rmcp::transport::Transport;
use serde_json::Value;

use crate::listeners::{Listeners, Progress};
use crate::log::ServerLog;

/// A transport that passes progress and log messages to the requests that wait before it hands on what follows them. The
/// library handles each notification in a task of its own, which may run after the response that was sent later.
pub(crate) struct InOrder<T> {
    inner: T,
    listeners: Listeners,
    log: ServerLog,
}

impl<T> InOrder<T> {
    pub(crate) fn new(inner: T, listeners: Listeners, log: ServerLog) -> Self {
        Self { inner, listeners, log }
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

impl<T: Transport<RoleClient>> Transport<RoleClient> for InOrder<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.inner.receive().await?;
        self.take_report(&message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
