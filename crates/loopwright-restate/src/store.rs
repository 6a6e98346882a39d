//! A session store whose jobs Restate delivers.

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{ChangeRecord, Clock, Seq, Timestamp};
use loopwright_sessions::{
    AppendRequest, ControlMessage, Finding, JobQueue, Lease, LeaseRequest, LoadedSession, LogEntry,
    NewSession, Posted, ReclaimStats, Salvaged, Scheduler, SessionHeader, SessionId, SessionList,
    SessionLog, SessionQuery, SessionStore, StoreError, UsageLedger,
};

use crate::scheduler::RestateScheduler;

/// A session store whose [scheduler](SessionStore::scheduler) is Restate. Everything else is delegated to the store of the sessions.
#[derive(Debug)]
pub struct RestateStore(RestateScheduler);

impl RestateStore {
    /// Wraps the store of a scheduler.
    pub fn new(scheduler: RestateScheduler) -> Self {
        Self(scheduler)
    }
}

#[async_trait]
impl SessionStore for RestateStore {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        self.0.store().create(new).await
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        self.0.store().header(id).await
    }

    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        self.0.store().definition(id).await
    }

    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        self.0.store().load(id).await
    }

    async fn load_from(
        &self,
        id: &SessionId,
        branch: u32,
        first: Seq,
    ) -> Result<Option<(SessionHeader, Vec<ChangeRecord>)>, StoreError> {
        self.0.store().load_from(id, branch, first).await
    }

    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError> {
        self.0.store().append(write).await
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.0.store().rewind(id, expected, at, lease, now).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        self.0.store().list(query).await
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.0.store().delete(id, now).await
    }

    async fn delete_unused(
        &self,
        ids: &[SessionId],
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<SessionId>, StoreError> {
        self.0.store().delete_unused(ids, before, now).await
    }

    async fn named(&self, beginning: &str, most: usize) -> Result<Vec<SessionId>, StoreError> {
        self.0.store().named(beginning, most).await
    }

    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        self.0.store().lease(id, claim).await
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        self.0.store().renew(lease, now, lasts).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.0.store().release(lease).await
    }

    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        self.0.store().holder(id, now).await
    }

    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError> {
        self.0.store().send_control(id, control).await
    }

    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        self.0.store().take_control(lease).await
    }

    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        self.0.store().append_log(id, log, notes, keep).await
    }

    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.0.store().read_log(id, log, after, limit).await
    }

    async fn wait(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.0.store().wait(id, log, after, clock, at_most).await
    }

    async fn wait_for_write(
        &self,
        id: &SessionId,
        version: u64,
        clock: &dyn Clock,
    ) -> Result<Option<SessionHeader>, StoreError> {
        self.0.store().wait_for_write(id, version, clock).await
    }

    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError> {
        self.0.store().reclaim(abandoned).await
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.0.store().check(repair).await
    }

    async fn missing(&self, id: &SessionId) -> Result<Option<Finding>, StoreError> {
        self.0.store().missing(id).await
    }

    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        self.0.store().salvage(id).await
    }

    async fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        self.0.store().back_up(to).await
    }

    async fn close(&self) {
        self.0.store().close().await;
    }

    fn jobs(&self) -> Option<&dyn JobQueue> {
        self.0.store().jobs()
    }

    fn scheduler(&self) -> Option<&dyn Scheduler> {
        Some(&self.0)
    }

    fn ledger(&self) -> Option<&dyn UsageLedger> {
        self.0.store().ledger()
    }
}
