//! Arguments that plainly fit their schema: the common case, for which no schema has to be compiled.
//!
//! Compiling a schema checks it against the meta-schema of its draft, which takes milliseconds the first
//! time. Most schemas of tools are a handful of keywords, and most arguments fit them.

use serde_json::{Map, Value};

/// Schemas that are nested deeper are not looked at.
const DEPTH: usize = 16;

/// Tells whether a value certainly fits a schema of common keywords. `false` says nothing: it may fit all
/// the same.
pub(super) fn plainly_fits(schema: &Value, value: &Value) -> bool {
    fits(schema, value, DEPTH)
}

fn fits(schema: &Value, value: &Value, depth: usize) -> bool {
    match schema {
        Value::Bool(any) => *any,
        Value::Object(schema) if depth > 0 => {
            schema.iter().all(|(keyword, rule)| keeps(schema, keyword, rule, value, depth - 1))
        }
        _ => false,
    }
}

fn keeps(
    schema: &Map<String, Value>,
    keyword: &str,
    rule: &Value,
    value: &Value,
    depth: usize,
) -> bool {
    match keyword {
        "title" | "description" | "default" | "examples" | "deprecated" | "$comment" | "$defs" => {
            true
        }
        // Sizes of numbers are only named; texts of a format may be checked.
        "format" => !value.is_string(),
        "type" => match rule {
            Value::String(name) => is_of(name, value),
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).any(|name| is_of(name, value))
            }
            _ => false,
        },
        "enum" => rule.as_array().is_some_and(|values| values.contains(value)),
        "minimum" => at_least(value, rule),
        "maximum" => at_least(rule, value),
        "required" => value.as_object().is_some_and(|object| {
            let names = rule.as_array().into_iter().flatten();
            names.map(Value::as_str).all(|name| name.is_some_and(|name| object.contains_key(name)))
        }),
        "properties" => match (rule, value) {
            (Value::Object(rules), Value::Object(object)) => object
                .iter()
                .all(|(name, value)| rules.get(name).is_none_or(|rule| fits(rule, value, depth))),
            _ => false,
        },
        "additionalProperties" => match (rule, schema.get("properties"), value) {
            (Value::Bool(true), _, _) => true,
            (Value::Bool(false), Some(Value::Object(known)), Value::Object(object)) => {
                object.keys().all(|name| known.contains_key(name))
            }
            _ => false,
        },
        "items" if !schema.contains_key("prefixItems") => {
            value.as_array().is_some_and(|items| items.iter().all(|it| fits(rule, it, depth)))
        }
        _ => false,
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// Compares whole numbers; of others nothing is said.
fn at_least(more: &Value, less: &Value) -> bool {
    let whole = |value: &Value| value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    whole(more).zip(whole(less)).is_some_and(|(more, less)| more >= less)
}

#[cfg(test)]
mod tests;
