//! Removes what commands left behind, however deep it is.

use std::{
    ffi::{CStr, CString},
    fs, io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::Path,
};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};

use crate::beneath::{random, through};

/// Lets the owner of a folder change what is in it.
pub(crate) fn make_writable(folder: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(folder)?.permissions().mode();
    fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700))
}

/// Removes a file, or a folder with everything in it, without following links, even if other processes change it meanwhile.
///
/// A command can nest folders deeper than a path can be long, or a stack can hold calls. So folders in the folders of
/// `path` are moved up before they are removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    let top = writable(CWD, path)?;
    let mut folders = emptied(&top)?;
    // No other entry has such a name.
    let (name, mut moved) = (format!(".removed-{:016x}", random()), 0_u64);
    while let Some(folder) = folders.pop() {
        let opened = writable(top.as_fd(), &*folder)?;
        for inner in emptied(&opened)? {
            // A folder that moves is written to: its entry for the folder above changes.
            drop(writable(opened.as_fd(), &*inner)?);
            let to = CString::new(format!("{name}-{moved}"))?;
            moved += 1;
            renameat(&opened, &*inner, &top, &*to)?;
            folders.push(to);
        }
        unlinkat(&top, &*folder, AtFlags::REMOVEDIR)?;
    }
    fs::remove_dir(path)
}

/// Opens a folder, which is no link, so that its owner can change what is in it.
fn writable(at: BorrowedFd<'_>, path: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(at, path, flags | OFlags::PATH, Mode::empty())?;
    let opened = through(&found);
    let mode = fs::metadata(&opened)?.permissions().mode();
    if mode & 0o700 != 0o700 {
        fs::set_permissions(&opened, fs::Permissions::from_mode(mode | 0o700))?;
    }
    Ok(openat(at, path, flags | OFlags::RDONLY, Mode::empty())?)
}

/// Removes everything in a folder but its folders, and returns these.
fn emptied(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Unknown => {
                let status = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(status.st_mode) == FileType::Directory
            }
            kind => kind == FileType::Directory,
        };
        if is_folder {
            folders.push(name.to_owned());
        } else {
            unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{Mode, OFlags, mkdirat, openat};

    use super::*;

    #[test]
    fn a_tree_is_removed_whatever_its_modes_and_links_are() {
        let home = tempfile::tempdir().unwrap();
        let (top, other) = (home.path().join("top"), home.path().join("other"));
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::create_dir_all(other.join("kept")).unwrap();
        fs::write(top.join("a/b/file"), "x").unwrap();
        symlink(&other, top.join("a/b/link")).unwrap();
        for folder in ["a/b/c", "a/b", "a", ""] {
            fs::set_permissions(top.join(folder), fs::Permissions::from_mode(0o0)).unwrap();
        }
        remove(&top).unwrap();
        assert_eq!((top.exists(), other.join("kept").exists()), (false, true));
        remove(&other.join("missing")).unwrap_err();
    }

    #[test]
    fn folders_nested_deeper_than_a_path_can_be_long_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().join("top");
        fs::create_dir(&top).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = rustix::fs::open(&top, flags, Mode::empty()).unwrap();
        for _ in 0..5_000 {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = openat(&at, "d", flags, Mode::empty()).unwrap();
        }
        remove(&top).unwrap();
        assert!(!top.exists());
    }
}
