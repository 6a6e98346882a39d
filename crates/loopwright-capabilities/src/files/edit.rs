//! `edit_file`.

use loopwright_core::{BoxError, Reach, Tool, ToolCx, ToolOptions, ToolOutput, Writes};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::files::FileError;
use crate::files::blocking::blocking;
use crate::files::replacement::{self, Edit, Occurrences};
use crate::files::root::WorkspaceRoot;
use crate::files::stage;
use crate::files::write::{severed, told};

/// Replaces exact strings in files of a directory.
#[derive(Clone, Debug)]
#[must_use]
pub struct EditFile {
    root: WorkspaceRoot,
}

/// The arguments of the tool `edit_file`: one edit, or several that are made together.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFileArgs {
    /// The file, relative to the working directory.
    pub path: String,
    /// The text to replace, exactly as in the file, including line ends and indentation.
    #[serde(default)]
    pub old_string: Option<String>,
    /// The replacement text.
    #[serde(default)]
    pub new_string: Option<String>,
    /// Replaces every occurrence; otherwise the text must occur exactly once.
    #[serde(default)]
    pub replace_all: Option<bool>,
    /// Several edits, made one after the other: either all of them are made or none.
    #[serde(default)]
    pub edits: Option<Vec<EditArgs>>,
}

/// One of several edits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditArgs {
    /// The text to replace, exactly as it is in the file.
    pub old_string: String,
    /// The replacement text.
    pub new_string: String,
    /// Replaces every occurrence; otherwise the text must occur exactly once.
    #[serde(default)]
    pub replace_all: Option<bool>,
}

const DESCRIPTION: &str = "Replaces text in a file in the working directory. `old_string` must occur \
    exactly once and is replaced by `new_string`; with `replace_all`, every occurrence is \
    replaced. Pass `edits` to make several changes in one call: either all of them are made or none.";

impl EditFile {
    /// Creates the tool for a directory.
    pub fn in_dir(root: impl Into<WorkspaceRoot>) -> Self {
        Self { root: root.into() }
    }

    /// Edits a file. Blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if an edit does not match the content, or the file cannot be written;
    /// nothing is changed then.
    pub fn edit(&self, args: &EditFileArgs) -> Result<ToolOutput, FileError> {
        let path = args.path.as_str();
        let refuse = |reason: String| FileError::Edit { path: path.to_owned(), reason };
        let edits = edits(args).map_err(|reason| refuse(reason.to_owned()))?;
        let _turn = self.root.write_lock();
        let current = stage::look(&self.root, path)?;
        let Some(content) = &current.content else {
            return Err(FileError::Missing(path.to_owned()));
        };
        let (new, count) = replacement::apply(content, &edits).map_err(refuse)?;
        if new.len() as u64 > stage::MAX_BYTES {
            return Err(refuse("the file would become larger than 64 MiB".to_owned()));
        }
        let change = current.replace(&new)?;
        let times = if count == 1 { "occurrence" } else { "occurrences" };
        let text = format!(
            "Replaced {count} {times} in {path} ({} bytes before, {} after; written atomically).{}",
            content.len(),
            new.len(),
            severed(current.links())
        );
        Ok(told(&text, &change))
    }
}

fn edits(args: &EditFileArgs) -> Result<Vec<Edit<'_>>, &'static str> {
    const EITHER: &str = "pass either old_string and new_string, or edits";
    match (&args.old_string, &args.new_string, args.edits.as_deref().unwrap_or_default()) {
        (Some(old), Some(new), []) => Ok(vec![edit(old, new, args.replace_all)]),
        (None, None, edits @ [_, ..]) => Ok(edits
            .iter()
            .map(|it| edit(&it.old_string, &it.new_string, it.replace_all.or(args.replace_all)))
            .collect()),
        _ => Err(EITHER),
    }
}

fn edit<'a>(old: &'a str, new: &'a str, replace_all: Option<bool>) -> Edit<'a> {
    let all = replace_all.unwrap_or_default();
    Edit { old, new, occurrences: if all { Occurrences::All } else { Occurrences::One } }
}

impl Tool for EditFile {
    type Args = EditFileArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        "edit_file"
    }

    fn description(&self) -> &'static str {
        DESCRIPTION
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { reach: Reach::Workspace, ..ToolOptions::default() }
    }

    fn writes(&self, args: &EditFileArgs) -> Writes {
        Writes::path(&args.path)
    }

    async fn call(&self, args: EditFileArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        let tool = self.clone();
        Ok(blocking(cx.cancel, move |_| tool.edit(&args)).await?)
    }
}

#[cfg(test)]
mod tests;
