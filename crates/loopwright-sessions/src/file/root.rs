//! The paths.

use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Mutex,
};

use loopwright_core::Timestamp;

use super::{
    acknowledged,
    append_mode::{AppendLatency, AppendMode},
    disk::{self, Lock, LockMode},
    failure::At as _,
    frame,
    frame_file::corrupt,
    index::{Announcement, Index, PendingEntry},
    record::Record,
    session::Files,
    session_log::SessionLogFile,
    slot::IndexEntry,
};
use crate::{
    header::SessionHeader, id::SessionId, store::StoreError, stored::check_format,
    waiters::LogWaiters,
};

/// The directory of a store, and what it knows of the sessions that it wrote last.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) index: Index,
    pub(super) known: Mutex<Vec<Files>>,
    pub(super) pace: AppendLatency,
    pub(super) waiters: LogWaiters,
}

/// What a reader may do who finds a log in disorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMode {
    /// Wait for the caller that writes, and look again.
    WaitForWriter,
    /// Take it as it is. A caller that holds the index alone must not wait for those who write.
    BestEffort,
}

/// The files of a session.
pub(super) const LOG: &str = "log";
pub(super) const LOCK: &str = "lock";

/// The number of index rebuilds before a write fails.
const REMADE: u32 = 3;

impl Root {
    /// Opens a directory, which is created if there is none.
    pub(super) fn open(path: &Path, blocking: AppendMode) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).at(path)?;
        let (index, known, pace) =
            (Index::new(&path), Mutex::default(), AppendLatency::new(blocking));
        let root = Self { path, index, known, pace, waiters: LogWaiters::new() };
        let sessions = root.sessions();
        if !sessions.is_dir() {
            disk::create_dirs(&sessions).at(&sessions)?;
            disk::sync_dir(&root.path).at(&root.path)?;
            if let Some(above) = root.path.parent() {
                disk::sync_dir(above).at(above)?;
            }
        }
        Ok(root)
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.path.join("sessions")
    }

    /// Returns the directory in which new sessions are made before they are moved to their place.
    pub(super) fn incoming(&self) -> PathBuf {
        self.path.join("incoming")
    }

    /// Returns the directory of sessions that cannot be read.
    pub(super) fn quarantine(&self) -> PathBuf {
        self.path.join("quarantine")
    }

    /// Locks the store: shared by the process that creates, held alone by the process that tidies up.
    pub(super) fn lock(&self, hold: LockMode) -> Result<Lock, StoreError> {
        let path = self.path.join(LOCK);
        let lock = disk::lock(&path, hold);
        lock.and_then(|it| it.ok_or_else(|| ErrorKind::NotFound.into())).at(&path)
    }

    /// Returns the directory of a session, or `None` if there is none.
    pub(super) fn dir(&self, id: &SessionId) -> Result<Option<PathBuf>, StoreError> {
        let dir = self.sessions().join(id.as_str());
        match disk::if_there(fs::symlink_metadata(&dir)).at(&dir)? {
            Some(found) if found.is_dir() => Ok(Some(dir)),
            Some(_) => Err(corrupt(id, format!("`{}` is not a directory", dir.display()))),
            None => {
                let sessions = self.sessions();
                fs::symlink_metadata(&sessions).at(&sessions)?;
                Ok(None)
            }
        }
    }

    /// Locks a session, and returns its directory. Returns `None` if there is none.
    pub(super) fn lock_session(
        &self,
        id: &SessionId,
        hold: LockMode,
    ) -> Result<Option<(PathBuf, Lock)>, StoreError> {
        let Some(dir) = self.dir(id)? else { return Ok(None) };
        let path = dir.join(LOCK);
        let lock = disk::lock(&path, hold).at(&path)?;
        Ok(lock.map(|lock| (dir, lock)))
    }

    /// Returns the names of all sessions, and what else there is among them.
    pub(super) fn names(&self) -> Result<Vec<Result<SessionId, PathBuf>>, StoreError> {
        let sessions = self.sessions();
        let mut names = Vec::new();
        for entry in fs::read_dir(&sessions).at(&sessions)? {
            let name = entry.at(&sessions)?.file_name();
            let path = sessions.join(&name);
            names.push(name.into_string().ok().and_then(|it| SessionId::new(it).ok()).ok_or(path));
        }
        names.sort();
        Ok(names)
    }

    /// Returns what is known of a session, or `None` if there is none.
    ///
    /// Two small pieces of its log are read, however long that is.
    pub(super) fn header(
        &self,
        id: &SessionId,
        reading: ReadMode,
    ) -> Result<Option<SessionHeader>, StoreError> {
        let Some(dir) = self.dir(id)? else { return Ok(None) };
        let path = dir.join(LOG);
        let acknowledged = acknowledged::read(&dir).at(&dir)?;
        let Some(mut file) = disk::open(&path).at(&path)? else {
            return self.ledger(id, reading).map(|it| it.map(|it| it.header()));
        };
        let length = file.metadata().at(&path)?.len();
        let first = frame::head_at(&mut file, 0).at(&path)?.and_then(|it| Record::read(&it));
        let last = frame::ending_at(&mut file, length).at(&path)?;
        let last = last.and_then(|it| Record::read(&it.head));
        let birth = first.and_then(|it| it.session).filter(|it| it.id == *id);
        match (birth, last) {
            (Some(birth), Some(last)) if acknowledged.is_none_or(|it| it <= last.version) => {
                check_format(id, birth.format)?;
                Ok(Some(birth.header(last)))
            }
            _ => self.ledger(id, reading).map(|it| it.map(|it| it.header())),
        }
    }

    /// Reads the whole log of a session. Returns `None` if there is no session.
    pub(super) fn ledger(
        &self,
        id: &SessionId,
        reading: ReadMode,
    ) -> Result<Option<SessionLogFile>, StoreError> {
        let Some(dir) = self.dir(id)? else { return Ok(None) };
        let path = dir.join(LOG);
        let read = || -> Result<SessionLogFile, StoreError> {
            let acknowledged = acknowledged::read(&dir).at(&dir)?;
            let Some(mut file) = disk::open(&path).at(&path)? else {
                let path = path.display();
                return Err(corrupt(id, format!("`{path}` is missing; restore it from a backup")));
            };
            let bytes = frame::part(&mut file, 0, u64::MAX).at(&path)?;
            SessionLogFile::read(id, &path, bytes, acknowledged)
        };
        match read() {
            Ok(ledger) if ledger.ending == frame::LogTail::Clean && ledger.missing.is_none() => {
                Ok(Some(ledger))
            }
            found if reading == ReadMode::BestEffort => found.map(Some),
            // A user may be writing it, or may have moved it away.
            _ => {
                let Some((_, _lock)) = self.lock_session(id, LockMode::Shared)? else {
                    return Ok(None);
                };
                read().map(Some)
            }
        }
    }

    /// Returns the entries of the index, which is rebuilt if necessary.
    pub(super) fn entries(&self) -> Result<Vec<u8>, StoreError> {
        match self.index.entries().at(&self.index.path)? {
            Some(entries) => Ok(entries),
            // If it cannot be written, the next one who needs it makes it anew again.
            None => Ok(self.made_anew()?.0),
        }
    }

    /// Rebuilds the index unless another process just did that. Returns `true` if it could be
    /// written.
    fn made_anew(&self) -> Result<(Vec<u8>, io::Result<()>), StoreError> {
        let lock = self.index.alone();
        if let Ok(Some(entries)) = self.index.entries() {
            return Ok((entries, Ok(())));
        }
        let slots = self.slots()?;
        let entries = slots.iter().flat_map(IndexEntry::to_bytes).collect();
        // Of a caller that holds it now, what is about to be written would be missing in the file.
        let written = lock.and_then(|_lock| self.index.remake(&slots));
        Ok((entries, written))
    }

    /// Looks at all sessions.
    pub(super) fn slots(&self) -> Result<Vec<IndexEntry>, StoreError> {
        let names = self.names()?.into_iter().flatten();
        let slot = |id: SessionId| match self.header(&id, ReadMode::BestEffort) {
            Ok(header) => header.map(|it| IndexEntry::of(&it)),
            Err(_) => Some(self.unknown(id)),
        };
        Ok(names.filter_map(slot).collect())
    }

    /// Describes a session that cannot be read by when its files were written.
    fn unknown(&self, id: SessionId) -> IndexEntry {
        let dir = self.sessions().join(id.as_str());
        let found = fs::symlink_metadata(dir.join(LOG)).or_else(|_| fs::symlink_metadata(&dir));
        let written_at = found.and_then(|it| it.modified());
        IndexEntry::damaged(id, written_at.map_or(Timestamp::from_millis(0), Timestamp::from))
    }

    /// Sees to it that the index never says less than what is true.
    pub(super) fn announced(
        &self,
        announce: impl Fn(&Index) -> io::Result<Announcement>,
        mut entry: impl FnMut() -> Result<IndexEntry, StoreError>,
    ) -> Result<PendingEntry, StoreError> {
        let path = &self.index.path;
        for _ in 0..REMADE {
            let made = match announce(&self.index).at(path)? {
                Announcement::NoEntry => self.index.add(entry()?).at(path)?,
                made => made,
            };
            if let Announcement::Made(announced) = made {
                return Ok(announced);
            }
            self.made_anew()?.1.at(path)?;
        }
        Err(io::Error::other("the index cannot be rebuilt")).at(path)
    }
}
