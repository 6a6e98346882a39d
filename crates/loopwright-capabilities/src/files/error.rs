//! Errors of file tools.

use std::io;

use rustix::io::Errno;

use crate::files::media::MediaError;
use crate::files::shown::Size;

/// An error of a file tool. The model reads it, so each message names a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The working directory does not exist.
    #[error("the working directory `{path}` cannot be opened")]
    NoRoot {
        /// The directory as configured.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path leads outside the working directory, directly or through a link. The error does not
    /// even reveal whether the target exists.
    #[error("`{0}` is outside the working directory; use a path inside it")]
    Outside(String),
    /// The path is invalid.
    #[error("`{0}` is not a path: it is empty or contains a NUL character")]
    NotAPath(String),
    /// The file does not exist.
    #[error("`{0}` does not exist; look for it with `list_dir` or `search_files`")]
    Missing(String),
    /// The directory of the new file does not exist.
    #[error(
        "`{0}` was not written because its directory does not exist; check the path, or pass `create_dirs: true` to create it"
    )]
    NoParent(String),
    /// The entry is not a file.
    #[error("`{path}` is {kind}, not a regular file; {remedy}")]
    NotAFile {
        /// The path as the model wrote it.
        path: String,
        /// The kind of the entry.
        kind: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The entry is not a directory.
    #[error("`{0}` is not a directory; pass a directory, or read the file with `read_file`")]
    NotADirectory(String),
    /// The links form a cycle.
    #[error("`{0}` has too many symbolic links; use the path of the file itself")]
    LinkLoop(String),
    /// The path is protected.
    #[error(
        "`{0}` was not changed: it is protected because other programs act on its content; ask the user to change it"
    )]
    Protected(String),
    /// A permission rule denies access.
    #[error("`{path}` is not permitted ({reason}); continue without it")]
    NotPermitted {
        /// The path as the model wrote it.
        path: String,
        /// The rule.
        reason: String,
    },
    /// The directory is read-only.
    #[error("`{path}` was not changed: {reason}")]
    ReadOnly {
        /// The path as the model wrote it.
        path: String,
        /// Why, and the remedy.
        reason: String,
    },
    /// The file is not text.
    #[error("`{path}` is {kind}, not text; {remedy}")]
    Binary {
        /// The path as the model wrote it.
        path: String,
        /// The probable kind of content.
        kind: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The file is an image that cannot be shown.
    #[error("`{path}` cannot be shown as an image: {reason}")]
    Picture {
        /// The path as the model wrote it.
        path: String,
        /// The reason.
        reason: MediaError,
    },
    /// The file is larger than the tool allows.
    #[error("`{path}` is {bytes}, more than the limit of {limit}; {remedy}")]
    TooLarge {
        /// The path as the model wrote it.
        path: String,
        /// The size.
        bytes: Size,
        /// The maximum size.
        limit: Size,
        /// The remedy.
        remedy: &'static str,
    },
    /// The file ends before the requested offset.
    #[error("`{path}` has {lines} lines, none after offset {offset}; pass a smaller `offset`")]
    PastTheEnd {
        /// The path as the model wrote it.
        path: String,
        /// The number of lines of the file.
        lines: u64,
        /// The number of lines to skip.
        offset: u64,
    },
    /// The continuation token is invalid.
    #[error("`{0}` is not a continuation token; copy the token exactly, or use `offset`")]
    NoContinuation(String),
    /// The file exists with other content.
    #[error(
        "`{0}` was not changed: it exists with different content; use `edit_file` to change parts of it, or pass `overwrite: true` to replace it"
    )]
    Exists(String),
    /// Another process changed the file at the same time.
    #[error("`{0}` was not changed: another program changed it in the meantime; read it again")]
    Changed(String),
    /// The arguments do not fit the file, such as an edit that does not match.
    #[error("`{path}` was not changed: {reason}")]
    Edit {
        /// The path as the model wrote it.
        path: String,
        /// The problem, and the remedy.
        reason: String,
    },
    /// The file belongs to another user or group, and the change would alter its owner.
    #[error(
        "`{0}` was not changed: it belongs to another user or group, and rewriting it would change its owner; ask the user"
    )]
    Owner(String),
    /// The disk is full.
    #[error("`{path}` was not changed: the disk is full; free space, or write less")]
    NoSpace {
        /// The path as the model wrote it.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Access is denied.
    #[error("access to `{path}` is denied; choose another path, or ask the user for permission")]
    Denied {
        /// The path as the model wrote it.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The change could not be recorded, so it was not made.
    #[error("`{path}` was not changed: the change could not be recorded")]
    Unrecorded {
        /// The path as the model wrote it.
        path: String,
        /// The error of the journal.
        source: loopwright_core::BoxError,
    },
    /// A pattern is invalid.
    #[error("invalid pattern `{pattern}`: {reason}")]
    Pattern {
        /// The path as the model wrote it.
        pattern: String,
        /// The problem.
        reason: String,
    },
    /// The pattern is missing.
    #[error("no search pattern; pass `pattern`")]
    NoPattern,
    /// The call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// Another error of the operating system.
    #[error("`{path}` cannot be used")]
    Io {
        /// The path as the model wrote it.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl FileError {
    /// Says what the operating system's refusal means.
    pub(super) fn of(path: &str, error: impl Into<io::Error>) -> Self {
        let source = error.into();
        let path = path.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT) => Self::Missing(path),
            Some(Errno::NOTDIR) => Self::NotADirectory(path),
            Some(Errno::LOOP) => Self::LinkLoop(path),
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Self::NoSpace { path, source },
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Self::Denied { path, source },
            _ => Self::Io { path, source },
        }
    }
}

#[cfg(test)]
mod tests;
