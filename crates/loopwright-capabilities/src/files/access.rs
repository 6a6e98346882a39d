//! Rules for the files that tools can use.

use std::path::Path;

/// The kind of access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// The file is read, listed or found.
    Read,
    /// The file is written.
    Write,
}

/// Rules for the files of a root that tools can use. Called for each file that a tool accesses,
/// with its path without links, and for each link on the way to it, so that neither a link nor a
/// search leads to a denied file.
pub trait FileAccess: Send + Sync {
    /// Returns the reason why a file is denied, or `None` if it is allowed. `path` starts with the
    /// root as it was given, and `tool` is the name of the tool that searches or lists.
    fn denied(&self, access: FileUse, tool: Option<&str>, path: &Path) -> Option<String>;
}
