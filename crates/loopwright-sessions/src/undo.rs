//! File changes by tools, stored beside a session so that a rewind can undo them.

#[cfg(all(feature = "files", target_os = "linux"))]
mod files;

use std::path::PathBuf;

use loopwright_core::Seq;
use serde::{Deserialize, Serialize};

use crate::{
    id::SessionId,
    store::{SessionLog, SessionStore, StoreError},
    stored::encode,
};

/// The inode of a folder, which it keeps when it is moved in its file system. The number of the file system can be another one after
/// a restart, so that it is not part of it.
type FolderNumber = u64;

/// A note of the log of files: one line of JSON, and what the file held after it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileNote<C> {
    /// A file is about to be changed, when the session has this number of changes, in the folder of this number.
    Changed {
        at: Seq,
        change: C,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<FolderNumber>,
    },
    /// A command is about to change these paths. What they were is kept in a folder of this machine.
    Command {
        at: Seq,
        kept: PathBuf,
        paths: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<FolderNumber>,
    },
    /// What these notes record was undone, when the session had this number of changes.
    Undone { at: Seq, notes: Vec<u64> },
    /// The session is about to go back to this number of changes.
    Rewound { at: Seq },
}

/// Notes that a session goes back. What was done to files after that place is no longer part of its past if it was
/// undone; otherwise it counts as done at that place, so that a later rewind can undo it.
pub(crate) async fn note_rewind(
    store: &dyn SessionStore,
    id: &SessionId,
    at: Seq,
) -> Result<(), StoreError> {
    let note = encode(id, &FileNote::<()>::Rewound { at })?;
    store.append_log(id, SessionLog::Files, &[note.into()], None).await.map(drop)
}

#[cfg(all(feature = "files", target_os = "linux"))]
pub use files::{FileCall, SessionFiles, UnknownChanges};
#[cfg(all(feature = "files", target_os = "linux"))]
pub(crate) use files::{originals, recorded, undo, unknown, unrecorded};
