//! File changes by programs, with the guarantees of the file tools.

use crate::files::FileError;
use crate::files::change::FileChange;
use crate::files::resolve::Parents;
use crate::files::root::WorkspaceRoot;
use crate::files::stage;

/// Changes for tools of your own: atomic, confined, and recorded for undo, as those of `write_file`. Report the
/// [`changed_file`](FileChange::changed_file) of each in the tool's output.
impl WorkspaceRoot {
    /// Creates or replaces a file, and creates its parent directories. Returns `None` if the file
    /// already has this content. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is protected or outside the root, or the file cannot be
    /// written; nothing is changed then.
    pub fn write(&self, path: &str, content: &[u8]) -> Result<Option<FileChange>, FileError> {
        let _turn = self.write_lock();
        let current = stage::look_in(self, path, Parents::Create)?;
        if current.content.as_deref() == Some(content) {
            return Ok(None);
        }
        current.replace(content).map(Some)
    }

    /// Deletes a file. Blocks.
    ///
    /// # Errors
    ///
    /// [`FileError::Missing`] if the file does not exist. If it is protected or not a regular file,
    /// nothing is changed.
    pub fn remove(&self, path: &str) -> Result<FileChange, FileError> {
        let _turn = self.write_lock();
        stage::look(self, path)?.delete()
    }

    /// Moves a file, and creates the parent directories of the new path. Blocks.
    ///
    /// # Errors
    ///
    /// [`FileError::Exists`] if the new path exists, [`FileError::Missing`] if the old one does
    /// not. If one of them is protected, nothing is changed.
    pub fn rename(&self, from: &str, to: &str) -> Result<FileChange, FileError> {
        let _turn = self.write_lock();
        let current = stage::look(self, from)?;
        current.move_to(&stage::look_in(self, to, Parents::Create)?)
    }
}
