//! The contract of stores.

use std::{collections::BTreeSet, ops::Range, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{BoxError, ChangeRecord, Clock, Seq, Timestamp, messages::Message};
use serde::{Deserialize, Serialize};

use crate::{
    header::{SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    ledger::UsageLedger,
    scheduler::{JobQueue, Scheduler},
    status::SessionStatus,
};

/// Stores sessions: for each a header, the agent's definition, and append-only branches of changes.
///
/// Every method takes effect completely or not at all. Acknowledged writes survive a crash of the
/// machine. [`conformance`](crate::conformance) contains tests of these rules for other implementations.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Creates a session with its first changes. Its version is then 1.
    ///
    /// `header.from` makes it a fork: its branch starts with that of another session, which is not
    /// copied. `header.length` is ignored.
    ///
    /// # Errors
    ///
    /// [`Exists`](StoreError::Exists) if the ID is taken, even by a deleted session, and
    /// [`NotFound`](StoreError::NotFound) if the source of the fork does not exist.
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError>;

    /// Returns the header of a session, even if it is deleted, or `None` if it does not exist.
    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError>;

    /// Returns a session's agent, without reading its conversation, or `None` if the session does
    /// not exist or was deleted.
    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError>;

    /// Returns a session with all changes of its state, or `None` if it does not exist or was
    /// deleted.
    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError>;

    /// Returns a session's header, and its changes from a number on, if this branch is the current one: what was written since
    /// the session was loaded.
    ///
    /// `None` means that all of it must be [loaded](SessionStore::load) instead: it does not exist, was deleted, continues on
    /// another branch, has fewer changes, or shares the first of them with another branch. The default implementation always
    /// returns `None`.
    async fn load_from(
        &self,
        _id: &SessionId,
        _branch: u32,
        _first: Seq,
    ) -> Result<Option<(SessionHeader, Vec<ChangeRecord>)>, StoreError> {
        Ok(None)
    }

    /// Appends to the current branch of a session, and changes its header.
    ///
    /// Writes only if the version is the expected one, and returns the new version. If the last
    /// write is repeated byte for byte, with the same expected version, it is acknowledged again
    /// and stored once.
    ///
    /// # Errors
    ///
    /// [`Conflict`](StoreError::Conflict) if the version is different or the batch does not follow
    /// the stored changes. [`LeaseLost`](StoreError::LeaseLost) if the lease is not in force.
    /// [`Busy`](StoreError::Busy) if a lease is in force and the request contains none.
    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError>;

    /// Starts a new branch that shares the first `at` changes with the current one, and makes it
    /// the current one. Deletes no changes. Returns the new version.
    ///
    /// # Errors
    ///
    /// As for [`append`](SessionStore::append); [`NotFound`](StoreError::NotFound) if the branch
    /// has fewer changes.
    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Returns a page of sessions, without reading conversations.
    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError>;

    /// Permanently deletes a session. Later loads return `None`, later writes fail, and the ID cannot be
    /// reused. Deleting a session that does not exist does nothing.
    ///
    /// Changes that its forks need are kept.
    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError>;

    /// Deletes those of the given sessions that were last written before a time and have no lease
    /// in force. Returns them.
    ///
    /// This is faster than deleting each session separately.
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

    /// Returns the IDs of sessions that start with `beginning` and were not deleted, at most
    /// `most`, in order. Includes sessions with damaged data.
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

    /// Takes the lease on a session, for a limited time.
    ///
    /// A store for many machines measures time by its own clock, since theirs may differ. `until`
    /// is then a time of that clock, and [`LeaseRequest::now`] is ignored.
    ///
    /// # Errors
    ///
    /// [`Busy`](StoreError::Busy) if another owner has the lease, unless the request replaces that
    /// owner.
    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError>;

    /// Extends the lease.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`](StoreError::LeaseLost) if another process holds it, or the session was
    /// deleted.
    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError>;

    /// Releases the lease. Does nothing if the lease was lost.
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Returns the owner of the lease that is in force, without taking it. Returns `None` if no lease is in force, or the session
    /// does not exist. A store with a clock of its own ignores `now`.
    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError>;

    /// Sends a control message to the process that runs the session now or next.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if the session does not exist.
    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError>;

    /// Returns the control messages that no write has [handled](AppendRequest::handled), in order.
    /// They stay until a write handles them.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`](StoreError::LeaseLost) if the lease is not in force.
    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError>;

    /// Adds entries to a log of the session, and returns the number of the last one. The first entry of a log has number 1.
    ///
    /// If a limit is given, the oldest entries beyond it can be deleted. Neither version nor lease matter, because log
    /// entries change no state.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if the session does not exist.
    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError>;

    /// Returns the entries of a log after a number, up to a limit; none if the session does not
    /// exist.
    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError>;

    /// Waits until a log has an entry after a number, the session is deleted, or the time limit has passed. It may return
    /// earlier.
    ///
    /// Returns entries after the number, without a gap, up to [`WAIT_LIMIT`]; none if it found none.
    ///
    /// No entry is missed: an entry that is added after an earlier `read_log`, or while this call starts to wait, ends the
    /// wait, too. This holds of every store.
    ///
    /// The stores of Loopwright also wake their readers. An append through the same store, or a clone of it, wakes the
    /// readers of that log of that session at once, and no other reader. [`delete`](SessionStore::delete) wakes the readers
    /// of that session. What a store keeps for this is bounded by the number of readers that wait. PostgreSQL also notifies
    /// the readers of other processes. In files and SQLite, these poll: first after 100 ms, and then after twice the interval
    /// before, up to a second.
    ///
    /// The default implementation polls every 100 ms, and finds a deletion at the time limit.
    /// [`LogWaiters`](crate::LogWaiters) wakes the readers of a store, and
    /// [`conformance::WAKE_CASES`](crate::conformance::WAKE_CASES) contains tests of it.
    async fn wait(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let began = clock.monotonic();
        loop {
            let found = self.read_log(id, log, after, WAIT_LIMIT).await?;
            let waited = clock.monotonic().saturating_sub(began);
            match at_most.checked_sub(waited).filter(|it| !it.is_zero()) {
                Some(left) if found.is_empty() => clock.sleep(left.min(LOOKS)).await,
                _ => return Ok(found),
            }
        }
    }

    /// Waits until a session is written after a version, or deleted. Returns its header, or `None` if it does not exist.
    ///
    /// The default implementation polls each second.
    async fn wait_for_write(
        &self,
        id: &SessionId,
        version: u64,
        clock: &dyn Clock,
    ) -> Result<Option<SessionHeader>, StoreError> {
        loop {
            let header = self.header(id).await?;
            if header.as_ref().is_none_or(|it| it.version != version) {
                return Ok(header);
            }
            clock.sleep(WRITE_LOOKS).await;
        }
    }

    /// Frees the space of unreachable changes: those of deleted sessions that no fork needs. With `abandoned`, also changes
    /// that a rewind left behind and that no fork needs.
    ///
    /// The IDs of deleted sessions stay taken.
    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError>;

    /// Checks the stored data for problems. With `repair`, repairs those that can be repaired
    /// without losing readable data.
    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError>;

    /// Returns the changes of a session that this store acknowledged and can no longer read. Returns `None` if no change is
    /// missing.
    ///
    /// Such a session is suspended. The next write to it, such as resuming it, continues without the missing changes.
    async fn missing(&self, _id: &SessionId) -> Result<Option<Finding>, StoreError> {
        Ok(None)
    }

    /// Reads all intact changes of a session, even if [`load`](SessionStore::load) returns
    /// [`Corrupt`](StoreError::Corrupt). Returns `None` if the session does not exist or was
    /// deleted.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](StoreError::Corrupt) if even the header is damaged.
    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        let loaded = self.load(id).await?;
        Ok(loaded.map(|it| Salvaged { header: it.header, changes: it.changes, gaps: Vec::new() }))
    }

    /// Writes a copy of all stored data to a new file, or a new directory for a store in files. Other processes can use the
    /// store meanwhile.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](StoreError::Unavailable) if the target exists or cannot be written, or if the store has its own backup
    /// tools.
    async fn back_up(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::Unavailable("this store does not support backups".into()))
    }

    /// Closes the store and merges its auxiliary files into the main ones. Do not use the store afterwards. Dropping a store
    /// without this loses no data, but leaves such files for the next process.
    async fn close(&self) {}

    /// Returns the queue of jobs, or `None` if the store has none.
    fn jobs(&self) -> Option<&dyn JobQueue> {
        None
    }

    /// Returns the scheduler of jobs, or `None` if the store has no queue: the queue itself, unless an engine delivers its jobs.
    fn scheduler(&self) -> Option<&dyn Scheduler> {
        self.jobs().map(|it| it as &dyn Scheduler)
    }

    /// Returns the counts of what principals consume, or `None` if the store has none.
    fn ledger(&self) -> Option<&dyn UsageLedger> {
        None
    }
}

/// The page size of the search for sessions with a name.
const PAGE: usize = 1000;
/// The duration of the lease on a session that is about to be deleted.
const MOMENT: Duration = Duration::from_secs(30);

/// The number of entries that [`SessionStore::wait`] returns at most.
pub const WAIT_LIMIT: usize = 256;

/// The polling interval for log entries in a store without notifications.
const LOOKS: Duration = Duration::from_millis(100);

/// How often it is looked whether a session was written.
const WRITE_LOOKS: Duration = Duration::from_secs(1);

/// A session to create.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'a> {
    /// The header.
    pub header: &'a SessionHeader,
    /// The agent; it never changes.
    pub definition: &'a AgentDefinition,
    /// Its first changes, after those that a fork has in common with its source.
    pub changes: &'a [ChangeRecord],
}

/// A single write.
#[derive(Clone, Copy, Debug)]
pub struct AppendRequest<'a> {
    /// The session.
    pub id: &'a SessionId,
    /// The expected version.
    pub expected: u64,
    /// The changes to append.
    pub batch: ChangeBatch<'a>,
    /// The new status; `None` keeps the current one.
    pub status: Option<SessionStatus>,
    /// The new title; `None` keeps the current one.
    pub title: Option<&'a Arc<str>>,
    /// The new working directory; `None` keeps the current one.
    pub workdir: Option<&'a Arc<str>>,
    /// The new parent session; `None` keeps the current one.
    pub parent: Option<&'a SessionId>,
    /// The number of the last control message that this write handles. It and all earlier ones are
    /// removed if and only if the write succeeds.
    pub handled: Option<u64>,
    /// The lease. `None` means that the caller has none.
    pub lease: Option<&'a Lease>,
    /// The current time.
    pub now: Timestamp,
}

impl<'a> AppendRequest<'a> {
    /// Creates a write that appends a batch to the session and changes nothing else, without a
    /// lease. Set other fields with
    /// `AppendRequest { lease, ..AppendRequest::new(id, expected, batch, now) }`.
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

/// Consecutive changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeBatch<'a> {
    /// The number of the first one.
    pub first: Seq,
    /// The changes.
    pub changes: &'a [ChangeRecord],
}

/// A loaded session.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedSession {
    /// The header.
    pub header: SessionHeader,
    /// The agent.
    pub definition: AgentDefinition,
    /// All changes of its state, in order.
    pub changes: Vec<ChangeRecord>,
}

/// The intact parts of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Salvaged {
    /// The header.
    pub header: SessionHeader,
    /// The intact changes, in order.
    pub changes: Vec<ChangeRecord>,
    /// The numbers of the damaged or missing changes, in order.
    pub gaps: Vec<Range<Seq>>,
}

/// A lease on a session: the right to write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The session.
    pub id: SessionId,
    /// The owner.
    pub owner: Arc<str>,
    /// The number of the lease among all leases on the session. A later one ends an earlier one.
    pub number: u64,
    /// The time at which it expires if it is not renewed.
    pub until: Timestamp,
    /// The number of the last control message that was sent before the lease was taken; 0 if there
    /// was none. Later messages are for the owner of the lease.
    #[serde(default)]
    pub last_control: u64,
}

/// A request for a lease on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRequest<'a> {
    /// The new owner.
    pub owner: &'a str,
    /// The owner of a lease to replace, because its process is known to have exited.
    pub replaces: Option<&'a str>,
    /// The current time.
    pub now: Timestamp,
    /// The duration of the lease.
    pub ttl: Duration,
}

/// A log of a session, separate from its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionLog {
    /// Events of its runs, for followers.
    Events,
    /// File changes by its tools, for undo.
    Files,
    /// Snapshots of its working directory, for other machines.
    Folder,
}

impl SessionLog {
    /// All logs.
    pub const ALL: &[Self] = &[Self::Events, Self::Files, Self::Folder];

    /// Returns the name under which it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Files => "files",
            Self::Folder => "folder",
        }
    }
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its number, counted from one.
    pub number: u64,
    /// The content.
    pub body: Arc<[u8]>,
}

/// The result of a reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimStats {
    /// Sessions of which only the ID is left.
    pub sessions: u64,
    /// Batches of changes.
    pub batches: u64,
}

/// A problem with stored data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The session. `None` means that the problem does not belong to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The problem and its location.
    pub problem: String,
    /// The repair. `None` means that it was not repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<String>,
}

/// A request to the process that runs a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ControlMessage {
    /// Send this message to the agent.
    SendMessage(Message),
    /// Stop after the step.
    ///
    /// The current step ends, and no other step starts, not even the first of a run. If that step is the answer,
    /// the run is completed. A run looks for requests twice a second: steps that end before it does are not prevented.
    Stop,
    /// Stop now, in the middle of the step.
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

/// A failed operation of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The session does not exist, or was deleted.
    #[error("unknown session `{0}`")]
    NotFound(SessionId),
    /// The session already exists.
    #[error("session `{0}` already exists")]
    Exists(SessionId),
    /// Another writer changed the session in between.
    #[error(
        "session `{id}` is at version {found}, not {expected}: another writer changed it; load it again"
    )]
    Conflict {
        /// The session.
        id: SessionId,
        /// The expected version.
        expected: u64,
        /// The actual version.
        found: u64,
    },
    /// Another process holds the lease.
    #[error("session `{id}` is in use by {owner} until {until}")]
    Busy {
        /// The session.
        id: SessionId,
        /// The owner of the lease.
        owner: Arc<str>,
        /// The time at which the lease expires if it is not renewed.
        until: Timestamp,
    },
    /// The lease ended, or another process holds it.
    #[error("the lease on session `{0}` was lost; load the session again before you continue")]
    LeaseLost(SessionId),
    /// The stored data cannot be read.
    #[error("session `{id}` cannot be read: {reason}")]
    Corrupt {
        /// The session.
        id: SessionId,
        /// The problem and its location.
        reason: String,
    },
    /// The scheduler of jobs cannot do this.
    #[error("{0}")]
    Unsupported(Arc<str>),
    /// The job is recorded, but the engine that delivers it does not know it yet. Workers send it later.
    #[error("the job is recorded and will be delivered later: {0}")]
    Undelivered(#[source] BoxError),
    /// The store cannot be reached, or is full. No acknowledged write is lost.
    #[error("the session store is unavailable: {0}")]
    Unavailable(#[source] BoxError),
}
