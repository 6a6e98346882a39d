use proptest::prelude::*;
use serde_json::json;

use super::{
    keywords::{BEYOND, DRAFT},
    *,
};

#[test]
fn a_violation_names_its_place_and_its_rule() {
    for (schema, value, expected) in [
        (json!({ "type": "integer" }), json!(1.5), r#"at /: 1.5 is not of type "integer""#),
        (
            json!({ "type": ["integer", "null"] }),
            json!("a"),
            r#"at /: "a" is not of type "integer" or "null""#,
        ),
        (
            json!({ "enum": ["a", "b", "c"] }),
            json!("d"),
            r#"at /: "d" is not one of "a", "b" or "c""#,
        ),
        (json!({ "const": 1 }), json!(2), "at /: 1 was expected"),
        (json!({ "minimum": 0 }), json!(-1), "at /: -1 is less than the minimum of 0"),
        (json!({ "maximum": 2.5 }), json!(3), "at /: 3 is greater than the maximum of 2.5"),
        (
            json!({ "exclusiveMinimum": 0 }),
            json!(0),
            "at /: 0 is not greater than the exclusive minimum of 0",
        ),
        (
            json!({ "exclusiveMaximum": 0 }),
            json!(0),
            "at /: 0 is not less than the exclusive maximum of 0",
        ),
        (json!({ "minLength": 1 }), json!(""), r#"at /: "" is shorter than 1 character"#),
        (json!({ "maxLength": 2 }), json!("äöü"), r#"at /: "äöü" is longer than 2 characters"#),
        (json!({ "minItems": 1 }), json!([]), "at /: [] has less than 1 item"),
        (json!({ "maxItems": 1 }), json!([1, 2]), "at /: [1,2] has more than 1 item"),
        (json!({ "minProperties": 2 }), json!({}), "at /: {} has less than 2 properties"),
        (
            json!({ "maxProperties": 0 }),
            json!({"a":1}),
            r#"at /: {"a":1} has more than 0 properties"#,
        ),
        (json!({ "uniqueItems": true }), json!([1, 1.0]), "at /: [1,1.0] has non-unique elements"),
        (
            json!({ "anyOf": [false] }),
            json!(1),
            "at /: 1 is not valid under any of the schemas listed in the 'anyOf' keyword",
        ),
        (
            json!({ "oneOf": [true, true] }),
            json!(1),
            "at /: 1 is valid under more than one of the schemas listed in the 'oneOf' keyword",
        ),
        (json!({ "not": true }), json!(1), "at /: true is not allowed for 1"),
        (
            json!({ "properties": { "a/b": { "items": { "type": "null" } } } }),
            json!({ "a/b": [null, 1] }),
            r#"at /a~1b/1: 1 is not of type "null""#,
        ),
        (
            json!({ "properties": { "a": false }, "additionalProperties": { "type": "null" } }),
            json!({ "a": 1, "b": 2 }),
            r#"at /b: 2 is not of type "null"; at /a: False schema does not allow 1"#,
        ),
        (
            json!({ "prefixItems": [true], "items": { "type": "null" } }),
            json!([1, 2]),
            r#"at /1: 2 is not of type "null""#,
        ),
        (
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ "type": "null" }] } } }),
            json!(1),
            r#"at /: 1 is not of type "null""#,
        ),
        (
            json!({ "additionalProperties": false, "required": ["a", "b"] }),
            json!({ "c": 1, "d": 2 }),
            "at /: Additional properties are not allowed ('c', 'd' were unexpected); \
             at /: \"a\" is a required property; at /: \"b\" is a required property",
        ),
    ] {
        assert_eq!(keyword_beyond(&schema), None, "{schema}");
        assert_eq!(violations(&schema, &value).join("; "), expected, "{schema}");
        assert!(!jsonschema::is_valid(&schema, &value), "{schema}");
    }
}

#[test]
fn no_more_than_five_violations_are_reported_and_long_values_are_cut() {
    let schema = json!({ "items": { "type": "null" } });
    assert_eq!(violations(&schema, &json!([1, 2, 3, 4, 5, 6])).len(), MAX_VIOLATIONS);
    let long = violations(&json!({ "type": "null" }), &json!("ä".repeat(1_000)));
    assert_eq!(long, [format!("at /: \"{}… is not of type \"null\"", "ä".repeat(199))]);
}

#[test]
fn a_keyword_that_is_not_known_is_found_wherever_it_counts() {
    for (schema, expected) in [
        (json!({ "pattern": "a" }), Some("pattern")),
        (json!({ "properties": { "a": { "anyOf": [{ "if": true }] } } }), Some("if")),
        (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "contains": true } } }), Some("contains")),
        (json!({ "$ref": "#/$defs/b" }), Some("$ref")),
        (json!({ "$ref": "other.json" }), Some("$ref")),
        (json!({ "items": [true] }), Some("items")),
        (json!({ "type": "text" }), Some("type")),
        (json!({ "minimum": "1" }), Some("minimum")),
        (json!({ "not": { "$id": "a" } }), Some("$id")),
        (json!({ "$schema": "http://json-schema.org/draft-07/schema#" }), Some("$schema")),
        (json!("nonsense"), Some("$schema")),
        (json!({ "$schema": DRAFT, "$id": "a", "format": "date", "x-order": 1 }), None),
        (json!({ "$defs": { "a": { "pattern": "a" } }, "default": { "pattern": 1 } }), None),
        (json!({ "properties": { "pattern": true, "next": { "$ref": "#" } } }), None),
    ] {
        assert_eq!(keyword_beyond(&schema).as_deref(), expected, "{schema}");
    }
    for keyword in BEYOND {
        let schema = json!({ (*keyword): 1 });
        assert_eq!(keyword_beyond(&schema).as_deref(), Some(*keyword));
    }
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let endless = json!({ "$ref": "#" });
    assert_eq!(keyword_beyond(&endless), None);
    assert_eq!(violations(&endless, &json!(1)), ["at /: 1 is nested too deeply"]);
    let list = json!({ "anyOf": [{ "type": "null" }, { "properties": { "next": { "$ref": "#" } }, "type": "object" }] });
    let deep = |depth| (0..depth).fold(json!(null), |inner, _| json!({ "next": inner }));
    assert_eq!(violations(&list, &deep(40)), Vec::<String>::new());
    assert_eq!(
        violations(&list, &(0..40).fold(json!(1), |inner, _| json!({ "next": inner }))).len(),
        1
    );
}

/// A schema whose definitions apply the one before twice.
fn doubling(keyword: &str, definitions: usize) -> Value {
    let definition = |at: usize| {
        let before = json!({ "$ref": format!("#/$defs/{}", at - 1) });
        (at.to_string(), json!({ keyword: [before, before] }))
    };
    let defs = (1..=definitions).map(definition);
    let defs: Map<String, Value> = [("0".to_owned(), json!({}))].into_iter().chain(defs).collect();
    json!({ "$ref": format!("#/$defs/{definitions}"), "$defs": defs })
}

#[test]
fn a_schema_that_applies_exponentially_many_others_is_too_complex() {
    let complex = ["at /: the value cannot be checked, because the schema is too complex"];
    for keyword in ["allOf", "anyOf"] {
        assert_eq!(violations(&doubling(keyword, 60), &json!(1)), complex);
        assert_eq!(violations(&doubling(keyword, 10), &json!(1)), Vec::<String>::new());
    }
}

#[cfg(feature = "json-schema")]
fn is_bounded_schema(schema: &Value) -> bool {
    BoundedSchema::new(schema).is_some()
}

#[cfg(feature = "json-schema")]
#[test]
fn the_validator_without_a_limit_gets_only_schemas_that_apply_a_bounded_number_of_others() {
    let bounded = [
        doubling("allOf", 60),
        doubling("anyOf", 10),
        json!({ "not": { "$ref": "#" } }),
        json!({ "items": { "$ref": "#" }, "contains": {} }),
    ];
    assert_eq!(bounded.map(|it| is_bounded_schema(&it)), [false, true, false, true]);
}

/// A schema of which each definition applies the one before twice to what is in a value, and a value that is as deep.
#[cfg(feature = "json-schema")]
fn doubling_below(keyword: &str, depth: usize) -> (Value, Value) {
    let below = |schema: Value| match keyword {
        "items" | "contains" => json!({ keyword: schema }),
        "prefixItems" => json!({ keyword: [schema] }),
        "properties" => json!({ keyword: { "a": schema } }),
        _ => json!({ keyword: { "": schema } }),
    };
    let definition = |at: usize| {
        let before = below(json!({ "$ref": format!("#/$defs/{}", at - 1) }));
        (at.to_string(), json!({ "allOf": [before, before], "dependentRequired": {} }))
    };
    let defs: Map<String, Value> =
        [("0".to_owned(), json!({}))].into_iter().chain((1..=depth).map(definition)).collect();
    let is_list = matches!(keyword, "items" | "contains" | "prefixItems");
    let around = |inner: Value| if is_list { json!([inner]) } else { json!({ "a": inner }) };
    let value = (0..depth).fold(json!(1), |inner, _| around(inner));
    (json!({ "$ref": format!("#/$defs/{depth}"), "$defs": defs }), value)
}

#[cfg(feature = "json-schema")]
#[test]
fn a_small_schema_that_applies_exponentially_many_others_to_a_deep_value_is_too_complex() {
    for keyword in ["properties", "patternProperties", "items", "prefixItems", "contains"] {
        let violation = |depth| {
            let (schema, value) = doubling_below(keyword, depth);
            assert!(is_bounded_schema(&schema) && keyword_beyond(&schema).is_some(), "{keyword}");
            crate::tool::violation_of(&std::sync::Arc::new(schema), &value)
        };
        assert_eq!(violation(60).as_deref(), Some(SCHEMA_TOO_COMPLEX), "{keyword}");
        assert_eq!(violation(8), None, "{keyword}");
    }
}

#[cfg(feature = "json-schema")]
#[test]
fn references_are_followed_once_for_all_checks() {
    let (schema, deep) = doubling_below("items", 60);
    let bounded = BoundedSchema::new(&schema).unwrap();
    let shallow = json!([[[]]]);
    // Nothing can follow them again.
    drop(schema);
    assert_eq!([&deep, &shallow, &deep].map(|it| bounded.admits(it)), [false, true, false]);
}

#[cfg(feature = "json-schema")]
#[test]
fn references_are_counted_however_they_are_written() {
    let schema = |form: &dyn Fn(usize) -> Value, definitions: usize| {
        let definition = |at: usize| {
            let before = if at == 0 { json!({}) } else { form(at - 1) };
            let schema = json!({ "$anchor": format!("a{at}"), "allOf": [before, before] });
            (format!("d {at}"), schema)
        };
        let defs: Map<String, Value> = (0..definitions).map(definition).collect();
        let last = format!("#/$defs/d%20{}", definitions - 1);
        json!({ "$id": "https://a.test/s", "$ref": last, "$defs": defs })
    };
    let forms: [&dyn Fn(usize) -> Value; 4] = [
        &|at| json!({ "$ref": format!("#a{at}") }),
        &|at| json!({ "$dynamicRef": format!("#a{at}") }),
        &|at| json!({ "$ref": format!("#/$defs/d%20{at}") }),
        &|at| json!({ "$ref": format!("https://a.test/s#a{at}") }),
    ];
    assert_eq!(forms.map(|form| is_bounded_schema(&schema(form, 40))), [false; 4]);
    assert_eq!(forms.map(|form| is_bounded_schema(&schema(form, 8))), [true; 4]);
    let few = json!({
        "$id": "https://a.test/s", "$ref": "https://a.test/s#/$defs/a%20b", "contains": {},
        "$defs": { "a b": { "$anchor": "c", "items": { "$ref": "#c" } } },
    });
    let bundled = json!({
        "$id": "https://a.test/s", "$ref": "b#/$defs/c", "contains": {}, "$defs": { "b": {
            "$id": "/b", "$defs": { "c": { "items": { "$ref": "#/$defs/d" } }, "d": { "$ref": "/s#/$defs/b" } },
        } },
    });
    let endless = json!({
        "$id": "https://a.test/s", "$ref": "b", "$defs": { "b": { "$id": "b", "allOf": [{ "$ref": "#" }] } },
    });
    let elsewhere = json!({ "contains": {}, "$ref": "https://a.test/elsewhere" });
    assert_eq!(
        [few, bundled, endless, elsewhere].map(|it| is_bounded_schema(&it)),
        [true, true, false, false]
    );
}

#[cfg(feature = "json-schema")]
#[test]
fn an_anchor_names_a_schema_of_its_own_resource() {
    let schema = json!({
        "$id": "https://a.test/s", "$ref": "#c", "contains": {}, "$defs": {
            "a": { "$id": "a", "$anchor": "c", "allOf": [{ "$ref": "s" }] },
            "b": { "$anchor": "c" },
        },
    });
    assert!(is_bounded_schema(&schema));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..3).prop_map(Value::from),
        Just(json!(1.5)),
        Just(json!(1.0)),
        Just(json!(u64::MAX)),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|it| json!(it)),
        ]
    })
}

/// Schemas of several keywords each.
fn any_schema() -> impl Strategy<Value = Value> {
    const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];
    let plain = prop_oneof![
        prop::sample::select(TYPES).prop_map(|it| ("type", json!(it))),
        prop::sample::subsequence(TYPES, 1..4).prop_map(|it| ("type", json!(it))),
        prop::collection::vec(any_value(), 1..3).prop_map(|it| ("enum", json!(it))),
        any_value().prop_map(|it| ("const", it)),
        (-2_i64..3).prop_map(|it| ("minimum", json!(it))),
        Just(("maximum", json!(1.5))),
        (-2_i64..3).prop_map(|it| ("exclusiveMinimum", json!(it))),
        (-2_i64..3).prop_map(|it| ("exclusiveMaximum", json!(it))),
        (0_u64..3).prop_map(|it| ("minLength", json!(it))),
        (0_u64..3).prop_map(|it| ("maxLength", json!(it))),
        (0_u64..3).prop_map(|it| ("minItems", json!(it))),
        (0_u64..3).prop_map(|it| ("maxItems", json!(it))),
        (0_u64..3).prop_map(|it| ("minProperties", json!(it))),
        (0_u64..3).prop_map(|it| ("maxProperties", json!(it))),
        any::<bool>().prop_map(|it| ("uniqueItems", json!(it))),
        prop::sample::subsequence(&["a", "b"][..], 0..=2).prop_map(|it| ("required", json!(it))),
        Just(("format", json!("date"))),
        Just(("$ref", json!("#/$defs/a"))),
    ];
    let of = |rules: Vec<(&'static str, Value)>| {
        Value::Object(rules.into_iter().map(|(name, rule)| (name.to_owned(), rule)).collect())
    };
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        prop::collection::vec(plain.clone(), 0..3).prop_map(of),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let schemas = || prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from);
        let members = prop::collection::btree_map("[ab]", inner.clone(), 0..3);
        let applied = prop_oneof![
            schemas().prop_map(|it| ("anyOf", it)),
            schemas().prop_map(|it| ("oneOf", it)),
            schemas().prop_map(|it| ("allOf", it)),
            schemas().prop_map(|it| ("prefixItems", it)),
            members.prop_map(|it| ("properties", json!(it))),
            inner.clone().prop_map(|it| ("items", it)),
            inner.clone().prop_map(|it| ("additionalProperties", it)),
            inner.clone().prop_map(|it| ("not", it)),
        ];
        prop::collection::vec(prop_oneof![plain.clone(), applied], 1..4).prop_map(of)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_validator_of_the_library_judges_alike(mut schema in any_schema(), value in any_value()) {
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("$defs".to_owned(), json!({ "a": { "type": ["string", "null"] } }));
        }
        // Of a schema that is `true` or `false`, no reference is left.
        if keyword_beyond(&schema).is_none() {
            let found = violations(&schema, &value);
            prop_assert_eq!(found.is_empty(), jsonschema::is_valid(&schema, &value), "{:?}", found);
        }
    }
}
