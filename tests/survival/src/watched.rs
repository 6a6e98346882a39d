//! A store at whose writes somebody looks on.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{Clock, Seq, Timestamp};
use loopwright_sessions::{
    AppendRequest, ControlMessage, Finding, JobQueue, Lease, LeaseRequest, LoadedSession, LogEntry,
    NewSession, Posted, ReclaimStats, SessionHeader, SessionId, SessionList, SessionLog,
    SessionQuery, SessionStore, StoreError,
};

use crate::ledger::Entry;

/// Looks on as a store is written to.
pub trait Watcher: Send + Sync {
    /// A write, counted from one, is about to begin.
    fn before(&self, write: u64);

    /// Returns an error that the store returns instead of appending changes.
    fn refuses_append(&self) -> Option<StoreError> {
        None
    }

    /// A write was acknowledged, and kept this if it kept changes.
    fn after(&self, write: u64, kept: Option<Entry>);

    /// A session was loaded.
    fn found(&self, _loaded: &LoadedSession) {}
}

/// A store at whose writes somebody looks on.
pub struct Watched<W> {
    store: Arc<dyn SessionStore>,
    watcher: W,
    writes: AtomicU64,
}

impl<W: Watcher> Watched<W> {
    /// Lets somebody look on.
    pub fn new(store: Arc<dyn SessionStore>, watcher: W) -> Self {
        Self { store, watcher, writes: AtomicU64::new(0) }
    }

    /// Returns who looks on.
    pub fn watcher(&self) -> &W {
        &self.watcher
    }

    async fn written<T>(
        &self,
        write: impl Future<Output = Result<T, StoreError>>,
        entry: impl FnOnce(&T) -> Option<Entry>,
    ) -> Result<T, StoreError> {
        let number = self.writes.fetch_add(1, SeqCst) + 1;
        self.watcher.before(number);
        let written = write.await?;
        self.watcher.after(number, entry(&written));
        Ok(written)
    }
}

fn nothing<T>(_: &T) -> Option<Entry> {
    None
}

#[async_trait]
impl<W: Watcher> SessionStore for Watched<W> {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        let changes = new.changes.to_vec();
        let kept = |header: &SessionHeader| {
            let first = header.length - changes.len() as u64;
            Some(Entry::Kept { version: header.version, first, changes })
        };
        self.written(self.store.create(new), kept).await
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        self.store.header(id).await
    }

    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        self.store.definition(id).await
    }

    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        let loaded = self.store.load(id).await?;
        if let Some(loaded) = &loaded {
            self.watcher.found(loaded);
        }
        Ok(loaded)
    }

    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError> {
        if let Some(error) = self.watcher.refuses_append() {
            return Err(error);
        }
        let (first, changes) = (write.batch.first, write.batch.changes.to_vec());
        let kept = |version: &u64| Some(Entry::Kept { version: *version, first, changes });
        self.written(self.store.append(write), kept).await
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.written(self.store.rewind(id, expected, at, lease, now), nothing).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        self.store.list(query).await
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.written(self.store.delete(id, now), nothing).await
    }

    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        self.written(self.store.lease(id, claim), nothing).await
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        self.written(self.store.renew(lease, now, lasts), nothing).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.written(self.store.release(lease), nothing).await
    }

    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        self.store.holder(id, now).await
    }

    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError> {
        self.written(self.store.send_control(id, control), nothing).await
    }

    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        self.written(self.store.take_control(lease), nothing).await
    }

    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        self.written(self.store.append_log(id, log, notes, keep), nothing).await
    }

    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.store.read_log(id, log, after, limit).await
    }

    async fn wait(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.store.wait(id, log, after, clock, at_most).await
    }

    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError> {
        self.written(self.store.reclaim(abandoned), nothing).await
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.store.check(repair).await
    }

    fn jobs(&self) -> Option<&dyn JobQueue> {
        self.store.jobs()
    }
}

impl<W> fmt::Debug for Watched<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("writes", &self.writes).finish_non_exhaustive()
    }
}
