//! The keywords of a schema that the check knows.

use serde_json::Value;

use super::{MAX_DEPTH, resolve};
use crate::tool::fast_check::Kinds;

pub(super) const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The keywords that restrict values or change how a schema is read, and that this check does not know. A keyword that
/// is neither here nor in [`Scan::keyword`] only describes. Those at the end are known with other values.
pub(super) const BEYOND: &[&str] = &[
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "additionalItems",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "multipleOf",
    "pattern",
    "patternProperties",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "properties",
    "required",
];

/// Returns the first keyword that this check does not know, or knows only with other values; `None` if it knows the
/// whole schema.
pub(in crate::contract::tool) fn keyword_beyond(schema: &Value) -> Option<String> {
    let mut scan = Scan { root: schema, references: Vec::new() };
    scan.schema(schema, 0).err().map(str::to_owned)
}

/// Looks for keywords in a schema and what it refers to.
struct Scan<'a> {
    root: &'a Value,
    references: Vec<&'a str>,
}

impl<'a> Scan<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<(), &'a str> {
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(_) if depth > MAX_DEPTH => Err("$ref"),
            Value::Object(schema) => {
                schema.iter().try_for_each(|(keyword, rule)| self.keyword(keyword, rule, depth))
            }
            _ => Err("$schema"),
        }
    }

    fn all(
        &mut self,
        schemas: impl IntoIterator<Item = &'a Value>,
        depth: usize,
    ) -> Result<(), &'a str> {
        schemas.into_iter().try_for_each(|schema| self.schema(schema, depth + 1))
    }

    fn keyword(&mut self, keyword: &'a str, rule: &'a Value, depth: usize) -> Result<(), &'a str> {
        let is_known = match (keyword, rule) {
            ("items" | "additionalProperties" | "not", Value::Object(_) | Value::Bool(_)) => {
                return self.schema(rule, depth + 1);
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                return self.all(schemas, depth);
            }
            ("properties", Value::Object(schemas)) => return self.all(schemas.values(), depth),
            ("$ref", Value::String(reference)) => match resolve(self.root, reference) {
                Some(target) if !self.references.contains(&&**reference) => {
                    self.references.push(reference);
                    return self.schema(target, depth + 1);
                }
                target => target.is_some(),
            },
            ("$schema", _) => rule.as_str().is_some_and(|it| it.trim_end_matches('#') == DRAFT),
            // Further inside, it changes what references refer to.
            ("$id", _) => depth == 0,
            ("type", _) => Kinds::of(rule).is_some(),
            ("required", Value::Array(names)) => names.iter().all(Value::is_string),
            ("enum", _) => rule.is_array(),
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", _) => {
                rule.is_number()
            }
            (
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
                | "maxProperties",
                _,
            ) => rule.is_u64(),
            ("uniqueItems", _) => rule.is_boolean(),
            _ => !BEYOND.contains(&keyword),
        };
        if is_known { Ok(()) } else { Err(keyword) }
    }
}
