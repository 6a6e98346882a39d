//! What a tool is given, on wires that take objects only.

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

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
