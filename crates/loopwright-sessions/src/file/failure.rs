//! The reason why a file could not be read or written, with a remedy.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::store::StoreError;

/// A file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {problem}; {remedy}", path.display())]
pub(super) struct FileFailure {
    path: PathBuf,
    problem: String,
    remedy: &'static str,
    #[source]
    cause: io::Error,
}

/// Says of which file an error speaks.
pub(super) trait At<T> {
    /// Makes it an error of the store.
    fn at(self, path: &Path) -> Result<T, StoreError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, StoreError> {
        self.map_err(|cause| {
            let (problem, remedy) = told(&cause);
            let path = path.to_owned();
            StoreError::Unavailable(FileFailure { path, problem, remedy, cause }.into())
        })
    }
}

/// Returns `true` if something failed because the disk, or the directory, cannot be written.
pub(super) fn is_read_only(error: &StoreError) -> bool {
    let StoreError::Unavailable(error) = error else { return false };
    let kind = error.downcast_ref::<FileFailure>().map(|it| it.cause.kind());
    matches!(kind, Some(ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied))
}

fn told(cause: &io::Error) -> (String, &'static str) {
    let (problem, remedy) = match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ("the disk is full", "free some space and try again")
        }
        ErrorKind::FileTooLarge => {
            ("the file size limit has been reached", "raise the file size limit and try again")
        }
        ErrorKind::PermissionDenied => {
            ("permission denied", "let this user read and write the store's directory")
        }
        ErrorKind::ReadOnlyFilesystem => {
            ("the disk is read-only", "mount the disk for writing, or choose another directory")
        }
        ErrorKind::NotFound => (
            "the file or directory does not exist",
            "restore the store's directory, or choose another one",
        ),
        ErrorKind::NotADirectory => (
            "part of the path is not a directory",
            "move that file elsewhere, or choose another \
                directory",
        ),
        ErrorKind::TimedOut => ("another process holds the lock", "stop that process"),
        _ => return (cause.to_string(), "correct the cause and try again"),
    };
    (problem.to_owned(), remedy)
}

#[cfg(test)]
mod tests;
