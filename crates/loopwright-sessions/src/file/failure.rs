//! Why a file could not be read or written, and what helps.

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
            ("the disk is full", "free some space and go on")
        }
        ErrorKind::FileTooLarge => {
            ("the file may not grow any more", "raise the limit on the size of files and go on")
        }
        ErrorKind::PermissionDenied => {
            ("this is not allowed", "let this user read and write the store's directory")
        }
        ErrorKind::ReadOnlyFilesystem => {
            ("the disk is read-only", "mount it for writing, or choose another directory")
        }
        ErrorKind::NotFound => {
            ("it is gone", "put the store's directory back, or choose another one")
        }
        ErrorKind::NotADirectory => {
            ("something on the way is no directory", "move it away, or choose another directory")
        }
        ErrorKind::TimedOut => {
            ("another process does not let go of it", "end the process that has it locked")
        }
        _ => return (cause.to_string(), "repeat it once that is put right"),
    };
    (problem.to_owned(), remedy)
}

#[cfg(test)]
mod tests;
