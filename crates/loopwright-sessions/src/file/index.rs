//! The index of all sessions, so that listing them need not look at each.
//!
//! It is a cache: an entry of fixed size for each session, after a line that says at which start of
//! the machine it was made. An entry is written before the session's log is, marked as not settled
//! and covering what was and what will be; so it never says less than what is true, at whatever
//! moment a process ends. While a session runs, its entry covers the next minute and is left alone
//! until that is over. A machine that ends may forget what was written last, and therefore an index
//! made at an earlier start is rebuilt from the logs.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use loopwright_core::Timestamp;

use super::{
    disk::{self, Identity, Lock, LockMode, WaitPolicy},
    slot::{Entry, IndexEntry, SLOT, bit},
};
use crate::{id::SessionId, owner::boot_id, status::SessionStatus};

/// The bytes before the first entry.
const HEAD: usize = 64;
const MARK: &[u8] = b"loopwright index 1 ";
/// How often an entry is looked at that cannot be read, and how long after one another.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(1);

/// Where the index is, and what guards it: it is shared by the process that changes an entry, and
/// held alone by a caller that rebuilds the index.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) path: PathBuf,
    lock: PathBuf,
    boot: String,
}

/// What is about to be written of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) updated_at: Timestamp,
    /// What it may be before and after, one bit for each status.
    pub(super) statuses: u8,
    /// For how long it may be written again.
    pub(super) ahead: Duration,
}

/// What became of a session, and where it stood in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalEntry<'a> {
    pub(super) id: &'a SessionId,
    pub(super) hint: u64,
    pub(super) updated_at: Timestamp,
    pub(super) status: SessionStatus,
}

/// An entry that says what is about to be written. While it exists, the index is not rebuilt.
#[derive(Debug)]
pub(super) struct PendingEntry {
    file: File,
    identity: Identity,
    pub(super) slot: u64,
    entry: IndexEntry,
    lock: Lock,
}

/// What became of an announcement.
#[derive(Debug)]
pub(super) enum Announcement {
    /// The index covers what the session is and what it will be.
    Made(PendingEntry),
    /// The session has no entry.
    NoEntry,
    /// The index must be rebuilt first.
    NoIndex,
}

impl Index {
    pub(super) fn new(root: &Path) -> Self {
        let boot = boot_id();
        let boot =
            boot.chars().filter(char::is_ascii_graphic).take(HEAD - MARK.len() - 1).collect();
        Self { path: root.join("index"), lock: root.join("index.lock"), boot }
    }

    /// Returns all entries, one after the other, or `None` if the index must be rebuilt.
    pub(super) fn entries(&self) -> io::Result<Option<Vec<u8>>> {
        for _ in 0..LOOKS {
            let Some(bytes) = self.bytes()? else { break };
            if bytes.chunks(SLOT).all(|it| Entry::read(it).is_some()) {
                return Ok(Some(bytes));
            }
            // An entry may be read while it is written.
            drop(bytes);
            thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// Returns the bytes after the head, if the head is that of an index made since the machine started.
    fn bytes(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = disk::open(&self.path)? else { return Ok(None) };
        if !self.is_known(&mut file) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Reads the head.
    fn is_known(&self, file: &mut File) -> bool {
        let mut head = [0; HEAD];
        file.read_exact(&mut head).is_ok() && head == self.head()
    }

    /// Keeps every caller from changing entries, until what is returned is dropped.
    pub(super) fn alone(&self) -> io::Result<Lock> {
        disk::lock(&self.lock, LockMode::Exclusive)?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Rebuilds the index. The caller must hold the exclusive lock.
    pub(super) fn remake(&self, slots: &[IndexEntry]) -> io::Result<()> {
        let mut bytes = self.head().to_vec();
        bytes.extend(slots.iter().flat_map(IndexEntry::to_bytes));
        disk::replace(&self.path, &bytes)
    }

    /// Announces that a session is about to be written, which had this entry when it was written last, and
    /// may be written again for so long.
    pub(super) fn reserve(
        &self,
        id: &SessionId,
        hint: u64,
        about: Write,
    ) -> io::Result<Announcement> {
        let Write { updated_at, statuses, ahead } = about;
        let lock = self.share()?;
        let opened = disk::options().read(true).write(true).open(&self.path);
        let Some(mut file) = disk::if_there(opened)? else { return Ok(Announcement::NoIndex) };
        if !self.is_known(&mut file) {
            return Ok(Announcement::NoIndex);
        }
        let found = self.find(&mut file, id, hint)?;
        // A session that could not be read before gets another entry.
        let Some((slot, entry)) = found.filter(|(_, it)| !it.is_damaged()) else {
            return Ok(Announcement::NoEntry);
        };
        if entry.may_be_written(updated_at, statuses) {
            return Ok(Announcement::Made(PendingEntry::new(file, slot, entry, lock)?));
        }
        let entry =
            IndexEntry { updated_at: updated_at.plus(ahead), statuses, is_settled: false, ..entry };
        write_at(&mut file, slot, &entry)?;
        if self.boot.is_empty() {
            disk::sync_data(&file, &self.path)?;
        }
        Ok(Announcement::Made(PendingEntry::new(file, slot, entry, lock)?))
    }

    /// Says of a session that was written for a while what it is now.
    pub(super) fn commit(&self, now: &FinalEntry<'_>) -> io::Result<()> {
        let lock = self.share()?;
        let mut file = disk::options().read(true).write(true).open(&self.path)?;
        if !self.is_known(&mut file) {
            return Ok(());
        }
        match self.find(&mut file, now.id, now.hint)? {
            Some((slot, entry)) if !entry.is_settled && !entry.is_damaged() => {
                let announced = PendingEntry::new(file, slot, entry, lock)?;
                announced.settle(now.updated_at, now.status)
            }
            _ => Ok(()),
        }
    }

    /// Adds an entry of a session that is about to be written.
    pub(super) fn add(&self, mut entry: IndexEntry) -> io::Result<Announcement> {
        entry.is_settled = false;
        let lock = self.share()?;
        let opened = disk::options().read(true).append(true).open(&self.path);
        let Some(mut file) = disk::if_there(opened)? else { return Ok(Announcement::NoIndex) };
        let length = file.metadata()?.len();
        let is_even = length.saturating_sub(HEAD as u64).is_multiple_of(SLOT as u64);
        if !self.is_known(&mut file) || !is_even {
            return Ok(Announcement::NoIndex);
        }
        // Others add entries at the same time. The system puts one after the other.
        file.write_all(&entry.to_bytes())?;
        let end = file.stream_position()?;
        if self.boot.is_empty() {
            disk::sync_data(&file, &self.path)?;
        }
        let slot = end.saturating_sub((HEAD + SLOT) as u64) / SLOT as u64;
        // What is open for appending is not written in its middle.
        let file = disk::options().read(true).write(true).open(&self.path)?;
        Ok(Announcement::Made(PendingEntry::new(file, slot, entry, lock)?))
    }

    fn share(&self) -> io::Result<Lock> {
        disk::lock(&self.lock, LockMode::Shared)?.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Finds the entry of a session, at first where it was last.
    fn find(
        &self,
        file: &mut File,
        id: &SessionId,
        hint: u64,
    ) -> io::Result<Option<(u64, IndexEntry)>> {
        let hinted = read_at(file, hint)?.and_then(|it| IndexEntry::read(&it));
        if let Some(slot) = hinted.filter(|it| it.id == *id) {
            return Ok(Some((hint, slot)));
        }
        let all = self.bytes()?.unwrap_or_default();
        let is_it = |it: &[u8]| Entry::read(it).and_then(Entry::name) == Some(id.as_str());
        let found = (0..).zip(all.chunks_exact(SLOT)).filter(|(_, it)| is_it(it)).last();
        Ok(found.and_then(|(number, it)| Some((number, IndexEntry::read(it)?))))
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [b' '; HEAD];
        head[..MARK.len()].copy_from_slice(MARK);
        head[MARK.len()..MARK.len() + self.boot.len()].copy_from_slice(self.boot.as_bytes());
        head[HEAD - 1] = b'\n';
        head
    }
}

impl PendingEntry {
    fn new(file: File, slot: u64, entry: IndexEntry, lock: Lock) -> io::Result<Self> {
        let identity = Identity::of(&file.metadata()?);
        Ok(Self { file, identity, slot, entry, lock })
    }

    /// Lets others rebuild the index, until this is used [`again`](Self::again).
    pub(super) fn free(&self) -> io::Result<()> {
        self.lock.unlock()
    }

    /// Takes it up again, if it is still there and covers this as well. Then the index is not
    /// rebuilt until it is freed or dropped.
    pub(super) fn again(
        mut self,
        index: &Index,
        about: Write,
        patience: WaitPolicy,
    ) -> io::Result<Option<Self>> {
        let Write { updated_at, statuses, .. } = about;
        if !self.entry.may_be_written(updated_at, statuses)
            || !self.lock.relock(LockMode::Shared, patience)?
        {
            return Ok(None);
        }
        let found = disk::if_there(fs::symlink_metadata(&index.path))?;
        // Others write it who announce what they do not do in the end.
        let is_it = found.is_some_and(|it| self.identity.is_of(&it))
            && read_at(&mut self.file, self.slot)? == Some(self.entry.to_bytes());
        Ok(is_it.then_some(self))
    }

    /// Marks the write as done. Until then, readers look at the session itself.
    pub(super) fn settle(mut self, updated_at: Timestamp, status: SessionStatus) -> io::Result<()> {
        self.entry.is_settled = true;
        self.entry.updated_at = updated_at;
        self.entry.statuses = bit(status);
        write_at(&mut self.file, self.slot, &self.entry)
    }
}

/// Reads an entry. Returns `None` if the file ends before it.
fn read_at(file: &mut File, slot: u64) -> io::Result<Option<[u8; SLOT]>> {
    let mut bytes = [0; SLOT];
    match disk::read_exact_at(file, &mut bytes, place(slot)) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_at(file: &mut File, slot: u64, entry: &IndexEntry) -> io::Result<()> {
    disk::write_all_at(file, &entry.to_bytes(), place(slot))
}

/// Returns where an entry begins.
fn place(slot: u64) -> u64 {
    slot.saturating_mul(SLOT as u64).saturating_add(HEAD as u64)
}
