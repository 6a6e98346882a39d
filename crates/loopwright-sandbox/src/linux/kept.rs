//! Backups of protected files that the kernel cannot protect, made before a command to restore them afterwards.

use std::collections::BTreeMap;
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

    /// Restores what was at a path and below it, and was moved or deleted. Leaves alone what is in its place. Follows no link.
    pub(super) fn put_back_at(&self, root: &Path, path: &Path) -> Restored {
        let mut restored = Restored::Nothing;
        let from = self.files.range(path.to_path_buf()..);
        for (at, original) in from.take_while(|(at, _)| at.starts_with(path)) {
            let is_there = fs::symlink_metadata(root.join(at)).is_ok();
            if !is_there && original.write(root, at).is_err() {
                restored = Restored::Partly;
            } else if restored == Restored::Nothing {
                restored = Restored::All;
            }
        }
        restored
    }

    /// Restores deleted files, and returns their paths. Follows no link.
    pub(super) fn put_back(&self, root: &Path) -> Vec<PathBuf> {
        let is_gone = |path: &Path| fs::symlink_metadata(root.join(path)).is_err();
        let gone = self.files.iter().filter(|(path, _)| is_gone(path));
        let back = gone.filter(|(path, original)| original.write(root, path).is_ok());
        back.map(|(path, _)| path.clone()).collect()
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
