//! Writing the log of a session.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::Duration,
};

use loopwright_core::{Seq, Timestamp};

use super::{
    acknowledged::{self, Acknowledged},
    disk::{self, Identity, Lock, LockMode, WaitPolicy},
    failure::At as _,
    frame::{self, LogTail},
    frame_file::{FrameFile, corrupt, intact},
    index::{Announcement, FinalEntry, PendingEntry, Write},
    lease::{LEASE, LeaseFile},
    record::{CreationRecord, Kind, Record},
    root::{LOCK, LOG, Root},
    session_log::{SessionLogFile, not_whole},
    slot::{IndexEntry, bit},
};
use crate::{
    id::SessionId,
    rules,
    status::SessionStatus,
    store::{Lease, StoreError},
    stored::written_at,
};

/// For how long the index covers what is written of a session that runs. A caller that lists sessions looks at such
/// a one itself.
const AHEAD: Duration = Duration::from_mins(1);
/// How many sessions a store keeps open, each with five files.
const KNOWN: usize = 32;

/// A session that no other process writes at the same time, and that is not deleted.
#[derive(Debug)]
pub(super) struct Session<'a> {
    root: &'a Root,
    pub(super) id: &'a SessionId,
    pub(super) files: Files,
    /// The index entry that covers what is about to be written, if that was seen to beforehand.
    announced: Option<PendingEntry>,
}

/// The files of a session as they were when this store wrote them last. They stay open, so that writing them
/// again begins with a look at what others did meanwhile and not with opening and reading them.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) id: SessionId,
    pub(super) dir: PathBuf,
    lock: Lock,
    trail: FrameFile,
    acknowledged: Acknowledged,
    /// Whether the log lost what was acknowledged. Forks may begin there, so the next write begins a new branch.
    is_cut: bool,
    /// The last record of the log.
    pub(super) last: Record,
    pub(super) lease: Option<LeaseFile>,
    /// The index entry that was written under a lease, and covers what is written after it.
    covered: Option<PendingEntry>,
}

/// What is appended to a log.
#[derive(Debug)]
pub(super) struct Addition {
    pub(super) expected: u64,
    pub(super) first: Seq,
    pub(super) count: usize,
    pub(super) body: Vec<u8>,
    pub(super) print: Box<str>,
    pub(super) status: Option<SessionStatus>,
    pub(super) title: Option<Arc<str>>,
    pub(super) workdir: Option<Arc<str>>,
    pub(super) parent: Option<SessionId>,
    pub(super) handled: Option<u64>,
    pub(super) now: Timestamp,
}

impl Addition {
    /// Returns `true` if the index entry of the session speaks of another place from now on.
    fn moves(&self) -> bool {
        self.workdir.is_some() || self.parent.is_some()
    }

    /// Says what is about to be written after a record.
    fn about(&self, last: &Record) -> Write {
        let status = self.status.unwrap_or(last.status);
        let updated_at = written_at(last.updated_at, self.now);
        Write { updated_at, statuses: bit(last.status) | bit(status), ahead: AHEAD }
    }
}

impl<'a> Session<'a> {
    /// Opens a session for writing.
    ///
    /// Its log is read once as a whole. From then on this store reads only what others appended.
    pub(super) fn open(root: &'a Root, id: &'a SessionId) -> Result<Self, StoreError> {
        let not_found = || StoreError::NotFound(id.clone());
        let files = if let Some(files) = root.locked_again(id)? {
            files
        } else {
            let (dir, lock) = root.lock_session(id, LockMode::Exclusive)?.ok_or_else(not_found)?;
            // Another thread may have kept them as it let go of the lock.
            if let Some(kept) = root.kept(id)? {
                Files { lock, ..kept }
            } else {
                let (trail, last, is_cut) = read(id, dir.join(LOG))?;
                let (id, acknowledged) = (id.clone(), Acknowledged::default());
                let (lease, covered) = (None, None);
                Files { id, dir, lock, trail, acknowledged, is_cut, last, lease, covered }
            }
        };
        if files.last.is_deleted() {
            return Err(not_found());
        }
        Ok(Self { root, id, files, announced: None })
    }

    /// Opens a session to append to it, if this store wrote it last and no process has to be waited for.
    pub(super) fn at_once(
        root: &'a Root,
        id: &'a SessionId,
        addition: &Addition,
        lease: Option<&Lease>,
    ) -> Option<Self> {
        // Whatever is in the way is found again by the process that opens it and waits, and told by them.
        lease?;
        if addition.moves() {
            return None;
        }
        let mut files = root.take(id)?;
        if !files.lock.relock(LockMode::Exclusive, WaitPolicy::None).ok()? {
            root.put_back(files);
            return None;
        }
        let is_as_left = files.appended().ok()? == Some(0) && !files.last.is_deleted();
        let covered = files.covered.take().filter(|_| is_as_left && files.lease.is_some());
        let about = addition.about(&files.last);
        let again = covered.map(|it| it.again(&root.index, about, WaitPolicy::None));
        let Some(announced) = again.transpose().ok().flatten().flatten() else {
            root.keep(files);
            return None;
        };
        Some(Self { root, id, files, announced: Some(announced) })
    }

    /// Appends to the current branch.
    pub(super) fn append(
        &mut self,
        addition: Addition,
        lease: Option<&Lease>,
    ) -> Result<u64, StoreError> {
        let moves = addition.moves();
        let Addition { expected, first, count, body, print, status, title, .. } = addition;
        let Addition { workdir, parent, handled, now, .. } = addition;
        self.check_lease(lease, now)?;
        let Files { trail, last, .. } = &self.files;
        if last.print.as_ref() == Some(&print) && last.version == expected + 1 {
            // A caller that wrote it may have ended before it was on the disk.
            disk::sync_data(&trail.file, &trail.path).at(&trail.path)?;
            return Ok(last.version);
        }
        rules::check_version(self.id, expected, last.version)?;
        rules::check_follows(self.id, expected, last.length, first, count)?;
        let mut record = self.next(written_at(last.updated_at, now));
        record.length += count as u64;
        record.count = count as u64;
        record.status = status.unwrap_or(record.status);
        record.title = title.or(record.title);
        record.print = Some(print);
        record.workdir = workdir.or(record.workdir);
        record.parent = parent.or(record.parent);
        if moves {
            self.announced = Some(self.announced_elsewhere(&record)?);
        }
        record.handled = record.handled.max(handled.unwrap_or_default());
        self.write(record, if count > 0 { &body } else { b"" }, lease)
    }

    /// Starts a new branch that shares this number of changes with the current one.
    pub(super) fn rewind(
        &mut self,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.check_lease(lease, now)?;
        let last = &self.files.last;
        rules::check_version(self.id, expected, last.version)?;
        if at > last.length {
            return Err(StoreError::NotFound(self.id.clone()));
        }
        let record = last.new_branch(self.id, at, written_at(last.updated_at, now));
        self.write(record, b"", None)
    }

    /// Ends what is in doubt about the end of the log: what is damaged is moved aside, and what is known of the
    /// session without it is written. The session is suspended, and continues on a new branch.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        self.files.is_cut = true;
        self.files.last.suspend_unverified();
        let record = self.next(self.files.last.updated_at);
        self.write(record, b"", None).map(drop)
    }

    /// Begins the record of an append.
    fn next(&self, updated_at: Timestamp) -> Record {
        let Files { last, is_cut, .. } = &self.files;
        if *is_cut {
            last.new_branch(self.id, last.length, updated_at)
        } else {
            last.next(Kind::Append, updated_at)
        }
    }

    /// Deletes the session for good if it was last written before some moment and no lease is in force. Returns
    /// whether it did.
    fn delete_unused(&mut self, before: Timestamp, now: Timestamp) -> Result<bool, StoreError> {
        match self.check_lease(None, now) {
            Err(StoreError::Busy { .. }) => return Ok(false),
            checked => checked?,
        }
        if self.files.last.updated_at >= before {
            return Ok(false);
        }
        self.delete(now).map(|()| true)
    }

    /// Deletes the session for good.
    pub(super) fn delete(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let last = &self.files.last;
        let mut record = last.next(Kind::Delete, written_at(last.updated_at, now));
        record.status = SessionStatus::Deleted;
        self.write(record, b"", None)?;
        // No process looks at what is beside the log of a deleted session.
        let _forgotten =
            (self.forget_control_messages(), fs::remove_file(self.files.dir.join(LEASE)));
        Ok(())
    }

    /// Updates the index entry of the session after its lease has ended.
    pub(super) fn rest(&mut self) {
        self.files.covered = None;
        let Record { slot: hint, updated_at, status, .. } = self.files.last;
        // An entry that is not settled costs a look at the session, nothing else.
        let _settled =
            self.root.index.commit(&FinalEntry { id: self.id, hint, updated_at, status });
    }

    /// Appends a record, and returns its version. The index covers it beforehand and, if it is written under a
    /// lease, what is written under it for a while.
    fn write(
        &mut self,
        mut record: Record,
        body: &[u8],
        lease: Option<&Lease>,
    ) -> Result<u64, StoreError> {
        let covered = self.covered(&record, lease)?;
        record.slot = covered.slot;
        let head = record.head()?;
        let mut bytes = Vec::new();
        let trail = &mut self.files.trail;
        frame::write(&mut bytes, trail.end, &head, body).at(&trail.path)?;
        trail.append(&bytes)?;
        // What is written is written: if this fails, less is known of what was acknowledged.
        let _noted = self.files.acknowledged.write(&self.files.dir, record.version);
        if lease.is_some() {
            // What is written is written: an entry that cannot be freed is let go of.
            self.files.covered = covered.free().is_ok().then_some(covered);
        } else {
            // An entry that is not settled costs a look at the session, nothing else.
            let _settled = covered.settle(record.updated_at, record.status);
        }
        self.files.last = record;
        self.files.is_cut = false;
        Ok(self.files.last.version)
    }

    /// Adds another entry to the index, for a session that works elsewhere or for another one from now on. The one
    /// that is there says what is true until then.
    fn announced_elsewhere(&mut self, record: &Record) -> Result<PendingEntry, StoreError> {
        let (root, id) = (self.root, self.id);
        let Files { trail, last, covered, .. } = &mut self.files;
        *covered = None;
        let statuses = bit(last.status) | bit(record.status);
        root.announced(
            |_| Ok(Announcement::NoEntry),
            || {
                let header = birth(id, trail)?.header(record.clone());
                Ok(IndexEntry { statuses, ..IndexEntry::of(&header) })
            },
        )
    }

    /// Sees to it that the index covers what is about to be written.
    fn covered(
        &mut self,
        record: &Record,
        lease: Option<&Lease>,
    ) -> Result<PendingEntry, StoreError> {
        let (root, id) = (self.root, self.id);
        let Files { trail, last, covered, .. } = &mut self.files;
        // A caller that has the lease writes again soon, and says when it does no more.
        let ahead = lease.map_or(Duration::ZERO, |_| AHEAD);
        let statuses = bit(last.status) | bit(record.status);
        let about = Write { updated_at: record.updated_at, statuses, ahead };
        if let Some(announced) = self.announced.take() {
            return Ok(announced);
        }
        let covered = covered.take().filter(|_| lease.is_some());
        let again = covered.map(|it| it.again(&root.index, about, WaitPolicy::Waits)).transpose();
        if let Some(announced) = again.at(&root.index.path)?.flatten() {
            return Ok(announced);
        }
        root.announced(
            |index| index.reserve(id, record.slot, about),
            || {
                let header = birth(id, trail)?.header(record.clone());
                Ok(IndexEntry { statuses, ..IndexEntry::of(&header) })
            },
        )
    }

    /// Ends the work with a session. Its files stay open unless one of them failed.
    pub(super) fn ended<T>(self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let Self { root, files, .. } = self;
        let is_sound =
            !matches!(result, Err(StoreError::Unavailable(_) | StoreError::Corrupt { .. }));
        if is_sound {
            root.keep(files);
        }
        result
    }
}

impl Root {
    /// Deletes a session that was last written before some moment and on which no lease is in force. Returns
    /// whether it did.
    pub(super) fn delete_unused(
        &self,
        id: &SessionId,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut session = match Session::open(self, id) {
            Err(StoreError::NotFound(_)) => return Ok(false),
            session => session?,
        };
        let deleted = session.delete_unused(before, now);
        session.ended(deleted)
    }

    /// Takes up a session where this store left it, and locks it. Returns `None` if this store
    /// never wrote it, or its files are others by now.
    fn locked_again(&self, id: &SessionId) -> Result<Option<Files>, StoreError> {
        let Some(mut files) = self.take(id) else { return Ok(None) };
        let path = files.dir.join(LOCK);
        let is_locked = files.lock.relock(LockMode::Exclusive, WaitPolicy::Waits).at(&path)?;
        Ok((is_locked && files.caught_up()?).then_some(files))
    }

    /// Takes up a session that is locked already.
    fn kept(&self, id: &SessionId) -> Result<Option<Files>, StoreError> {
        let Some(mut files) = self.take(id) else { return Ok(None) };
        Ok(files.caught_up()?.then_some(files))
    }

    fn take(&self, id: &SessionId) -> Option<Files> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|it| it.id == *id)?;
        Some(known.remove(place))
    }

    /// Puts files back that were taken and not locked.
    fn put_back(&self, files: Files) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        remember(&mut known, files);
    }

    /// Keeps the files of a session for the next time, and lets go of its lock.
    fn keep(&self, files: Files) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Who takes the files may lock them at once, since the lock is the same; who waits for it finds them.
        if files.lock.unlock().is_err() {
            return;
        }
        remember(&mut known, files);
    }
}

/// Adds the files of a session to those that are known.
fn remember(known: &mut Vec<Files>, files: Files) {
    known.retain(|it| it.id != files.id);
    while known.len() >= KNOWN {
        known.remove(0);
    }
    known.push(files);
}

impl Files {
    /// Returns how many bytes others appended to the log, or `None` if it is not the same one any
    /// more.
    fn appended(&mut self) -> Result<Option<u64>, StoreError> {
        let FrameFile { path, identity, end, length, .. } = &mut self.trail;
        let Some(there) = disk::if_there(fs::symlink_metadata(&path)).at(path)? else {
            return Ok(None);
        };
        *length = there.len();
        Ok(length.checked_sub(*end).filter(|_| identity.is_of(&there)))
    }

    /// Reads what others appended to the log. Returns `true` if it is still the same one.
    fn caught_up(&mut self) -> Result<bool, StoreError> {
        let Some(appended) = self.appended()? else { return Ok(false) };
        let Self { id, trail, last, is_cut, .. } = self;
        let path = &trail.path;
        if appended > 0 {
            let bytes = frame::part(&mut trail.file, trail.end, u64::MAX).at(path)?;
            let scan = frame::scan(&bytes, trail.end);
            intact(id, path, &scan)?;
            if let Some(frame) = scan.frames.last() {
                let Some(record) = Record::read(&bytes[frame.head.clone()]) else {
                    return Ok(false);
                };
                *last = record;
            }
            if scan.ending == LogTail::CorruptTail {
                last.suspend_unverified();
                *is_cut = true;
            }
            trail.end = scan.end;
        }
        Ok(true)
    }
}

/// Opens a log. Returns its last record, and whether it lost what was acknowledged.
fn read(id: &SessionId, path: PathBuf) -> Result<(FrameFile, Record, bool), StoreError> {
    let acknowledged = path.parent().map(acknowledged::read).transpose().at(&path)?.flatten();
    let file = disk::options().read(true).write(true).open(&path);
    let Some(mut file) = disk::if_there(file).at(&path)? else {
        let path = path.display();
        return Err(corrupt(id, format!("`{path}` is missing; restore it from a backup")));
    };
    let bytes = frame::part(&mut file, 0, u64::MAX).at(&path)?;
    let (length, identity) = (bytes.len() as u64, Identity::of(&file.metadata().at(&path)?));
    let SessionLogFile { last, end, missing, .. } =
        SessionLogFile::read(id, &path, bytes, acknowledged)?;
    Ok((FrameFile { path, file, identity, end, length }, last, missing.is_some()))
}

/// Reads what never changes of a session.
fn birth(id: &SessionId, trail: &mut FrameFile) -> Result<CreationRecord, StoreError> {
    let head = frame::head_at(&mut trail.file, 0).at(&trail.path)?.unwrap_or_default();
    let first = Record::read(&head).and_then(|it| it.session);
    first.map(|it| *it).ok_or_else(|| not_whole(id, &trail.path))
}
