//! A store in files.

use std::{
    fmt,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use blocking::unblock;
use loopwright_agent::AgentDefinition;
use loopwright_core::{Clock, Seq, Timestamp};

mod acknowledged;
mod backup;
mod check;
mod create;
mod disk;
mod failure;
mod frame;
mod index;
mod lease;
mod session_log;
mod load;
mod notes;
mod append_mode;
mod reclaim;
mod record;
mod root;
mod salvage;
mod session;
mod slot;
mod frame_file;
mod control_messages;

use crate::{
    header::{SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    store::{
        AppendRequest, ControlMessage, Finding, Lease, LeaseRequest, LoadedSession, LogEntry,
        NewSession, Posted, ReclaimStats, Salvaged, SessionLog, SessionStore, StoreError,
        WAIT_LIMIT,
    },
    stored::{encode, fingerprint},
};

pub use self::append_mode::AppendMode;
use self::{
    check::RepairMode,
    create::New,
    root::{ReadMode, Root},
    session::{Addition, Session},
};

/// A store in files: a directory with an append-only log for each session. Clones are the same
/// store.
///
/// ```
/// use loopwright_sessions::{FileStore, SessionQuery, SessionStore as _};
///
/// # let dir = std::env::temp_dir().join(format!("loopwright-{}", std::process::id()));
/// # futures::executor::block_on(async {
/// let store = FileStore::open(&dir)?;
/// assert!(store.list(&SessionQuery::first(10)).await?.is_empty());
/// # Ok::<(), loopwright_sessions::StoreError>(())
/// # }).unwrap();
/// # std::fs::remove_dir_all(dir).unwrap();
/// ```
///
/// Any number of processes on one machine can use a directory at the same time. Only one process at
/// a time writes a session, and readers do not wait for writers. Only the owner can read the files.
/// The store does its work on its own threads, except for appends to a fast disk; see
/// [`AppendMode`].
///
/// A record that a crash truncated at the end of a log is ignored, and moved to a separate file
/// before the next write. If the record was acknowledged, the session is suspended, and
/// [`missing`](SessionStore::missing) describes the loss. A log that is damaged elsewhere is not
/// written: its session is [`Corrupt`](StoreError::Corrupt), [`salvage`](SessionStore::salvage)
/// reads its intact changes, and a [`check`](SessionStore::check) with repair keeps the changes
/// before the damage. Other sessions are not affected.
#[derive(Clone)]
pub struct FileStore(Arc<Root>);

impl FileStore {
    /// Opens the store in a directory, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](StoreError::Unavailable) if the directory cannot be used.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(directory, AppendMode::default())
    }

    /// Opens the store in a directory, with an append mode, which decides whether appends can block
    /// the calling thread.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        directory: impl AsRef<Path>,
        blocking: AppendMode,
    ) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Root::open(directory.as_ref(), blocking)?)))
    }

    /// Appends on this thread to a session that this store wrote last. What is to be appended is given back if
    /// the store may not block, or has to wait for others.
    fn append_at_once(
        &self,
        id: &SessionId,
        addition: Addition,
        lease: Option<&Lease>,
    ) -> Result<Result<u64, StoreError>, Addition> {
        let Self(root) = self;
        if !root.pace.may_block() {
            return Err(addition);
        }
        let began = Instant::now();
        let opened = Session::at_once(root, id, &addition, lease);
        let Some(mut session) = opened else { return Err(addition) };
        let appended = session.append(addition, lease);
        root.pace.note(began, &appended);
        Ok(session.ended(appended))
    }

    /// Does something with the directory where it keeps no executor from its work.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Root) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let root = Arc::clone(&self.0);
        unblock(move || work(&root)).await
    }

    /// Does something with a session that no other process writes meanwhile.
    async fn work_on<T: Send + 'static>(
        &self,
        id: &SessionId,
        work: impl FnOnce(&mut Session<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let id = id.clone();
        self.work(move |root| {
            let mut session = Session::open(root, &id)?;
            let done = work(&mut session);
            session.ended(done)
        })
        .await
    }
}

#[async_trait]
impl SessionStore for FileStore {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        let header = new.header.clone();
        let definition = encode(&header.id, new.definition)?;
        let (count, changes) = (new.changes.len(), encode(&header.id, new.changes)?);
        self.work(move |root| root.create(New { header, definition, count, changes })).await
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        let id = id.clone();
        self.work(move |root| root.header(&id, ReadMode::WaitForWriter)).await
    }

    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        let id = id.clone();
        self.work(move |root| root.definition(&id)).await
    }

    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        let id = id.clone();
        self.work(move |root| root.load(&id)).await
    }

    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError> {
        let body = encode(write.id, write.batch.changes)?;
        let addition = Addition {
            expected: write.expected,
            first: write.batch.first,
            count: write.batch.changes.len(),
            print: record::print(fingerprint(&write, &body)),
            body,
            status: write.status,
            title: write.title.cloned(),
            workdir: write.workdir.cloned(),
            parent: write.parent.cloned(),
            handled: write.handled,
            now: write.now,
        };
        let addition = match self.append_at_once(write.id, addition, write.lease) {
            Ok(appended) => return appended,
            Err(addition) => addition,
        };
        let (id, lease) = (write.id.clone(), write.lease.cloned());
        self.work(move |root| {
            let mut session = Session::open(root, &id)?;
            let began = Instant::now();
            let appended = session.append(addition, lease.as_ref());
            root.pace.note(began, &appended);
            session.ended(appended)
        })
        .await
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let lease = lease.cloned();
        self.work_on(id, move |session| session.rewind(expected, at, lease.as_ref(), now)).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        let query = query.clone();
        self.work(move |root| root.list(&query)).await
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        match self.work_on(id, move |session| session.delete(now)).await {
            Err(StoreError::NotFound(_)) => return Ok(()),
            deleted => deleted?,
        }
        self.0.waiters.wake_all(id);
        Ok(())
    }

    async fn delete_unused(
        &self,
        ids: &[SessionId],
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<SessionId>, StoreError> {
        let ids = ids.to_vec();
        self.work(move |root| {
            let deleted = spread(&ids, |id| root.delete_unused(id, before, now))?;
            Ok(ids.into_iter().zip(deleted).filter(|(_, it)| *it).map(|(id, _)| id).collect())
        })
        .await
    }

    async fn named(&self, beginning: &str, most: usize) -> Result<Vec<SessionId>, StoreError> {
        let beginning = beginning.to_owned();
        self.work(move |root| root.named(&beginning, most)).await
    }

    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        let LeaseRequest { owner, replaces, now, ttl } = claim;
        let (owner, replaces) = (owner.to_owned(), replaces.map(str::to_owned));
        self.work_on(id, move |session| {
            session.lease(LeaseRequest { owner: &owner, replaces: replaces.as_deref(), now, ttl })
        })
        .await
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        let held = lease.clone();
        let renewed =
            self.work_on(&lease.id, move |session| session.renew(&held, now, lasts)).await;
        renewed.map_err(not_held)
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let held = lease.clone();
        match self.work_on(&lease.id, move |session| session.release(&held)).await {
            Err(StoreError::NotFound(_)) => Ok(()),
            released => released,
        }
    }

    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        let found = self.work_on(id, move |session| session.holder(now)).await;
        match found {
            Err(StoreError::NotFound(_)) => Ok(None),
            found => found,
        }
    }

    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError> {
        let control = encode(id, control)?;
        self.work_on(id, move |session| session.post(&control)).await
    }

    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        let held = lease.clone();
        self.work_on(&lease.id, move |session| session.collect(&held)).await.map_err(not_held)
    }

    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        let (id, notes) = (id.clone(), notes.to_vec());
        // Entries are added and readers woken even if the caller stops waiting.
        self.work(move |root| {
            let session = Session::open(root, &id)?;
            let added = session.note(log, &notes, keep);
            let last = session.ended(added)?;
            root.waiters.wake(&id, log, last, &notes);
            Ok(last)
        })
        .await
    }

    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let id = id.clone();
        self.work(move |root| root.notes(&id, log, after, limit)).await
    }

    async fn wait(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let reader = self.0.waiters.register(id, log, after);
        reader.wait(clock, at_most, || self.read_log(id, log, after, WAIT_LIMIT)).await
    }

    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError> {
        self.work(move |root| root.reclaim(abandoned)).await
    }

    async fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        let to = to.to_owned();
        self.work(move |root| root.back_up(&to)).await
    }

    async fn missing(&self, id: &SessionId) -> Result<Option<Finding>, StoreError> {
        let id = id.clone();
        self.work(move |root| root.missing(&id, ReadMode::WaitForWriter)).await
    }

    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        let id = id.clone();
        self.work(move |root| root.salvage(&id)).await
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        let care = if repair { RepairMode::Repair } else { RepairMode::Look };
        self.work(move |root| root.check(care)).await
    }
}

/// How many threads look after many sessions. Most of the time they wait for the disk.
const THREADS: usize = 8;

/// Does something with each of many sessions, on several threads. Returns what came of it, in their order.
fn spread<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&I) -> Result<T, StoreError> + Sync,
) -> Result<Vec<T>, StoreError> {
    let share = items.len().div_ceil(THREADS).max(1);
    let work = &work;
    thread::scope(|scope| {
        let begin = |items: &'_ [I]| items.iter().map(work).collect::<Result<Vec<T>, _>>();
        let threads: Vec<_> =
            items.chunks(share).map(|it| scope.spawn(move || begin(it))).collect();
        let mut all = Vec::with_capacity(items.len());
        for thread in threads {
            let done = thread.join();
            all.extend(done.map_err(|_| StoreError::Unavailable("a thread panicked".into()))??);
        }
        Ok(all)
    })
}

fn not_held(error: StoreError) -> StoreError {
    match error {
        StoreError::NotFound(id) => StoreError::LeaseLost(id),
        error => error,
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileStore({})", self.0.path.display())
    }
}
