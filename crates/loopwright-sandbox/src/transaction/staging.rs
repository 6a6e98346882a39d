//! The folders in which changes can be staged.

use std::fmt;
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, StatxFlags, accessat, statx};

/// Why changes to a folder cannot be staged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoStaging {
    /// The folder belongs to another user and cannot be written to, so nothing could be applied.
    NotChangeable,
    /// None of these places can be used, each for this reason.
    NoPlace(Vec<(PathBuf, String)>),
}

/// Why a folder cannot stage changes to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unfit {
    /// It cannot be read or created.
    Failed(String),
    NoFolder,
    OfAnotherUser,
    /// Other users can change it.
    Open,
    Inside,
    Around,
    OnAnotherFileSystem,
    /// The kernel moves no file between two mounts, even of the same file system.
    MountedSeparately,
}

impl fmt::Display for NoStaging {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried = match self {
            Self::NotChangeable => {
                return formatter
                    .write_str("the folder belongs to another user, and you cannot write to it");
            }
            Self::NoPlace(tried) => tried,
        };
        formatter.write_str("you own no folder on the same file system")?;
        for (index, (path, reason)) in tried.iter().enumerate() {
            let separator = if index == 0 { " (" } else { "; " };
            write!(formatter, "{separator}`{}` {reason}", path.display())?;
        }
        formatter.write_str(if tried.is_empty() { "" } else { ")" })
    }
}

impl std::error::Error for NoStaging {}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Failed(error) => return write!(formatter, "cannot be used: {error}"),
            Self::NoFolder => "is not a folder",
            Self::OfAnotherUser => "belongs to another user",
            Self::Open => "can be changed by other users",
            Self::Inside => "is inside the folder",
            Self::Around => "contains the folder",
            Self::OnAnotherFileSystem => "is on another file system",
            Self::MountedSeparately => {
                "is on the same file system, but the folder is mounted separately"
            }
        })
    }
}

impl Unfit {
    fn failed(error: &io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Returns a folder of the user where changes can be staged and kept: the user's state folder
/// (`$XDG_STATE_HOME`, else `~/.local/state`), else `/var/tmp`.
///
/// # Errors
///
/// Returns an error if none of them is the user's own, outside the folder, and on the same mount, or
/// if the user may not write to the folder.
pub fn staging_for(root: &Path) -> Result<PathBuf, NoStaging> {
    let variable =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local").join("state")));
    let state = state.map(|state| state.join("loopwright").join("changes"));
    first_fit(root, state.into_iter().chain([temporary("/var/tmp")]))
}

/// Returns a folder for changes that are never undone: a folder for temporary files, if one is on
/// the same file system.
///
/// # Errors
///
/// As for [`staging_for`].
pub fn passing_staging_for(root: &Path) -> Result<PathBuf, NoStaging> {
    first_fit(root, temporary_staging()).or_else(|_| staging_for(root))
}

/// Returns the folders for temporary files in which changes are staged. Plans in them decide what is changed outside of the sandbox,
/// so commands and file tools must not reach them.
pub fn temporary_staging() -> [PathBuf; 3] {
    [temporary(std::env::temp_dir()), temporary("/tmp"), temporary("/var/tmp")]
}

fn temporary(folder: impl AsRef<Path>) -> PathBuf {
    folder.as_ref().join(format!("loopwright-{}", rustix::process::geteuid().as_raw()))
}

fn first_fit(root: &Path, places: impl IntoIterator<Item = PathBuf>) -> Result<PathBuf, NoStaging> {
    // A folder that does not exist is reported with each place.
    if is_changeable(root).is_ok_and(|it| !it) {
        return Err(NoStaging::NotChangeable);
    }
    let mut tried = Vec::new();
    for place in places {
        match unfit(root, &place) {
            None => return Ok(place),
            Some(unfit) => tried.push((place, unfit.to_string())),
        }
    }
    Err(NoStaging::NoPlace(tried))
}

/// Returns why a folder, which is created if it does not exist, cannot stage changes to `root`.
fn unfit(root: &Path, place: &Path) -> Option<Unfit> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(place);
    let status = match made.and_then(|()| fs::symlink_metadata(place)) {
        Ok(status) => status,
        Err(error) => return Some(Unfit::failed(&error)),
    };
    let user = rustix::process::geteuid().as_raw();
    // In a folder that every caller writes to, another user may have been first.
    foreign(&status, user).or_else(|| match (fs::canonicalize(root), fs::canonicalize(place)) {
        (Ok(root), Ok(place)) => apart(&root, &place),
        (Err(error), _) | (_, Err(error)) => Some(Unfit::failed(&error)),
    })
}

fn foreign(status: &Metadata, user: u32) -> Option<Unfit> {
    match status {
        it if !it.is_dir() => Some(Unfit::NoFolder),
        it if it.uid() != user => Some(Unfit::OfAnotherUser),
        it if it.mode() & 0o022 != 0 => Some(Unfit::Open),
        _ => None,
    }
}

/// Returns why files cannot be moved between two folders without links, or why one of them is part of the other.
fn apart(root: &Path, place: &Path) -> Option<Unfit> {
    if place.starts_with(root) {
        return Some(Unfit::Inside);
    }
    if root.starts_with(place) {
        return Some(Unfit::Around);
    }
    match (mount(root), mount(place)) {
        (Ok((device, _)), Ok((other, _))) if device != other => Some(Unfit::OnAnotherFileSystem),
        (Ok((_, id)), Ok((_, other))) if id != other => Some(Unfit::MountedSeparately),
        (Ok(_), Ok(_)) => None,
        (Err(error), _) | (_, Err(error)) => Some(Unfit::failed(&error)),
    }
}

/// Returns `true` if files can be moved between two folders without links, neither of which is inside the other.
pub(super) fn can_stage(staging: &Path, root: &Path) -> bool {
    apart(root, staging).is_none()
}

/// The device of a path, and the number of its mount, where the kernel tells it.
fn mount(path: &Path) -> io::Result<(u64, u64)> {
    let device = fs::metadata(path)?.dev();
    let wanted = StatxFlags::MNT_ID;
    let told = statx(CWD, path, AtFlags::empty(), wanted);
    let told = told.ok().filter(|it| it.stx_mask & wanted.bits() != 0);
    Ok((device, told.map_or(0, |it| it.stx_mnt_id)))
}

/// Returns `true` if a user can write to a folder, or give itself that right. Through an overlay, every folder seems to be the
/// user's.
pub(super) fn is_changeable(root: &Path) -> io::Result<bool> {
    let is_own = fs::metadata(root)?.uid() == rustix::process::geteuid().as_raw();
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    Ok(is_own || accessat(CWD, root, wanted, AtFlags::empty()).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn each_place_that_is_unfit_is_named_with_the_reason() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        let root = at("root");
        fs::create_dir(&root).unwrap();
        fs::write(at("file"), "").unwrap();
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        let places = ["file", "open", "root/inside", ""].map(at);
        let none = first_fit(&root, places).unwrap_err();
        let expect = format!(
            "you own no folder on the same file system (`{0}/file` cannot be used: File exists (os error 17); \
                `{0}/open` can be changed by other users; `{0}/root/inside` is inside the folder; \
                `{0}/` contains the folder)",
            world.path().display()
        );
        assert_eq!(none.to_string(), expect);
        assert_eq!(first_fit(&root, [at("open"), at("fit")]), Ok(at("fit")));
        let status = fs::metadata(&root).unwrap();
        assert_eq!(foreign(&status, status.uid()), None);
        assert_eq!(foreign(&status, status.uid() + 1), Some(Unfit::OfAnotherUser));
    }

    #[test]
    fn a_folder_on_another_file_system_is_not_staged() {
        let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else {
            println!("left out, because there is no `/dev/shm` here");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let found = apart(folder.path(), elsewhere.path());
        assert_eq!(found, Some(Unfit::OnAnotherFileSystem));
    }

    #[test]
    fn a_folder_that_is_mounted_separately_is_not_staged() {
        use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
        use rustix::thread::UnshareFlags;

        let world = tempfile::tempdir().unwrap();
        let (root, place) = (world.path().join("root"), world.path().join("place"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&place).unwrap();
        assert_eq!(apart(&root, &place), None);
        // Only the thread has the mount.
        let thread = std::thread::spawn(move || {
            #[expect(deprecated, reason = "no open file is unshared, so it is safe")]
            rustix::thread::unshare(UnshareFlags::NEWNS | UnshareFlags::FS).ok()?;
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private).ok()?;
            mount_bind(&root, &root).ok()?;
            let moved = fs::write(place.join("file"), "")
                .and_then(|()| fs::rename(place.join("file"), root.join("file")));
            Some((moved.map_err(|error| error.raw_os_error()), apart(&root, &place)))
        });
        match thread.join().unwrap() {
            Some(found) => {
                let expect = (Err(Some(libc::EXDEV)), Some(Unfit::MountedSeparately));
                assert_eq!(found, expect);
            }
            None => println!("left out, because mounts are not permitted here"),
        }
    }
}
