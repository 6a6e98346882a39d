//! What servers report about changes of their tools, resources and prompts.

use std::sync::Arc;

use rmcp::{
    RoleClient,
    model::{ServerNotification, SubscriptionFilter},
    service::Peer,
};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;

/// Reports about resources that a watcher has not taken yet.
const MAX_UPDATES: usize = 64;

/// Takes what a server reports about changes. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    /// The list of tools has changed.
    pub(crate) tools: Arc<Notify>,
    /// Addresses of resources that have changed.
    pub(crate) resources: broadcast::Sender<String>,
    /// The answers that are kept, until a change.
    pub(crate) cache: Cache,
}

impl Default for Changes {
    fn default() -> Self {
        let (resources, _) = broadcast::channel(MAX_UPDATES);
        Self { tools: Arc::default(), resources, cache: Cache::default() }
    }
}

impl Changes {
    pub(crate) fn of_resource(&self, uri: &str) {
        self.cache.forget_resource(uri);
        // There may be no watcher.
        self.resources.send(uri.to_owned()).ok();
    }

    /// Takes a report. Returns `true` if the tools have changed.
    pub(crate) fn take(&self, notification: &ServerNotification) -> bool {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => return true,
            ServerNotification::ResourceListChangedNotification(_) => self.cache.forget_resources(),
            ServerNotification::PromptListChangedNotification(_) => self.cache.forget_prompts(),
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.of_resource(&updated.params.uri);
            }
            _ => {}
        }
        false
    }
}

/// What waits for changes of a connection.
pub(crate) struct ChangeSubscription {
    /// The connection and what to subscribe to, if reports have to be subscribed to.
    pub(crate) peer: Option<(Peer<RoleClient>, SubscriptionFilter)>,
    pub(crate) changes: Changes,
    pub(crate) stop: CancellationToken,
}

impl ChangeSubscription {
    /// Waits for a change of the tools, and takes other reports meanwhile. Returns `false` when the connection has ended.
    pub(crate) async fn wait(self) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = self.tools_changed() => true,
        }
    }

    async fn tools_changed(&self) {
        if let Some((peer, filter)) = &self.peer
            && let Ok(mut subscription) = peer.listen(filter.clone()).await
        {
            while let Ok(Some(notification)) = subscription.next().await {
                if self.changes.take(&notification) {
                    return;
                }
            }
        }
        // There is nothing to subscribe to, or the server has ended the subscription.
        self.changes.tools.notified().await;
    }
}
