//! The last acknowledged version of a session, kept outside of its log.
//!
//! A log that lost its end looks like one whose last write was cut short, or like a whole one. This file
//! tells them apart. It is written after a record is on the disk and is not synced, so after a power cut it may
//! be older than the log, but never newer.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | the version, little-endian |
//! | 4 | CRC-32 of these bytes |

use std::{
    fs::File,
    io::{self, ErrorKind},
    path::Path,
};

use super::disk;

/// The name of the file beside the log.
pub(super) const ACKNOWLEDGED: &str = "acknowledged";
/// The bytes of the file.
const LENGTH: usize = 12;

/// The file, which is opened with the first write and stays open.
#[derive(Debug, Default)]
pub(super) struct Acknowledged(Option<File>);

impl Acknowledged {
    /// Writes the version that is acknowledged next.
    pub(super) fn write(&mut self, dir: &Path, version: u64) -> io::Result<()> {
        let file = if let Some(file) = &mut self.0 {
            file
        } else {
            let path = dir.join(ACKNOWLEDGED);
            let opened = disk::options().write(true).create(true).truncate(false).open(path)?;
            self.0.insert(opened)
        };
        disk::write_all_at(file, &bytes(version), 0)
    }
}

/// Returns the last acknowledged version of the session in a directory. Returns `None` if it is unknown.
///
/// Read it before the log: a caller that writes appends first, so the log is never behind it then.
pub(super) fn read(dir: &Path) -> io::Result<Option<u64>> {
    let Some(mut file) = disk::open(&dir.join(ACKNOWLEDGED))? else { return Ok(None) };
    let mut found = [0; LENGTH];
    match disk::read_exact_at(&mut file, &mut found, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let version = found.first_chunk().map(|it| u64::from_le_bytes(*it));
    Ok(version.filter(|it| bytes(*it) == found))
}

fn bytes(version: u64) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let (number, sum) = bytes.split_at_mut(8);
    number.copy_from_slice(&version.to_le_bytes());
    sum.copy_from_slice(&crc32fast::hash(number).to_le_bytes());
    bytes
}
