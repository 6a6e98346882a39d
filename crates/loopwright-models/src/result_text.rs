//! Tool results on wires without a mark for failures.

use std::borrow::Cow;

use loopwright_core::messages::{Media, ToolResult};

/// What stands for a failure that says nothing.
const FAILED: &str = "The call failed.";

/// Returns the text of a result. A failure without text gets a default text, because empty text
/// means success.
pub(crate) fn result_text(result: &ToolResult) -> Cow<'static, str> {
    let text = result.to_text();
    if result.is_error && text.trim().is_empty() { FAILED.into() } else { text.into() }
}

/// What stands in the place of a recording on wires that send files but no recordings.
pub(crate) const NO_AUDIO: &str = "[audio: omitted, because this provider does not accept it]";

/// Returns `true` for a recording.
pub(crate) fn is_audio(media: &Media) -> bool {
    media.mime.starts_with("audio/")
}
