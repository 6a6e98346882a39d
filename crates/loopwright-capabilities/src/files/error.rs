//! Why a file tool does not do what it was asked.

use std::io;

use rustix::io::Errno;

use crate::files::shown::Size;

/// Why a file tool does not do what it was asked. The model is told, so each says what to do instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The directory that tools work in is not there.
    #[error("the working directory `{path}` cannot be opened")]
    NoRoot {
        /// As it was configured.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The path leads out of the working directory, by itself or by a link. Not even the existence
    /// of what lies outside is told.
    #[error("`{0}` is outside the working directory; use a path inside it")]
    Outside(String),
    /// The path cannot name anything.
    #[error("`{0}` is not a path: it is empty or contains a NUL character")]
    NotAPath(String),
    /// There is no such file.
    #[error("`{0}` does not exist; look for it with `list_dir` or `search_files`")]
    Missing(String),
    /// The directory that a file should be written to does not exist.
    #[error(
        "`{0}` was not written because its directory does not exist; check the path, or pass \
         `create_dirs: true` to create it"
    )]
    NoParent(String),
    /// Something else than a file is there.
    #[error("`{path}` is {kind}, not a regular file; {remedy}")]
    NotAFile {
        /// As the model wrote it.
        path: String,
        /// What it is.
        kind: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// Something else than a directory is there.
    #[error("`{0}` is not a directory; name a directory, or read it with `read_file`")]
    NotADirectory(String),
    /// Links lead in a circle.
    #[error("`{0}` has too many symbolic links; use the path of the file itself")]
    LinkLoop(String),
    /// The path is under protection.
    #[error(
        "`{0}` was not changed: it is protected because other programs act on its content; \
         ask the user to change it"
    )]
    Protected(String),
    /// A permission rule denies it.
    #[error("`{path}` is not permitted ({reason}); continue without it")]
    NotPermitted {
        /// As the model wrote it.
        path: String,
        /// The rule.
        reason: String,
    },
    /// It is not text.
    #[error("`{path}` is {kind}, not text; {remedy}")]
    Binary {
        /// As the model wrote it.
        path: String,
        /// What it seems to be.
        kind: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// It is larger than the tool allows.
    #[error("`{path}` has {bytes}, more than the limit of {limit}; {remedy}")]
    TooLarge {
        /// As the model wrote it.
        path: String,
        /// Its size.
        bytes: Size,
        /// The size that is allowed.
        limit: Size,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The file ends before the place that was asked for.
    #[error("`{path}` has {lines} lines, none after offset {offset}; pass a smaller `offset`")]
    PastTheEnd {
        /// As the model wrote it.
        path: String,
        /// The file's lines.
        lines: u64,
        /// The lines that were to be skipped.
        offset: u64,
    },
    /// A continuation was not copied as it was given.
    #[error("`{0}` is not a continuation token; copy the token exactly, or use `offset`")]
    NoContinuation(String),
    /// A file of that name exists and says something else.
    #[error(
        "`{0}` was not changed: it exists with different content; use `edit_file` to change \
         parts of it, or pass `overwrite: true` to replace it"
    )]
    Exists(String),
    /// Another process changes the file at the same time.
    #[error("`{0}` was not changed: another program changed it meanwhile; read it again")]
    Changed(String),
    /// An edit does not fit the file.
    #[error("`{path}` was not changed: {reason}")]
    Edit {
        /// As the model wrote it.
        path: String,
        /// What does not fit, and what to do.
        reason: String,
    },
    /// The file belongs to somebody, and would not any more.
    #[error(
        "`{0}` was not changed: it belongs to another user or group, and rewriting it would \
         change its owner; ask the user"
    )]
    Owner(String),
    /// There is no space left.
    #[error("`{path}` was not changed: the disk is full; free space, or write less")]
    NoSpace {
        /// As the model wrote it.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// It must not be done.
    #[error("access to `{path}` is denied; choose another path, or ask the user for permission")]
    Denied {
        /// As the model wrote it.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The change could not be put on record, and so was not made.
    #[error("`{path}` was not changed: the change could not be recorded")]
    Unrecorded {
        /// As the model wrote it.
        path: String,
        /// What the journal says.
        source: loopwright_core::BoxError,
    },
    /// A pattern cannot be understood.
    #[error("invalid pattern `{pattern}`: {reason}")]
    Pattern {
        /// As the model wrote it.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nothing to look for.
    #[error("no search pattern; pass `pattern`")]
    NoPattern,
    /// No caller waits for the answer any more.
    #[error("the call was cancelled")]
    Cancelled,
    /// The operating system refuses for another reason.
    #[error("`{path}` cannot be used")]
    Io {
        /// As the model wrote it.
        path: String,
        /// What the operating system says.
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
