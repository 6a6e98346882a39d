//! The start of the next page of a file.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// The place in a file where the next page begins: how many lines are before it, and which byte it
/// is. So nothing before it has to be read to continue there, and lines keep their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Continuation {
    /// Lines that end before it.
    pub(super) line: u64,
    /// Bytes before it.
    pub(super) byte: u64,
    /// Knows the file, as it was, by its number, size and times, and the two numbers above.
    seal: u32,
}

impl Continuation {
    pub(super) fn new(line: u64, byte: u64, file: &Metadata) -> Self {
        Self { line, byte, seal: seal(line, byte, file) }
    }

    /// Returns `true` if the file restored, so that the byte is still where the line begins.
    pub(super) fn fits(&self, file: &Metadata) -> bool {
        self.seal == seal(self.line, self.byte, file)
    }
}

fn seal(line: u64, byte: u64, file: &Metadata) -> u32 {
    let mut digest = Sha256::new();
    for number in [line, byte, file.dev(), file.ino(), file.len()] {
        digest.update(number.to_le_bytes());
    }
    for time in [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()] {
        digest.update(time.to_le_bytes());
    }
    let digest = digest.finalize();
    u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]])
}

impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:08x}", self.line, self.byte, self.seal)
    }
}

impl FromStr for Continuation {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.trim().splitn(3, '-');
        let mut next = || parts.next().ok_or(());
        let (line, byte, seal) = (next()?, next()?, next()?);
        Ok(Self {
            line: line.parse().map_err(drop)?,
            byte: byte.parse().map_err(drop)?,
            seal: u32::from_str_radix(seal, 16).map_err(drop)?,
        })
    }
}

#[cfg(test)]
mod tests;
