//! Tool arguments on wires that accept only objects.

use loopwright_core::messages::ToolCall;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::json::value;

/// Writes the arguments of a call as an object, on wires on which a call that went wrong is told as it
/// was: what is no object is a field of one.
pub(crate) fn write_object(out: &mut Vec<u8>, call: &ToolCall) {
    match call.parse_arguments() {
        Ok(Value::Object(fields)) if fields.is_empty() => out.extend_from_slice(b"{}"),
        Ok(Value::Object(_)) => out.extend_from_slice(call.arguments.as_bytes()),
        _ => value(out, &json!({ "arguments": call.arguments })),
    }
}

/// The arguments of a call, as an object.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum ToolInput<'a> {
    /// As the model wrote it.
    Raw(&'a RawValue),
    /// Nothing, or arguments that are no object, wrapped in one.
    Value(Value),
}

impl<'a> ToolInput<'a> {
    pub(crate) fn of(arguments: &'a str) -> Self {
        let arguments = arguments.trim();
        match serde_json::from_str::<&RawValue>(arguments) {
            Ok(raw) if raw.get().starts_with('{') => Self::Raw(raw),
            _ if matches!(arguments, "" | "null") => Self::Value(json!({})),
            _ => Self::Value(json!({ "invalid_arguments": arguments })),
        }
    }
}
