//! Paths below a folder that are reached without links, and their checks.

use std::fs::Metadata;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, utimensat};

use crate::beneath::open_below;

/// The folder that a path lies in, and the path's name in it.
pub(super) struct Place<'a> {
    pub(super) folder: OwnedFd,
    pub(super) name: &'a std::ffi::OsStr,
}

impl<'a> Place<'a> {
    /// Finds a path below a folder. Fails if a link or a file is on the way.
    pub(super) fn of(root: BorrowedFd<'_>, path: &'a Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self { folder: open(root, path.parent().unwrap_or(Path::new("")))?, name })
    }

    pub(super) fn status(&self) -> io::Result<Option<rustix::fs::Stat>> {
        match rustix::fs::statat(&self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(status)),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a folder below another, through no link.
pub(super) fn open(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    open_below(root, path)
}

/// Opens a folder that paths begin at.
pub(super) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(root, flags, Mode::empty())?)
}

/// Sets the times of last access and change of content.
pub(super) fn set_times(path: &Path, like: &Metadata) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: like.atime(), tv_nsec: like.atime_nsec() },
        last_modification: Timespec { tv_sec: like.mtime(), tv_nsec: like.mtime_nsec() },
    };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
