//! Refuses writes that could be lost.

use std::{fs, io, path::Path};

/// The file as it was opened, and the space that it needs on its disk.
#[derive(Debug)]
pub(super) struct Guard {
    #[cfg(unix)]
    identity: Option<(u64, u64)>,
    #[cfg(target_os = "linux")]
    has_small_blocks: bool,
}

/// SQLite maps the `-shm` file, and allocates 4096 bytes of it by writing the last one.
const MAPPED: u64 = 4096;
/// On a disk with smaller blocks, a process is killed when it writes to another of these bytes while the disk is
/// full. All regions of the file together are smaller than this.
const ROOM: u64 = 1 << 20;

impl Guard {
    pub(super) fn of(path: &Path) -> Self {
        Self {
            #[cfg(unix)]
            identity: identity(path).ok(),
            #[cfg(target_os = "linux")]
            has_small_blocks: space(path).is_ok_and(|(block, _)| block < MAPPED),
        }
    }

    /// Returns `true` if the path still leads to the file that was opened.
    pub(super) fn is_there(&self, path: &Path) -> bool {
        #[cfg(unix)]
        return self.identity.is_none() || identity(path).ok() == self.identity;
        #[cfg(not(unix))]
        return path.exists();
    }

    /// Returns `true` if the disk has enough space for the file that SQLite maps.
    pub(super) fn has_room(&self, path: &Path) -> bool {
        #[cfg(target_os = "linux")]
        return !self.has_small_blocks || space(path).map_or(true, |(_, free)| free >= ROOM);
        #[cfg(not(target_os = "linux"))]
        {
            let _everywhere = path;
            true
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).map(|it| (it.dev(), it.ino()))
}

/// Returns the size of a block, and the number of free bytes.
#[cfg(target_os = "linux")]
fn space(path: &Path) -> io::Result<(u64, u64)> {
    let found = rustix::fs::statvfs(path)?;
    Ok((found.f_frsize, found.f_frsize.saturating_mul(found.f_bavail)))
}
