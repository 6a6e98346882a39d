//! A store in a directory of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::executor::block_on;
use loopwright_agent::AgentDefinition;
use loopwright_core::{
    Change, ChangeRecord, Edit, Seq, Timestamp,
    messages::{Message, SectionName},
};
use loopwright_sessions::{
    AppendMode, AppendRequest, ChangeBatch, FileStore, Finding, Lease, LeaseRequest, LoadedSession,
    NewSession, SessionHeader, SessionId, SessionQuery, SessionStore as _, StoreError,
};
use tempfile::TempDir;

pub(crate) struct World {
    dir: TempDir,
    pub(crate) store: FileStore,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(AppendMode::Offload)
    }

    /// Makes a world in memory, where the machine has such a place: for what is written many times, and read, but need
    /// not survive the machine.
    pub(crate) fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::at(dir.unwrap(), AppendMode::Offload)
    }

    pub(crate) fn with(blocking: AppendMode) -> Self {
        Self::at(tempfile::tempdir().unwrap(), blocking)
    }

    fn at(dir: TempDir, blocking: AppendMode) -> Self {
        let store = FileStore::open_with(dir.path().join("store"), blocking).unwrap();
        Self { dir, store }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub(crate) fn session(&self, name: &str) -> PathBuf {
        self.path().join("sessions").join(name)
    }

    /// What the next process sees.
    pub(crate) fn reopened(self) -> Self {
        let store = FileStore::open(self.path()).unwrap();
        Self { store, ..self }
    }

    pub(crate) fn load(&self, name: &str) -> Result<Option<LoadedSession>, StoreError> {
        block_on(self.store.load(&id(name)))
    }

    pub(crate) fn check(&self, repair: bool) -> Vec<Finding> {
        block_on(self.store.check(repair)).unwrap()
    }

    /// The names of the first page.
    pub(crate) fn names(&self) -> Vec<String> {
        let page = block_on(self.store.list(&SessionQuery::first(50))).unwrap();
        page.sessions.iter().map(|it| it.id.to_string()).collect()
    }

    /// The files of a session whose names begin so.
    pub(crate) fn files(&self, name: &str, begin: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.session(name)).unwrap();
        let paths = entries.map(|it| it.unwrap().path());
        let mut found: Vec<_> = paths
            .filter(|it| it.file_name().unwrap().to_string_lossy().starts_with(begin))
            .collect();
        found.sort();
        found
    }
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(1_000)
}

/// Changes from one number on.
pub(crate) fn said(from: u64, count: usize) -> Vec<ChangeRecord> {
    said_by("test", from, count)
}

pub(crate) fn said_by(by: &str, from: u64, count: usize) -> Vec<ChangeRecord> {
    let change = |number: u64| {
        let section = SectionName::MESSAGES.into();
        let edit = Edit::Append { section, message: Message::user(format!("message {number}")) };
        ChangeRecord { at: now(), change: Change::StateEdited { by: by.into(), edit } }
    };
    (from..).take(count).map(change).collect()
}

pub(crate) fn definition() -> AgentDefinition {
    AgentDefinition::new("agent", "does things", "You do things.")
}

pub(crate) fn header(name: &str) -> SessionHeader {
    SessionHeader::new(id(name), "agent", now())
}

pub(crate) fn claim(owner: &str) -> LeaseRequest<'_> {
    LeaseRequest { owner, replaces: None, now: now(), ttl: Duration::from_secs(30) }
}

pub(crate) fn create(store: &FileStore, name: &str, count: usize) -> SessionHeader {
    create_as(store, &header(name), count).unwrap()
}

pub(crate) fn create_as(
    store: &FileStore,
    header: &SessionHeader,
    count: usize,
) -> Result<SessionHeader, StoreError> {
    let (definition, changes) = (definition(), said(0, count));
    block_on(store.create(NewSession { header, definition: &definition, changes: &changes }))
}

pub(crate) fn append(
    store: &FileStore,
    name: &str,
    expected: u64,
    first: Seq,
    count: usize,
) -> Result<u64, StoreError> {
    append_at(store, name, expected, first, count, now())
}

pub(crate) fn append_at(
    store: &FileStore,
    name: &str,
    expected: u64,
    first: Seq,
    count: usize,
    now: Timestamp,
) -> Result<u64, StoreError> {
    append_said(store, name, expected, first, &said(first, count), now)
}

pub(crate) fn append_said(
    store: &FileStore,
    name: &str,
    expected: u64,
    first: Seq,
    changes: &[ChangeRecord],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let id = id(name);
    let batch = ChangeBatch { first, changes };
    block_on(store.append(AppendRequest::new(&id, expected, batch, now)))
}

/// Appends the change of this number, which is the version as well, under a lease.
pub(crate) fn append_under(
    store: &FileStore,
    lease: &Lease,
    number: Seq,
    now: Timestamp,
) -> Result<u64, StoreError> {
    block_on(appending_under(store, lease, number, now))
}

pub(crate) async fn appending_under(
    store: &FileStore,
    lease: &Lease,
    number: Seq,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let (id, changes) = (&lease.id, said(number, 1));
    let batch = ChangeBatch { first: number, changes: &changes };
    store
        .append(AppendRequest { lease: Some(lease), ..AppendRequest::new(id, number, batch, now) })
        .await
}

/// Changes what the first record of a log says, with checksums that hold. Both texts are as long.
pub(crate) fn rewrite_head(log: &Path, before: &str, after: &str) {
    let mut bytes = fs::read(log).unwrap();
    let place = bytes.windows(before.len()).position(|it| it == before.as_bytes()).unwrap();
    bytes[place..place + after.len()].copy_from_slice(after.as_bytes());
    let head = u32::from_le_bytes(*bytes[4..].first_chunk().unwrap()) as usize;
    let sum = crc32fast::hash(&[&[0; 8], &bytes[4..16], &bytes[20..20 + head]].concat());
    bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    fs::write(log, bytes).unwrap();
}
