//! Notifications about changed lists of a server.

use tokio::sync::broadcast::{Receiver, Sender, channel, error::RecvError};

/// How many changes a slow client can fall behind before it is told that every list has changed.
const BACKLOG: usize = 16;

/// A list that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedList {
    Tools,
    Prompts,
    Resources,
}

impl ServedList {
    const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

/// Notifies clients of a [`ToolServer`](crate::ToolServer) about changed lists. Clones share their state.
#[derive(Clone, Debug)]
pub struct ServerChanges(Sender<ServedList>);

impl Default for ServerChanges {
    fn default() -> Self {
        Self(channel(BACKLOG).0)
    }
}

impl ServerChanges {
    /// Creates a notifier.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notifies clients that the list of tools has changed.
    pub fn tools(&self) {
        self.tell(ServedList::Tools);
    }

    /// Notifies clients that the list of prompts has changed.
    pub fn prompts(&self) {
        self.tell(ServedList::Prompts);
    }

    /// Notifies clients that the list of resources has changed.
    pub fn resources(&self) {
        self.tell(ServedList::Resources);
    }

    fn tell(&self, list: ServedList) {
        // Without clients, nobody is told.
        self.0.send(list).ok();
    }

    pub(super) fn subscribe(&self) -> Receiver<ServedList> {
        self.0.subscribe()
    }
}

/// Returns the lists that have changed next; `None` if there are no more changes.
pub(super) async fn next(receiver: &mut Receiver<ServedList>) -> Option<Vec<ServedList>> {
    match receiver.recv().await {
        Ok(list) => Some(vec![list]),
        Err(RecvError::Lagged(_)) => Some(ServedList::ALL.to_vec()),
        Err(RecvError::Closed) => None,
    }
}
