//! Files that are read whole.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// The longest file that is read.
pub const MOST_BYTES: u64 = 1 << 20;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// It cannot be opened or read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is too long.
    #[error("it has {0} bytes; {MOST_BYTES} are allowed")]
    TooLong(u64),
    /// It is a link to somewhere else.
    #[error("it is a link that leads out of its directory")]
    Outside,
    /// It holds what is no text.
    #[error("it is not UTF-8")]
    NotUtf8,
}

/// Reads a file that somebody named. Blocks.
///
/// # Errors
///
/// If it is not a regular file, is longer than [`MOST_BYTES`], or is no text.
pub fn read_file(path: &Path) -> Result<String, TextError> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(TextError::NotAFile);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    let read = bytes.len() as u64;
    if read > MOST_BYTES {
        return Err(TextError::TooLong(metadata.len().max(read)));
    }
    String::from_utf8(bytes).map_err(|_| TextError::NotUtf8)
}

/// Reads a file that was found in a directory, and does not lead out of it. Blocks.
///
/// # Errors
///
/// As [`read_file`], and if it is a link that leads out of the directory.
pub fn read_within(directory: &Path, path: &Path) -> Result<String, TextError> {
    let real = fs::canonicalize(path)?;
    if !real.starts_with(fs::canonicalize(directory)?) {
        return Err(TextError::Outside);
    }
    read_file(&real)
}
