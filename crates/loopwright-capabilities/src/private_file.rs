//! Files that only their owner can read.

use std::fs::OpenOptions;

/// Opens a file to append to, or makes one that only its owner may read.
pub(crate) fn appending() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
