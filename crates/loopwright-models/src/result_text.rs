//! What a tool said, on wires that have no mark for failures.

use std::borrow::Cow;

use loopwright_core::messages::ToolResult;

/// What stands for a failure that says nothing.
const FAILED: &str = "The call failed.";

/// Returns the words of a result. A failure without words is told in ours: an empty text means success.
pub(crate) fn result_text(result: &ToolResult) -> Cow<'static, str> {
    let text = result.to_text();
    if result.is_error && text.trim().is_empty() { FAILED.into() } else { text.into() }
}
