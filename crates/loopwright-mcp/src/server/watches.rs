//! Subscriptions of clients to changes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, SelectAll, select_all};
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::broadcast::Receiver;
use tokio_util::task::AbortOnDropHandle;

use super::ServedContent;
use super::changes::{self, ServedList};

/// Resources that one client may watch.
const MAX_WATCHED: usize = 256;

type Watch = AbortOnDropHandle<()>;

/// What one client watches.
#[derive(Default)]
pub(super) struct Watches {
    resources: Mutex<BTreeMap<String, Watch>>,
    lists: Mutex<Option<Watch>>,
}

impl Watches {
    /// Tells a client from now on which lists change.
    pub(super) fn tell_changes(&self, mut changes: Receiver<ServedList>, peer: Peer<RoleServer>) {
        let telling = tokio::spawn(async move {
            while let Some(lists) = changes::next(&mut changes).await {
                for list in lists {
                    let told = match list {
                        ServedList::Tools => peer.notify_tool_list_changed().await,
                        ServedList::Prompts => peer.notify_prompt_list_changed().await,
                        ServedList::Resources => peer.notify_resource_list_changed().await,
                    };
                    if told.is_err() {
                        return;
                    }
                }
            }
        });
        *self.lists.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(AbortOnDropHandle::new(telling));
    }

    /// Tells a client from now on when a resource changes.
    pub(super) fn add(
        &self,
        uri: String,
        mut watched: BoxStream<'static, ()>,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        if resources.len() >= MAX_WATCHED && !resources.contains_key(&uri) {
            let text = format!("more than {MAX_WATCHED} subscriptions; end one first");
            return Err(ErrorData::invalid_request(text, None));
        }
        let changed = ResourceUpdatedNotificationParam::new(uri.clone());
        let telling = tokio::spawn(async move {
            while watched.next().await.is_some() {
                if peer.notify_resource_updated(changed.clone()).await.is_err() {
                    return;
                }
            }
        });
        resources.insert(uri, AbortOnDropHandle::new(telling));
        Ok(())
    }

    /// Stops telling a client of a resource.
    pub(super) fn remove(&self, uri: &str) {
        self.resources.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    /// Serves one stream of changes until it is cancelled.
    pub(super) async fn listen(
        &self,
        content: Option<&dyn ServedContent>,
        mut changes: Option<Receiver<ServedList>>,
        subscription: &SubscriptionContext,
    ) {
        let wanted = subscription.accepted().resource_subscriptions.iter().flatten();
        let mut resources: SelectAll<BoxStream<'static, String>> = select_all([]);
        for uri in wanted.take(MAX_WATCHED) {
            if let Some(content) = content
                && let Some(watched) = content.watch(uri).await
            {
                let uri = uri.clone();
                resources.push(watched.map(move |()| uri.clone()).boxed());
            }
        }
        let sink = subscription.sink();
        loop {
            // What cannot be sent is lost with its connection, which cancels this.
            tokio::select! {
                Some(uri) = resources.next(), if !resources.is_empty() => {
                    sink.notify_resource_updated(uri).await.ok();
                }
                lists = next(&mut changes) => for list in lists {
                    let told = match list {
                        ServedList::Tools => sink.notify_tool_list_changed().await,
                        ServedList::Prompts => sink.notify_prompt_list_changed().await,
                        ServedList::Resources => sink.notify_resource_list_changed().await,
                    };
                    told.ok();
                },
                () = subscription.cancelled() => return,
            }
        }
    }
}

/// Returns the lists that have changed next; waits forever if no list changes any more.
async fn next(changes: &mut Option<Receiver<ServedList>>) -> Vec<ServedList> {
    if let Some(changes) = changes
        && let Some(lists) = changes::next(changes).await
    {
        return lists;
    }
    std::future::pending().await
}
