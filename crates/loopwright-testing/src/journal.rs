//! A journal in memory that fails on demand.

use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use loopwright_core::{ChangeRecord, EffectRecord, IdempotencyKey, Journal, JournalError, Seq};

use crate::{poll::yield_times, timeline::Timeline};

/// A fault of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store cannot be reached: no change is stored.
    Unavailable,
    /// The store keeps the changes, but its acknowledgement is lost.
    Unacknowledged,
    /// Another writer appended first.
    Conflict,
    /// The lease was lost.
    LeaseLost,
    /// The machine crashes before the changes are stored: the append never ends.
    CrashBefore,
    /// The machine crashes after the changes are stored and before they are acknowledged: the
    /// append never ends.
    CrashAfter,
    /// The store is slow: the append is ready after this number of unsuccessful polls.
    Delay(u32),
}

/// A journal in memory. Clones are the same journal.
///
/// It fulfills the contract: a batch that leaves a gap or differs from the stored one is a
/// conflict, and the last batch, repeated byte for byte, is acknowledged again and stored once. It
/// fails where [`fail_at`](MemoryJournal::fail_at) says so.
#[derive(Clone, Default)]
pub struct MemoryJournal(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// The number of the first change.
    base: Seq,
    changes: Vec<ChangeRecord>,
    /// The place and the bytes of the batch that was kept last.
    last: Option<(Seq, Vec<u8>)>,
    appends: usize,
    sent: Vec<(Seq, Vec<u8>)>,
    faults: BTreeMap<usize, Fault>,
    delay: u32,
    is_lost: bool,
    has_crashed: bool,
    begun: Vec<IdempotencyKey>,
    on_record: BTreeMap<IdempotencyKey, EffectRecord>,
    children: BTreeMap<IdempotencyKey, MemoryJournal>,
    timeline: Option<Timeline>,
}

impl MemoryJournal {
    /// Creates an empty journal for a state without history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty journal for a state whose history before this change is stored elsewhere.
    pub fn starting_at(base: Seq) -> Self {
        let journal = Self::new();
        journal.inner().base = base;
        journal
    }

    /// Adds a note to a timeline for each stored append, `kept <changes>`, and for each effect,
    /// `begun <key>`.
    #[must_use]
    pub fn with_timeline(self, timeline: &Timeline) -> Self {
        self.inner().timeline = Some(timeline.clone());
        self
    }

    /// Delays every append: it is ready after this number of unsuccessful polls.
    #[must_use]
    pub fn with_delay(self, polls: u32) -> Self {
        self.inner().delay = polls;
        self
    }

    /// Adds a fault at the append with this number, counted from zero.
    pub fn fail_at(&self, append: usize, fault: Fault) {
        self.inner().faults.insert(append, fault);
    }

    /// Adds a fault at the next append.
    pub fn fail_next(&self, fault: Fault) {
        let mut inner = self.inner();
        let next = inner.appends;
        inner.faults.insert(next, fault);
    }

    /// Returns `true` if the machine has crashed at an append since
    /// [`recover`](MemoryJournal::recover).
    pub fn has_crashed(&self) -> bool {
        self.inner().has_crashed
    }

    /// Removes all faults.
    pub fn recover(&self) {
        let mut inner = self.inner();
        inner.faults.clear();
        (inner.is_lost, inner.has_crashed) = (false, false);
    }

    /// Revokes the lease: all further appends fail.
    pub fn lose_lease(&self) {
        self.inner().is_lost = true;
    }

    /// Records an effect, so that it does not start again.
    pub fn preload(&self, effect: IdempotencyKey, begun: EffectRecord) {
        self.inner().on_record.insert(effect, begun);
    }

    /// Returns the stored changes, for a replay.
    pub fn changes(&self) -> Vec<ChangeRecord> {
        self.inner().changes.clone()
    }

    /// Calls a function with the stored changes, without copying them.
    pub fn with_changes<R>(&self, look: impl FnOnce(&[ChangeRecord]) -> R) -> R {
        look(&self.inner().changes)
    }

    /// Returns the kinds of the stored changes.
    pub fn names(&self) -> Vec<&'static str> {
        self.inner().changes.iter().map(|it| it.change.name()).collect()
    }

    /// Returns the number of attempted appends.
    pub fn appends(&self) -> usize {
        self.inner().appends
    }

    /// Returns the position and the bytes of every batch, stored or not.
    pub fn sent(&self) -> Vec<(Seq, Vec<u8>)> {
        self.inner().sent.clone()
    }

    /// Returns the started effects, in order.
    pub fn begun(&self) -> Vec<IdempotencyKey> {
        self.inner().begun.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_fault(&self, first: Seq, bytes: &[u8]) -> Option<Fault> {
        let mut inner = self.inner();
        let number = inner.appends;
        inner.appends += 1;
        inner.sent.push((first, bytes.to_vec()));
        if inner.is_lost {
            return Some(Fault::LeaseLost);
        }
        let delay = Some(inner.delay).filter(|it| *it > 0).map(Fault::Delay);
        let fault = inner.faults.get(&number).copied().or(delay);
        inner.has_crashed |= matches!(fault, Some(Fault::CrashBefore | Fault::CrashAfter));
        fault
    }
}

impl Inner {
    fn keep(
        &mut self,
        first: Seq,
        changes: &[ChangeRecord],
        bytes: Vec<u8>,
    ) -> Result<(), JournalError> {
        let next = self.base + self.changes.len() as u64;
        if first == next {
            self.changes.extend_from_slice(changes);
            self.last = Some((first, bytes));
            if let Some(timeline) = &self.timeline {
                let names: Vec<_> = changes.iter().map(|it| it.change.name()).collect();
                timeline.note(format!("kept {}", names.join(" ")));
            }
            return Ok(());
        }
        if self.last.as_ref().is_some_and(|it| it.0 == first && it.1 == bytes) {
            return Ok(());
        }
        Err(JournalError::Conflict)
    }
}

fn unavailable(error: impl Into<loopwright_core::BoxError>) -> JournalError {
    JournalError::Unavailable(error.into())
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        let bytes = serde_json::to_vec(changes).map_err(unavailable)?;
        let fault = self.next_fault(first, &bytes);
        match fault {
            Some(Fault::Unavailable) => return Err(unavailable("the store is away")),
            Some(Fault::Conflict) => return Err(JournalError::Conflict),
            Some(Fault::LeaseLost) => return Err(JournalError::LeaseLost),
            Some(Fault::CrashBefore) => pending().await,
            Some(Fault::Delay(polls)) => yield_times(polls).await,
            _ => (),
        }
        self.inner().keep(first, changes, bytes)?;
        match fault {
            Some(Fault::Unacknowledged) => Err(unavailable("the connection broke")),
            Some(Fault::CrashAfter) => pending().await,
            _ => Ok(()),
        }
    }

    async fn lookup(&self, effect: &IdempotencyKey) -> Result<EffectRecord, JournalError> {
        let mut inner = self.inner();
        if inner.is_lost {
            return Err(JournalError::LeaseLost);
        }
        inner.begun.push(effect.clone());
        if let Some(timeline) = &inner.timeline {
            timeline.note(format!("begun {}{}", effect.step, call_of(effect)));
        }
        Ok(inner.on_record.get(effect).cloned().unwrap_or(EffectRecord::NotRecorded))
    }

    async fn load_changes(&self) -> Result<Vec<ChangeRecord>, JournalError> {
        Ok(self.inner().changes.clone())
    }

    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        Arc::new(self.inner().children.entry(call.clone()).or_default().clone())
    }
}

fn call_of(effect: &IdempotencyKey) -> String {
    effect.call.map_or_else(String::new, |call| format!("/{call}"))
}

impl fmt::Debug for MemoryJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryJournal").field("changes", &self.names()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::{Change, Timestamp};

    use super::*;
    use crate::{block_on, run_until_stuck};

    fn batch(kinds: &[Change]) -> Vec<ChangeRecord> {
        let at = Timestamp::from_millis(1);
        kinds.iter().map(|change| ChangeRecord { at, change: change.clone() }).collect()
    }

    #[test]
    fn the_last_batch_sent_again_is_kept_once_and_anything_else_is_a_conflict() {
        let journal = MemoryJournal::new();
        let (one, other) = (
            batch(&[Change::ExecutionResumed, Change::StopOverruled]),
            batch(&[Change::ExecutionPaused]),
        );
        block_on(journal.append(0, &one)).unwrap();
        block_on(journal.append(0, &one)).unwrap();
        assert_eq!(journal.names(), ["execution_resumed", "stop_overruled"]);
        let conflict = |first, batch: &[ChangeRecord]| {
            let error = block_on(journal.append(first, batch)).unwrap_err();
            assert!(matches!(error, JournalError::Conflict));
        };
        conflict(0, &other);
        conflict(3, &other);
        conflict(1, &one[1..]);
        block_on(journal.append(2, &other)).unwrap();
        conflict(0, &one);
    }

    #[test]
    fn a_crash_before_keeps_nothing_and_a_crash_after_keeps_everything() {
        let (journal, one) = (MemoryJournal::new(), batch(&[Change::ExecutionResumed]));
        journal.fail_at(0, Fault::CrashBefore);
        assert!(run_until_stuck(journal.append(0, &one)).is_none());
        assert!(journal.changes().is_empty());
        journal.fail_next(Fault::CrashAfter);
        assert!(run_until_stuck(journal.append(0, &one)).is_none());
        assert_eq!(journal.changes(), one);
    }

    #[test]
    fn the_same_call_gets_the_same_child() {
        let journal = MemoryJournal::new();
        let key = |call| IdempotencyKey { execution: "e".into(), step: 1, call: Some(call) };
        block_on(journal.child(&key(0)).append(0, &batch(&[Change::ExecutionResumed]))).unwrap();
        let again = block_on(journal.child(&key(0)).append(0, &batch(&[Change::ExecutionPaused])));
        assert!(matches!(again, Err(JournalError::Conflict)));
        block_on(journal.child(&key(1)).append(0, &batch(&[Change::ExecutionPaused]))).unwrap();
    }

    #[test]
    fn without_a_lease_nothing_is_kept() {
        let journal = MemoryJournal::new();
        journal.lose_lease();
        let error = block_on(journal.append(0, &batch(&[Change::ExecutionResumed]))).unwrap_err();
        assert!(matches!(error, JournalError::LeaseLost));
        journal.recover();
        block_on(journal.append(0, &batch(&[Change::ExecutionResumed]))).unwrap();
    }
}
