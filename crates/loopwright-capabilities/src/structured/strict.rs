//! Schemas that providers enforce, and the data that models write with them.
//!
//! Strict modes require that every object is closed and every property required. An optional
//! property becomes one that may be `null`, and [`without_nulls`] reads such a `null` as missing
//! again. Keywords that a strict mode refuses move into descriptions, and the loop validates them
//! itself.

use serde_json::{Map, Value, json};

/// Keywords that some strict mode refuses. Their meaning moves into the description.
const TOLD: [&str; 14] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "format",
    "default",
    "examples",
];

/// Formats that all strict modes take.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Formats of numbers, which say no more than bounds do.
const NUMBERS: [&str; 2] = ["float", "double"];

/// Keywords that no strict mode has a form for.
const REFUSED: [&str; 11] = [
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "prefixItems",
];

/// Returns the strict form of a schema, or `None` if it has none, as for maps and values of any
/// kind.
pub(super) fn strict(schema: &Value) -> Option<Value> {
    let map = schema.as_object()?;
    if REFUSED.iter().any(|key| map.contains_key(*key)) {
        return None;
    }
    if let Some(reference) = map.get("$ref") {
        // Nothing may stand beside a reference but what it leads to.
        let mut strict = Map::from_iter([("$ref".to_owned(), reference.clone())]);
        strict.extend(definitions(map)?);
        return Some(Value::Object(strict));
    }
    let mut strict = Map::new();
    let mut told = Vec::new();
    for (key, value) in map {
        match key.as_str() {
            "properties" | "required" | "additionalProperties" | "$defs" | "definitions" => {}
            "anyOf" | "oneOf" => {
                let choices: Option<Vec<Value>> =
                    value.as_array()?.iter().map(self::strict).collect();
                strict.insert("anyOf".to_owned(), choices?.into());
            }
            "items" => {
                strict.insert(key.clone(), self::strict(value)?);
            }
            "format" if is_one_of(value, &FORMATS) => {
                strict.insert(key.clone(), value.clone());
            }
            "format" if is_one_of(value, &NUMBERS) || is_integer_format(value) => {}
            key if TOLD.contains(&key) => told.push(format!("{key}: {value}")),
            _ => {
                strict.insert(key.clone(), value.clone());
            }
        }
    }
    told.sort();
    describe(&mut strict, &told);
    if is_object(map) {
        close(map, &mut strict)?;
    }
    let is_plain = ["type", "enum", "const", "anyOf"].iter().any(|key| strict.contains_key(*key));
    strict.extend(definitions(map)?);
    is_plain.then_some(Value::Object(strict))
}

fn is_one_of(value: &Value, names: &[&str]) -> bool {
    value.as_str().is_some_and(|name| names.contains(&name))
}

/// Returns `true` for `uint8` and the like.
fn is_integer_format(value: &Value) -> bool {
    value.as_str().is_some_and(|name| name.starts_with("int") || name.starts_with("uint"))
}

fn is_object(map: &Map<String, Value>) -> bool {
    let kind = map.get("type");
    map.contains_key("properties")
        || kind.is_some_and(|it| it == "object" || *it == json!(["object", "null"]))
}

fn describe(strict: &mut Map<String, Value>, told: &[String]) {
    if told.is_empty() {
        return;
    }
    let said = strict.get("description").and_then(Value::as_str);
    let text = said.into_iter().map(str::to_owned).chain([format!("({})", told.join(", "))]);
    let text = text.collect::<Vec<_>>().join(" ");
    strict.insert("description".to_owned(), text.into());
}

/// Closes an object, and requires all that it may hold.
fn close(map: &Map<String, Value>, strict: &mut Map<String, Value>) -> Option<()> {
    let is_open = map.get("additionalProperties").is_some_and(|it| *it != Value::Bool(false));
    if is_open || strict.contains_key("anyOf") {
        return None;
    }
    let own = map.get("properties")?.as_object()?;
    let mut properties = Map::new();
    for (name, schema) in own {
        let property = self::strict(schema)?;
        let property = if is_required(map, name) { property } else { nullable(property) };
        properties.insert(name.clone(), property);
    }
    let required: Vec<&String> = own.keys().collect();
    strict.insert("required".to_owned(), json!(required));
    strict.insert("properties".to_owned(), properties.into());
    strict.insert("additionalProperties".to_owned(), false.into());
    Some(())
}

fn is_required(map: &Map<String, Value>, name: &str) -> bool {
    let required = map.get("required").and_then(Value::as_array);
    required.is_some_and(|list| list.iter().any(|it| it == name))
}

fn definitions(map: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut all = Map::new();
    for key in ["$defs", "definitions"] {
        let Some(Value::Object(own)) = map.get(key) else { continue };
        let strict: Option<Map<String, Value>> =
            own.iter().map(|(name, schema)| Some((name.clone(), strict(schema)?))).collect();
        all.insert(key.to_owned(), strict?.into());
    }
    Some(all)
}

/// Returns a strict schema that also takes `null`.
fn nullable(schema: Value) -> Value {
    if takes_null(&schema) {
        return schema;
    }
    let Value::Object(mut map) = schema else { return schema };
    if let Some(Value::Array(choices)) = map.get_mut("anyOf") {
        choices.push(json!({ "type": "null" }));
        return Value::Object(map);
    }
    if map.contains_key("enum") || map.contains_key("const") || !map.contains_key("type") {
        return json!({ "anyOf": [map, { "type": "null" }] });
    }
    if let Some(kind) = map.get_mut("type") {
        let kinds = match kind.take() {
            Value::Array(kinds) => kinds,
            kind => vec![kind],
        };
        *kind = kinds.into_iter().chain([json!("null")]).collect();
    }
    Value::Object(map)
}

fn takes_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    let has_null_type = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(is_null),
        kind => is_null(kind),
    };
    let choices = ["anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array());
    let values = schema["enum"].as_array();
    has_null_type
        || choices.flatten().any(takes_null)
        || values.is_some_and(|values| values.contains(&Value::Null))
}

/// Removes each `null` that stands for a property that is missing, by the schema that is not strict.
pub(super) fn without_nulls(value: &mut Value, schema: &Value, root: &Value) {
    let target = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    if let Some(schema) = target.and_then(|pointer| root.pointer(pointer)) {
        return without_nulls(value, schema, root);
    }
    for key in ["anyOf", "oneOf"] {
        for choice in schema[key].as_array().into_iter().flatten() {
            without_nulls(value, choice, root);
        }
    }
    match value {
        Value::Array(items) => {
            for item in items {
                without_nulls(item, &schema["items"], root);
            }
        }
        Value::Object(members) => {
            let Some(map) = schema.as_object() else { return };
            let property = |name: &str| map.get("properties").and_then(|it| it.get(name));
            members.retain(|name, member| {
                let is_missing = member.is_null()
                    && !is_required(map, name)
                    && property(name).is_some_and(|it| !takes_null(it));
                !is_missing
            });
            for (name, member) in members {
                if let Some(schema) = property(name) {
                    without_nulls(member, schema, root);
                }
            }
        }
        _ => {}
    }
}
