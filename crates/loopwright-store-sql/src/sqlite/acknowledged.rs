//! The acknowledged counters of each session, stored outside the database.
//!
//! If the file that SQLite keeps beside the database (`-wal`) is truncated or damaged, SQLite silently continues
//! from the transactions before the damage. This file contains the acknowledged value of each counter, so that a
//! loss is noticed when the database is opened. A transaction is on disk before its number is written here, without
//! a sync: the file can be older than the database, but never newer.
//!
//! It holds [`SLOTS`] entries of [`SLOT`] bytes for each of [`COUNTERS`], and a session is in the slot of its key:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | CRC-32 of the other bytes, XOR the place of the counter in [`COUNTERS`] |
//! | 1 | length of the name |
//! | 8 | key of the session, little-endian |
//! | 8 | number, little-endian |
//! | 139 | name, then zeros |

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use loopwright_sessions::{SessionId, SessionLog, stored::checksum};

use super::file;
use crate::database::Counter;

/// Usually more than the sessions with writes in the `-wal` file.
const SLOTS: u16 = 512;
const SLOT: usize = 160;
/// The offset of the name.
const NAME: usize = 21;
/// The counters in the order of their entries.
const COUNTERS: [Counter; 6] = [
    Counter::Version,
    Counter::Notes(SessionLog::Events),
    Counter::Notes(SessionLog::Files),
    Counter::Jobs,
    Counter::Messages,
    Counter::Notes(SessionLog::Folder),
];

/// The acknowledged value of a counter of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) counter: Counter,
    pub(super) key: i64,
    pub(super) id: SessionId,
    pub(super) number: u64,
}

/// The file, which the first write opens.
#[derive(Debug)]
pub(super) struct Acknowledged {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl Acknowledged {
    /// Returns the file beside a database, without opening it.
    pub(super) fn beside(database: &Path) -> Self {
        Self { path: file::beside(database, "-acknowledged"), file: Mutex::default() }
    }

    /// Writes an entry. If that fails, fewer losses can be noticed.
    pub(super) fn write(&self, mark: &Mark) {
        if let Some(counter) = place_of(mark.counter) {
            let _written = self.put(place(counter, mark.key), &bytes(mark, counter));
        }
    }

    /// Removes the entries of a session.
    pub(super) fn remove(&self, key: i64) -> io::Result<()> {
        (0..COUNTERS.len()).try_for_each(|counter| self.put(place(counter, key), &[0; SLOT]))
    }

    /// Removes all entries of a counter.
    pub(super) fn remove_all(&self, counter: Counter) -> io::Result<()> {
        let is_empty = fs::metadata(&self.path).is_err();
        match place_of(counter).filter(|_| !is_empty) {
            Some(counter) => self.put(place(counter, 0), &vec![0; SLOT * usize::from(SLOTS)]),
            None => Ok(()),
        }
    }

    fn put(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        let mut opened = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *opened {
            Some(file) => file,
            none => none.insert(self.open()?),
        };
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_all_at(file, bytes, place);
        #[cfg(not(unix))]
        {
            use std::io::{Seek as _, Write as _};
            file.seek(io::SeekFrom::Start(place))?;
            file.write_all(bytes)
        }
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.path)
    }

    /// Returns all entries. Read them before the database, so that the database cannot be older.
    pub(super) fn read(&self) -> io::Result<Vec<Mark>> {
        match fs::read(&self.path) {
            Ok(bytes) => {
                let entries = (0..).zip(bytes.chunks_exact(SLOT));
                Ok(entries.filter_map(|(at, it)| mark(it, at / usize::from(SLOTS))).collect())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Removes the file, once the database itself holds everything.
    pub(super) fn clear(&self) -> io::Result<()> {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the position of a counter among all.
fn place_of(counter: Counter) -> Option<usize> {
    COUNTERS.iter().position(|it| *it == counter)
}

/// Returns the offset of the entry of a session.
fn place(counter: usize, key: i64) -> u64 {
    let slot = key.rem_euclid(i64::from(SLOTS)).unsigned_abs();
    (counter as u64 * u64::from(SLOTS) + slot) * SLOT as u64
}

fn sum(bytes: &[u8], counter: usize) -> u32 {
    // Earlier versions, which know only one counter, do not mistake another entry for one of theirs.
    checksum(bytes) ^ u32::try_from(counter).unwrap_or(u32::MAX)
}

fn bytes(mark: &Mark, counter: usize) -> [u8; SLOT] {
    let (mut bytes, name) = ([0; SLOT], mark.id.as_str().as_bytes());
    bytes[4] = u8::try_from(name.len()).unwrap_or_default();
    bytes[5..13].copy_from_slice(&mark.key.to_le_bytes());
    bytes[13..NAME].copy_from_slice(&mark.number.to_le_bytes());
    bytes[NAME..NAME + name.len()].copy_from_slice(name);
    let sum = sum(&bytes[4..], counter);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn mark(bytes: &[u8], counter: usize) -> Option<Mark> {
    let found = bytes.first_chunk().map(|it| u32::from_le_bytes(*it))?;
    let name = bytes[NAME..].get(..usize::from(bytes[4]))?;
    if name.is_empty() || found != sum(&bytes[4..], counter) {
        return None;
    }
    Some(Mark {
        counter: *COUNTERS.get(counter)?,
        key: bytes[5..].first_chunk().map(|it| i64::from_le_bytes(*it))?,
        id: SessionId::new(str::from_utf8(name).ok()?).ok()?,
        number: bytes[13..].first_chunk().map(|it| u64::from_le_bytes(*it))?,
    })
}
