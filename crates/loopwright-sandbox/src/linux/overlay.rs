//! The working folder of a command whose changes are collected: what stands there, and what the command changes
//! above it.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::confine::Identity;
use super::root::{attach, folder};
use super::sys;

/// What is said to have failed where changes cannot be collected.
pub(crate) const STAGE: &str = "overlay";

/// Where the layers are while the mount is made, in the folder in which the root is put together.
const LOWER: &str = ".lower";
const UPPER: &str = ".staging";

const SYNCED: &CStr = c"lowerdir=.lower,upperdir=.staging/upper,workdir=.staging/work,userxattr";

/// The same without waiting for the disk: when the mount goes, the kernel would otherwise write out everything that
/// is unwritten on the whole file system. What is collected is not promised to survive a power cut. Linux 5.10 and newer.
const UNSYNCED: &CStr =
    c"lowerdir=.lower,upperdir=.staging/upper,workdir=.staging/work,userxattr,volatile";

/// Lays what is collected in `staging` over `lower`, at `place`.
pub(super) fn lay(
    lower: &OwnedFd,
    staging: Option<&OwnedFd>,
    place: &Path,
    identity: Identity,
) -> io::Result<()> {
    let Some(staging) = staging else { return Err(io::ErrorKind::NotFound.into()) };
    for (tree, at) in [(lower, LOWER), (staging, UPPER)] {
        folder(Path::new(at), 0o700);
        attach(tree, Path::new(at))?;
    }
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    // What the file system makes for itself belongs to who mounts it, and only the command's user is mapped.
    let mounted = sys::with_file_user(identity.user, identity.group, || {
        let lay = |options| mount("overlay", place, "overlay", quiet, Some(options));
        lay(UNSYNCED).or_else(|_| lay(SYNCED))
    });
    // The mount holds on to its layers.
    for at in [LOWER, UPPER] {
        unmount(at, UnmountFlags::DETACH)?;
        rustix::fs::rmdir(at)?;
    }
    Ok(mounted?)
}
