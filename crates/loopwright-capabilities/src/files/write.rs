//! `write_file`.

use loopwright_core::{
    BoxError, Reach, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput, Writes,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::files::FileError;
use crate::files::blocking::blocking;
use crate::files::change::FileChange;
use crate::files::resolve::Parents;
use crate::files::root::WorkspaceRoot;
use crate::files::shown::Size;
use crate::files::stage;

/// Creates files in a directory, and replaces them on request.
#[derive(Clone, Debug)]
#[must_use]
pub struct WriteFile {
    root: WorkspaceRoot,
    most_bytes: usize,
}

/// The arguments of the tool `write_file`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileArgs {
    /// The file, relative to the working directory.
    pub path: String,
    /// The complete content of the file.
    pub content: String,
    /// Replaces an existing file that has other content; otherwise such a file is not changed.
    #[serde(default)]
    pub overwrite: Option<bool>,
    /// Creates missing parent directories.
    #[serde(default)]
    pub create_dirs: Option<bool>,
}

const DESCRIPTION: &str = "Creates a file in the working directory. An existing file is not \
    changed unless `overwrite` is true; to change parts of it, use `edit_file`. Either all of \
    the content is written or none of it.";

impl WriteFile {
    /// Creates the tool for a directory.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        Self { root: root.into(), most_bytes: 16 << 20 }
    }

    /// Sets the maximum size of a written file in bytes; 16 MiB by default.
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes;
        self
    }

    /// Writes a file. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file exists with other content, its directory does not exist, or it
    /// cannot be written; nothing is changed then.
    pub fn write(&self, args: &WriteFileArgs) -> Result<ToolOutput, FileError> {
        let (path, bytes) = (args.path.as_str(), args.content.as_bytes());
        if bytes.len() > self.most_bytes {
            return Err(FileError::TooLarge {
                path: path.to_owned(),
                bytes: Size(bytes.len() as u64),
                limit: Size(self.most_bytes as u64),
                remedy: "write less, or split the content into several files",
            });
        }
        let may_create = args.create_dirs.unwrap_or_default();
        let parents = if may_create { Parents::Create } else { Parents::Expect };
        let _turn = self.root.write_lock();
        let current = stage::look_in(&self.root, path, parents).map_err(|error| match error {
            FileError::Missing(path) if !may_create => FileError::NoParent(path),
            error => error,
        })?;
        match &current.content {
            Some(old) if old == bytes => {
                Ok(ToolOutput::text(format!("No change: {path} already has exactly this content.")))
            }
            Some(_) if !args.overwrite.unwrap_or_default() => {
                Err(FileError::Exists(path.to_owned()))
            }
            _ => {
                let change = current.replace(bytes)?;
                Ok(told(&answer(args, current.links()), &change))
            }
        }
    }
}

fn answer(args: &WriteFileArgs, links: u64) -> String {
    let bytes = args.content.len();
    let line_count = args.content.matches('\n').count() + 1;
    let path = &args.path;
    format!(
        "Successfully wrote {path} ({bytes} bytes, {line_count} lines, streamed atomically).{}",
        severed(links)
    )
}

/// Says what becomes of the other names of a file that is replaced.
pub(super) fn severed(links: u64) -> String {
    match links.saturating_sub(1) {
        0 => String::new(),
        others => {
            format!(" The file had {others} other hard link(s), which keep the previous content.")
        }
    }
}

/// Tells the model what was done, and programs what was changed.
pub(super) fn told(text: &str, change: &FileChange) -> ToolOutput {
    let value = serde_json::to_value(change).ok().map(Into::into);
    ToolOutput { value, ..ToolOutput::text(text) }.with_changed_files(change.changed_file())
}

impl Tool for WriteFile {
    type Args = WriteFileArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "write_file"
    }

    fn description(&self) -> &'static str {
        DESCRIPTION
    }

    fn options(&self) -> ToolOptions {
        // What was written already is written again without a change.
        ToolOptions {
            side_effects: SideEffects::Idempotent,
            reach: Reach::Workspace,
            ..ToolOptions::default()
        }
    }

    fn writes(&self, args: &WriteFileArgs) -> Writes {
        Writes::path(&args.path)
    }

    async fn call(&self, args: WriteFileArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let tool = self.clone();
        Ok(blocking(cx.cancel, move |_| tool.write(&args)).await?)
    }
}

#[cfg(test)]
mod tests;
