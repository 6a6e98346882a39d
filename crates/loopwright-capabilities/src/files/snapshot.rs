//! Recording of file changes that a program such as a hook makes on its own.

use std::fmt;

use crate::files::FileError;
use crate::files::change::{FileChange, FileVersion};
use crate::files::root::WorkspaceRoot;
use crate::files::stage;

/// The maximum size of all files of a snapshot.
const MAX_BYTES: usize = 64 << 20;

/// Files as they were before another program could change them, so that its changes can be recorded.
#[must_use]
pub struct FileSnapshot {
    root: WorkspaceRoot,
    files: Vec<Before>,
}

struct Before {
    path: String,
    version: Option<FileVersion>,
    content: Option<Vec<u8>>,
}

impl WorkspaceRoot {
    /// Reads files that another program may change next, such as a hook that formats what a tool has written. Leaves out
    /// what is not a file or is protected, and files with more than 64 MiB in total. Reads nothing if the root has no
    /// journal. Blocks.
    pub fn snapshot<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> FileSnapshot {
        let mut files = Vec::new();
        let mut left = MAX_BYTES;
        for path in paths.into_iter().take_while(|_| self.journal().is_some()) {
            let Ok(current) = stage::look(self, path) else { continue };
            let version = current.version();
            let content = current.content;
            match left.checked_sub(content.as_ref().map_or(0, Vec::len)) {
                Some(rest) => left = rest,
                None => continue,
            }
            files.push(Before { path: path.to_owned(), version, content });
        }
        FileSnapshot { root: self.clone(), files }
    }
}

impl FileSnapshot {
    /// Records how the files differ from the snapshot, in the journal of their root, and returns the changes. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if a change cannot be recorded.
    pub fn record_changes(self) -> Result<Vec<FileChange>, FileError> {
        let _turn = self.root.write_lock();
        let mut changes = Vec::new();
        for Before { path, version, content } in &self.files {
            // What is no file any more has no content to record.
            let Ok(current) = stage::look(&self.root, path) else { continue };
            if current.version() != *version {
                changes.push(current.record_since(version.clone(), content.as_deref())?);
            }
        }
        Ok(changes)
    }
}

impl fmt::Debug for FileSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.files.iter().map(|it| &it.path);
        f.debug_list().entries(paths).finish()
    }
}

#[cfg(test)]
mod tests;
