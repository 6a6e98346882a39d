use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn common_arguments_need_no_compiled_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Where." },
            "lines": { "type": ["integer", "null"], "format": "uint32", "minimum": 0 },
            "how": { "enum": ["all", "some"] },
            "names": { "type": "array", "items": { "type": "string" } },
            "size": { "type": "number" },
            "hour": { "minimum": 1, "maximum": 12 },
            "other": true,
        },
        "required": ["path"],
        "additionalProperties": false,
    });
    let shape = FastSchema::of(&schema);
    for arguments in
        [json!({ "path": "a" }), json!({ "path": "a", "lines": 3, "how": "all", "names": ["b"] })]
            .into_iter()
            .chain([json!({ "path": "a", "size": 1 }), json!({ "path": "a", "size": 1.5 })])
            .chain([json!({ "path": "a", "hour": 1 }), json!({ "path": "a", "hour": 12 })])
            .chain([json!({ "path": "a", "other": [{}] })])
    {
        assert!(
            shape.matches(&arguments) && shape.takes_text(&arguments.to_string()),
            "{arguments}"
        );
    }
    for arguments in [
        json!({}),
        json!({ "path": 1 }),
        json!({ "path": "a", "lines": -1 }),
        json!({ "path": "a", "lines": 1.5 }),
        json!({ "path": "a", "how": "none" }),
        json!({ "path": "a", "hour": 0 }),
        json!({ "path": "a", "hour": 13 }),
        json!({ "path": "a", "names": [1] }),
        json!({ "path": "a", "more": 1 }),
        json!([]),
    ] {
        assert!(
            !shape.matches(&arguments) && !shape.takes_text(&arguments.to_string()),
            "{arguments}"
        );
    }
}

#[test]
fn the_fast_check_does_not_accept_unknown_keywords() {
    for schema in [
        json!({ "pattern": "^a" }),
        json!({ "anyOf": [true] }),
        json!({ "$ref": "#/$defs/a", "$defs": { "a": true } }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#" }),
        json!(false),
    ] {
        assert!(!FastSchema::of(&schema).matches(&json!("a")), "{schema}");
    }
}

#[test]
fn rules_for_other_kinds_do_not_apply_to_a_value() {
    let shape = FastSchema::of(&json!({ "minimum": 3, "items": false, "required": ["a"] }));
    assert!(
        shape.matches(&json!("a"))
            && shape.matches(&json!({ "a": 1 }))
            && shape.matches(&json!([]))
    );
    assert!(!shape.matches(&json!(2)) && !shape.matches(&json!({})) && !shape.matches(&json!([1])));
}

#[test]
fn a_member_that_has_to_be_there_and_may_not_be_does_not_fit() {
    let shape = FastSchema::of(&json!({ "required": ["a"], "additionalProperties": false }));
    assert!(!shape.matches(&json!({})) && !shape.matches(&json!({ "a": 1 })));
}

#[test]
fn text_that_is_more_than_a_value_does_not_fit() {
    let shape = FastSchema::of(&json!({ "type": "object" }));
    assert!(shape.takes_text(r#" {"a": [1, {"b": "\u00e9"}]} "#));
    let deep = format!(r#"{{"a": {}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let texts = ["", "null", "{} {}", "{", r#"{"a": }"#, "nonsense", &deep];
    let lone = r#"{"a": "\ud800"}"#;
    for text in texts.into_iter().chain([lone, r#"{"a": 1e999}"#, r#"{"a": "\x"}"#]) {
        assert!(!shape.takes_text(text), "{text}");
        assert!(serde_json::from_str::<Value>(text).is_err() || text == "null", "{text}");
    }
}

#[test]
fn a_schema_that_is_nested_too_deeply_is_not_looked_at() {
    let nested = |depth| (0..depth).fold(json!({}), |schema, _| json!({ "items": schema }));
    assert!(FastSchema::of(&nested(DEPTH - 1)).matches(&nested_list(DEPTH - 1)));
    assert!(!FastSchema::of(&nested(DEPTH)).matches(&nested_list(DEPTH)));
    assert!(FastSchema::of(&nested(DEPTH)).matches(&json!([])));
}

fn nested_list(depth: usize) -> Value {
    (0..depth).fold(json!(1), |list, _| json!([list]))
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!(2.0)),
        Just(json!(u64::MAX)),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[ab]", inner, 0..3)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        prop::sample::select(TYPES).prop_map(|it| json!({ "type": it })),
        prop::collection::vec(prop::sample::select(TYPES), 1..3).prop_map(|mut it| {
            it.dedup();
            json!({ "type": it })
        }),
        prop::collection::vec(any_value(), 1..3).prop_map(|it| json!({ "enum": it })),
        (-1_i64..2).prop_map(|it| json!({ "minimum": it, "format": "int64" })),
        (-1_i64..2).prop_map(|it| json!({ "maximum": it })),
        Just(json!({ "minLength": 1 })),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|it| json!({ "items": it })),
            (prop::collection::hash_map("[ab]", inner, 0..3), any::<bool>(), any::<bool>())
                .prop_map(|(properties, closed, needs)| {
                    let mut schema = json!({ "type": "object", "properties": properties });
                    if closed {
                        schema["additionalProperties"] = json!(false);
                    }
                    if needs {
                        schema["required"] = json!(["a"]);
                    }
                    schema
                }),
        ]
    })
}

proptest! {
    #[test]
    fn values_that_match_the_fast_check_are_valid(schema in any_schema(), value in any_value()) {
        let shape = FastSchema::of(&schema);
        if shape.matches(&value) {
            prop_assert!(jsonschema::is_valid(&schema, &value));
        }
        prop_assert_eq!(shape.takes_text(&value.to_string()), shape.matches(&value));
    }
}
