//! Direct access to sessions in a store.

use std::{collections::BTreeSet, fmt, sync::Arc};

use loopwright_agent::AgentDefinition;
use loopwright_core::{AgentState, ChangeRecord, Clock, Seq, SystemClock, Timestamp};

use crate::{
    error::SessionError,
    header::{SessionHeader, SessionList, SessionQuery, SessionRelation},
    id::SessionId,
    journal::{News, StoreJournal},
    session::AgentSession,
    status::SessionStatus,
    store::{ChangeBatch, LoadedSession, NewSession, SessionLog, SessionStore, StoreError},
    subagents::fork_subagents,
};

/// Loads, creates and saves sessions, without hooks, leases or events. A
/// [`SessionRuntime`](crate::SessionRuntime) adds these.
#[derive(Clone)]
pub struct SessionRepository {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl SessionRepository {
    /// Creates a repository for this store.
    pub fn new(store: Arc<dyn SessionStore>) -> Self {
        Self { store, clock: Arc::new(SystemClock::default()) }
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist, was deleted, or its stored data is invalid.
    pub async fn load(&self, id: &SessionId) -> Result<AgentSession, SessionError> {
        AgentSession::from_loaded(self.loaded(id).await?)
    }

    pub(crate) async fn loaded(&self, id: &SessionId) -> Result<LoadedSession, SessionError> {
        let loaded = self.store.load(id).await?;
        Ok(loaded.ok_or_else(|| StoreError::NotFound(id.clone()))?)
    }

    /// Returns what is known of a session and its agent, without reading its conversation.
    pub(crate) async fn outline(
        &self,
        id: &SessionId,
    ) -> Result<(SessionHeader, AgentDefinition), SessionError> {
        let missing = || StoreError::NotFound(id.clone());
        let definition = self.store.definition(id).await?.ok_or_else(missing)?;
        let header = self.store.header(id).await?.ok_or_else(missing)?;
        Ok((header, definition))
    }

    /// Saves a new session, and returns it at version 1.
    ///
    /// # Errors
    ///
    /// Returns an error if its ID is taken, or it was saved before.
    pub async fn create(&self, session: AgentSession) -> Result<AgentSession, SessionError> {
        let now = self.clock.now();
        let header =
            SessionHeader { created_at: now, updated_at: now, ..(*session.header).clone() };
        if header.version != 0 {
            let (id, found) = (header.id, header.version);
            return Err(StoreError::Conflict { id, expected: 0, found }.into());
        }
        let definition = Some((*session.definition).clone());
        let journal = StoreJournal::new(self, header, None, definition);
        self.save_through(session, &journal).await
    }

    /// Appends the changes since the session was loaded, and returns it at the next version.
    ///
    /// # Errors
    ///
    /// Returns an error if another writer changed it in between or has a lease on it, or if it does
    /// not exist.
    pub async fn save(&self, session: AgentSession) -> Result<AgentSession, SessionError> {
        let kept = self.store.header(session.id()).await?;
        let kept = kept.ok_or_else(|| StoreError::NotFound(session.id().clone()))?;
        if kept.version != session.version() {
            let (id, expected) = (kept.id, session.version());
            return Err(StoreError::Conflict { id, expected, found: kept.version }.into());
        }
        let journal = StoreJournal::new(self, kept, None, None);
        self.save_through(session, &journal).await
    }

    /// Saves through a journal, which knows what is kept already.
    pub(crate) async fn save_through(
        &self,
        session: AgentSession,
        journal: &StoreJournal,
    ) -> Result<AgentSession, SessionError> {
        let AgentSession { header, definition, mut state } = session;
        journal.note(News::of(&header, &journal.header()));
        if state.unsaved_changes().next().is_some() {
            state.save(journal, &*self.clock).await.map_err(|error| journal.failed(error))?;
        } else {
            journal.write(ChangeBatch { first: state.seq(), changes: &[] }).await?;
        }
        Ok(AgentSession { header: journal.header().into(), definition, state })
    }

    /// Returns `true` if the session exists, even if it is deleted.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn exists(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.store.header(id).await?.is_some())
    }

    /// Permanently deletes a session. Does nothing if the session does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn delete(&self, id: &SessionId) -> Result<(), SessionError> {
        Ok(self.store.delete(id, self.clock.now()).await?)
    }

    /// Returns a page of session headers.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn list_headers(&self, query: &SessionQuery) -> Result<SessionList, SessionError> {
        Ok(self.store.list(query).await?)
    }
}

impl fmt::Debug for SessionRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRepository").finish_non_exhaustive()
    }
}

/// Creates a session that starts with this number of changes of another one; its ID is unique if
/// none is given. The sub-agents of open calls continue in the fork.
pub(crate) async fn fork(
    store: &dyn SessionStore,
    source: &SessionHeader,
    definition: &AgentDefinition,
    into: Option<SessionId>,
    at: Seq,
    now: Timestamp,
) -> Result<SessionHeader, SessionError> {
    refuse_snapshots(store, source).await?;
    let header = source.fork(into.unwrap_or_else(SessionId::generate), at, now);
    if has_subagents(store, &source.id).await? {
        if store.header(&header.id).await?.is_some() {
            return Err(StoreError::Exists(header.id).into());
        }
        let loaded = store.load(&source.id).await?;
        let mut changes = loaded.map(|it| it.changes).unwrap_or_default();
        changes.truncate(usize::try_from(at).unwrap_or(usize::MAX));
        let state = replay(&source.id, changes)?;
        // They are there before the fork is: one without them would begin their work anew.
        fork_subagents(store, source, &state, &header, now).await?;
    }
    Ok(store.create(NewSession { header: &header, definition, changes: &[] }).await?)
}

/// Returns an error if the directory in which a session works is stored as snapshots.
pub(crate) async fn refuse_snapshots(
    store: &dyn SessionStore,
    session: &SessionHeader,
) -> Result<(), SessionError> {
    match snapshot_owner(store, session).await? {
        Some(owner) => Err(SessionError::HasSnapshots(owner)),
        None => Ok(()),
    }
}

/// Returns the session in whose directory a session works, if workers store that directory as
/// [snapshots](SessionLog::Folder): the session itself, or for a sub-agent the session for which it works. Returns `None` if
/// the directory is not stored as snapshots.
///
/// The files of such a directory can be on any machine: a program that does not restore the last snapshot must not
/// continue the session.
///
/// # Errors
///
/// Returns an error if the store fails.
pub async fn snapshot_owner(
    store: &dyn SessionStore,
    session: &SessionHeader,
) -> Result<Option<SessionId>, StoreError> {
    // Imported sessions can name each other as parents.
    let mut seen = BTreeSet::new();
    let (mut id, mut parent) = (session.id.clone(), session.works_for().cloned());
    loop {
        if !store.read_log(&id, SessionLog::Folder, 0, 1).await?.is_empty() {
            return Ok(Some(id));
        }
        let Some(above) = parent else { return Ok(None) };
        if !seen.insert(id) {
            return Ok(None);
        }
        parent = store.header(&above).await?.and_then(|it| it.works_for().cloned());
        id = above;
    }
}

/// Returns `true` if sub-agents worked for a session, even if all of their sessions were deleted.
async fn has_subagents(store: &dyn SessionStore, id: &SessionId) -> Result<bool, StoreError> {
    for status in [None, Some(SessionStatus::Deleted)] {
        let kinship = SessionRelation::ChildOf(id.clone());
        let mut query = SessionQuery { status, kinship, ..SessionQuery::first(PAGE) };
        loop {
            let page = store.list(&query).await?;
            if page.sessions.iter().any(|it| it.call.is_some()) {
                return Ok(true);
            }
            let Some(next) = page.next else { break };
            query.after = Some(next);
        }
    }
    Ok(false)
}

/// How many sessions are looked at at once.
const PAGE: usize = 100;

/// Makes the state that changes lead to.
pub(crate) fn replay(
    id: &SessionId,
    changes: Vec<ChangeRecord>,
) -> Result<AgentState, SessionError> {
    AgentState::new()
        .replay(changes)
        .map_err(|source| SessionError::Replay { id: id.clone(), source })
}
