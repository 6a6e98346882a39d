//! Shapes of data, and finding data in text.

use loopwright_core::messages::ResponseFormat;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::json_in;
use super::shape::{Absence, Reading, Shape, schema_of};

fn lead() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"],
        "additionalProperties": false,
    })
}

fn is_strict(schema: &Value) -> bool {
    let shape = Shape::new(schema, Absence::Denied).unwrap();
    matches!(shape.format("it"), ResponseFormat::JsonSchema { strict: true, .. })
}

#[test]
fn json_is_found_in_what_models_write() {
    let expect = Ok(json!({ "a": 1 }));
    for text in [
        "{\"a\": 1}",
        "Here it is:\n```json\n{\"a\": 1}\n```\nDone.",
        "Sure! {\"a\": 1} as you see",
        "```\n{\"a\": 1}",
    ] {
        assert_eq!(json_in(text), expect, "{text}");
    }
    assert_eq!(json_in(" "), Err("the response is empty; answer with JSON".to_owned()));
    assert!(json_in("no").unwrap_err().starts_with("the response is not JSON: "));
}

#[test]
fn a_model_may_say_that_there_is_nothing() {
    let shape = Shape::new(&lead(), Absence::Allowed).unwrap();
    let ann = json!({ "name": "Ann" });
    let found = Ok(Reading::Found(ann.clone()));
    assert_eq!(shape.read(json!({ "value": ann, "error": null })), found);
    assert_eq!(shape.read(ann), found, "what is around it may be left out");
    let absent = Reading::Absent("no name".into());
    assert_eq!(shape.read(json!({ "value": null, "error": "no name" })), Ok(absent));
    let errors = shape.read(json!({ "value": { "name": 1 }, "error": null })).unwrap_err();
    assert_eq!(errors, ["at /name: 1 is not of type \"string\""]);
}

#[test]
fn schemas_that_apply_exponentially_many_others_are_refused_or_too_complex_for_a_deep_value() {
    let definition = |at: usize| {
        let before = json!({ "$ref": format!("#/$defs/{}", at.saturating_sub(1)) });
        (at.to_string(), if at == 0 { json!({}) } else { json!({ "allOf": [before, before] }) })
    };
    let definitions: serde_json::Map<String, Value> = (0..40).map(definition).collect();
    let bomb = json!({ "$ref": "#/$defs/39", "$defs": definitions });
    for refused in [bomb, json!({ "$ref": "#" }), json!({ "$ref": "https://a.test/b" })] {
        let reason = Shape::new(&refused, Absence::Denied).unwrap_err();
        assert!(reason.starts_with("it applies too many schemas"), "{reason}");
    }
    let twice = json!({ "properties": { "a": { "$ref": "#" } } });
    let shape = Shape::new(&json!({ "allOf": [twice, twice] }), Absence::Denied).unwrap();
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }));
    let read = |depth| shape.read(json!({ "value": nested(depth) }));
    assert_eq!(read(8), Ok(Reading::Found(nested(8))));
    let complex = "at /: the value cannot be checked, because the schema is too complex".to_owned();
    assert_eq!(read(60), Err(vec![complex]));
}

#[test]
fn models_are_asked_for_objects_whatever_the_data_is() {
    let shape = Shape::new(&json!({ "type": "array" }), Absence::Denied).unwrap();
    assert_eq!(shape.outer["required"], json!(["value"]));
    assert_eq!(shape.read(json!({ "value": [1] })), Ok(Reading::Found(json!([1]))));
    assert_eq!(shape.read(json!([1])), Ok(Reading::Found(json!([1]))));
}

#[test]
fn definitions_stay_at_the_root_of_a_wrapped_schema() {
    let schema = json!({
        "type": "object",
        "properties": { "next": { "$ref": "#/$defs/node" } },
        "$defs": { "node": { "type": "string" } },
    });
    let shape = Shape::new(&schema, Absence::Allowed).unwrap();
    assert_eq!(shape.outer["$defs"], schema["$defs"]);
    assert!(jsonschema::validator_for(&shape.outer).is_ok());
    assert!(shape.read(json!({ "value": { "next": 1 } })).is_err());
}

#[test]
fn schemas_without_a_strict_form_are_not_enforced_by_providers() {
    assert!(is_strict(&lead()));
    let mut open = lead();
    open["additionalProperties"] = json!(true);
    assert!(!is_strict(&open));
    let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    assert!(!is_strict(&map));
    let mut anything = lead();
    anything["properties"]["name"] = json!(true);
    assert!(!is_strict(&anything));
    assert!(!is_strict(&json!({ "type": "object", "oneOf": [lead()] })));
    let mut nested = lead();
    nested["properties"]["tags"] = json!({ "type": "array", "items": map });
    assert!(!is_strict(&nested));
}

/// A type with everything that a strict schema has another form for.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Order {
    /// Who ordered.
    name: String,
    #[serde(default)]
    count: u32,
    note: Option<String>,
    size: Option<Size>,
    #[serde(default)]
    lines: Vec<Line>,
    weight: f64,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line {
    Text {
        text: String,
        #[serde(default)]
        bold: bool,
    },
    Rule,
}

#[test]
fn the_strict_form_of_a_type_closes_objects_and_requires_everything() {
    let shape = Shape::new(&schema_of::<Order>(), Absence::Denied).unwrap();
    let ResponseFormat::JsonSchema { schema, strict: true, .. } = shape.format("order") else {
        panic!("{:?}", shape.format("order"));
    };
    let text = json!({
        "type": "object",
        "properties": {
            "kind": { "type": "string", "const": "text" },
            "text": { "type": "string" },
            "bold": { "type": ["boolean", "null"], "description": "(default: false)" },
        },
        "required": ["bold", "kind", "text"],
        "additionalProperties": false,
    });
    let rule = json!({
        "type": "object",
        "properties": { "kind": { "type": "string", "const": "rule" } },
        "required": ["kind"],
        "additionalProperties": false,
    });
    let expect = json!({
        "title": "Order",
        "description": "A type with everything that a strict schema has another form for.",
        "type": "object",
        "properties": {
            "name": { "description": "Who ordered.", "type": "string" },
            "count": { "type": ["integer", "null"], "description": "(default: 0, minimum: 0)" },
            "note": { "type": ["string", "null"] },
            "size": { "type": ["string", "null"], "enum": ["small", "large", null] },
            "lines": { "type": ["array", "null"], "items": { "anyOf": [text, rule] } },
            "weight": { "type": "number" },
        },
        "required": ["count", "lines", "name", "note", "size", "weight"],
        "additionalProperties": false,
    });
    assert_eq!(*schema, expect);
    assert!(jsonschema::validator_for(&schema).is_ok());
}

#[test]
fn nulls_of_a_strict_schema_are_read_as_defaults() {
    let shape = Shape::new(&schema_of::<Order>(), Absence::Denied).unwrap();
    let answer = json!({
        "name": "Ann", "count": null, "note": null, "size": null, "weight": 1.5,
        "lines": [{ "kind": "text", "text": "a", "bold": null }, { "kind": "rule" }],
    });
    let Ok(Reading::Found(value)) = shape.read(answer) else { panic!("it does not fit") };
    let lines = vec![Line::Text { text: "a".into(), bold: false }, Line::Rule];
    let (name, note, size) = ("Ann".to_owned(), None, None);
    let expect = Order { name, count: 0, note, size, lines, weight: 1.5 };
    assert_eq!(serde_json::from_value::<Order>(value).unwrap(), expect);
    let wrong = json!({ "name": null, "weight": 1.0 });
    assert_eq!(shape.read(wrong), Err(vec!["at /name: null is not of type \"string\"".into()]));
}

#[test]
fn a_strict_form_keeps_recursive_types() {
    let node = json!({
        "type": "object",
        "properties": { "next": { "$ref": "#/$defs/node", "description": "the next one" } },
    });
    let schema = json!({
        "type": "object",
        "properties": { "first": { "$ref": "#/$defs/node" } },
        "required": ["first"],
        "$defs": { "node": node },
    });
    let shape = Shape::new(&schema, Absence::Denied).unwrap();
    let ResponseFormat::JsonSchema { schema, strict: true, .. } = shape.format("list") else {
        panic!("{:?}", shape.format("list"));
    };
    let next = json!({ "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] });
    assert_eq!(schema["$defs"]["node"]["properties"], json!({ "next": next }));
    let read = shape.read(json!({ "first": { "next": { "next": null } } }));
    assert_eq!(read, Ok(Reading::Found(json!({ "first": { "next": {} } }))));
}
