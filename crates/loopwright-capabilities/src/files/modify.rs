//! Changes of files that a program makes, as file tools make them.

use crate::files::FileError;
use crate::files::change::FileChange;
use crate::files::resolve::Parents;
use crate::files::root::WorkspaceRoot;
use crate::files::stage;

/// Changes for tools of your own: atomic, confined, and recorded for undo, as those of `write_file`. Report the
/// [`changed_file`](FileChange::changed_file) of each in the tool's output.
impl WorkspaceRoot {
    /// Creates or replaces a file, with the directories that it is in. Returns `None` if the file holds the content
    /// already. Blocks.
    ///
    /// # Errors
    ///
    /// If the path is protected or outside, or the file cannot be written; then nothing is changed.
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
    /// [`FileError::Missing`] if the file does not exist. If it is protected or no regular file, nothing is changed.
    pub fn remove(&self, path: &str) -> Result<FileChange, FileError> {
        let _turn = self.write_lock();
        stage::look(self, path)?.delete()
    }

    /// Moves a file, and creates the directories that it goes to. Blocks.
    ///
    /// # Errors
    ///
    /// [`FileError::Exists`] if something is at the new path, [`FileError::Missing`] if nothing is at the old one. If
    /// one of them is protected, nothing is changed.
    pub fn rename(&self, from: &str, to: &str) -> Result<FileChange, FileError> {
        let _turn = self.write_lock();
        let current = stage::look(self, from)?;
        current.move_to(&stage::look_in(self, to, Parents::Create)?)
    }
}
