//! Resources whose changes a server reports.

use std::fmt;
use std::sync::Arc;

use rmcp::model::{ClientRequest, SubscriptionFilter};
#[expect(
    deprecated,
    reason = "in earlier protocol revisions, clients subscribe to one resource at a time"
)]
use rmcp::model::{
    SubscribeRequest, SubscribeRequestParams, UnsubscribeRequest, UnsubscribeRequestParams,
};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::changes::Changes;
use crate::client::McpClient;
use crate::connection::Connection;
use crate::error::McpError;
use crate::request::Limits;

/// Reports changes to a resource until it is dropped.
#[must_use]
pub struct ResourceWatch {
    uri: String,
    updates: broadcast::Receiver<String>,
    connection: Arc<Connection>,
    /// Ends the subscription of 2026-07-28.
    _guard: DropGuard,
}

impl ResourceWatch {
    /// Waits until the server reports a change of the resource. Returns `false` when the connection has ended. Changes
    /// that follow each other closely can be reported as one. Nothing is lost if the future is dropped.
    pub async fn changed(&mut self) -> bool {
        loop {
            let update = tokio::select! {
                biased;
                update = self.updates.recv() => update,
                () = self.connection.ended() => return false,
            };
            match update {
                Ok(uri) if uri == self.uri => return true,
                // Too many changes at once may have been changes of this resource.
                Err(broadcast::error::RecvError::Lagged(_)) => return true,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Closed) => return false,
            }
        }
    }
}

impl fmt::Debug for ResourceWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceWatch").field("uri", &self.uri).finish_non_exhaustive()
    }
}

impl Drop for ResourceWatch {
    #[expect(
        deprecated,
        reason = "in earlier protocol revisions, clients end subscriptions with a request"
    )]
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.connection.info.is_stateless || self.connection.is_closed() {
            return;
        }
        let params = UnsubscribeRequestParams::new(self.uri.clone());
        let request = ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(params));
        let requester = self.connection.requests.clone();
        let time = requester.server.call_timeout;
        let limits = Limits { idle: time, total: time };
        runtime.spawn(async move {
            let never = CancellationToken::new();
            requester.request("resources/unsubscribe", request, limits, &never).await.ok();
        });
    }
}

impl McpClient {
    /// Watches a resource of the server, and starts the server if it is not running.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be started, does not answer, or reports no changes to the resource.
    #[expect(
        deprecated,
        reason = "in earlier protocol revisions, clients subscribe with a request"
    )]
    pub async fn watch_resource(&self, uri: &str) -> Result<ResourceWatch, Arc<McpError>> {
        let cancel = CancellationToken::new();
        let asked = self.asked(&cancel).await?;
        let changes = asked.connection.changes.clone();
        let updates = changes.resources.subscribe();
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        if asked.connection.info.is_stateless {
            self.subscribe(&asked.connection, uri, changes, stop).await?;
        } else {
            let params = SubscribeRequestParams::new(uri);
            let request = ClientRequest::SubscribeRequest(SubscribeRequest::new(params));
            asked.request("resources/subscribe", request).await?;
        }
        let connection = Arc::clone(&asked.connection);
        Ok(ResourceWatch { uri: uri.to_owned(), updates, connection, _guard: guard })
    }

    /// Subscribes by a request whose answer is a stream of changes.
    async fn subscribe(
        &self,
        connection: &Connection,
        uri: &str,
        changes: Changes,
        stop: CancellationToken,
    ) -> Result<(), Arc<McpError>> {
        let filter = SubscriptionFilter::builder().resource_subscription(uri).build();
        let listening = connection.requests.peer.listen(filter);
        let listening = tokio::time::timeout(self.server().call_timeout, listening);
        let failed = |reason: String| Arc::new(self.0.failed(reason));
        let mut subscription = match listening.await {
            Ok(Ok(subscription)) => subscription,
            Ok(Err(error)) => {
                return Err(Arc::new(connection.requests.error("subscriptions/listen", &error)));
            }
            Err(_) => {
                return Err(failed(
                    "the server did not respond to `subscriptions/listen`".to_owned(),
                ));
            }
        };
        let is_watched = subscription.acknowledged().resource_subscriptions.as_ref();
        if !is_watched.is_some_and(|it| it.iter().any(|it| it == uri)) {
            return Err(failed("the server does not report changes to this resource".to_owned()));
        }
        tokio::spawn(async move {
            loop {
                let notification = tokio::select! {
                    biased;
                    () = stop.cancelled() => {
                        subscription.cancel().await.ok();
                        return;
                    }
                    notification = subscription.next() => notification,
                };
                let Ok(Some(notification)) = notification else { return };
                changes.take(&notification);
            }
        });
        Ok(())
    }
}
