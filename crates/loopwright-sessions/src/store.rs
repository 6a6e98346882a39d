//! The contract of stores.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{BoxError, Seq, Stamped, Timestamp, messages::Message};
use serde::{Deserialize, Serialize};

use crate::{
    header::{SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    status::SessionStatus,
};

/// Keeps sessions: for each a header, the agent's definition, and lines of changes to which is only
/// ever appended.
///
/// Every method either happens as a whole or not at all, and what it has acknowledged survives a crash
/// of the machine. [`conformance`](crate::conformance) says all this in tests that a store of one's own
/// can run.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Creates a session with its first changes; its version is 1 then.
    ///
    /// `header.from` makes it a fork: its line begins with that of another session, of which nothing is
    /// copied. `header.length` is not read.
    ///
    /// # Errors
    ///
    /// [`Exists`](StoreError::Exists) if the name is taken, by a deleted session too, and
    /// [`NotFound`](StoreError::NotFound) if there is nothing to fork there.
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError>;

    /// Returns what is known of a session; nothing if there is none. Deleted ones are found.
    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError>;

    /// Returns a session with all changes that lead to its state; nothing if there is none or it was
    /// deleted.
    async fn load(&self, id: &SessionId) -> Result<Option<Loaded>, StoreError>;

    /// Appends to the current line of a session, and changes its header.
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
    async fn append(&self, write: Write<'_>) -> Result<u64, StoreError>;

    /// Begins a new line that has so many changes in common with the current one, and makes it the
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

    /// Deletes a session for good: it is not loaded any more, whoever writes to it is refused, and its
    /// name stays taken. Deleting what is not there does nothing.
    ///
    /// What forks of it need is kept.
    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError>;

    /// Takes the right to write a session, until some moment.
    ///
    /// # Errors
    ///
    /// [`Busy`](StoreError::Busy) if somebody else has it.
    async fn lease(
        &self,
        id: &SessionId,
        owner: &str,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError>;

    /// Keeps the right to write for longer.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`](StoreError::LeaseLost) if somebody else has it by now, or the session is gone.
    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError>;

    /// Gives the right to write back; nothing happens if it was lost.
    async fn release(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Leaves a wish for whoever runs the session now or next.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if there is no such session.
    async fn post(&self, id: &SessionId, wish: &Wish) -> Result<(), StoreError>;

    /// Takes the wishes that were left, in their order, each once.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`](StoreError::LeaseLost) if the lease is not in force.
    async fn collect(&self, lease: &Lease) -> Result<Vec<Wish>, StoreError>;
}

/// A session that is to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewSession<'a> {
    /// What is known of it.
    pub header: &'a SessionHeader,
    /// The agent; it never changes.
    pub definition: &'a AgentDefinition,
    /// Its first changes, after those that a fork has in common with its source.
    pub changes: &'a [Stamped],
}

/// What is written at once.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The session.
    pub id: &'a SessionId,
    /// The version that it is written on.
    pub expected: u64,
    /// What is appended.
    pub batch: Batch<'a>,
    /// What it is to be from now on; as before if nothing is said.
    pub status: Option<SessionStatus>,
    /// What it is about from now on; as before if nothing is said.
    pub title: Option<&'a Arc<str>>,
    /// The right to write, where somebody took one.
    pub lease: Option<&'a Lease>,
    /// When.
    pub now: Timestamp,
}

/// Changes in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch<'a> {
    /// The number of the first one.
    pub first: Seq,
    /// The changes.
    pub changes: &'a [Stamped],
}

/// A session as it is loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// What is known of it.
    pub header: SessionHeader,
    /// The agent.
    pub definition: AgentDefinition,
    /// All changes that lead to its state, in their order.
    pub changes: Vec<Stamped>,
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
}

/// What somebody wants of whoever runs a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Wish {
    /// Say this to the agent.
    Say(Message),
    /// Stop after the step.
    Stop,
    /// Stop now.
    Cancel,
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such session, or it was deleted.
    #[error("there is no session `{0}`")]
    NotFound(SessionId),
    /// There is such a session already.
    #[error("there is a session `{0}` already")]
    Exists(SessionId),
    /// Somebody else wrote it in between.
    #[error(
        "session `{id}` is at version {found} and not at {expected}: somebody else wrote it; load it \
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
    /// Somebody else has the right to write it.
    #[error("session `{id}` is in use by {owner} until {until}")]
    Busy {
        /// The session.
        id: SessionId,
        /// Who has it.
        owner: Arc<str>,
        /// Until when, unless it is renewed.
        until: Timestamp,
    },
    /// The right to write ended or somebody else has it.
    #[error("the right to write session `{0}` was lost; load it again before going on")]
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
    #[error("the session store is not available")]
    Unavailable(#[source] BoxError),
}
