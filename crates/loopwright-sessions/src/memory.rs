//! A store in memory.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::AgentDefinition;
use loopwright_core::{ChangeRecord, Clock, Seq, Timestamp};
use serde::Serialize;

use crate::{
    header::{ForkPoint, SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    rules,
    status::SessionStatus,
    store::{
        AppendRequest, ControlMessage, Finding, Lease, LeaseRequest, LoadedSession, LogEntry,
        NewSession, Posted, ReclaimStats, SessionLog, SessionStore, StoreError, WAIT_LIMIT,
    },
    stored::{StoredBatch, decode, decode_batches, decode_from, encode, fingerprint, written_at},
    waiters::LogWaiters,
};

/// A store in memory: it lasts as long as the process. Clones are the same store.
///
/// It stores the same data as other stores, in the same encoded form, so that tests also find data
/// that does not survive storage.
#[derive(Clone)]
pub struct MemoryStore {
    sessions: Arc<Mutex<Sessions>>,
    waiters: LogWaiters,
}

#[derive(Default)]
struct Sessions {
    kept: BTreeMap<SessionId, Kept>,
    /// All of them, in the order in which they were written.
    order: BTreeSet<(Timestamp, SessionId)>,
}

struct Kept {
    header: SessionHeader,
    definition: Vec<u8>,
    branches: Vec<Branch>,
    /// What the last write is known by.
    last: Option<[u8; 16]>,
    lease: Option<Lease>,
    leases: u64,
    /// How many control messages were posted.
    posted: u64,
    control_messages: Vec<Posted>,
    logs: BTreeMap<SessionLog, VecDeque<LogEntry>>,
}

/// Changes in a row, and where they leave another branch.
#[derive(Default)]
struct Branch {
    from: Option<ForkPoint>,
    batches: Vec<StoredBatch>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { sessions: Arc::default(), waiters: LogWaiters::for_one_process() }
    }
}

impl Sessions {
    fn get_mut(&mut self, id: &SessionId) -> Result<&mut Kept, StoreError> {
        let found = self.kept.get_mut(id).filter(|it| it.header.status != SessionStatus::Deleted);
        found.ok_or_else(|| StoreError::NotFound(id.clone()))
    }

    /// Notes that a session was written, which moves it to the front.
    fn touch(&mut self, id: &SessionId, now: Timestamp) {
        if let Some(kept) = self.kept.get_mut(id) {
            let before = kept.header.updated_at;
            kept.header.updated_at = written_at(before, now);
            kept.header.version += 1;
            self.order.remove(&(before, id.clone()));
            self.order.insert((kept.header.updated_at, id.clone()));
        }
    }

    /// Returns the batches that lead to a state, those of the branches that its own one leaves first.
    fn batches(&self, header: &SessionHeader) -> Vec<StoredBatch> {
        let mut pieces = Vec::new();
        let mut place = (&header.id, header.branch, header.length);
        while let (id, branch, until) = place
            && let Some(branch) = self.kept.get(id).and_then(|it| it.branches.get(branch as usize))
        {
            let own = branch
                .batches
                .iter()
                .filter(|it| it.first < until)
                .map(|it| it.clone().until(until));
            pieces.push(own.collect::<Vec<_>>());
            let Some(from) = &branch.from else { break };
            place = (&from.session, from.branch, from.at.min(until));
        }
        pieces.into_iter().rev().flatten().collect()
    }

    /// Returns how much is needed of each branch, for the sessions that can be loaded.
    fn needed(&self) -> BTreeMap<(SessionId, u32), Seq> {
        let mut needed = BTreeMap::new();
        let live = self.kept.values().filter(|it| it.header.status != SessionStatus::Deleted);
        for head in live.map(|it| &it.header) {
            let mut place = Some((&head.id, head.branch, head.length));
            while let Some((id, branch, until)) = place {
                let most = needed.entry((id.clone(), branch)).or_insert(0);
                *most = until.max(*most);
                let found = self.kept.get(id).and_then(|it| it.branches.get(branch as usize));
                let from = found.and_then(|it| it.from.as_ref());
                place = from.map(|it| (&it.session, it.branch, it.at.min(until)));
            }
        }
        needed
    }
}

impl Kept {
    /// Checks that a writer may write now.
    fn check_lease(&self, lease: Option<&Lease>, now: Timestamp) -> Result<(), StoreError> {
        rules::check_lease(&self.header.id, self.lease.as_ref(), lease, now)
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        let mut sessions = self.sessions();
        let mut header = new.header.clone();
        let id = header.id.clone();
        if sessions.kept.contains_key(&id) {
            return Err(StoreError::Exists(id));
        }
        let mut base = 0;
        if let Some(from) = &header.from {
            let source = sessions.get_mut(&from.session)?;
            rules::check_fork(from, source.header.branch, source.header.length)?;
            base = from.at;
        }
        let (count, body) = (new.changes.len(), packed(&id, new.changes)?);
        let batch = StoredBatch { first: base, count, body, sum: None };
        let batches = if count == 0 { Vec::new() } else { vec![batch] };
        (header.version, header.branch) = (1, 0);
        header.length = base + count as u64;
        let kept = Kept {
            definition: packed(&id, new.definition)?,
            branches: vec![Branch { from: header.from.clone(), batches }],
            header: header.clone(),
            last: None,
            lease: None,
            leases: 0,
            posted: 0,
            control_messages: Vec::new(),
            logs: BTreeMap::new(),
        };
        sessions.order.insert((header.updated_at, id.clone()));
        sessions.kept.insert(id, kept);
        Ok(header)
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        Ok(self.sessions().kept.get(id).map(|it| it.header.clone()))
    }

    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        let mut sessions = self.sessions();
        let Ok(kept) = sessions.get_mut(id) else { return Ok(None) };
        decode(id, &kept.definition).map(Some)
    }

    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        let (header, definition, batches) = {
            let mut sessions = self.sessions();
            let Ok(kept) = sessions.get_mut(id) else { return Ok(None) };
            let (header, definition) = (kept.header.clone(), kept.definition.clone());
            let batches = sessions.batches(&header);
            (header, definition, batches)
        };
        let changes = decode_batches(id, header.length, &batches)?;
        Ok(Some(LoadedSession { header, definition: decode(id, &definition)?, changes }))
    }

    async fn load_from(
        &self,
        id: &SessionId,
        branch: u32,
        first: Seq,
    ) -> Result<Option<(SessionHeader, Vec<ChangeRecord>)>, StoreError> {
        let (header, batches) = {
            let mut sessions = self.sessions();
            let Ok(kept) = sessions.get_mut(id) else { return Ok(None) };
            let length = kept.header.length;
            let Some(own) = kept.branches.get(branch as usize) else { return Ok(None) };
            if kept.header.branch != branch || first > length {
                return Ok(None);
            }
            let end = |it: &StoredBatch| it.first + it.count as u64;
            let newer = own.batches.iter().filter(|it| end(it) > first && it.first < length);
            let batches: Vec<_> = newer.map(|it| it.clone().until(length)).collect();
            (kept.header.clone(), batches)
        };
        let changes = decode_from(id, first, header.length, &batches)?;
        Ok(changes.map(|it| (header, it)))
    }

    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError> {
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(write.id)?;
        let first = write.batch.first;
        let (count, body) = (write.batch.changes.len(), packed(write.id, write.batch.changes)?);
        kept.check_lease(write.lease, write.now)?;
        let print = fingerprint(&write, &body);
        if kept.last == Some(print) && kept.header.version == write.expected + 1 {
            return Ok(kept.header.version);
        }
        rules::check_version(write.id, write.expected, kept.header.version)?;
        rules::check_follows(write.id, write.expected, kept.header.length, first, count)?;
        kept.header.length += count as u64;
        kept.header.status = write.status.unwrap_or(kept.header.status);
        if let Some(title) = write.title {
            kept.header.title = Some(Arc::clone(title));
        }
        if let Some(workdir) = write.workdir {
            kept.header.workdir = Some(Arc::clone(workdir));
        }
        if let Some(parent) = write.parent {
            kept.header.parent = Some(parent.clone());
        }
        if let Some(branch) = kept.branches.last_mut().filter(|_| count > 0) {
            branch.batches.push(StoredBatch { first, count, body, sum: None });
        }
        if let Some(handled) = write.handled {
            kept.control_messages.retain(|it| it.number > handled);
        }
        kept.last = Some(print);
        sessions.touch(write.id, write.now);
        Ok(write.expected + 1)
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(id)?;
        kept.check_lease(lease, now)?;
        rules::check_version(id, expected, kept.header.version)?;
        if at > kept.header.length {
            return Err(StoreError::NotFound(id.clone()));
        }
        let from = ForkPoint { session: id.clone(), branch: kept.header.branch, at };
        kept.branches.push(Branch { from: Some(from.clone()), batches: Vec::new() });
        kept.header.branch += 1;
        kept.header.from = Some(from);
        kept.header.length = at;
        sessions.touch(id, now);
        Ok(expected + 1)
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        let sessions = self.sessions();
        let headers = sessions.order.iter().rev().filter_map(|(_, id)| sessions.kept.get(id));
        let wanted = headers.map(|it| &it.header).filter(|it| query.matches(it));
        Ok(SessionList::from_headers(query, wanted.take(query.limit.saturating_add(1)).cloned()))
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let mut sessions = self.sessions();
        if let Ok(kept) = sessions.get_mut(id) {
            kept.header.status = SessionStatus::Deleted;
            kept.lease = None;
            kept.control_messages.clear();
            sessions.touch(id, now);
        }
        drop(sessions);
        self.waiters.wake_all(id);
        Ok(())
    }

    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(id)?;
        rules::check_claim(kept.lease.as_ref(), &claim)?;
        let LeaseRequest { owner, now, ttl, .. } = claim;
        kept.leases += 1;
        let (id, number, until) = (id.clone(), kept.leases, now.plus(ttl));
        let lease = Lease { id, owner: owner.into(), number, until, last_control: kept.posted };
        kept.lease = Some(lease.clone());
        Ok(lease)
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        let lost = || StoreError::LeaseLost(lease.id.clone());
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(&lease.id).map_err(|_| lost())?;
        let held = kept.lease.as_mut().filter(|held| held.number == lease.number);
        let held = held.ok_or_else(lost)?;
        held.until = now.plus(lasts);
        Ok(held.clone())
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut sessions = self.sessions();
        if let Ok(kept) = sessions.get_mut(&lease.id) {
            kept.lease.take_if(|held| held.number == lease.number);
        }
        Ok(())
    }

    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        let mut sessions = self.sessions();
        let lease = sessions.get_mut(id).ok().and_then(|kept| kept.lease.as_ref());
        Ok(rules::lease_in_force(lease, now).map(|it| Arc::clone(&it.owner)))
    }

    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError> {
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(id)?;
        kept.posted += 1;
        kept.control_messages.push(Posted { number: kept.posted, control: control.clone() });
        Ok(())
    }

    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        let lost = || StoreError::LeaseLost(lease.id.clone());
        let mut sessions = self.sessions();
        let kept = sessions.get_mut(&lease.id).map_err(|_| lost())?;
        if kept.lease.as_ref().is_none_or(|held| held.number != lease.number) {
            return Err(lost());
        }
        Ok(kept.control_messages.clone())
    }

    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        let mut sessions = self.sessions();
        let entries = sessions.get_mut(id)?.logs.entry(log).or_default();
        let mut last = entries.back().map_or(0, |it| it.number);
        for body in notes {
            last += 1;
            entries.push_back(LogEntry { number: last, body: Arc::clone(body) });
        }
        let excess = keep.map_or(0, |keep| (entries.len() as u64).saturating_sub(keep.max(1)));
        entries.drain(..usize::try_from(excess).unwrap_or_default());
        drop(sessions);
        self.waiters.wake(id, log, last, notes);
        Ok(last)
    }

    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let mut sessions = self.sessions();
        let Ok(kept) = sessions.get_mut(id) else { return Ok(Vec::new()) };
        let Some(log) = kept.logs.get(&log) else { return Ok(Vec::new()) };
        let begin = log.partition_point(|it| it.number <= after);
        Ok(log.range(begin..).take(limit).cloned().collect())
    }

    async fn wait(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let reader = self.waiters.register(id, log, after);
        reader.wait(clock, at_most, || self.read_log(id, log, after, WAIT_LIMIT)).await
    }

    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError> {
        let mut sessions = self.sessions();
        let (needed, mut reclaimed) = (sessions.needed(), ReclaimStats::default());
        for (id, kept) in &mut sessions.kept {
            let is_deleted = kept.header.status == SessionStatus::Deleted;
            let mut is_bare = true;
            for (number, branch) in (0..).zip(&mut kept.branches) {
                let until = needed.get(&(id.clone(), number)).copied();
                is_bare &= until.is_none();
                let had = branch.batches.len();
                let is_free = |it: &StoredBatch| it.first >= until.unwrap_or_default();
                branch.batches.retain(|it| !(is_deleted || abandoned) || !is_free(it));
                reclaimed.batches += (had - branch.batches.len()) as u64;
            }
            if is_deleted && is_bare && !kept.definition.is_empty() {
                (kept.definition, kept.logs) = (Vec::new(), BTreeMap::new());
                reclaimed.sessions += 1;
            }
        }
        Ok(reclaimed)
    }

    async fn check(&self, _repair: bool) -> Result<Vec<Finding>, StoreError> {
        Ok(Vec::new())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({} sessions)", self.sessions().kept.len())
    }
}

/// Writes a value that stays in memory, with no room left over.
fn packed<T: Serialize + ?Sized>(id: &SessionId, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut body = encode(id, value)?;
    body.shrink_to_fit();
    Ok(body)
}
