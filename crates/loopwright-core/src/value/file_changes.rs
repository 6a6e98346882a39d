//! Files that tools write: those that a call can write, and those that it changed.

use serde::{Deserialize, Serialize};

/// The files that a call can write, known before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Writes {
    /// The call writes no file.
    Nothing,
    /// The call writes only these files, named as the model named them.
    Paths(Vec<String>),
    /// The call can write any file.
    Unknown,
}

impl Writes {
    /// Declares one file.
    pub fn path(path: impl Into<String>) -> Self {
        Self::Paths(vec![path.into()])
    }

    /// Declares files; [`Nothing`](Writes::Nothing) if there are none.
    pub fn paths(paths: Vec<String>) -> Self {
        if paths.is_empty() { Self::Nothing } else { Self::Paths(paths) }
    }
}

/// The files that a call changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FilesChanged {
    /// The tool reports no change.
    #[default]
    None,
    /// The call changed these files and no others.
    Known(Vec<ChangedFile>),
    /// The call may have changed any file.
    Unknown,
}

/// A file that a call changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// The path below the working directory.
    pub path: String,
    /// The kind of change.
    pub kind: FileChangeKind,
}

/// The kind of a file change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileChangeKind {
    /// The file did not exist before.
    Created,
    /// The file has another content or other permissions.
    Modified,
    /// The file no longer exists.
    Deleted,
    /// The file had another path before.
    Moved {
        /// The path before.
        from: String,
    },
}

impl FilesChanged {
    /// Returns `true` if the tool reports no change.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Returns the files that are known to have changed.
    pub fn known(&self) -> &[ChangedFile] {
        match self {
            Self::Known(files) => files,
            Self::None | Self::Unknown => &[],
        }
    }
}

impl From<ChangedFile> for FilesChanged {
    fn from(file: ChangedFile) -> Self {
        Self::Known(vec![file])
    }
}

impl FromIterator<ChangedFile> for FilesChanged {
    /// Collects files; without any, the tool reports no change.
    fn from_iter<I: IntoIterator<Item = ChangedFile>>(files: I) -> Self {
        let files: Vec<ChangedFile> = files.into_iter().collect();
        if files.is_empty() { Self::None } else { Self::Known(files) }
    }
}

impl ChangedFile {
    /// Names a file that did not exist before.
    pub fn created(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: FileChangeKind::Created }
    }

    /// Names a file that has another content.
    pub fn modified(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: FileChangeKind::Modified }
    }

    /// Names a file that no longer exists.
    pub fn deleted(path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: FileChangeKind::Deleted }
    }

    /// Names a file that had another path before.
    pub fn moved(from: impl Into<String>, path: impl Into<String>) -> Self {
        Self { path: path.into(), kind: FileChangeKind::Moved { from: from.into() } }
    }
}
