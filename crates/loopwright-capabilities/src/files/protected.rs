//! Paths that file tools do not write: the same that commands may not leave behind.

use std::ffi::OsString;
use std::path::Path;

use loopwright_sandbox::screen::{EntryKind, FolderView, Reason, Screen, entries, read_beginning};

/// Judges a file that is about to be written, with the directories on its way.
pub(super) fn judge(
    screen: &Screen,
    root: &Path,
    path: &Path,
    content: Option<&[u8]>,
) -> Option<Reason> {
    screen.judge(path, root, &Writing { root, path, content })
}

/// A directory in which one file is written.
struct Writing<'a> {
    root: &'a Path,
    path: &'a Path,
    /// What it will hold. `None` means that this is not decided yet.
    content: Option<&'a [u8]>,
}

impl FolderView for Writing<'_> {
    fn what(&self, path: &Path) -> Option<EntryKind> {
        if path == self.path {
            return Some(EntryKind::File);
        }
        let is_made = || self.path.starts_with(path).then_some(EntryKind::Folder);
        self.before(path).or_else(is_made)
    }

    fn before(&self, path: &Path) -> Option<EntryKind> {
        EntryKind::at(&self.root.join(path))
    }

    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        if path == self.path { self.content.map(<[u8]>::to_vec) } else { self.content_before(path) }
    }

    fn content_before(&self, path: &Path) -> Option<Vec<u8>> {
        read_beginning(&self.root.join(path))
    }

    fn names(&self, path: &Path) -> Vec<OsString> {
        let there = entries(&self.root.join(path)).unwrap_or_default();
        let written = self.path.strip_prefix(path).ok().and_then(|rest| rest.components().next());
        let written = written.map(|part| part.as_os_str().to_owned());
        there.into_iter().chain(written).collect()
    }

    fn is_decided(&self, path: &Path) -> bool {
        path != self.path || self.content.is_some()
    }
}

#[cfg(test)]
mod tests;
