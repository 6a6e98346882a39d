//! The sessions of sub-agents: their IDs, their leases, and the parts that a fork or an export
//! needs.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use loopwright_core::{AgentState, CallState, Clock, IdempotencyKey, Timestamp};

use crate::{
    error::SessionError,
    header::SessionHeader,
    id::SessionId,
    owner::Owner,
    repository::replay,
    status::SessionStatus,
    store::{Lease, LeaseRequest, LoadedSession, NewSession, SessionStore, StoreError},
};

impl SessionHeader {
    /// Returns the ID of the session of the sub-agent that a call of this session runs. A call that is repeated after a
    /// [rewind](crate::SessionRuntime::rewind) runs another sub-agent.
    #[must_use]
    pub fn subagent_id(&self, call: &str) -> SessionId {
        match self.branch {
            0 => SessionId::derived(&format!("{}/{call}", self.id)),
            branch => SessionId::derived(&format!("{}@{branch}/{call}", self.id)),
        }
    }

    /// Returns the header of the session of a call's sub-agent that continues another session, such
    /// as that of the same call in the session from which this one was forked.
    #[must_use]
    pub fn subagent(&self, call: &Arc<str>, continued: Self) -> Self {
        Self {
            id: self.subagent_id(call),
            parent: Some(self.id.clone()),
            call: Some(Arc::clone(call)),
            workdir: self.workdir.clone(),
            version: 0,
            branch: 0,
            ..continued
        }
    }
}

/// Returns the unfinished calls of the open step: a run that resumes starts or continues them.
pub fn open_calls(state: &AgentState) -> Vec<Arc<str>> {
    let open = state.execution().and_then(|it| Some((it.id().clone(), it.open_step()?)));
    let Some((execution, open)) = open else { return Vec::new() };
    let key = |call| {
        let (execution, step) = (execution.clone(), open.number());
        IdempotencyKey { execution, step, call: Some(call) }.to_string().into()
    };
    let calls = (0..=u16::MAX).zip(open.calls());
    calls
        .filter(|(_, it)| !matches!(it, CallState::Completed(_)))
        .map(|(call, _)| key(call))
        .collect()
}

/// Returns the sessions of the sub-agents that open calls of a session run, and theirs, each after its parent. A run that
/// resumes the session needs them to repeat nothing that is finished.
///
/// A sub-agent whose history was deleted or is damaged is [`Deleted`](SessionStatus::Deleted) and
/// has no changes.
///
/// # Errors
///
/// Returns an error if the store fails, or the changes of a session do not produce a valid state.
pub async fn open_subagents(
    store: &dyn SessionStore,
    header: &SessionHeader,
    state: &AgentState,
) -> Result<Vec<LoadedSession>, SessionError> {
    let mut found = Vec::new();
    let calls = |header: &SessionHeader, state: &AgentState| {
        let calls = open_calls(state).into_iter().rev();
        calls.map(|call| header.subagent_id(&call)).collect::<Vec<_>>()
    };
    let mut todo = calls(header, state);
    while let Some(id) = todo.pop() {
        let Some(header) = store.header(&id).await? else { continue };
        match store.load(&id).await {
            Ok(Some(loaded)) => {
                let state = replay(&id, loaded.changes.clone())?;
                todo.extend(calls(&loaded.header, &state));
                found.push(loaded);
            }
            Ok(None) | Err(StoreError::Corrupt { .. }) => found.push(LoadedSession {
                header: SessionHeader {
                    status: SessionStatus::Deleted,
                    length: 0,
                    from: None,
                    ..header
                },
                definition: loopwright_agent::AgentDefinition::default(),
                changes: Vec::new(),
            }),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Records that a call had started a sub-agent whose history is lost, so that a run that resumes
/// the session treats the outcome of the call as unknown. Calls without a sub-agent are not
/// affected.
///
/// # Errors
///
/// Returns an error if the store fails, or the sub-agent has a session.
pub async fn mark_subagent_lost(
    store: &dyn SessionStore,
    parent: &SessionHeader,
    call: &Arc<str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let new = SessionHeader::new(parent.subagent_id(call), Arc::clone(&parent.agent_name), now);
    let header = parent.subagent(call, new);
    let definition = loopwright_agent::AgentDefinition::default();
    store.create(NewSession { header: &header, definition: &definition, changes: &[] }).await?;
    store.delete(&header.id, now).await
}

/// Makes forks of the sub-agents' sessions that a fork of a session needs.
pub(crate) async fn fork_subagents(
    store: &dyn SessionStore,
    source: &SessionHeader,
    state: &AgentState,
    fork: &SessionHeader,
    now: Timestamp,
) -> Result<(), SessionError> {
    let mut forks = BTreeMap::from([(source.id.clone(), fork.clone())]);
    for LoadedSession { header, definition, .. } in open_subagents(store, source, state).await? {
        let parent = header.parent.as_ref().and_then(|it| forks.get(it));
        let (Some(parent), Some(call)) = (parent, &header.call) else { continue };
        if header.status == SessionStatus::Deleted {
            mark_subagent_lost(store, parent, call, now).await?;
            continue;
        }
        let continued = header.fork(header.id.clone(), header.length, now);
        let forked = parent.subagent(call, continued);
        let new = NewSession { header: &forked, definition: &definition, changes: &[] };
        forks.insert(header.id, store.create(new).await?);
    }
    Ok(())
}

/// The leases on the sessions of sub-agents that a run drives. They belong to the owner of the lease on the session of
/// the run, and name that session.
pub(crate) struct SubagentLeases {
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    owner: Arc<str>,
    ttl: Duration,
    held: Mutex<BTreeMap<SessionId, Lease>>,
}

impl SubagentLeases {
    /// Makes those of a run that writes a session under a lease.
    pub(crate) fn new(
        store: &Arc<dyn SessionStore>,
        clock: &Arc<dyn Clock>,
        lease: &Lease,
        ttl: Duration,
    ) -> Self {
        let (store, clock) = (Arc::clone(store), Arc::clone(clock));
        let owner = Owner::of_subagent(&lease.owner, &lease.id).into();
        Self { store, clock, owner, ttl, held: Mutex::default() }
    }

    /// Returns the lease on the session of a sub-agent, and takes it if it is not held.
    pub(crate) async fn lease(&self, id: &SessionId) -> Result<Lease, StoreError> {
        if let Some(lease) = self.held().get(id) {
            return Ok(lease.clone());
        }
        let now = self.clock.now();
        let claim = LeaseRequest { owner: &self.owner, replaces: None, now, ttl: self.ttl };
        let lease = match self.store.lease(id, claim).await {
            Err(StoreError::Busy { owner, .. }) if self.is_replaced(&owner) => {
                self.store.lease(id, LeaseRequest { replaces: Some(&owner), ..claim }).await?
            }
            taken => taken?,
        };
        self.held().insert(id.clone(), lease.clone());
        Ok(lease)
    }

    /// Returns `true` if a holder need not be waited for: its process is gone, or it drove the sub-agent for the same
    /// session, which it has lost.
    fn is_replaced(&self, owner: &str) -> bool {
        let is_same = Owner::session_of(owner) == Owner::session_of(&self.owner);
        is_same || Owner::parse(owner).is_some_and(|it| it.is_gone())
    }

    /// Keeps all of them for longer. One that was lost is found out by the next write.
    pub(crate) async fn renew(&self, now: Timestamp) {
        let held: Vec<Lease> = self.held().values().cloned().collect();
        for lease in held {
            if let Ok(renewed) = self.store.renew(&lease, now, self.ttl).await
                && let Some(held) = self.held().get_mut(&lease.id)
            {
                *held = renewed;
            }
        }
    }

    /// Gives the lease on a session back.
    pub(crate) async fn release(&self, id: &SessionId) {
        let lease = self.held().remove(id);
        if let Some(lease) = lease {
            // A lease that cannot be given back ends by itself.
            let _ended = self.store.release(&lease).await;
        }
    }

    /// Gives all of them back.
    pub(crate) async fn release_all(&self) {
        let held: Vec<SessionId> = self.held().keys().cloned().collect();
        for id in held {
            self.release(&id).await;
        }
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<SessionId, Lease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SubagentLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SubagentLeases").field(&*self.held()).finish()
    }
}
