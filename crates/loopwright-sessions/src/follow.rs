//! Followers of agents, which read the events in the logs of sessions.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use loopwright_broadcast::{BroadcastEnvelope, envelope_types};
use loopwright_core::Clock;

use crate::{
    id::SessionId,
    status::SessionStatus,
    store::{LogEntry, SessionLog, SessionStore, StoreError, WAIT_LIMIT},
};

/// Reads the events of a session from any position, and waits for more until the run ends.
///
/// A caller that was interrupted continues with the number of the last envelope that it has seen,
/// and misses no envelope that is still stored.
pub struct EventFollower {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    id: SessionId,
    after: u64,
    /// Whether the agent takes no further step after the last envelope.
    is_at_rest: bool,
    page: VecDeque<LogEntry>,
}

/// The next item from a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowEvent {
    /// An event: an envelope with its number.
    Entry(LogEntry),
    /// No event arrived within the time limit.
    Timeout,
    /// The run has ended or waits for a decision, and all its events have been read.
    Ended,
}

impl EventFollower {
    /// Follows a session from the event after a number; from the beginning after 0.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if the session does not exist, or was deleted.
    pub async fn of(
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        id: SessionId,
        after: u64,
    ) -> Result<Self, StoreError> {
        exists(&*store, &id).await?;
        let last = match after.checked_sub(1) {
            Some(before) => store.read_log(&id, SessionLog::Events, before, 1).await?,
            None => Vec::new(),
        };
        let is_at_rest = last.first().is_some_and(|it| it.number == after && rests(it));
        Ok(Self { store, clock, id, after, is_at_rest, page: VecDeque::new() })
    }

    /// Follows a session from the beginning of its latest run, even if it has ended.
    ///
    /// # Errors
    ///
    /// As for [`of`](EventFollower::of).
    pub async fn latest(
        store: Arc<dyn SessionStore>,
        clock: Arc<dyn Clock>,
        id: SessionId,
    ) -> Result<Self, StoreError> {
        let (mut begins_after, mut read) = (0, 0);
        let mut rested = false;
        loop {
            let notes = store.read_log(&id, SessionLog::Events, read, WAIT_LIMIT).await?;
            let Some(last) = notes.last() else { break };
            read = last.number;
            for note in &notes {
                if rested {
                    begins_after = note.number - 1;
                }
                rested = rests(note);
            }
        }
        Self::of(store, clock, id, begins_after).await.map(|it| Self { is_at_rest: false, ..it })
    }

    /// Returns the next item; [`Timeout`](FollowEvent::Timeout) if that takes longer than
    /// `at_most`. Dropping the future loses no event.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if the session was deleted. Returns an error if the store
    /// fails; the caller can then try again.
    pub async fn next(&mut self, at_most: Duration) -> Result<FollowEvent, StoreError> {
        let (id, log, after) = (&self.id, SessionLog::Events, self.after);
        if self.page.is_empty() && self.is_at_rest {
            self.page = self.store.read_log(id, log, after, WAIT_LIMIT).await?.into();
            if self.page.is_empty() {
                return Ok(FollowEvent::Ended);
            }
        }
        if self.page.is_empty() {
            self.page = self.store.wait(id, log, after, &*self.clock, at_most).await?.into();
        }
        let Some(note) = self.page.pop_front() else {
            exists(&*self.store, &self.id).await?;
            return Ok(FollowEvent::Timeout);
        };
        (self.after, self.is_at_rest) = (note.number, rests(&note));
        Ok(FollowEvent::Entry(note))
    }

    /// Waits for another run after one that has ended.
    ///
    /// Returns [`Ended`](FollowEvent::Ended) if none started within `at_most` and the session has
    /// no queued or running job; [`Timeout`](FollowEvent::Timeout) if it has one. A job that waits for its start does not
    /// count.
    ///
    /// # Errors
    ///
    /// As for [`next`](EventFollower::next).
    pub async fn next_run(&mut self, at_most: Duration) -> Result<FollowEvent, StoreError> {
        let rested = std::mem::take(&mut self.is_at_rest);
        match self.next(at_most).await? {
            FollowEvent::Timeout if rested => {
                self.is_at_rest = true;
                let has_jobs = self.has_jobs().await?;
                Ok(if has_jobs { FollowEvent::Timeout } else { FollowEvent::Ended })
            }
            other => Ok(other),
        }
    }

    async fn has_jobs(&self) -> Result<bool, StoreError> {
        match self.store.jobs() {
            Some(jobs) => jobs.has_jobs(&self.id, self.clock.now()).await,
            None => Ok(false),
        }
    }

    /// Returns the session.
    pub fn id(&self) -> &SessionId {
        &self.id
    }
}

impl fmt::Debug for EventFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFollower")
            .field("session", &self.id)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// Fails if a session does not exist, or was deleted.
async fn exists(store: &dyn SessionStore, id: &SessionId) -> Result<(), StoreError> {
    match store.header(id).await? {
        Some(header) if header.status != SessionStatus::Deleted => Ok(()),
        _ => Err(StoreError::NotFound(id.clone())),
    }
}

/// Returns `true` if the session's own agent takes no further step after this.
fn rests(note: &LogEntry) -> bool {
    // Envelopes begin with their type: few of them have to be read.
    let begins = format!("{{\"type\":\"{}\"", envelope_types::STATUS);
    note.body.starts_with(begins.as_bytes())
        && serde_json::from_slice(&note.body)
            .is_ok_and(|it: BroadcastEnvelope| it.is_idle_or_terminal())
}
