//! Files that an editor has open.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::MemfdFlags;

use crate::files::FileError;
use crate::files::root::WorkspaceRoot;
use crate::files::sniff::{self, Kind, WINDOW};
use crate::files::stage::MAX_BYTES;

/// An editor with files of a root. Tools that read one file read the text in the editor, which can have unsaved
/// changes, and tools that write write through it. Searches read what is on disk. Rules, protections and the journal
/// apply before the editor is called.
pub trait EditorFiles: Send + Sync {
    /// Returns the text of a file. `None` means that the file on disk counts. `path` is absolute. Blocks.
    fn read(&self, path: &Path) -> Option<String>;

    /// Writes a file. Returns `false` if the editor writes no files, so that the caller writes this one. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the editor refuses or does not respond. The caller does not write the file then.
    fn write(&self, path: &Path, content: &str) -> io::Result<bool>;
}

impl WorkspaceRoot {
    /// Returns a text of the file in the editor that differs from the one on disk. `path` is without links.
    pub(super) fn unsaved(&self, path: &Path, on_disk: &[u8]) -> Option<String> {
        let editor = self.editor()?;
        let head = &on_disk[..on_disk.len().min(WINDOW)];
        if !matches!(sniff::kind(head), Kind::Text | Kind::Empty) {
            return None;
        }
        let text = editor.read(&self.path().join(path))?;
        (text.len() as u64 <= MAX_BYTES && text.as_bytes() != on_disk).then_some(text)
    }

    /// Replaces an open file with the text in the editor, if that differs.
    pub(super) fn newest(
        &self,
        asked: &str,
        (mut file, metadata, path): (File, Metadata, PathBuf),
    ) -> Result<(File, Metadata, PathBuf), FileError> {
        if self.editor().is_none() || metadata.len() > MAX_BYTES {
            return Ok((file, metadata, path));
        }
        let failed = |error: io::Error| FileError::of(asked, error);
        let mut on_disk = Vec::new();
        let read = (&file).take(MAX_BYTES).read_to_end(&mut on_disk);
        read.and_then(|_| file.rewind()).map_err(failed)?;
        let Some(text) = self.unsaved(&path, &on_disk) else { return Ok((file, metadata, path)) };
        let held = rustix::fs::memfd_create("unsaved", MemfdFlags::CLOEXEC);
        let mut held = File::from(held.map_err(|error| FileError::of(asked, error))?);
        held.write_all(text.as_bytes()).and_then(|()| held.rewind()).map_err(failed)?;
        let metadata = held.metadata().map_err(failed)?;
        Ok((held, metadata, path))
    }

    /// Writes a file through the editor. Returns `false` if the caller must write it.
    pub(super) fn write_in_editor(&self, path: &Path, content: &[u8]) -> io::Result<bool> {
        match (self.editor(), str::from_utf8(content)) {
            (Some(editor), Ok(text)) => editor.write(&self.path().join(path), text),
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests;
