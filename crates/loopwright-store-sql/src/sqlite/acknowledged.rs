//! The last acknowledged version of each session, kept outside of the database.
//!
//! If the file that SQLite keeps beside the database (`-wal`) is cut or damaged, SQLite silently continues from
//! the transactions before the damage. This file tells which versions were acknowledged, so that what is
//! missing is noticed when the database is opened. A transaction is on the disk before its version is
//! written here, without a sync: the file may be older than the database, but never newer.
//!
//! It holds [`SLOTS`] entries of [`SLOT`] bytes, and a session is in the slot of its key:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | CRC-32 of the other bytes |
//! | 1 | length of the name |
//! | 8 | key of the session, little-endian |
//! | 8 | version, little-endian |
//! | 139 | name, then zeros |

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use loopwright_sessions::{SessionId, stored::checksum};

use super::file;

/// More sessions than have writes in the `-wal` file as a rule.
const SLOTS: i64 = 512;
const SLOT: usize = 160;
/// Where the name begins.
const NAME: usize = 21;

/// The last acknowledged version of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) key: i64,
    pub(super) id: SessionId,
    pub(super) version: u64,
}

/// The file, which is opened with the first write.
#[derive(Debug)]
pub(super) struct Acknowledged {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl Acknowledged {
    /// Names the file beside a database.
    pub(super) fn beside(database: &Path) -> Self {
        Self { path: file::beside(database, "-acknowledged"), file: Mutex::default() }
    }

    /// Writes an entry. If that fails, less is known of what was acknowledged.
    pub(super) fn write(&self, mark: &Mark) {
        let _written = self.put(mark.key, &bytes(mark));
    }

    /// Removes an entry.
    pub(super) fn remove(&self, key: i64) -> io::Result<()> {
        self.put(key, &[0; SLOT])
    }

    fn put(&self, key: i64, bytes: &[u8]) -> io::Result<()> {
        let mut opened = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *opened {
            Some(file) => file,
            none => none.insert(self.open()?),
        };
        let place = key.rem_euclid(SLOTS).unsigned_abs() * SLOT as u64;
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

    /// Returns all entries. Read them before the database, which is never behind them then.
    pub(super) fn read(&self) -> io::Result<Vec<Mark>> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(bytes.chunks_exact(SLOT).filter_map(mark).collect()),
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

fn bytes(mark: &Mark) -> [u8; SLOT] {
    let (mut bytes, name) = ([0; SLOT], mark.id.as_str().as_bytes());
    bytes[4] = u8::try_from(name.len()).unwrap_or_default();
    bytes[5..13].copy_from_slice(&mark.key.to_le_bytes());
    bytes[13..NAME].copy_from_slice(&mark.version.to_le_bytes());
    bytes[NAME..NAME + name.len()].copy_from_slice(name);
    let sum = checksum(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn mark(bytes: &[u8]) -> Option<Mark> {
    let sum = bytes.first_chunk().map(|it| u32::from_le_bytes(*it))?;
    let name = bytes[NAME..].get(..usize::from(bytes[4]))?;
    if name.is_empty() || sum != checksum(&bytes[4..]) {
        return None;
    }
    Some(Mark {
        key: bytes[5..].first_chunk().map(|it| i64::from_le_bytes(*it))?,
        id: SessionId::new(str::from_utf8(name).ok()?).ok()?,
        version: bytes[13..].first_chunk().map(|it| u64::from_le_bytes(*it))?,
    })
}
