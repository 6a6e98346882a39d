//! Changes on their way to a journal.

use crate::{
    change::{Change, ChangeRecord},
    clock::Timestamp,
};

/// Changes that are part of the state and not yet acknowledged by a journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outbox {
    entries: Vec<ChangeRecord>,
    /// The number of leading entries that were sent together and not acknowledged.
    sent: usize,
}

/// The stamp of changes made outside a run; the run replaces it.
const UNSTAMPED: Timestamp = Timestamp::UNSTAMPED;

impl Outbox {
    pub(crate) fn push(&mut self, stamped: ChangeRecord) {
        self.entries.push(stamped);
    }

    pub(crate) fn push_unstamped(&mut self, change: Change) {
        self.push(ChangeRecord { at: UNSTAMPED, change });
    }

    /// Stamps unstamped changes. Returns `true` if there were any.
    pub(crate) fn stamp(&mut self, now: Timestamp) -> bool {
        let mut stamped = false;
        for entry in self.entries.iter_mut().filter(|it| it.at == UNSTAMPED) {
            (entry.at, stamped) = (now, true);
        }
        stamped
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.entries.iter().map(|it| &it.change)
    }

    /// Returns `true` if a batch is being sent: it is sent first, unchanged.
    pub(crate) fn is_sending(&self) -> bool {
        self.sent > 0
    }

    /// Returns the batch to send: the one that was sent and not acknowledged, or else all changes.
    pub(crate) fn batch(&mut self) -> Vec<ChangeRecord> {
        if self.sent == 0 {
            self.sent = self.entries.len();
        }
        self.entries[..self.sent].to_vec()
    }

    pub(crate) fn acknowledge(&mut self) {
        self.entries.drain(..self.sent);
        self.sent = 0;
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.sent = 0;
    }
}
