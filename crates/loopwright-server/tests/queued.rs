//! Sessions in memory, with the queue of another store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{Seq, Timestamp};
use loopwright_sessions::{
    AppendRequest, ControlMessage, Finding, JobQueue, Lease, LeaseRequest, LoadedSession, LogEntry,
    MemoryStore, NewSession, Posted, ReclaimStats, SessionHeader, SessionId, SessionList,
    SessionLog, SessionQuery, SessionStore, StoreError,
};
use serde_json::json;

use crate::api::{LOCAL, answering};

/// A store that a server accepts, and that never makes its callers wait for another thread.
#[derive(Clone)]
pub(crate) struct Queued {
    sessions: MemoryStore,
    /// It has no jobs of these sessions.
    queue: Arc<dyn SessionStore>,
    /// How often a session was loaded.
    loads: Arc<AtomicUsize>,
}

impl Queued {
    pub(crate) fn new(queue: Arc<dyn SessionStore>) -> Self {
        Self { sessions: MemoryStore::default(), queue, loads: Arc::default() }
    }
}

#[tokio::test]
async fn the_messages_of_a_session_load_it_once() {
    let mut world = answering(&["one"]).await;
    let store = Queued::new(Arc::clone(&world.store) as _);
    world.app = world.of_store(Arc::new(store.clone()));
    let id = world.post(LOCAL, "/v1/sessions", json!({})).await.id();
    let before = store.loads.load(SeqCst);
    let messages = world.get(LOCAL, &format!("/v1/sessions/{id}/messages")).await;
    assert_eq!((messages.json(), store.loads.load(SeqCst) - before), (json!({"messages": []}), 1));
}

#[async_trait]
impl SessionStore for Queued {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        self.sessions.create(new).await
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        self.sessions.header(id).await
    }

    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        self.sessions.definition(id).await
    }

    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        self.loads.fetch_add(1, SeqCst);
        self.sessions.load(id).await
    }

    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError> {
        self.sessions.append(write).await
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.sessions.rewind(id, expected, at, lease, now).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        self.sessions.list(query).await
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.sessions.delete(id, now).await
    }

    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        self.sessions.lease(id, claim).await
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        self.sessions.renew(lease, now, lasts).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.sessions.release(lease).await
    }

    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        self.sessions.holder(id, now).await
    }

    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError> {
        self.sessions.send_control(id, control).await
    }

    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        self.sessions.take_control(lease).await
    }

    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        self.sessions.append_log(id, log, notes, keep).await
    }

    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.sessions.read_log(id, log, after, limit).await
    }

    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError> {
        self.sessions.reclaim(abandoned).await
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.sessions.check(repair).await
    }

    fn jobs(&self) -> Option<&dyn JobQueue> {
        self.queue.jobs()
    }
}
