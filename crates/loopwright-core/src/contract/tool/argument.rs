//! What a model may pass to a tool.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// Has a schema, and is read from JSON. `#[tool]` asks each argument for it, so that the compiler says in one
/// sentence what is missing.
#[diagnostic::on_unimplemented(
    message = "a tool cannot take `{Self}` as an argument",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it, or take one of the types that have them, such as `String`, `u32`, `Vec<…>` and `Option<…>`"
)]
pub trait ToolArgument {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> ToolArgument for T {}
