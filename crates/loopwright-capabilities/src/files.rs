//! Reading, writing, editing, listing and searching files of one directory.
//!
//! Each tool works on its own, as in `ReadFile::in_dir("/work")`; [`UseFileTools`] adds all of them
//! with one [`WorkspaceRoot`], which confines them.

mod shown;
mod access;
mod editor;
mod error;
mod protected;
mod blocking;
mod root;
mod resolve;
mod change;
mod contents;
mod stage;
mod modify;
mod snapshot;
mod sniff;
mod media;
mod continuation;
mod page;
mod read;
mod write;
mod replacement;
mod edit;
mod list;
mod made;
mod walk;
mod search;
mod grep;
mod tools;

pub(crate) use self::{
    blocking::{blocking, on_thread},
    shown::{ceil_boundary, floor_boundary},
};

pub use self::{
    access::{FileAccess, FileUse},
    change::{FileChange, FileJournal, FileVersion, MemoryFileJournal, OriginalFile, UndoOutcome},
    contents::DirectoryEntry,
    edit::{EditArgs, EditFile, EditFileArgs},
    editor::EditorFiles,
    error::FileError,
    grep::{Grep, GrepArgs},
    list::{ListDir, ListDirArgs},
    media::{MediaError, MediaLimits, ReadMedia},
    read::{ReadFile, ReadFileArgs},
    root::WorkspaceRoot,
    search::{SearchFiles, SearchFilesArgs},
    shown::Size,
    snapshot::FileSnapshot,
    stage::Durability,
    tools::UseFileTools,
    write::{WriteFile, WriteFileArgs},
};
