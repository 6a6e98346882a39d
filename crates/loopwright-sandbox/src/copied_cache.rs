//! Caches of the user that commands see as copies-on-write.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A cache of the user that commands see as a copy-on-write: they read the user's files, and their
/// changes go to a layer that is kept for the next command. The user's files stay as they are, and
/// no program outside the sandbox reads the layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedCache {
    /// The user's cache, which commands see at the same path. If it does not exist, commands see an
    /// empty folder.
    pub folder: PathBuf,
    /// The folder with the changes of commands, which is created if it does not exist. It is used
    /// for this cache alone, and commands do not see it.
    pub layer: PathBuf,
    /// The variable that names the cache, if its program needs one.
    pub variable: Option<String>,
    /// A file beside the cache by which its programs wait for each other. Commands share a file of
    /// their own at this path.
    pub lock: Option<PathBuf>,
}

impl CopiedCache {
    /// Creates a copy-on-write of a cache, whose changes are kept in a layer.
    pub fn new(folder: impl Into<PathBuf>, layer: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), layer: layer.into(), variable: None, lock: None }
    }
}
