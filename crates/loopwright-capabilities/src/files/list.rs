//! `list_dir`.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt as _;

use loopwright_core::{BoxError, Reach, SideEffects, Tool, ToolCx, ToolOptions};
use rustix::fs::{AtFlags, Dir, FileType};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::files::FileError;
use crate::files::access::FileUse;
use crate::files::blocking::{blocking, check};
use crate::files::root::WorkspaceRoot;
use crate::files::shown;

/// Lists directories inside a directory.
#[derive(Clone, Debug)]
#[must_use]
pub struct ListDir {
    root: WorkspaceRoot,
    most_entries: usize,
}

/// The arguments of the tool `list_dir`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDirArgs {
    /// The directory, relative to the working directory; the working directory by default.
    #[serde(default)]
    pub path: Option<String>,
    /// Number of entries to skip at the beginning.
    #[serde(default)]
    pub offset: Option<i64>,
}

/// How many names of a directory are read at most, to sort them.
const MAX_READ: usize = 100_000;

/// A name in a directory, and what it is, links not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) kind: FileType,
}

impl ListDir {
    /// Creates the tool for a directory.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        Self { root: root.into(), most_entries: 50 }
    }

    /// Sets the maximum number of shown entries; 50 by default.
    pub fn with_max_entries(mut self, entries: usize) -> Self {
        self.most_entries = entries.max(1);
        self
    }

    /// Lists a directory. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory does not exist.
    pub fn list(&self, args: &ListDirArgs, stop: &CancellationToken) -> Result<String, FileError> {
        let path = args.path.as_deref().filter(|it| !it.is_empty()).unwrap_or(".");
        let folder = self.root.folder(path)?;
        let (mut entries, is_whole) = entries(path, &folder.fd, MAX_READ, stop)?;
        entries.retain(|entry| {
            let path = folder.path.join(&entry.name);
            self.root.denied(FileUse::Read, Some(self.name()), &path).is_none()
        });
        if entries.is_empty() {
            return Ok("(empty directory)".to_owned());
        }
        entries.sort_by_cached_key(|it| {
            (
                it.kind != FileType::Directory,
                it.name.to_string_lossy().to_lowercase(),
                it.name.clone(),
            )
        });
        let offset = usize::try_from(args.offset.unwrap_or(0)).unwrap_or(0);
        let mut lines: Vec<String> =
            entries.iter().skip(offset).take(self.most_entries).map(line).collect();
        if lines.is_empty() {
            let entries = entries.len();
            return Ok(format!(
                "(the directory has {entries} entries, none after offset {offset})"
            ));
        }
        let omitted = entries.len().saturating_sub(offset + lines.len());
        if omitted > 0 {
            let next = offset + lines.len();
            let least = if is_whole { "" } else { "at least " };
            lines.push(format!("[{least}{omitted} more entries; use offset={next} to see them]"));
        }
        Ok(lines.join("\n"))
    }
}

/// Reads the names of a directory, up to a limit. Also returns `true` if these are all.
pub(super) fn entries(
    path: &str,
    folder: impl AsFd,
    most: usize,
    stop: &CancellationToken,
) -> Result<(Vec<Entry>, bool), FileError> {
    let failed = |error| FileError::of(path, error);
    let mut entries = Vec::new();
    for entry in Dir::read_from(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if entries.len() == most {
            return Ok((entries, false));
        }
        check(stop)?;
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
            kind = stat.map_or(kind, |it| FileType::from_raw_mode(it.st_mode));
        }
        entries.push(Entry { name: OsString::from_vec(name.to_bytes().to_vec()), kind });
    }
    Ok((entries, true))
}

fn line(entry: &Entry) -> String {
    let kind = match entry.kind {
        FileType::Directory => "dir",
        FileType::RegularFile => "file",
        FileType::Symlink => "link",
        _ => "other",
    };
    let note = if entry.name.to_str().is_none() {
        " (the name is not UTF-8; to use the file, rename it with a command)"
    } else {
        ""
    };
    format!("[{kind}] {}{note}", shown::name(&entry.name))
}

impl Tool for ListDir {
    type Args = ListDirArgs;
    type Output = String;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "list_dir"
    }

    fn description(&self) -> &'static str {
        "Lists the working directory or a directory in it: directories first, then files, by name."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions {
            side_effects: SideEffects::ReadOnly,
            reach: Reach::Workspace,
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: ListDirArgs, cx: &ToolCx<'_>) -> Result<String, BoxError> {
        let tool = self.clone();
        Ok(blocking(cx.cancel, move |stop| tool.list(&args, stop)).await?)
    }
}

#[cfg(test)]
mod tests;
