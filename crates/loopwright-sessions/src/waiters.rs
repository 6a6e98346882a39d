//! Readers that wait for log entries, and are woken by writers of the same process.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::{
    future::{Either, select},
    task::AtomicWaker,
};
use loopwright_core::Clock;

use crate::{
    id::SessionId,
    store::{LogEntry, SessionLog, StoreError, WAIT_LIMIT},
};

/// The first polling interval for entries of other processes.
const FIRST_POLL: Duration = Duration::from_millis(100);
/// The number of logs of which the last entry is remembered.
const MAX_KNOWN: usize = 8_192;
/// The longest polling interval.
const MAX_POLL: Duration = Duration::from_secs(1);

/// The readers of this process that wait for log entries of a store. Clones share them.
///
/// A store calls [`wake`](LogWaiters::wake) after each append, and implements
/// [`SessionStore::wait`](crate::SessionStore::wait) with [`register`](LogWaiters::register) and
/// [`LogWaiter::wait`]. A reader that waits is handed the entries that are appended, and does not
/// have to read them. A reader that already has the last entry that this process appended waits without
/// reading first. The memory is one entry for each reader that waits, the log entries that
/// it has been handed, at most [`WAIT_LIMIT`], and the numbers of the last entries of some thousand logs.
#[derive(Clone, Default)]
pub struct LogWaiters {
    registry: Arc<Mutex<Registry>>,
    is_exclusive: bool,
}

#[derive(Default)]
struct Registry {
    sessions: HashMap<SessionId, BTreeMap<u64, Arc<Waiting>>>,
    /// The number of readers that were ever registered.
    registered: u64,
    /// The number of the last entry that this process appended to each log.
    appended: HashMap<(SessionId, SessionLog), u64>,
    /// The same logs, in the order in which they were added.
    known: VecDeque<(SessionId, SessionLog)>,
}

impl Registry {
    fn note_append(&mut self, id: &SessionId, log: SessionLog, last: u64) {
        let name = (id.clone(), log);
        if let Some(known) = self.appended.get_mut(&name) {
            *known = last.max(*known);
            return;
        }
        if self.known.len() >= MAX_KNOWN
            && let Some(eldest) = self.known.pop_front()
        {
            self.appended.remove(&eldest);
        }
        self.known.push_back(name.clone());
        self.appended.insert(name, last);
    }

    fn forget(&mut self, id: &SessionId) {
        let is_other = |name: &(SessionId, SessionLog)| name.0 != *id;
        let known = self.known.len();
        self.appended.retain(|name, _| is_other(name));
        if self.appended.len() < known {
            self.known.retain(is_other);
        }
    }
}

/// A reader that waits.
struct Waiting {
    log: SessionLog,
    after: u64,
    is_woken: AtomicBool,
    /// Entries after the number, without a gap.
    handed: Mutex<Vec<LogEntry>>,
    waker: AtomicWaker,
}

impl Waiting {
    /// Takes those of the appended entries that follow what the reader has.
    fn hand(&self, last: u64, appended: &[Arc<[u8]>]) {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        let next = handed.last().map_or(self.after, |it| it.number) + 1;
        let first = last + 1 - appended.len() as u64;
        let Some(known) = next.checked_sub(first) else { return };
        let added = appended.iter().skip(usize::try_from(known).unwrap_or(usize::MAX));
        let free = WAIT_LIMIT - handed.len();
        let entry = |(number, body)| LogEntry { number, body: Arc::clone(body) };
        handed.extend((next..).zip(added).take(free).map(entry));
    }
}

impl LogWaiters {
    /// Creates an empty set of readers, for a store that other processes may write, too. A reader
    /// that is not woken polls: first after 100 ms, and then after twice the interval before, up to
    /// a second.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty set of readers, for a store that no other process writes. Readers do not
    /// poll.
    pub fn for_one_process() -> Self {
        Self { is_exclusive: true, ..Self::default() }
    }

    /// Registers a reader that waits for an entry after a number. Register it before you look for
    /// entries, so that it misses none.
    pub fn register(&self, id: &SessionId, log: SessionLog, after: u64) -> LogWaiter {
        let (is_woken, waker) = (AtomicBool::new(false), AtomicWaker::new());
        let waiting = Arc::new(Waiting { log, after, is_woken, handed: Mutex::default(), waker });
        let mut registry = self.registry();
        registry.registered += 1;
        let number = registry.registered;
        let has_last = registry.appended.get(&(id.clone(), log)) == Some(&after);
        let readers = registry.sessions.entry(id.clone()).or_default();
        readers.insert(number, Arc::clone(&waiting));
        drop(registry);
        LogWaiter { waiters: self.clone(), id: id.clone(), number, waiting, has_last }
    }

    /// Wakes the readers that wait for one of these entries, or an earlier one, in a log of a
    /// session, and hands them the entries. `last` is the number of the last one. Call it when the
    /// entries can be read.
    pub fn wake(&self, id: &SessionId, log: SessionLog, last: u64, appended: &[Arc<[u8]>]) {
        let hand = |it: &Waiting| it.hand(last, appended);
        let mut registry = self.registry();
        registry.note_append(id, log, last);
        Self::wake_if(registry, id, |it| it.log == log && it.after < last, hand);
    }

    /// Wakes all readers of a session, because it was deleted.
    pub fn wake_all(&self, id: &SessionId) {
        let mut registry = self.registry();
        registry.forget(id);
        Self::wake_if(registry, id, |_| true, |_| {});
    }

    fn wake_if(
        registry: MutexGuard<'_, Registry>,
        id: &SessionId,
        is_meant: impl Fn(&Waiting) -> bool,
        hand: impl Fn(&Waiting),
    ) {
        let readers = registry.sessions.get(id).into_iter().flat_map(BTreeMap::values);
        let meant: Vec<_> = readers.filter(|it| is_meant(it)).cloned().collect();
        drop(registry);
        for waiting in meant {
            hand(&waiting);
            waiting.is_woken.store(true, Ordering::Release);
            waiting.waker.wake();
        }
    }

    /// Returns the number of readers that wait.
    pub fn len(&self) -> usize {
        self.registry().sessions.values().map(BTreeMap::len).sum()
    }

    /// Returns `true` if no reader waits.
    pub fn is_empty(&self) -> bool {
        self.registry().sessions.is_empty()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LogWaiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWaiters").field("readers", &self.len()).finish_non_exhaustive()
    }
}

/// A registered reader, until this is dropped.
pub struct LogWaiter {
    waiters: LogWaiters,
    id: SessionId,
    number: u64,
    waiting: Arc<Waiting>,
    /// Whether its number was that of the last entry that this process appended.
    has_last: bool,
}

/// What tells readers whether other processes may have written.
pub trait ForeignWrites {
    /// Returns a number that changes when another process writes. `None` if that is not known, so that readers have to read.
    fn position(&self) -> impl Future<Output = Option<u64>> + Send;
}

/// Detects no writes of other processes.
struct Unknown;

impl ForeignWrites for Unknown {
    async fn position(&self) -> Option<u64> {
        None
    }
}

impl LogWaiter {
    /// Waits until `read` returns an entry, the reader is woken, or the time limit has passed, and
    /// returns the entries. `read` reads entries after the number with which the reader was
    /// registered.
    ///
    /// # Errors
    ///
    /// Returns the error of `read`.
    pub async fn wait<F: Future<Output = Result<Vec<LogEntry>, StoreError>>>(
        &self,
        clock: &dyn Clock,
        at_most: Duration,
        read: impl Fn() -> F,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.wait_beside(clock, at_most, read, &Unknown).await
    }

    /// Does the same, and polls only if other processes may have written.
    ///
    /// # Errors
    ///
    /// Returns the error of `read`.
    pub async fn wait_beside<F: Future<Output = Result<Vec<LogEntry>, StoreError>>>(
        &self,
        clock: &dyn Clock,
        at_most: Duration,
        read: impl Fn() -> F,
        others: &impl ForeignWrites,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let began = clock.monotonic();
        let first = if self.has_last { MAX_POLL } else { FIRST_POLL };
        let mut interval = if self.waiters.is_exclusive { Duration::MAX } else { first };
        let mut is_read = self.has_last;
        // What others wrote before this is in what was read. What they wrote before a wait that did not read is not.
        let mut position = if is_read { None } else { others.position().await };
        loop {
            let waited = clock.monotonic().saturating_sub(began);
            let left = at_most.checked_sub(waited).filter(|it| !it.is_zero());
            let found = if is_read && left.is_some() { Vec::new() } else { read().await? };
            let Some(left) = left.filter(|_| found.is_empty()) else { return Ok(found) };
            let sleep = clock.sleep(left.min(interval));
            if let Either::Left(_) = select(pin!(self.woken()), sleep).await {
                let handed = self.handed();
                return if handed.is_empty() { read().await } else { Ok(handed) };
            }
            interval = interval.saturating_mul(2).min(MAX_POLL);
            let now = others.position().await;
            is_read = now.is_some() && now == position;
            position = now;
        }
    }

    /// Takes the entries that writers have handed to this reader since it was registered: those after its number, without
    /// a gap. None if it has to read them from the store.
    fn handed(&self) -> Vec<LogEntry> {
        let mut handed = self.waiting.handed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *handed)
    }

    /// Waits until a writer wakes this reader. Returns at once if one did so since it was
    /// registered.
    pub async fn woken(&self) {
        poll_fn(|cx| {
            self.waiting.waker.register(cx.waker());
            let is_woken = self.waiting.is_woken.load(Ordering::Acquire);
            if is_woken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Drop for LogWaiter {
    fn drop(&mut self) {
        let mut registry = self.waiters.registry();
        if let Some(readers) = registry.sessions.get_mut(&self.id) {
            readers.remove(&self.number);
            if readers.is_empty() {
                registry.sessions.remove(&self.id);
            }
        }
    }
}

impl fmt::Debug for LogWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWaiter")
            .field("session", &self.id)
            .field("log", &self.waiting.log)
            .field("after", &self.waiting.after)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
