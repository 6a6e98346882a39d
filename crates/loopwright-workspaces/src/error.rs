//! Errors of snapshots.

use std::io;
use std::path::{Path, PathBuf};

use crate::blobs::{BlobId, SnapshotId};

/// A snapshot that could not be saved or restored. Earlier snapshots are intact, and so is the target of a restore.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A file or folder cannot be read or written.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file changed again and again while it was read.
    #[error("`{}` changed while it was being read; stop the program that writes to it", path.display())]
    Changing {
        /// Its path in the folder.
        path: PathBuf,
    },
    /// The folder has too many entries.
    #[error(
        "the folder has more than {limit} files; remove generated files, or raise `max_entries`"
    )]
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// The folder is too large.
    #[error("the folder is larger than {limit} bytes; remove large files, or raise `max_bytes`")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A manifest that no save writes.
    #[error("invalid manifest: {reason}; restore another snapshot")]
    InvalidManifest {
        /// The problem.
        reason: String,
    },
    /// The snapshot does not exist.
    #[error("unknown snapshot `{0}`; check the URL of the storage")]
    UnknownSnapshot(SnapshotId),
    /// A blob of a snapshot is missing.
    #[error("the storage lacks blob `{blob}` of file `{}`; restore another snapshot", path.display())]
    MissingBlob {
        /// The blob.
        blob: BlobId,
        /// The path of a file that contains it.
        path: PathBuf,
    },
    /// The content of an object does not match its digest.
    #[error("object `{0}` is damaged; restore another snapshot")]
    Damaged(String),
    /// Another process restores the same folder.
    #[error("another process is restoring `{}`; wait until it has finished", .0.display())]
    Busy(PathBuf),
    /// The URL of the storage cannot be used.
    #[error("cannot use a storage URL with scheme `{scheme}`: {reason}")]
    Url {
        /// The scheme. The rest of the URL may contain a password.
        scheme: String,
        /// The problem.
        reason: String,
    },
    /// The storage is unavailable.
    #[error("the object storage is unavailable")]
    Storage(#[source] object_store::Error),
    /// A background task was cancelled, because the runtime shuts down.
    #[error("the runtime is shutting down")]
    Cancelled,
}

impl SnapshotError {
    /// Adds the path to an I/O error.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::InvalidManifest { reason: reason.into() }
    }
}

/// Runs blocking work on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SnapshotError> + Send + 'static,
) -> Result<T, SnapshotError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(SnapshotError::Cancelled),
        },
    }
}
