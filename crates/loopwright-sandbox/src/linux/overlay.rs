//! The working folder of a command whose changes are collected: the existing content, and the changes in a layer
//! above it.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::confine::Identity;
use super::root::{attach, folder};
use super::sys;

/// The name of the failed step if changes cannot be collected.
pub(crate) const STAGE: &str = "overlay";

/// The mount points of the layers while the overlay is mounted, in the folder in which the root is built.
const LOWER: &str = ".lower";
const UPPER: &str = ".staging";

const SYNCED: &CStr = c"lowerdir=.lower,upperdir=.staging/upper,workdir=.staging/work,userxattr";

/// The same without syncing. Otherwise the kernel writes all unwritten data of the file system to disk when the
/// overlay is unmounted. Collected changes need not survive a power cut. Linux 5.10 and newer.
const UNSYNCED: &CStr =
    c"lowerdir=.lower,upperdir=.staging/upper,workdir=.staging/work,userxattr,volatile";

/// Mounts `staging` as an overlay over `lower`, at `place`.
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
    // Files that the overlay creates itself belong to the mounting user, and only the command's user is mapped.
    let mounted = sys::with_file_user(identity.user, identity.group, || {
        let lay = |options| mount("overlay", place, "overlay", quiet, Some(options));
        lay(UNSYNCED).or_else(|_| lay(SYNCED))
    });
    // The mount keeps its layers open.
    for at in [LOWER, UPPER] {
        unmount(at, UnmountFlags::DETACH)?;
        rustix::fs::rmdir(at)?;
    }
    Ok(mounted?)
}
