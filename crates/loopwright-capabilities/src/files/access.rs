//! Rules about which files tools may use.

use std::path::Path;

/// How a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// It is read, listed or found.
    Read,
    /// It is written.
    Write,
}

/// Rules about which files of a root tools may use. Asked for each file that a tool comes by, with its path without
/// links, so that neither a link nor a search leads to a file that is denied.
pub trait FileAccess: Send + Sync {
    /// Returns why a file is denied, or `None` if it is not. `path` starts with the root as it was given, and `tool` is
    /// the name of the tool that searches or lists.
    fn denied(&self, access: FileUse, tool: Option<&str>, path: &Path) -> Option<String>;
}
