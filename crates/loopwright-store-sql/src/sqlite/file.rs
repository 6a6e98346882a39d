//! The database file and its permissions.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use loopwright_sessions::Finding;

/// Creates an empty file and its directories, which only this user can read. Does nothing if the file exists.
/// SQLite gives the files beside it the same permissions.
pub(super) fn make(path: &Path) -> io::Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        make_folder(folder)?;
    }
    match make_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Creates an empty file that only this user can read. Fails if the file exists.
pub(super) fn make_new(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.sync_all()?;
    sync(folder_of(path))
}

/// Creates an empty file that will be renamed to `path`, and replaces one that a killed process left.
pub(super) fn make_partial(path: &Path) -> io::Result<PathBuf> {
    let partial = beside(path, ".partial");
    if fs::symlink_metadata(path).is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    make_new(&partial).map(|()| partial)
}

/// Gives a complete file its name, which must not exist, and makes it survive a loss of power.
pub(super) fn publish(partial: &Path, path: &Path) -> io::Result<()> {
    File::open(partial)?.sync_all()?;
    match fs::hard_link(partial, path) {
        Ok(()) => fs::remove_file(partial)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        // Some file systems do not support hard links.
        Err(_) => fs::rename(partial, path)?,
    }
    sync_folder_of(path)
}

/// Returns `true` if the file, and the files beside it, can be written.
pub(super) fn is_writable(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Access, access};
        [path, folder_of(path)].into_iter().all(|it| access(it, Access::WRITE_OK).is_ok())
    }
    #[cfg(not(target_os = "linux"))]
    {
        fs::metadata(path).is_ok_and(|it| !it.permissions().readonly())
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Makes the name of a file survive a loss of power.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync(folder_of(path))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    folder.parent().filter(|it| !it.as_os_str().is_empty()).map_or(Ok(()), sync)
}

/// Makes the entries of a directory survive a loss of power.
fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Reports files that other users can read or write, and removes these permissions if `repair` is set.
#[cfg(unix)]
pub(super) fn open_to_others(path: &Path, repair: bool) -> Vec<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut findings = Vec::new();
    for path in with_neighbours(path) {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        let own = mode & 0o700;
        if mode == own {
            continue;
        }
        let closed = fs::Permissions::from_mode(own);
        let is_repaired = repair && fs::set_permissions(&path, closed).is_ok();
        findings.push(Finding {
            session: None,
            problem: format!("other users can access `{}`: the mode is {mode:o}", path.display()),
            repaired: is_repaired.then(|| format!("the mode is now {own:o}")),
        });
    }
    findings
}

#[cfg(not(unix))]
pub(super) fn open_to_others(_path: &Path, _repair: bool) -> Vec<Finding> {
    Vec::new()
}

/// Returns the file and those that SQLite keeps beside it.
pub(super) fn with_neighbours(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| beside(path, end))
}

/// Returns the name of a file that belongs to another one.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
