//! Forms: what their fields take.

use serde_json::Value;

/// What an answer to a form of several fields has to be.
pub(crate) const FILL_IN: &str =
    "type NAME=VALUE for each field, or type JSON, `/decline` or `/cancel`";

/// What is said about an answer that fills in no field of such a form.
pub(crate) const NOT_FILLED_IN: &str =
    "the question is a form; type NAME=VALUE for each field, or type JSON, `/decline` or `/cancel`";

/// Describes the fields of a form, one line each.
pub(crate) fn describe(form: &Value) -> Vec<String> {
    let required =
        |name: &str| form["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
    let fields = form["properties"].as_object().into_iter().flatten();
    fields.map(|(name, field)| describe_field(name, field, required(name))).collect()
}

fn describe_field(name: &str, field: &Value, is_required: bool) -> String {
    let kind = field["type"].as_str().unwrap_or("any");
    let required = if is_required { ", required" } else { "" };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(field["description"].as_str().map(ToOwned::to_owned));
    let (choice, of) = match &field["items"] {
        Value::Null => ("one of", field),
        items => ("any of", items),
    };
    let options = options(of);
    if !options.is_empty() {
        parts.push(format!("{choice} {}", options.join(", ")));
    }
    match &field["default"] {
        Value::Null => {}
        Value::String(text) => parts.push(format!("default: {text}")),
        other => parts.push(format!("default: {other}")),
    }
    let about = if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) };
    format!("{name} ({kind}{required}){about}")
}

/// Returns the values that a field allows, each with its title if that is another text.
fn options(field: &Value) -> Vec<String> {
    let choices = ["oneOf", "anyOf"].iter().find_map(|it| field[*it].as_array());
    if let Some(choices) = choices {
        let each = |it: &Value| Some(option(it["const"].as_str()?, it["title"].as_str()));
        return choices.iter().filter_map(each).collect();
    }
    let values = field["enum"].as_array().into_iter().flatten();
    let titles = &field["enumNames"];
    let each = |(index, it): (usize, &Value)| Some(option(it.as_str()?, titles[index].as_str()));
    values.enumerate().filter_map(each).collect()
}

fn option(value: &str, title: Option<&str>) -> String {
    match title.filter(|it| *it != value) {
        Some(title) => format!("{value} ({title})"),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_described_with_what_they_take() {
        let form = json!({"required": ["b"], "properties": {
            "a": {"type": "integer", "description": "In years.", "default": 3},
            "b": {"type": "string", "enum": ["x", "y"], "enumNames": ["X", "y"]},
            "c": {"type": "string", "oneOf": [{"const": "x", "title": "Cross"}], "default": "x"},
            "d": {"type": "array", "items": {"enum": ["x", "y"]}, "default": ["x"]},
            "e": {},
        }});
        let lines = [
            "a (integer): In years.; default: 3",
            "b (string, required): one of x (X), y",
            "c (string): one of x (Cross); default: x",
            "d (array): any of x, y; default: [\"x\"]",
            "e (any)",
        ];
        assert_eq!(describe(&form), lines);
        assert!(describe(&Value::Null).is_empty());
    }
}
