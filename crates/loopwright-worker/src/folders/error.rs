//! Errors of working directories that follow their sessions.

use std::{io, path::PathBuf, sync::Arc};

use loopwright_sessions::{SessionId, StoreError};
use loopwright_workspaces::SnapshotError;

/// A working directory that cannot be restored or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The last content exists only on another machine.
    #[error(
        "the last files of session {session} were not saved, and are on machine `{host}`: {reason}; start a worker there while \
         the storage is available"
    )]
    OnAnotherMachine {
        /// The session.
        session: SessionId,
        /// The host name of the machine.
        host: Arc<str>,
        /// Why the files were not saved.
        reason: Arc<str>,
    },
    /// The last content was not saved, and is no longer on this machine.
    #[error(
        "the last files of session {session} were not saved, and `{}` does not exist; put the directory back", path.display()
    )]
    Missing {
        /// The session.
        session: SessionId,
        /// The directory.
        path: PathBuf,
    },
    /// The session ran before its directory was ever saved.
    #[error(
        "session {0} has already run without snapshots, so its files exist only on one machine; start a worker there without \
         `--snapshots`"
    )]
    NeverSaved(SessionId),
    /// The directory of the session is not below the root.
    #[error(
        "the directory of session {0} is not its own directory below the root; choose another root"
    )]
    NotKept(SessionId),
    /// Another worker has saved the directory since.
    #[error("another worker has continued session {0}")]
    Lost(SessionId),
    /// The directory could not be restored or saved.
    #[error("cannot restore or save the working directory of a session")]
    Snapshot(#[from] SnapshotError),
    /// The directory or its marker cannot be accessed.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The store of the session failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry of the snapshot log that this version does not know.
    #[error("session {session} has an unknown entry in its snapshot log; update this program")]
    UnknownRecord {
        /// The session.
        session: SessionId,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl FolderError {
    /// Returns `true` if another attempt, perhaps by another worker, can succeed without a change by the user.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Lost(_) | Self::OnAnotherMachine { .. } => true,
            Self::Snapshot(error) => {
                matches!(error, SnapshotError::Storage(_) | SnapshotError::Busy(_))
            }
            Self::Store(error) => matches!(error, StoreError::Unavailable(_)),
            _ => false,
        }
    }
}
