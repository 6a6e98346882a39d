//! Backups of protected files that the kernel cannot protect, made before a command to restore them afterwards.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, openat};

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
    files: Vec<KeptFile>,
    total: u64,
}

#[derive(Debug)]
struct KeptFile {
    /// The path below the folder.
    path: PathBuf,
    content: Vec<u8>,
    mode: u32,
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

    /// Stores the file at a path below a folder, and all files below it. What is too large is left out.
    pub(super) fn add(&mut self, root: &Path, path: &Path, depth: usize) {
        let at = root.join(path);
        let Ok(status) = fs::symlink_metadata(&at) else { return };
        if status.is_dir() && depth < MAX_DEPTH {
            for entry in fs::read_dir(&at).into_iter().flatten().flatten() {
                self.add(root, &path.join(entry.file_name()), depth + 1);
            }
        } else if status.is_file()
            && status.len() <= MAX_FILE
            && self.total + status.len() <= MAX_TOTAL
            && let Ok(content) = fs::read(&at)
        {
            self.total += status.len();
            let mode = status.permissions().mode() & 0o777;
            self.files.push(KeptFile { path: path.into(), content, mode });
        }
    }

    /// Returns the original content of a file.
    pub(super) fn content(&self, path: &Path) -> Option<&[u8]> {
        self.files.iter().find(|it| it.path == path).map(|it| &it.content[..])
    }

    /// Restores a file that was deleted or moved. Returns `false` if it is not stored, or something else is in its place.
    pub(super) fn put_back_at(&self, root: &Path, path: &Path) -> bool {
        let file = self.files.iter().find(|it| it.path == path);
        file.is_some_and(|file| file.write(root).is_ok())
    }

    /// Restores deleted files, and returns their paths. Follows no link.
    pub(super) fn put_back(&self, root: &Path) -> Vec<PathBuf> {
        let is_gone = |file: &&KeptFile| fs::symlink_metadata(root.join(&file.path)).is_err();
        let gone = self.files.iter().filter(is_gone);
        gone.filter(|file| file.write(root).is_ok()).map(|file| file.path.clone()).collect()
    }
}

impl KeptFile {
    fn write(&self, root: &Path) -> io::Result<()> {
        let (Some(name), Some(parent)) = (self.path.file_name(), self.path.parent()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut folder: OwnedFd = File::open(root)?.into();
        for part in parent.components() {
            let part = Path::new(part.as_os_str());
            mkdirat(&folder, part, Mode::RWXU).ok();
            folder = open_below(folder.as_fd(), part)?;
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&folder, name, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&self.content)?;
        file.set_permissions(Permissions::from_mode(self.mode))
    }
}
