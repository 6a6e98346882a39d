//! Short previews of values.

use loopwright_broadcast::text::shorten;
use serde_json::Value;

const STRING_CHARS: usize = 50;
const CHARS: usize = 100;

/// Returns the beginning of a value.
pub(super) fn preview(value: &Value) -> String {
    let shown = match value {
        Value::String(text) => Value::String(shorten(text, STRING_CHARS, STRING_CHARS)).to_string(),
        value => value.to_string(),
    };
    shorten(&shown, CHARS, CHARS)
}

/// Returns the kind of a value, with the length of an array.
pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "boolean".to_owned(),
        Value::Number(number) if number.is_f64() => "float".to_owned(),
        Value::Number(_) => "integer".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(items) => format!("array[{}]", items.len()),
        Value::Object(_) => "object".to_owned(),
    }
}
