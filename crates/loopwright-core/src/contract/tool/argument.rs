//! Argument types of tools.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// Has a schema, and can be read from JSON. `#[tool]` requires it of each argument, so that the
/// compiler reports a missing implementation in one sentence.
#[diagnostic::on_unimplemented(
    message = "a tool cannot take `{Self}` as an argument",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it, or use a type that implements them, such as `String`, `u32`, `Vec<…>` or `Option<…>`"
)]
pub trait ToolArgument {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> ToolArgument for T {}

/// Names the files that a call writes. `#[tool]` requires it of each argument in its option
/// `writes`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot contain file paths",
    note = "an argument named in `writes` must be a `String`, a `PathBuf`, or an `Option` or a \
        `Vec` of them"
)]
pub trait WritePath {
    /// Adds the paths.
    fn add_to(&self, paths: &mut Vec<String>);
}

impl WritePath for String {
    fn add_to(&self, paths: &mut Vec<String>) {
        paths.push(self.clone());
    }
}

impl WritePath for PathBuf {
    fn add_to(&self, paths: &mut Vec<String>) {
        paths.push(self.to_string_lossy().into_owned());
    }
}

impl<T: WritePath> WritePath for Option<T> {
    fn add_to(&self, paths: &mut Vec<String>) {
        if let Some(path) = self {
            path.add_to(paths);
        }
    }
}

impl<T: WritePath> WritePath for Vec<T> {
    fn add_to(&self, paths: &mut Vec<String>) {
        for path in self {
            path.add_to(paths);
        }
    }
}
