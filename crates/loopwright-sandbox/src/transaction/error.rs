//! What keeps a transaction from being begun, looked at or applied.

use std::io;
use std::path::{Path, PathBuf};

/// What keeps a transaction from being begun, looked at or applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Changes can be collected only on the file system of the folder, outside of it.
    #[error(
        "changes to {root} cannot be collected in {staging}: choose a folder outside of it on the same file system"
    )]
    Elsewhere {
        /// Where they were to be collected.
        staging: PathBuf,
        /// The folder whose changes were to be collected.
        root: PathBuf,
    },
    /// Another process is at work on this transaction.
    #[error("another process is using transaction {0}; try again when it has finished")]
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
    #[error(
        "the record {path} cannot be read ({reason}): remove its folder to give up its changes"
    )]
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
