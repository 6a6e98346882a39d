//! Errors instead of a response, or within one.

use loopwright_core::ModelError;
use serde_json::{Value, json, value::RawValue};

use super::wire::Event;
use crate::error::ErrorContext;

/// Returns the error that an event is, if it is one.
///
/// `OpenAI`'s has its fields in the event itself; others, and gateways in front of them, put an
/// envelope in it, with or without a type.
pub(super) fn error_in(
    event: &Event<'_>,
    kind: &str,
    data: &[u8],
    context: &ErrorContext,
) -> Option<ModelError> {
    let is_named = matches!(kind, "error" | "response.error");
    match event.error.filter(|error| says(error)) {
        Some(error) if is_named || !kind.starts_with("response.") => Some(of_error(error, context)),
        None if is_named => Some(context.of_body(data)),
        _ => None,
    }
}

/// Makes an error of what stands under `error`.
pub(super) fn of_error(error: &RawValue, context: &ErrorContext) -> ModelError {
    let error: Value = serde_json::from_str(error.get()).unwrap_or(Value::Null);
    context.of_envelope(&json!({ "error": error }))
}

/// Returns `true` if an error field is filled.
pub(super) fn says(error: &RawValue) -> bool {
    !matches!(error.get(), "\"\"" | "{}" | "false" | "null" | "[]" | "0")
}
