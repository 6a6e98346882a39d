//! A store that reports when it makes its callers wait.

use std::{
    fmt,
    path::Path,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{Either, select};
use loopwright_agent::AgentDefinition;
use loopwright_core::{ChangeRecord, Clock, Seq, Timestamp};

use crate::{
    header::{SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    ledger::UsageLedger,
    scheduler::{JobQueue, Scheduler},
    store::{
        AppendRequest, ControlMessage, Finding, Lease, LeaseRequest, LoadedSession, LogEntry,
        NewSession, Posted, ReclaimStats, Salvaged, SessionLog, SessionStore, StoreError,
    },
};

/// A wait for a session store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreWait {
    /// A call has been waiting for this long. Calls that wait at the same time count as one wait.
    Started(Duration),
    /// No call is waiting any longer: all have finished, failed or been dropped. The wait took this
    /// long.
    Ended(Duration),
}

/// Names what this reports to `tracing`.
const TARGET: &str = "loopwright::store";

/// Reports waits. It must not block.
type Report = dyn Fn(StoreWait) + Send + Sync;

/// Reports calls that wait for a long time.
#[derive(Clone)]
pub struct WaitReporter {
    clock: Arc<dyn Clock>,
    after: Duration,
    report: Arc<Report>,
    waits: Arc<Mutex<Waits>>,
}

/// The calls that wait.
#[derive(Debug, Default)]
struct Waits {
    calls: usize,
    since: Duration,
}

impl WaitReporter {
    /// Reports calls that wait for longer than `after` by `clock`. `report` must not block.
    pub fn new(
        clock: Arc<dyn Clock>,
        after: Duration,
        report: impl Fn(StoreWait) + Send + Sync + 'static,
    ) -> Self {
        Self { clock, after, report: Arc::new(report), waits: Arc::default() }
    }

    /// Waits for a call, and reports it if it takes long. Dropping this drops the call.
    pub async fn watch<T>(&self, call: impl Future<Output = T>) -> T {
        let began = self.clock.monotonic();
        match select(pin!(call), self.clock.sleep(self.after)).await {
            Either::Left((done, _)) => done,
            Either::Right(((), call)) => {
                let _waiting = Waiting::begin(self, began);
                call.await
            }
        }
    }
}

/// A call that waits, until this is dropped.
struct Waiting<'a>(&'a WaitReporter);

impl<'a> Waiting<'a> {
    fn begin(reporter: &'a WaitReporter, since: Duration) -> Self {
        let mut waits = reporter.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.calls += 1;
        let is_first = waits.calls == 1;
        if is_first {
            waits.since = since;
        }
        drop(waits);
        if is_first {
            tracing::warn!(target: TARGET, waited = ?reporter.after, "store is slow");
            (reporter.report)(StoreWait::Started(reporter.after));
        }
        Self(reporter)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waits = self.0.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.calls -= 1;
        let since = (waits.calls == 0).then_some(waits.since);
        drop(waits);
        if let Some(since) = since {
            let waited = self.0.clock.monotonic().saturating_sub(since);
            tracing::info!(target: TARGET, ?waited, "store responds again");
            (self.0.report)(StoreWait::Ended(waited));
        }
    }
}

impl fmt::Debug for WaitReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitReporter").field("after", &self.after).finish_non_exhaustive()
    }
}

/// A store that reports when it makes its callers wait. Everything else is delegated to the wrapped
/// store.
///
/// Calls that normally take long are not reported: [`wait`](SessionStore::wait),
/// [`check`](SessionStore::check), [`reclaim`](SessionStore::reclaim),
/// [`back_up`](SessionStore::back_up), [`delete_unused`](SessionStore::delete_unused),
/// [`close`](SessionStore::close), and those of the [queue](SessionStore::jobs).
pub struct ReportingStore {
    store: Arc<dyn SessionStore>,
    reporter: WaitReporter,
}

impl ReportingStore {
    /// Wraps a store.
    pub fn new(store: Arc<dyn SessionStore>, reporter: WaitReporter) -> Self {
        Self { store, reporter }
    }
}

impl fmt::Debug for ReportingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportingStore").field("reporter", &self.reporter).finish_non_exhaustive()
    }
}

#[async_trait]
impl SessionStore for ReportingStore {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        self.reporter.watch(self.store.create(new)).await
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        self.reporter.watch(self.store.header(id)).await
    }

    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        self.reporter.watch(self.store.definition(id)).await
    }

    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        self.reporter.watch(self.store.load(id)).await
    }

    async fn load_from(
        &self,
        id: &SessionId,
        branch: u32,
        first: Seq,
    ) -> Result<Option<(SessionHeader, Vec<ChangeRecord>)>, StoreError> {
        self.reporter.watch(self.store.load_from(id, branch, first)).await
    }

    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError> {
        self.reporter.watch(self.store.append(write)).await
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.reporter.watch(self.store.rewind(id, expected, at, lease, now)).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        self.reporter.watch(self.store.list(query)).await
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.reporter.watch(self.store.delete(id, now)).await
    }

    async fn delete_unused(
        &self,
        ids: &[SessionId],
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<SessionId>, StoreError> {
        self.store.delete_unused(ids, before, now).await
    }

    async fn named(&self, beginning: &str, most: usize) -> Result<Vec<SessionId>, StoreError> {
        self.reporter.watch(self.store.named(beginning, most)).await
    }

    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        self.reporter.watch(self.store.lease(id, claim)).await
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        self.reporter.watch(self.store.renew(lease, now, lasts)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        self.reporter.watch(self.store.release(lease)).await
    }

    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        self.reporter.watch(self.store.holder(id, now)).await
    }

    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError> {
        self.reporter.watch(self.store.send_control(id, control)).await
    }

    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        self.reporter.watch(self.store.take_control(lease)).await
    }

    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        self.reporter.watch(self.store.append_log(id, log, notes, keep)).await
    }

    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.reporter.watch(self.store.read_log(id, log, after, limit)).await
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
        self.store.reclaim(abandoned).await
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        self.store.check(repair).await
    }

    async fn missing(&self, id: &SessionId) -> Result<Option<Finding>, StoreError> {
        self.reporter.watch(self.store.missing(id)).await
    }

    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        self.reporter.watch(self.store.salvage(id)).await
    }

    async fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        self.store.back_up(to).await
    }

    async fn close(&self) {
        self.store.close().await;
    }

    fn jobs(&self) -> Option<&dyn JobQueue> {
        self.store.jobs()
    }

    fn scheduler(&self) -> Option<&dyn Scheduler> {
        self.store.scheduler()
    }

    fn ledger(&self) -> Option<&dyn UsageLedger> {
        self.store.ledger()
    }
}

#[cfg(test)]
mod tests;
