//! The keywords of a schema that the check knows.

#[cfg(feature = "json-schema")]
use std::collections::HashMap;

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

/// Returns `true` if a schema applies a bounded number of others to one value.
#[cfg(feature = "json-schema")]
pub(in super::super) fn is_bounded(schema: &Value) -> bool {
    let mut costs = Costs { root: schema, known: HashMap::new() };
    costs.all_below(schema);
    costs.known.values().all(|cost| *cost <= MAX_IN_PLACE)
}

/// The most schemas that one schema may apply to the same value.
#[cfg(feature = "json-schema")]
const MAX_IN_PLACE: u64 = 100_000;

/// How many schemas each schema applies to the same value, itself included.
#[cfg(feature = "json-schema")]
struct Costs<'a> {
    root: &'a Value,
    known: HashMap<*const Value, u64>,
}

#[cfg(feature = "json-schema")]
impl<'a> Costs<'a> {
    /// Looks at every place where a schema can be.
    fn all_below(&mut self, value: &'a Value) {
        self.cost(value, 0);
        match value {
            Value::Object(fields) => fields.values().for_each(|it| self.all_below(it)),
            Value::Array(items) => items.iter().for_each(|it| self.all_below(it)),
            _ => {}
        }
    }

    fn cost(&mut self, schema: &'a Value, depth: usize) -> u64 {
        let Value::Object(rules) = schema else { return 1 };
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        // Until it is known, it is endless: so is a schema that applies itself.
        self.known.insert(schema, u64::MAX);
        if depth > MAX_DEPTH {
            return u64::MAX;
        }
        let mut cost = 1_u64;
        for (keyword, rule) in rules {
            let inner = match (keyword.as_str(), rule) {
                ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => schemas
                    .iter()
                    .fold(0, |sum: u64, it| sum.saturating_add(self.cost(it, depth + 1))),
                ("not" | "if" | "then" | "else", rule) => self.cost(rule, depth + 1),
                ("dependentSchemas", Value::Object(schemas)) => schemas
                    .values()
                    .fold(0, |sum: u64, it| sum.saturating_add(self.cost(it, depth + 1))),
                ("$ref", Value::String(reference)) => {
                    resolve(self.root, reference).map_or(0, |it| self.cost(it, depth + 1))
                }
                _ => 0,
            };
            cost = cost.saturating_add(inner);
        }
        self.known.insert(schema, cost);
        cost
    }
}
