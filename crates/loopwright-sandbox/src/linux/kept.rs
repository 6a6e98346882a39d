//! Backups of protected files that the kernel cannot protect, made before a command to restore them afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat};

use crate::beneath::open_below;

/// The maximum size of a stored file.
const MAX_FILE: u64 = 1 << 20;
/// The maximum total size.
const MAX_TOTAL: u64 = 16 << 20;
/// The maximum depth of folders.
const MAX_DEPTH: usize = 16;

/// Files below a folder, with their original content.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By the path below the folder.
    files: BTreeMap<PathBuf, Original>,
    total: u64,
}

/// What was at a path.
#[derive(Debug)]
enum Original {
    File {
        content: Vec<u8>,
        mode: u32,
    },
    /// A link, with its target.
    Link(PathBuf),
    /// A file whose content is not stored, because it is too large or cannot be read.
    NotStored,
}

/// What became of a path whose changed entry was moved away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    /// All that was there is there again.
    All,
    /// Something was there of which no copy is stored, or which could not be written.
    Partly,
    /// Nothing was there.
    Nothing,
}

impl Kept {
    /// Stores the files at these paths below a folder, and all files below them.
    pub(super) fn of(root: &Path, paths: &[PathBuf]) -> Self {
        let mut kept = Self::default();
        for path in paths {
            kept.add(root, path, 0);
        }
        kept
    }

    /// Stores the file at a path below a folder, and all files below it. Of what is too large, only the path is stored.
    pub(super) fn add(&mut self, root: &Path, path: &Path, depth: usize) {
        let at = root.join(path);
        let Ok(status) = fs::symlink_metadata(&at) else { return };
        if status.is_dir() {
            if depth < MAX_DEPTH {
                for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
                    self.add(root, &path.join(entry.file_name()), depth + 1);
                }
            }
            return;
        }
        let fits = status.len() <= MAX_FILE && self.total + status.len() <= MAX_TOTAL;
        let original = if status.is_symlink() {
            fs::read_link(&at).map_or(Original::NotStored, Original::Link)
        } else if status.is_file() && fits {
            let mode = status.permissions().mode() & 0o777;
            fs::read(&at).map_or(Original::NotStored, |content| Original::File { content, mode })
        } else {
            Original::NotStored
        };
        if let Original::File { content, .. } = &original {
            self.total += content.len() as u64;
        }
        self.files.insert(path.into(), original);
    }

    /// Returns the original content of a file.
    pub(super) fn content(&self, path: &Path) -> Option<&[u8]> {
        match self.files.get(path)? {
            Original::File { content, .. } => Some(content),
            Original::Link(_) | Original::NotStored => None,
        }
    }

    /// Restores deleted files, and returns their paths. Follows no link.
    pub(super) fn put_back(&self, root: &Path) -> Vec<PathBuf> {
        let is_gone = |path: &Path| fs::symlink_metadata(root.join(path)).is_err();
        let gone = self.files.iter().filter(|(path, _)| is_gone(path));
        let back = gone.filter(|(path, original)| original.write(root, path).is_ok());
        back.map(|(path, _)| path.clone()).collect()
    }
}

/// Restores from these stores what was at a path and below it, and was moved or deleted. A file that one of them has no copy of
/// may come from the next. Leaves alone what is in its place. Follows no link.
pub(super) fn put_back_at(stores: &[&Kept], root: &Path, path: &Path) -> Restored {
    let mut is_known = false;
    let mut failed = BTreeSet::new();
    for kept in stores {
        let from = kept.files.range(path.to_path_buf()..);
        for (at, original) in from.take_while(|(at, _)| at.starts_with(path)) {
            is_known = true;
            if fs::symlink_metadata(root.join(at)).is_ok() {
                continue;
            }
            match original.write(root, at) {
                Ok(()) => failed.remove(at),
                Err(_) => failed.insert(at),
            };
        }
    }
    match (is_known, failed.is_empty()) {
        (false, _) => Restored::Nothing,
        (true, true) => Restored::All,
        (true, false) => Restored::Partly,
    }
}

impl Original {
    fn write(&self, root: &Path, path: &Path) -> io::Result<()> {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if matches!(self, Self::NotStored) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut folder: OwnedFd = File::open(root)?.into();
        for part in parent.components() {
            let part = Path::new(part.as_os_str());
            mkdirat(&folder, part, Mode::RWXU).ok();
            folder = open_below(folder.as_fd(), part)?;
        }
        let (content, mode) = match self {
            Self::File { content, mode } => (content, *mode),
            Self::Link(target) => return Ok(symlinkat(target, &folder, name)?),
            Self::NotStored => return Err(io::ErrorKind::NotFound.into()),
        };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_restored_as_a_whole_if_one_of_the_stores_has_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (root, path) = (folder.path(), Path::new("a/file"));
        let at = root.join(path);
        fs::create_dir(root.join("a")).unwrap();
        File::create(&at).unwrap().set_len(MAX_FILE + 1).unwrap();
        let without = Kept::of(root, &["a".into()]);
        fs::write(&at, "mine").unwrap();
        let with = Kept::of(root, &["a".into()]);
        let restored = |stores: &[&Kept]| {
            fs::remove_dir_all(root.join("a")).unwrap();
            let restored = put_back_at(stores, root, Path::new("a"));
            (restored, fs::read_to_string(&at).ok())
        };
        let all = (Restored::All, Some("mine".to_owned()));
        assert_eq!(restored(&[&without, &with]), all);
        assert_eq!(restored(&[&with, &without]), all);
        assert_eq!(restored(&[&without]), (Restored::Partly, None));
        fs::create_dir_all(root.join("a")).unwrap();
        assert_eq!(restored(&[&Kept::default()]), (Restored::Nothing, None));
    }
}
