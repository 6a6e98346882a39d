//! Removes what commands left behind, however deep it is.

use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path};

use crate::beneath::random;

/// Lets the owner of a folder change what is in it.
pub(crate) fn make_writable(folder: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(folder)?.permissions().mode();
    fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700))
}

/// Removes a file, or a folder with everything in it, without following links.
///
/// A command can nest folders deeper than a path can be long, or a stack can hold calls. So folders in the folders of
/// `path` are moved up before they are removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    make_writable(path)?;
    let (mut folders, mut moved) = (Vec::new(), 0_u64);
    empty(path, |folder| {
        folders.push(folder.to_path_buf());
        Ok(())
    })?;
    // No other entry has such a name.
    let name = format!(".removed-{:016x}", random());
    while let Some(folder) = folders.pop() {
        make_writable(&folder)?;
        empty(&folder, |inner| {
            // A folder that moves is written to: its entry for the folder above changes.
            make_writable(inner)?;
            let to = path.join(format!("{name}-{moved}"));
            moved += 1;
            fs::rename(inner, &to)?;
            folders.push(to);
            Ok(())
        })?;
        fs::remove_dir(&folder)?;
    }
    fs::remove_dir(path)
}

/// Removes all files of a folder, and passes on its folders.
fn empty(folder: &Path, mut each: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            each(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
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
            fs::set_permissions(top.join(folder), fs::Permissions::from_mode(0)).unwrap();
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
