//! Folders whose changes go to a layer above their content: the working folder of a command whose changes are
//! collected, and caches.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::confine::Identity;
use super::layers::Layer;
use super::root::{attach, folder};
use super::sys;

/// The name of the failed step if changes cannot be collected.
pub(crate) const STAGE: &str = "overlay";

/// The mount points of the layers while the overlay is mounted, in the folder in which the root is built.
const LOWER: &str = ".lower";
const UPPER: &str = ".staging";

/// Mounts `staging` as an overlay over `lower`, at `place`.
pub(super) fn lay(
    lower: &OwnedFd,
    staging: Option<&OwnedFd>,
    place: &Path,
    identity: Identity,
) -> io::Result<()> {
    let options = "lowerdir=.lower,upperdir=.staging/upper,workdir=.staging/work,userxattr";
    lay_with(lower, staging, options, place, identity)
}

/// Mounts a layer of a cache over `lower`, at `place`.
pub(super) fn lay_cache(
    lower: &OwnedFd,
    tree: Option<&OwnedFd>,
    layer: &Layer,
    place: &Path,
    identity: Identity,
) -> io::Result<()> {
    let run = &layer.run;
    // What other commands have changed is only read.
    let options = format!(
        "lowerdir=.staging/upper:.lower,upperdir=.staging/{run}/upper,workdir=.staging/{run}/work,userxattr"
    );
    lay_with(lower, tree, &options, place, identity)
}

fn lay_with(
    lower: &OwnedFd,
    upper: Option<&OwnedFd>,
    options: &str,
    place: &Path,
    identity: Identity,
) -> io::Result<()> {
    let Some(upper) = upper else { return Err(io::ErrorKind::NotFound.into()) };
    for (tree, at) in [(lower, LOWER), (upper, UPPER)] {
        folder(Path::new(at), 0o700);
        attach(tree, Path::new(at))?;
    }
    let synced = CString::new(options)?;
    // Without syncing. Otherwise the kernel writes all unwritten data of the file system to disk when the overlay is
    // unmounted. Collected changes and caches need not survive a power cut. Linux 5.10 and newer.
    let unsynced = CString::new(format!("{options},volatile"))?;
    let quiet = MountFlags::NOSUID | MountFlags::NODEV;
    // Files that the overlay creates itself belong to the mounting user, and only the command's user is mapped.
    let mounted = sys::with_file_user(identity.user, identity.group, || {
        let lay =
            |options: &CString| mount("overlay", place, "overlay", quiet, Some(options.as_c_str()));
        lay(&unsynced).or_else(|_| lay(&synced))
    });
    // The mount keeps its layers open.
    for at in [LOWER, UPPER] {
        unmount(at, UnmountFlags::DETACH)?;
        rustix::fs::rmdir(at)?;
    }
    Ok(mounted?)
}
