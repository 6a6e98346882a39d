//! Return types of tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BoxError, outcome::ToolOutput};

/// Converts into a tool's output.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "return text, a number or a `ToolOutput`, or wrap a serializable value in `Json`"
)]
pub trait IntoToolOutput {
    /// Performs the conversion.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be written as JSON.
    fn into_tool_output(self) -> Result<ToolOutput, BoxError>;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, BoxError> {
        Ok(self)
    }
}

/// Any serializable value as a tool's output. The model sees JSON.
///
/// ```
/// use loopwright_core::{IntoToolOutput as _, Json};
///
/// #[derive(serde::Serialize)]
/// struct Weather {
///     degrees: i8,
/// }
///
/// let output = Json(Weather { degrees: 21 }).into_tool_output()?;
/// assert_eq!(output.to_text(), r#"{"degrees":21}"#);
/// # Ok::<(), loopwright_core::BoxError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolOutput for Json<T> {
    fn into_tool_output(self) -> Result<ToolOutput, BoxError> {
        Ok(ToolOutput::json(serde_json::to_value(self.0)?))
    }
}

macro_rules! text_output {
    ($($type:ty),*) => {$(
        impl IntoToolOutput for $type {
            fn into_tool_output(self) -> Result<ToolOutput, BoxError> {
                Ok(ToolOutput::text(self))
            }
        }
    )*};
}

macro_rules! json_output {
    ($($type:ty),*) => {$(
        impl IntoToolOutput for $type {
            fn into_tool_output(self) -> Result<ToolOutput, BoxError> {
                Ok(ToolOutput::json(Value::from(self)))
            }
        }
    )*};
}

text_output!(String, &'static str);
json_output!(bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64, Value);

impl IntoToolOutput for () {
    fn into_tool_output(self) -> Result<ToolOutput, BoxError> {
        Ok(ToolOutput::text("done"))
    }
}

impl<T: IntoToolOutput> IntoToolOutput for Option<T> {
    fn into_tool_output(self) -> Result<ToolOutput, BoxError> {
        self.map_or_else(|| Ok(ToolOutput::json(Value::Null)), T::into_tool_output)
    }
}

/// The arguments of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct NoArgs {}
