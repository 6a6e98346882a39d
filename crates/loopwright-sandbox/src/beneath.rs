//! Files in a folder, accessed without following links, with names that other processes cannot
//! guess.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, lgetxattr, openat2};

/// The attribute of a folder in a layer that hides the one below it completely.
pub(crate) const OPAQUE: &CStr = c"user.overlay.opaque";

/// Opens a path below a folder, through no link.
pub(crate) fn open_below(folder: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(
        folder,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )?)
}

/// A path that leads to what is open, wherever that is now.
pub(crate) fn through(opened: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", opened.as_raw_fd()).into()
}

/// Lets the owner of a folder that is open change what is in it; where that cannot be, what needs it says so.
pub(crate) fn make_open_writable(folder: &OwnedFd) {
    let folder = through(folder);
    if let Ok(status) = fs::metadata(&folder)
        && status.mode() & 0o300 != 0o300
    {
        fs::set_permissions(folder, fs::Permissions::from_mode(status.mode() | 0o700)).ok();
    }
}

/// Returns `true` if a folder of a layer hides the one below it completely.
pub(crate) fn is_opaque(folder: &Path) -> bool {
    let mut value = [0_u8; 1];
    lgetxattr(folder, OPAQUE, &mut value).is_ok() && value == *b"y"
}

/// Returns an unpredictable number.
pub(crate) fn random() -> u64 {
    let mut bytes = [0_u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(_) => u64::from_ne_bytes(bytes),
        Err(_) => u64::from(std::process::id()),
    }
}
