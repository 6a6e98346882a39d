//! Writing the log of a session.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use loopwright_core::{Seq, Timestamp};

use super::{
    disk::{self, Hold},
    failure::At as _,
    frame::{self, Ending},
    index::{SettledAs, Write},
    lease::LEASE,
    ledger::{Ledger, not_whole},
    record::{Birth, Kind, Record},
    root::{Known, LOG, Root},
    slot::{Slot, bit},
    trail::{Trail, corrupt, intact},
};
use crate::{
    header::ForkPoint,
    id::SessionId,
    rules,
    status::SessionStatus,
    store::{Lease, StoreError},
    stored::written_at,
};

/// For how long the index covers what is written of a session that runs. Whoever lists sessions looks at such
/// a one itself.
const AHEAD: Duration = Duration::from_mins(1);
/// How many logs a store keeps open.
const KNOWN: usize = 32;

/// A session that nobody else writes at the same time, and that is not deleted.
#[derive(Debug)]
pub(super) struct Session<'a> {
    root: &'a Root,
    pub(super) id: &'a SessionId,
    pub(super) dir: PathBuf,
    trail: Trail,
    pub(super) last: Record,
    _lock: File,
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
    pub(super) now: Timestamp,
}

impl<'a> Session<'a> {
    /// Opens a session for writing.
    ///
    /// Its log is read once as a whole. From then on this store reads only what others appended.
    pub(super) fn open(root: &'a Root, id: &'a SessionId) -> Result<Self, StoreError> {
        let not_found = || StoreError::NotFound(id.clone());
        let (dir, lock) = root.lock_session(id, Hold::Alone)?.ok_or_else(not_found)?;
        let (trail, last) = match known(root, id, &dir.join(LOG))? {
            Some(Known { trail, last, .. }) => (trail, last),
            None => read(id, dir.join(LOG))?,
        };
        let session = Self { root, id, dir, trail, last, _lock: lock };
        if session.last.is_deleted() { Err(not_found()) } else { Ok(session) }
    }

    /// Appends to the current line.
    pub(super) fn append(
        &mut self,
        addition: Addition,
        lease: Option<&Lease>,
    ) -> Result<u64, StoreError> {
        let Addition { expected, first, count, body, print, status, title, now } = addition;
        self.check_lease(lease, now)?;
        if self.last.print.as_ref() == Some(&print) && self.last.version == expected + 1 {
            // Whoever wrote it may have ended before it was on the disk.
            self.trail.file.sync_data().at(&self.trail.path)?;
            return Ok(self.last.version);
        }
        rules::check_version(self.id, expected, self.last.version)?;
        rules::check_follows(self.id, expected, self.last.length, first, count)?;
        let mut record = self.last.next(Kind::Append, written_at(self.last.updated_at, now));
        record.length += count as u64;
        record.count = count as u64;
        record.status = status.unwrap_or(record.status);
        record.title = title.or(record.title);
        record.print = Some(print);
        // Whoever has the lease writes again soon, and says when it does no more.
        let ahead = lease.map_or(Duration::ZERO, |_| AHEAD);
        self.write(record, if count > 0 { &body } else { b"" }, ahead)
    }

    /// Begins a new line that has so many changes in common with the current one.
    pub(super) fn rewind(
        &mut self,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.check_lease(lease, now)?;
        rules::check_version(self.id, expected, self.last.version)?;
        if at > self.last.length {
            return Err(StoreError::NotFound(self.id.clone()));
        }
        let mut record = self.last.next(Kind::Rewind, written_at(self.last.updated_at, now));
        let (session, line) = (self.id.clone(), record.line);
        record.from = Some(ForkPoint { session, line, at });
        record.line += 1;
        record.length = at;
        self.write(record, b"", Duration::ZERO)
    }

    /// Ends what is in doubt about the log's last record: it is moved aside, and what is known of the session
    /// without it is written.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        let record = self.last.next(Kind::Append, self.last.updated_at);
        self.write(record, b"", Duration::ZERO).map(drop)
    }

    /// Deletes the session for good.
    pub(super) fn delete(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let mut record = self.last.next(Kind::Delete, written_at(self.last.updated_at, now));
        record.status = SessionStatus::Deleted;
        self.write(record, b"", Duration::ZERO)?;
        // Nobody looks at what is beside the log of a deleted session.
        let _forgotten = (self.forget_wishes(), fs::remove_file(self.dir.join(LEASE)));
        Ok(())
    }

    /// Says in the index what the session is now that nobody has the right to write it.
    pub(super) fn rest(&self) {
        let Record { slot: hint, updated_at, status, .. } = self.last;
        // An entry that is not settled costs a look at the session, nothing else.
        let _settled = self.root.index.settle(&SettledAs { id: self.id, hint, updated_at, status });
    }

    /// Appends a record, and returns its version. The index covers it beforehand, and what is written after
    /// it for so long.
    fn write(
        &mut self,
        mut record: Record,
        body: &[u8],
        ahead: Duration,
    ) -> Result<u64, StoreError> {
        let statuses = bit(self.last.status) | bit(record.status);
        let about = Write { updated_at: record.updated_at, statuses, ahead };
        let (root, id, trail) = (self.root, self.id, &mut self.trail);
        let announced = root.announced(
            |index| index.announce(id, record.slot, about),
            || {
                let header = birth(id, trail)?.header(record.clone());
                Ok(Slot { statuses, ..Slot::of(&header) })
            },
        )?;
        record.slot = announced.slot;
        let head = record.head()?;
        let mut bytes = Vec::new();
        frame::write(&mut bytes, self.trail.end, &head, body).at(&self.trail.path)?;
        self.trail.append(&bytes)?;
        if ahead.is_zero() {
            // An entry that is not settled costs a look at the session, nothing else.
            let _settled = announced.settle(record.updated_at, record.status);
        }
        self.last = record;
        Ok(self.last.version)
    }

    /// Ends the work with a session. What is known of it by now is kept unless its files failed.
    pub(super) fn ended<T>(self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if !matches!(result, Err(StoreError::Unavailable(_) | StoreError::Corrupt { .. })) {
            let Self { root, id, trail, last, .. } = self;
            let mut known = root.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|it| it.id != *id);
            if known.len() >= KNOWN {
                known.remove(0);
            }
            known.push(Known { id: id.clone(), trail, last });
        }
        result
    }
}

/// Takes up a log where this store left it; nothing if it never looked at it, or it is another file by
/// now.
fn known(root: &Root, id: &SessionId, path: &Path) -> Result<Option<Known>, StoreError> {
    let found = {
        let mut all = root.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = all.iter().position(|it| it.id == *id);
        place.map(|it| all.remove(it))
    };
    let Some(mut known) = found else { return Ok(None) };
    let Some(there) = disk::if_there(fs::symlink_metadata(path)).at(path)? else { return Ok(None) };
    let trail = &mut known.trail;
    if there.len() < trail.end || !disk::is_same(&there, &trail.file.metadata().at(path)?) {
        return Ok(None);
    }
    trail.length = there.len();
    if trail.length > trail.end {
        let bytes = frame::part(&mut trail.file, trail.end, u64::MAX).at(path)?;
        let scan = frame::scan(&bytes, trail.end);
        intact(id, path, &scan)?;
        if let Some(frame) = scan.frames.last() {
            let Some(last) = Record::read(&bytes[frame.head.clone()]) else { return Ok(None) };
            known.last = last;
        }
        if scan.ending == Ending::Spoilt {
            known.last.doubt();
        }
        trail.end = scan.end;
    }
    Ok(Some(known))
}

fn read(id: &SessionId, path: PathBuf) -> Result<(Trail, Record), StoreError> {
    let file = disk::options().read(true).write(true).open(&path);
    let Some(mut file) = disk::if_there(file).at(&path)? else {
        let path = path.display();
        return Err(corrupt(id, format!("`{path}` is gone: restore it from a copy")));
    };
    let bytes = frame::part(&mut file, 0, u64::MAX).at(&path)?;
    let length = bytes.len() as u64;
    let Ledger { last, end, .. } = Ledger::read(id, &path, bytes)?;
    Ok((Trail { path, file, end, length }, last))
}

/// Reads what never changes of a session.
fn birth(id: &SessionId, trail: &mut Trail) -> Result<Birth, StoreError> {
    let head = frame::head_at(&mut trail.file, 0).at(&trail.path)?.unwrap_or_default();
    let first = Record::read(&head).and_then(|it| it.session);
    first.map(|it| *it).ok_or_else(|| not_whole(id, &trail.path))
}
