//! Which process keeps others from writing.

use std::{fs, path::Path};

use super::file;
use crate::error::SqlError;

/// Names the process that keeps a file locked, if that is why something failed and the system tells.
pub(super) fn named(error: SqlError, path: &Path) -> SqlError {
    match error {
        SqlError::Busy { place, source } => match holder(path) {
            Some((process, is_stopped)) => {
                let what = if is_stopped { ", which is stopped" } else { "" };
                let owner = format!("process {process}{what}");
                SqlError::InUse { place, owner }
            }
            None => SqlError::Busy { place, source },
        },
        error => error,
    }
}

/// Returns the process that holds the lock of writers, and whether it is stopped.
///
/// The file is not opened for it: closing it would end the locks of this process.
fn holder(path: &Path) -> Option<(u32, bool)> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        let inode = fs::metadata(file::beside(path, "-shm")).ok()?.ino();
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let process = locks.lines().find_map(|line| writer(line, inode))?;
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        Some((process, state == Some('T')))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _elsewhere = (path, fs::metadata::<&Path>, file::beside);
        None
    }
}

/// The byte of the file `-shm` that a writer of SQLite locks.
#[cfg(target_os = "linux")]
const WRITER: &str = "120";

/// Returns the process of a line of `/proc/locks`, if it is the lock of writers on a file.
#[cfg(target_os = "linux")]
fn writer(line: &str, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[_, "POSIX", _, "WRITE", process, file, first, last] = words.as_slice() else {
        return None;
    };
    let is_it = file.rsplit(':').next()? == inode.to_string();
    (is_it && first == WRITER && last == WRITER).then(|| process.parse().ok())?
}
