//! Errors of transactions.

use std::io;
use std::path::{Path, PathBuf};

/// Errors of transactions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Changes can be staged only on the same file system as the folder, and outside it.
    #[error(
        "changes to {root} cannot be staged in {staging}; choose a directory outside {root} on the same file system and mount"
    )]
    Elsewhere {
        /// The staging folder.
        staging: PathBuf,
        /// The folder whose changes should be staged.
        root: PathBuf,
    },
    /// The folder belongs to another user and cannot be written to, so nothing could be applied.
    #[error("{root} belongs to another user, and you cannot write to it")]
    NotChangeable {
        /// The folder whose changes should be staged.
        root: PathBuf,
    },
    /// Another process is using this transaction.
    #[error("transaction {0} is in use by another process; try again later")]
    Busy(PathBuf),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A record of a transaction is damaged.
    #[error(
        "record {path} cannot be read: {reason}; remove its directory to discard the recorded changes"
    )]
    Record {
        /// The record.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

impl TransactionError {
    pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.into(), source }
    }
}
