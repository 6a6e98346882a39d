//! File changes, recorded so that they can be undone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use loopwright_core::{BoxError, ChangedFile};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::files::FileError;
use crate::files::resolve::Parents;
use crate::files::root::WorkspaceRoot;
use crate::files::stage;

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path relative to the root, without links. It is absolute in an added folder.
    pub path: String,
    /// The path before the change, if the change moves the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The file before the change. `None` means that it did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileVersion>,
    /// The file after the change. `None` means that the change deletes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileVersion>,
    /// The added folders that the paths are in, without links. Undoing the change reaches them, whether
    /// the root still has them or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// The version of a file at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersion {
    /// The SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// The size.
    pub bytes: u64,
    /// The permissions, such as `0o644`.
    pub mode: u32,
    /// The modification time of the content, in seconds and nanoseconds since 1970. `None` means
    /// that the time is not recorded: for the new version of a change, and in records of earlier
    /// program versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<(i64, u32)>,
}

impl FileVersion {
    pub(super) fn of(content: &[u8], mode: u32) -> Self {
        let mode = mode & 0o7777;
        Self { sha256: sha256(content), bytes: content.len() as u64, mode, modified: None }
    }

    /// The same of a file that is there.
    pub(super) fn found(content: &[u8], metadata: &Metadata) -> Self {
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        let modified = Some((metadata.mtime(), nanoseconds));
        Self { modified, ..Self::of(content, metadata.permissions().mode()) }
    }

    /// Returns when its content was last changed, if that is kept.
    fn modified(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.modified?;
        let after = Duration::new(u64::try_from(seconds).ok()?, nanoseconds);
        SystemTime::UNIX_EPOCH.checked_add(after)
    }
}

/// Records changes before they are made, so that they can be undone.
///
/// A change that was not recorded is not made. A recorded change may still fail, or the process may
/// exit before it is made: then the file is unchanged.
pub trait FileJournal: Send + Sync {
    /// Records a change and the previous content of the file. Called on a thread that may block.
    ///
    /// # Errors
    ///
    /// Returns an error if the change cannot be recorded; the tool then fails and changes nothing.
    fn record(&self, change: &FileChange, before: Option<&[u8]>) -> Result<(), BoxError>;

    /// Records all changes of a command together. The original entries are kept in a folder, from
    /// which [`undo`](loopwright_sandbox::transaction::undo) restores them. The default
    /// implementation records nothing. Called on a thread that may block.
    ///
    /// # Errors
    ///
    /// Returns an error if the changes cannot be recorded; none of them is then made.
    fn record_command(&self, kept: &Path, paths: &[&Path]) -> Result<(), BoxError> {
        let _ = (kept, paths);
        Ok(())
    }
}

/// A journal of changes in another directory than that of its root. `directory` has no links.
pub(super) struct JournalElsewhere {
    pub(super) journal: Arc<dyn FileJournal>,
    pub(super) directory: PathBuf,
}

impl JournalElsewhere {
    fn absolute(&self, path: &str) -> String {
        self.directory.join(path).to_string_lossy().into_owned()
    }
}

impl FileJournal for JournalElsewhere {
    fn record(&self, change: &FileChange, before: Option<&[u8]>) -> Result<(), BoxError> {
        let mut change = change.clone();
        change.path = self.absolute(&change.path);
        change.from = change.from.map(|path| self.absolute(&path));
        change.folders.push(self.directory.to_string_lossy().into_owned());
        self.journal.record(&change, before)
    }

    fn record_command(&self, kept: &Path, paths: &[&Path]) -> Result<(), BoxError> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| self.directory.join(path)).collect();
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        self.journal.record_command(kept, &paths)
    }
}

/// The outcome of undoing a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The file was restored.
    Restored,
    /// The file was removed: it did not exist before the change.
    Removed,
    /// The change was never made, or was already undone.
    Unchanged,
    /// The file has changed since then, and was kept.
    Conflict,
    /// The change was made in another folder, which was at the path of the root then. Once that folder is back, the change can
    /// be undone.
    OtherFolder,
}

/// The content of a path before it was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OriginalFile {
    /// Nothing.
    Absent,
    /// A file with this content.
    Content(Vec<u8>),
    /// Nothing: the current file was moved there.
    MovedFrom(String),
    /// Something that is not a file, is too large, or was not recorded.
    Unknown,
}

impl FileChange {
    /// Returns the change as a tool reports it; see
    /// [`with_changed_files`](loopwright_core::ToolOutput::with_changed_files).
    pub fn changed_file(&self) -> ChangedFile {
        let path = self.path.as_str();
        match (&self.from, &self.before, &self.after) {
            (Some(from), ..) => ChangedFile::moved(from, path),
            (None, _, None) => ChangedFile::deleted(path),
            (None, None, Some(_)) => ChangedFile::created(path),
            (None, Some(_), Some(_)) => ChangedFile::modified(path),
        }
    }

    /// Undoes the change, if the file is still the result of the change.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or written.
    pub fn undo(
        &self,
        root: &WorkspaceRoot,
        before: Option<&[u8]>,
    ) -> Result<UndoOutcome, FileError> {
        let root = &*self.place(root);
        let _turn = root.write_lock();
        if let Some(from) = &self.from {
            return self.undo_move(root, from);
        }
        let current = stage::look(root, &self.path)?;
        let found = current.content.as_deref().map(sha256);
        let was = self.before.as_ref().map(|it| &it.sha256);
        let made = self.after.as_ref().map(|it| &it.sha256);
        let is_of_attributes = was.is_some() && was == made;
        let is_to_restore = || match (&self.before, &self.after, current.version()) {
            (Some(before), Some(after), Some(now)) => {
                let is_as_before = before.mode == now.mode
                    && (before.modified.is_none() || before.modified == now.modified);
                after.mode == now.mode && !is_as_before
            }
            _ => false,
        };
        if found.as_ref() == was && !(is_of_attributes && is_to_restore()) {
            return Ok(UndoOutcome::Unchanged);
        }
        if found.as_ref() != made || before.map(sha256).as_ref() != was {
            return Ok(UndoOutcome::Conflict);
        }
        if let (Some(content), Some(version)) = (before, &self.before) {
            current.restore(content, version.mode, version.modified())?;
            return Ok(UndoOutcome::Restored);
        }
        current.remove()?;
        Ok(UndoOutcome::Removed)
    }

    /// Returns the root in which the change was made: that of the innermost folder, if it is in the directory of the root.
    fn place<'a>(&self, root: &'a WorkspaceRoot) -> Cow<'a, WorkspaceRoot> {
        let holds = |it: &&String| {
            Path::new(&self.path).starts_with(it) && Path::new(it).starts_with(root.path())
        };
        match self.folders.iter().filter(holds).max_by_key(|it| it.len()) {
            Some(folder) if Path::new(folder) != root.path() => Cow::Owned(root.elsewhere(folder)),
            _ => root.reaching(&self.folders),
        }
    }

    /// Moves the file back, if it is as it was and nothing is where it came from.
    fn undo_move(&self, root: &WorkspaceRoot, from: &str) -> Result<UndoOutcome, FileError> {
        let moved = stage::look_in(root, &self.path, Parents::Create)?;
        let origin = stage::look_in(root, from, Parents::Create)?;
        let was = self.before.as_ref().map(|it| &it.sha256);
        let is_same = |content: &[u8]| Some(&sha256(content)) == was;
        match (moved.content.as_deref(), origin.content.as_deref()) {
            (None, Some(content)) if is_same(content) => Ok(UndoOutcome::Unchanged),
            (Some(content), None) if is_same(content) => {
                moved.relocate(&origin)?;
                Ok(UndoOutcome::Restored)
            }
            _ => Ok(UndoOutcome::Conflict),
        }
    }
}

/// Keeps changes and previous contents in memory; equal contents are kept once.
#[derive(Default)]
pub struct MemoryFileJournal(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    changes: Vec<FileChange>,
    contents: BTreeMap<String, Arc<[u8]>>,
}

impl MemoryFileJournal {
    /// Creates an empty journal.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the changes, oldest first.
    pub fn changes(&self) -> Vec<FileChange> {
        self.kept(|it| it.changes.clone())
    }

    /// Undoes all changes after the first `keep`, newest first, and removes them from the journal.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or written; that change and earlier ones stay in
    /// the journal.
    pub fn rewind(
        &self,
        root: &WorkspaceRoot,
        keep: usize,
    ) -> Result<Vec<(FileChange, UndoOutcome)>, FileError> {
        let mut undone = Vec::new();
        while let Some((change, before)) = self.last(keep) {
            let came = change.undo(root, before.as_deref())?;
            self.kept(|it| it.changes.pop());
            undone.push((change, came));
        }
        Ok(undone)
    }

    fn last(&self, keep: usize) -> Option<(FileChange, Option<Arc<[u8]>>)> {
        self.kept(|it| {
            let change = it.changes.get(keep..)?.last()?.clone();
            let before = change.before.as_ref().and_then(|was| it.contents.get(&was.sha256));
            Some((change, before.cloned()))
        })
    }

    fn kept<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl FileJournal for MemoryFileJournal {
    fn record(&self, change: &FileChange, before: Option<&[u8]>) -> Result<(), BoxError> {
        self.kept(|it| {
            if let (Some(was), Some(content)) = (&change.before, before) {
                it.contents.entry(was.sha256.clone()).or_insert_with(|| content.into());
            }
            it.changes.push(change.clone());
        });
        Ok(())
    }
}

impl fmt::Debug for MemoryFileJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryFileJournal").field(&self.changes()).finish()
    }
}

fn sha256(content: &[u8]) -> String {
    format!("{:x}", Sha256::digest(content))
}

#[cfg(test)]
mod tests;
