//! Shapes of data, and finding data in text.

use loopwright_core::messages::ResponseFormat;
use serde_json::{Value, json};

use super::read::json_in;
use super::shape::{Absence, Reading, Shape};

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
    assert_eq!(json_in(" "), Err("the answer is empty; answer with JSON".to_owned()));
    assert!(json_in("no").unwrap_err().starts_with("the answer is not JSON: "));
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
fn models_are_asked_for_objects_whatever_the_data_is() {
    let shape = Shape::new(&json!({ "type": "array" }), Absence::Denied).unwrap();
    assert_eq!(shape.outer["required"], json!(["value"]));
    assert_eq!(shape.read(json!({ "value": [1] })), Ok(Reading::Found(json!([1]))));
    assert_eq!(shape.read(json!([1])), Ok(Reading::Found(json!([1]))));
}

#[test]
fn what_references_lead_to_stays_at_the_root() {
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
fn only_closed_schemas_are_enforced_by_providers() {
    assert!(is_strict(&lead()));
    let mut open = lead();
    open["additionalProperties"] = json!(true);
    assert!(!is_strict(&open));
    let mut optional = lead();
    optional["required"] = json!([]);
    assert!(!is_strict(&optional));
    assert!(!is_strict(&json!({ "type": "object", "oneOf": [lead()] })));
}
