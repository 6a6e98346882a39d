//! Errors instead of a response, or within one.

use loopwright_core::ModelError;
use serde_json::{Map, Value, value::RawValue};

use super::wire::{Choice, Chunk};
use crate::{error::ErrorContext, lenient::Few};

/// Returns the error that a chunk or a body holds, if it holds one.
///
/// It may stand beside choices, within one, under Groq's own field, or be the whole chunk.
pub(crate) fn error_in(
    chunk: &Chunk<'_>,
    text: &[u8],
    context: &ErrorContext,
) -> Option<ModelError> {
    let mut choices = chunk.choices.iter().flat_map(Few::iter).filter(|it| is_first(it));
    let within = choices.find_map(|choice| choice.error);
    let groq = chunk.x_groq.as_ref().and_then(|it| it.error);
    if let Some(error) = [chunk.error, groq, within].into_iter().flatten().find(|it| says(it)) {
        // The fields beside the error may say more, such as xAI's `code`.
        let mut envelope: Map<String, Value> = serde_json::from_slice(text).unwrap_or_default();
        let error = serde_json::from_str(error.get()).unwrap_or(Value::Null);
        envelope.insert("error".to_owned(), error);
        return Some(context.of_envelope(&envelope.into()));
    }
    let named = &*chunk.object == "error" || &*chunk.kind == "error";
    let told = chunk.message.is_some() || chunk.detail.is_some();
    let is_bare = chunk.choices.is_none() && chunk.usage.is_none();
    (is_bare && (named || told)).then(|| context.of_body(text))
}

/// Returns `true` if this is the choice that is read; others were not requested.
pub(crate) fn is_first(choice: &Choice<'_>) -> bool {
    choice.index.unwrap_or(0) == 0
}

/// Returns `true` if an error field is filled; some providers send `""`, `{}` or `false` for none.
fn says(error: &RawValue) -> bool {
    !matches!(error.get(), "\"\"" | "{}" | "false" | "null" | "[]" | "0")
}
