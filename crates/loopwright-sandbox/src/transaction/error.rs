//! What keeps a transaction from being begun, looked at or applied.

use std::io;
use std::path::{Path, PathBuf};

/// What keeps a transaction from being begun, looked at or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Changes can be collected only on the file system of the folder, outside of it.
    #[error(
        "changes to {root} cannot be staged in {staging}; choose a directory outside it on the same file system"
    )]
    Elsewhere {
        /// Where they were to be collected.
        staging: PathBuf,
        /// The folder whose changes were to be collected.
        root: PathBuf,
    },
    /// Another process is at work on this transaction.
    #[error("transaction {0} is in use by another process; try again later")]
    Busy(PathBuf),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A record of a transaction is damaged.
    #[error("record {path} cannot be read: {reason}; remove its directory to discard its changes")]
    Record {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl TransactionError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.into(), source }
    }
}
