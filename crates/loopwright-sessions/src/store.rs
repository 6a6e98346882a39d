//! The contract of stores.

use std::{collections::BTreeSet, ops::Range, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{BoxError, ChangeRecord, Clock, Seq, Timestamp, messages::Message};
use serde::{Deserialize, Serialize};

use crate::{
    header::{SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    jobs::JobQueue,
    status::SessionStatus,
};

/// Keeps sessions: for each a header, the agent's definition, and branches of changes to which is only
/// ever appended.
///
/// Every method either happens as a whole or not at all, and what it has acknowledged survives a crash
/// of the machine. [`conformance`](crate::conformance) says all this in tests that a store of one's own
/// can run.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Creates a session with its first changes; its version is 1 then.
    ///
    /// `header.from` makes it a fork: its branch begins with that of another session, of which nothing is
    /// copied. `header.length` is not read.
    ///
    /// # Errors
    ///
    /// [`Exists`](StoreError::Exists) if the name is taken, by a deleted session too, and
    /// [`NotFound`](StoreError::NotFound) if there is nothing to fork there.
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError>;

    /// Returns what is known of a session; `None` if there is none. Deleted ones are found.
    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError>;

    /// Returns a session's agent, without reading its conversation; `None` if there is no such session
    /// or it was deleted.
    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError>;

    /// Returns a session with all changes that lead to its state; `None` if there is none or it was
    /// deleted.
    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError>;

    /// Appends to the current branch of a session, and changes its header.
    ///
    /// Nothing is written unless the version is the expected one; the new one is returned. The last
    /// write repeated byte for byte, with the version that was expected then, is acknowledged again and
    /// kept once.
    ///
    /// # Errors
    ///
    /// [`Conflict`](StoreError::Conflict) if the version is another one or the batch does not follow
    /// what is there; [`LeaseLost`](StoreError::LeaseLost) if the lease is not in force;
    /// [`Busy`](StoreError::Busy) if there is a lease in force and none was shown.
    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError>;

    /// Begins a new branch that has so many changes in common with the current one, and makes it the
    /// current one. Nothing is deleted. The new version is returned.
    ///
    /// # Errors
    ///
    /// As of [`append`](SessionStore::append); [`NotFound`](StoreError::NotFound) if there are fewer
    /// changes.
    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Returns a page of sessions. No conversation is read for it.
    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError>;

    /// Permanently deletes a session. Later loads return `None`, later writes fail, and the ID cannot be
    /// reused. Deleting a session that does not exist does nothing.
    ///
    /// What forks of it need is kept.
    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError>;

    /// Deletes those of some sessions that were last written before some moment and on which no lease is in force.
    /// Returns them.
    ///
    /// Deleting many at once takes less than deleting each by itself.
    async fn delete_unused(
        &self,
        ids: &[SessionId],
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<SessionId>, StoreError> {
        let claim = LeaseRequest { owner: "prune", replaces: None, now, ttl: MOMENT };
        let mut deleted = Vec::new();
        for id in ids {
            let lease = match self.lease(id, claim).await {
                Err(StoreError::Busy { .. } | StoreError::NotFound(_)) => continue,
                lease => lease?,
            };
            if self.header(id).await?.is_some_and(|it| it.updated_at < before) {
                self.delete(id, now).await?;
                deleted.push(id.clone());
            } else {
                self.release(&lease).await?;
            }
        }
        Ok(deleted)
    }

    /// Returns the names of sessions that begin so and were not deleted, at most so many, in their order. A session
    /// whose data is damaged is among them.
    async fn named(&self, beginning: &str, most: usize) -> Result<Vec<SessionId>, StoreError> {
        let mut names = BTreeSet::new();
        let mut query = SessionQuery::first(PAGE);
        loop {
            let page = self.list(&query).await?;
            let found = page.sessions.into_iter().map(|it| it.id).chain(page.unreadable);
            names.extend(found.filter(|it| it.as_str().starts_with(beginning)));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(names.into_iter().take(most).collect()),
            }
        }
    }

    /// Takes the right to write a session, until some moment.
    ///
    /// A store that many machines use measures time by a clock of its own, since theirs may differ: `until` is then
    /// a moment of that clock, and [`LeaseRequest::now`] is not read.
    ///
    /// # Errors
    ///
    /// [`Busy`](StoreError::Busy) if a caller has it, unless it is who the claim says is gone.
    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError>;

    /// Keeps the right to write for longer.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`](StoreError::LeaseLost) if another process holds it, or the session is gone.
    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError>;

    /// Gives the right to write back; nothing happens if it was lost.
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Leaves a control for the process that runs the session now or next.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if there is no such session.
    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError>;

    /// Returns the control messages that no write has [handled](AppendRequest::handled), in the order in which they
    /// were posted. They stay until a write handles them.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`](StoreError::LeaseLost) if the lease is not in force.
    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError>;

    /// Adds notes to a log beside the session's changes, and returns the number of the last one. The
    /// first note of a log is number 1.
    ///
    /// If it is said how many are kept, the oldest ones beyond that may be forgotten. Neither version
    /// nor lease matter: what is noted changes no state.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if there is no such session.
    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError>;

    /// Returns the notes of a log after some number, at most so many; none if there is no such session.
    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError>;

    /// Waits until there are notes after some number, or for so long at most.
    ///
    /// A store that is not told of them looks again and again, which is what this does if it is not
    /// overridden.
    async fn wait(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<(), StoreError> {
        let began = clock.monotonic();
        while self.read_log(id, log, after, 1).await?.is_empty() {
            let waited = clock.monotonic().saturating_sub(began);
            let Some(left) = at_most.checked_sub(waited).filter(|it| !it.is_zero()) else { break };
            clock.sleep(left.min(LOOKS)).await;
        }
        Ok(())
    }

    /// Frees the space of what is unreachable: changes of deleted sessions that no fork
    /// needs. With `abandoned`, changes too that a rewind left behind and that no fork needs.
    ///
    /// Their names stay taken.
    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError>;

    /// Looks for what is wrong with what is stored; with `repair`, puts right what can be put right
    /// without losing anything that can be read.
    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError>;

    /// Returns what this store acknowledged of a session and cannot read any more. Returns `None` if nothing is
    /// missing.
    ///
    /// Such a session is suspended. The next write to it, which resuming it is, continues without what is
    /// missing.
    async fn missing(&self, _id: &SessionId) -> Result<Option<Finding>, StoreError> {
        Ok(None)
    }

    /// Reads all intact changes of a session, also if [`load`](SessionStore::load) returns
    /// [`Corrupt`](StoreError::Corrupt). Returns `None` if the session does not exist or was deleted.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](StoreError::Corrupt) if not even the header is intact.
    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        let loaded = self.load(id).await?;
        Ok(loaded.map(|it| Salvaged { header: it.header, changes: it.changes, gaps: Vec::new() }))
    }

    /// Writes a copy of everything that is stored to a new file, or a new directory for a store in files. Others may
    /// use the store meanwhile.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](StoreError::Unavailable) if something exists there, it cannot be written, or the store is
    /// copied with tools of its own.
    async fn back_up(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::Unavailable("this store cannot write a copy of itself".into()))
    }

    /// Closes the store in good order: what is in files beside its own is merged into these. Nothing may use it any
    /// more. Dropping a store loses nothing, but leaves such files to the next one who opens it.
    async fn close(&self) {}

    /// Returns the queue of jobs beside the sessions; `None` if the store keeps none.
    fn jobs(&self) -> Option<&dyn JobQueue> {
        None
    }
}

/// How many sessions are listed at once to find those with a name.
const PAGE: usize = 1000;
/// For how long a session is held that is about to be deleted.
const MOMENT: Duration = Duration::from_secs(30);

/// How often a store that is not told of notes looks for them.
const LOOKS: Duration = Duration::from_millis(100);

/// A session that is to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'a> {
    /// What is known of it.
    pub header: &'a SessionHeader,
    /// The agent; it never changes.
    pub definition: &'a AgentDefinition,
    /// Its first changes, after those that a fork has in common with its source.
    pub changes: &'a [ChangeRecord],
}

/// What is written at once.
#[derive(Clone, Copy, Debug)]
pub struct AppendRequest<'a> {
    /// The session.
    pub id: &'a SessionId,
    /// The version that it is written on.
    pub expected: u64,
    /// What is appended.
    pub batch: ChangeBatch<'a>,
    /// What it is to be from now on; as before if nothing is said.
    pub status: Option<SessionStatus>,
    /// What it is about from now on; as before if nothing is said.
    pub title: Option<&'a Arc<str>>,
    /// Where it works from now on; as before if nothing is said.
    pub workdir: Option<&'a Arc<str>>,
    /// The session that it works for from now on; as before if nothing is said.
    pub parent: Option<&'a SessionId>,
    /// The number of the last control message that is handled once this is written: it is removed, and all
    /// before it, if and only if the write succeeds.
    pub handled: Option<u64>,
    /// The right to write, where a caller took one.
    pub lease: Option<&'a Lease>,
    /// When.
    pub now: Timestamp,
}

impl<'a> AppendRequest<'a> {
    /// Creates a write that appends a batch to the session and leaves everything else as it is, without a lease.
    /// Set other fields with `Write { lease, ..Write::new(id, expected, batch, now) }`.
    pub fn new(id: &'a SessionId, expected: u64, batch: ChangeBatch<'a>, now: Timestamp) -> Self {
        Self {
            id,
            expected,
            batch,
            status: None,
            title: None,
            workdir: None,
            parent: None,
            handled: None,
            lease: None,
            now,
        }
    }
}

/// Changes in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeBatch<'a> {
    /// The number of the first one.
    pub first: Seq,
    /// The changes.
    pub changes: &'a [ChangeRecord],
}

/// A session as it is loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSession {
    /// What is known of it.
    pub header: SessionHeader,
    /// The agent.
    pub definition: AgentDefinition,
    /// All changes that lead to its state, in their order.
    pub changes: Vec<ChangeRecord>,
}

/// What is intact of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Salvaged {
    /// What is known of it.
    pub header: SessionHeader,
    /// The intact changes, in their order.
    pub changes: Vec<ChangeRecord>,
    /// The numbers of the changes that are damaged or missing, in their order.
    pub gaps: Vec<Range<Seq>>,
}

/// The right to write a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The session.
    pub id: SessionId,
    /// Who has it.
    pub owner: Arc<str>,
    /// Which of all leases on the session it is. A later one ends an earlier one.
    pub number: u64,
    /// When it ends unless it is renewed.
    pub until: Timestamp,
    /// The number of the last control message that was sent before the lease was taken; 0 if there was none. A later
    /// one is meant for who has the lease.
    #[serde(default)]
    pub last_control: u64,
}

/// Who wants the right to write a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest<'a> {
    /// Who.
    pub owner: &'a str,
    /// The owner of a lease that need not be waited for, because it is known to be gone.
    pub replaces: Option<&'a str>,
    /// When.
    pub now: Timestamp,
    /// For how long.
    pub ttl: Duration,
}

/// A log beside the changes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionLog {
    /// What was told of its runs, for those who follow it.
    Events,
    /// What its tools did to files, so that it can be undone.
    Files,
}

impl SessionLog {
    /// All logs.
    pub const ALL: &[Self] = &[Self::Events, Self::Files];

    /// Returns the name under which it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Files => "files",
        }
    }
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number, counted from one.
    pub number: u64,
    /// What it says.
    pub body: Arc<[u8]>,
}

/// What was freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimStats {
    /// Sessions of which nothing but the name is left.
    pub sessions: u64,
    /// Batches of changes.
    pub batches: u64,
}

/// Something that is wrong with what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The session, if it is one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// What is wrong, and where.
    pub problem: String,
    /// What was done about it; `None` if it was not repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<String>,
}

/// What a caller wants of the process that runs a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlMessage {
    /// Say this to the agent.
    SendMessage(Message),
    /// Stop after the step.
    Stop,
    /// Stop now.
    Cancel,
}

/// A control message in a store.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// Its number. Later messages of the session have higher numbers, and no number is used again.
    pub number: u64,
    /// The message.
    pub control: ControlMessage,
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such session, or it was deleted.
    #[error("unknown session `{0}`")]
    NotFound(SessionId),
    /// There is such a session already.
    #[error("session `{0}` already exists")]
    Exists(SessionId),
    /// Another writer changed it in between.
    #[error(
        "session `{id}` is at version {found}, not {expected}: another writer changed it; load it \
         again"
    )]
    Conflict {
        /// The session.
        id: SessionId,
        /// The version that was expected.
        expected: u64,
        /// The version that it has.
        found: u64,
    },
    /// Another process holds the right to write it.
    #[error("session `{id}` is in use by {owner} until {until}")]
    Busy {
        /// The session.
        id: SessionId,
        /// Who has it.
        owner: Arc<str>,
        /// Until when, unless it is renewed.
        until: Timestamp,
    },
    /// The right to write ended or another process holds it.
    #[error("the lease on session `{0}` was lost; load the session again before you continue")]
    LeaseLost(SessionId),
    /// What is stored cannot be read.
    #[error("session `{id}` cannot be read: {reason}")]
    Corrupt {
        /// The session.
        id: SessionId,
        /// What is wrong with it, and where it is.
        reason: String,
    },
    /// The store cannot be reached, or is full. Nothing that was acknowledged is lost.
    #[error("the session store is unavailable: {0}")]
    Unavailable(#[source] BoxError),
}
