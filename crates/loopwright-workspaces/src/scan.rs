//! The entries of a folder.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};

use crate::error::SnapshotError;
use crate::limits::SnapshotLimits;
use crate::manifest::{Entry, EntryKind, MAX_PATH, stays_inside};
use crate::stamp::Stamp;

/// A file that marks its folder as a cache, and how it starts: <https://bford.info/cachedir/>.
const CACHE_TAG: &str = "CACHEDIR.TAG";
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
/// A folder with the packages of a project, beside the file that lists them.
const PACKAGES: (&str, &str) = ("node_modules", "package.json");
/// The maximum depth of folders.
const MAX_DEPTH: usize = 256;

/// An entry that no snapshot contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its path in the folder.
    pub path: PathBuf,
    /// The reason.
    pub reason: LeftOutReason,
}

/// The reason why an entry is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftOutReason {
    /// A folder that is marked as a cache, or contains the packages of a Node.js project.
    Cache,
    /// A path that the caller [leaves out](crate::Snapshots::with_left_out).
    Configured,
    /// A symbolic link that leads out of the folder, or might.
    LinkOut,
    /// A socket, a pipe or a device.
    Special,
}

/// What a folder contains.
pub(crate) struct Scan {
    pub(crate) root: OwnedFd,
    pub(crate) mode: u32,
    /// Folders and links, and files without their blobs.
    pub(crate) entries: Vec<Entry>,
    pub(crate) left_out: Vec<LeftOut>,
}

struct Scanner<'a> {
    folder: &'a Path,
    left_out: &'a [PathBuf],
    limits: SnapshotLimits,
    bytes: u64,
    scan: Scan,
}

/// Lists a folder without following links in it.
pub(crate) fn scan(
    folder: &Path,
    left_out: &[PathBuf],
    limits: SnapshotLimits,
) -> Result<Scan, SnapshotError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty());
    let root = opened.map_err(io::Error::from).map_err(SnapshotError::at(folder))?;
    let status = rustix::fs::fstat(&root).map_err(io::Error::from);
    let mode = status.map_err(SnapshotError::at(folder))?.st_mode & 0o777;
    let copy = root.try_clone().map_err(SnapshotError::at(folder))?;
    let scan = Scan { root, mode, entries: Vec::new(), left_out: Vec::new() };
    let mut scanner = Scanner { folder, left_out, limits, bytes: 0, scan };
    scanner.walk(&copy, Path::new(""), 0)?;
    Ok(scanner.scan)
}

impl Scanner<'_> {
    fn walk(&mut self, open: &OwnedFd, path: &Path, depth: usize) -> Result<(), SnapshotError> {
        let whole = self.folder.join(path);
        let failed = |error: rustix::io::Errno| SnapshotError::at(&whole)(error.into());
        if depth > MAX_DEPTH || path.as_os_str().len() > MAX_PATH - 256 {
            return Err(failed(rustix::io::Errno::NAMETOOLONG));
        }
        let entries: Result<Vec<_>, _> = Dir::read_from(open).map_err(failed)?.collect();
        for entry in entries.map_err(failed)? {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            match rustix::fs::statat(open, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => self.visit(open, path.join(name), &status, depth)?,
                // It was removed meanwhile.
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn visit(
        &mut self,
        parent: &OwnedFd,
        path: PathBuf,
        status: &Stat,
        depth: usize,
    ) -> Result<(), SnapshotError> {
        if self.left_out.contains(&path) {
            self.leave_out(path, LeftOutReason::Configured);
            return Ok(());
        }
        let whole = self.folder.join(&path);
        let failed = |error: rustix::io::Errno| SnapshotError::at(&whole)(error.into());
        let name = path.file_name().unwrap_or_default();
        let mode = status.st_mode & 0o777;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => {
                let size = Stamp::of(status).size;
                self.bytes = self.bytes.saturating_add(size);
                if self.bytes > self.limits.max_bytes {
                    return Err(SnapshotError::TooLarge { limit: self.limits.max_bytes });
                }
                self.add(path, status, EntryKind::File { mode, size, blobs: Vec::new() })
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(parent, name, Vec::new()).map_err(failed)?;
                let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
                if !stays_inside(&path, &target) {
                    self.leave_out(path, LeftOutReason::LinkOut);
                    return Ok(());
                }
                self.add(path, status, EntryKind::Link { target })
            }
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let open =
                    rustix::fs::openat(parent, name, flags, Mode::empty()).map_err(failed)?;
                if is_cache(parent.as_fd(), open.as_fd(), name) {
                    self.leave_out(path, LeftOutReason::Cache);
                    return Ok(());
                }
                self.add(path.clone(), status, EntryKind::Folder { mode })?;
                self.walk(&open, &path, depth + 1)
            }
            _ => {
                self.leave_out(path, LeftOutReason::Special);
                Ok(())
            }
        }
    }

    fn add(&mut self, path: PathBuf, status: &Stat, kind: EntryKind) -> Result<(), SnapshotError> {
        if self.scan.entries.len() >= self.limits.max_entries {
            return Err(SnapshotError::TooManyEntries { limit: self.limits.max_entries });
        }
        self.scan.entries.push(Entry { path, modified: Stamp::of(status).modified, kind });
        Ok(())
    }

    fn leave_out(&mut self, path: PathBuf, reason: LeftOutReason) {
        self.scan.left_out.push(LeftOut { path, reason });
    }
}

fn is_cache(parent: BorrowedFd<'_>, open: BorrowedFd<'_>, name: &OsStr) -> bool {
    let (packages, list) = PACKAGES;
    if name == packages {
        return rustix::fs::statat(parent, list, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(tag) = rustix::fs::openat(open, CACHE_TAG, flags, Mode::empty()) else { return false };
    let mut start = [0; CACHE_SIGNATURE.len()];
    rustix::io::read(&tag, &mut start).is_ok_and(|read| start[..read] == *CACHE_SIGNATURE)
}

/// Opens a file of a folder, through no link.
pub(crate) fn open_file(root: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)?)
}
