//! Parent directories that are created for a file, and removed again if the write fails.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::AtFlags;

/// Directories that were made for a file. Dropping it removes those that are still empty, unless the file
/// [is there](Made::keep).
#[derive(Debug, Default)]
pub(super) struct Made {
    /// What each is in, and its name; the outermost first.
    directories: Vec<(OwnedFd, OsString)>,
    is_kept: Cell<bool>,
}

impl Made {
    /// Remembers a directory that was made.
    pub(super) fn push(&mut self, parent: impl AsFd, name: &OsString) {
        // One that cannot be remembered stays.
        if let Ok(parent) = parent.as_fd().try_clone_to_owned() {
            self.directories.push((parent, name.clone()));
        }
    }

    /// Lets the directories stay.
    pub(super) fn keep(&self) {
        self.is_kept.set(true);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_kept.get() {
            return;
        }
        for (parent, name) in self.directories.iter().rev() {
            // A directory into which another process put something is theirs.
            rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).ok();
        }
    }
}
