//! The lock under which the changes of a folder are judged and applied, one transaction after the other.
//!
//! Its file exists while a process holds the lock or waits for it. The lock of a file without a name could be held beside that
//! of its successor, so a lock counts only if its file is still the one with the name.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::TransactionError;

/// The beginning of the names of the files.
const PREFIX: &str = "turn-";

/// The lock of a folder, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    /// Dropped after the file has lost its name.
    _file: File,
    path: PathBuf,
}

impl Turn {
    /// Waits for the lock of the folder `root`.
    pub(super) fn take(staging: &Path, root: &Path) -> Result<Self, TransactionError> {
        let mut hasher = DefaultHasher::new();
        root.hash(&mut hasher);
        let path = staging.join(format!("{PREFIX}{:016x}", hasher.finish()));
        loop {
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            let file = file.map_err(TransactionError::at(&path))?;
            let taken = flock(&file, FlockOperation::LockExclusive);
            taken.map_err(|error| TransactionError::at(&path)(error.into()))?;
            if has_name(&file, &path).map_err(TransactionError::at(&path))? {
                return Ok(Self { _file: file, path });
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A file that stays is removed when another transaction starts.
        fs::remove_file(&self.path).ok();
    }
}

/// Removes the file of a lock that no process holds, because the process with it was killed. Other files stay.
pub(super) fn remove_left(path: &Path) {
    let is_turn =
        path.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    if !is_turn {
        return;
    }
    let Ok(file) = File::options().write(true).open(path) else { return };
    let is_free = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if is_free && has_name(&file, path).unwrap_or(false) {
        fs::remove_file(path).ok();
    }
}

/// Returns `true` if the file at a path is this one.
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn files(staging: &Path) -> usize {
        fs::read_dir(staging).unwrap().count()
    }

    #[test]
    fn the_file_of_a_turn_is_removed_when_the_turn_ends() {
        let staging = tempfile::tempdir().unwrap();
        let turn = Turn::take(staging.path(), Path::new("/srv/project")).unwrap();
        assert_eq!(files(staging.path()), 1);
        // What is held is not left behind.
        remove_left(&turn.path);
        assert_eq!(files(staging.path()), 1);
        drop(turn);
        assert_eq!(files(staging.path()), 0);
    }

    #[test]
    fn the_file_of_a_turn_of_a_killed_process_is_removed_and_no_other_file() {
        let staging = tempfile::tempdir().unwrap();
        let (left, other) = (staging.path().join("turn-0123"), staging.path().join("swept"));
        for path in [&left, &other] {
            fs::write(path, "").unwrap();
            remove_left(path);
        }
        assert_eq!((left.exists(), other.exists()), (false, true));
    }

    #[test]
    fn a_turn_has_one_holder_although_its_file_is_removed_each_time() {
        let staging = tempfile::tempdir().unwrap();
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let take_turns = || {
            for _ in 0..200 {
                let _turn = Turn::take(staging.path(), Path::new("/srv/project")).unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(take_turns);
            }
        });
        assert_eq!((most.into_inner(), files(staging.path())), (1, 0));
    }
}
