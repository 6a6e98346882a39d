//! The check of arguments by the keywords of JSON Schema that describe Rust types and most hand-written schemas.
//!
//! The draft is 2020-12, where `format` only describes. A schema with other keywords needs the validator of the feature
//! `json-schema`: [`keyword_beyond`] finds them.

use std::{
    cmp::Ordering,
    fmt::{self, Display},
};

use serde_json::{Map, Number, Value};

use super::fast_check::Kinds;

mod keywords;
#[cfg(feature = "json-schema")]
mod work;

pub(super) use self::keywords::keyword_beyond;
#[cfg(feature = "json-schema")]
pub use self::work::BoundedSchema;

/// The most violations that are reported.
pub(super) const MAX_VIOLATIONS: usize = 5;

/// Schemas inside each other, references included.
const MAX_DEPTH: usize = 200;

/// The most schemas that are applied to one value and what is in it. Schemas that refer to others several times can apply
/// exponentially many.
const MAX_APPLIED: usize = 1_000_000;

/// The violation of a value to which too many schemas apply.
pub const SCHEMA_TOO_COMPLEX: &str =
    "at /: the value cannot be checked, because the schema is too complex";

/// Longer values are cut in messages.
const MAX_SHOWN_CHARS: usize = 200;

/// Returns how a value violates a schema, with paths; nothing if it matches. The check must know the schema.
pub(super) fn violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = Check { root: schema, violations: Vec::new(), left: MAX_APPLIED };
    check.value(schema, value, &Path::Root, 0);
    if check.left == 0 {
        return vec![SCHEMA_TOO_COMPLEX.to_owned()];
    }
    check.violations
}

/// Finds what a reference within a schema refers to.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') { None } else { root.pointer(pointer) }
}

/// A place in a value, from the inside out.
enum Path<'a> {
    Root,
    Member(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member(outer, name) => {
                outer.write(f)?;
                write!(f, "/{}", name.replace('~', "~0").replace('/', "~1"))
            }
            Self::Item(outer, index) => {
                outer.write(f)?;
                write!(f, "/{index}")
            }
        }
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self, Self::Root) { f.write_str("/") } else { self.write(f) }
    }
}

/// Checks a value against a schema and collects the violations.
struct Check<'a> {
    root: &'a Value,
    violations: Vec<String>,
    /// How many more schemas are applied.
    left: usize,
}

impl Check<'_> {
    fn value(&mut self, schema: &Value, value: &Value, path: &Path<'_>, depth: usize) {
        self.left = self.left.saturating_sub(1);
        match schema {
            _ if self.left == 0 => (),
            Value::Object(_) if depth > MAX_DEPTH => {
                self.add(path, format_args!("{} is nested too deeply", Shown(value)));
            }
            Value::Object(rules) => {
                for (keyword, rule) in rules {
                    self.plain_rule(keyword, rule, value, path);
                    self.inner_rule(rules, keyword, value, path, depth);
                    if self.violations.len() == MAX_VIOLATIONS {
                        return;
                    }
                }
            }
            Value::Bool(false) => {
                self.add(path, format_args!("False schema does not allow {}", Shown(value)));
            }
            _ => (),
        }
    }

    fn add(&mut self, path: &Path<'_>, violation: impl Display) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(format!("at {path}: {violation}"));
        }
    }

    fn matches(&mut self, schema: &Value, value: &Value, depth: usize) -> bool {
        let mut check = Check { root: self.root, violations: Vec::new(), left: self.left };
        check.value(schema, value, &Path::Root, depth + 1);
        self.left = check.left;
        check.violations.is_empty()
    }

    /// Checks a rule that needs no other schema.
    fn plain_rule(&mut self, keyword: &str, rule: &Value, value: &Value, path: &Path<'_>) {
        let (shown, list) = (Shown(value), rule.as_array().map_or(&[][..], Vec::as_slice));
        let violation = match (keyword, value) {
            ("type", _) if Kinds::of(rule).is_some_and(|it| !it.includes(value)) => {
                if rule.is_array() {
                    format!("{shown} is not of type {}", List(list, " or "))
                } else {
                    format!("{shown} is not of type {rule}")
                }
            }
            ("enum", _) if !list.iter().any(|it| equal(it, value)) => {
                format!("{shown} is not one of {}", List(list, " or "))
            }
            ("const", _) if !equal(rule, value) => format!("{rule} was expected"),
            ("required", Value::Object(members)) => {
                let is_missing =
                    |name: &&Value| name.as_str().is_some_and(|it| !members.contains_key(it));
                for name in list.iter().filter(is_missing) {
                    self.add(path, format_args!("{name} is a required property"));
                }
                return;
            }
            ("minimum", Value::Number(it)) if differs(it, rule, Ordering::is_lt) => {
                format!("{it} is less than the minimum of {rule}")
            }
            ("maximum", Value::Number(it)) if differs(it, rule, Ordering::is_gt) => {
                format!("{it} is greater than the maximum of {rule}")
            }
            ("exclusiveMinimum", Value::Number(it)) if differs(it, rule, Ordering::is_le) => {
                format!("{it} is not greater than the exclusive minimum of {rule}")
            }
            ("exclusiveMaximum", Value::Number(it)) if differs(it, rule, Ordering::is_ge) => {
                format!("{it} is not less than the exclusive maximum of {rule}")
            }
            ("minLength", Value::String(text)) if is_below(text.chars().count(), rule) => {
                format!("{shown} is shorter than {}", Count(rule, "character", "characters"))
            }
            ("maxLength", Value::String(text)) if is_above(text.chars().count(), rule) => {
                format!("{shown} is longer than {}", Count(rule, "character", "characters"))
            }
            ("minItems", Value::Array(items)) if is_below(items.len(), rule) => {
                format!("{shown} has less than {}", Count(rule, "item", "items"))
            }
            ("maxItems", Value::Array(items)) if is_above(items.len(), rule) => {
                format!("{shown} has more than {}", Count(rule, "item", "items"))
            }
            ("minProperties", Value::Object(members)) if is_below(members.len(), rule) => {
                format!("{shown} has less than {}", Count(rule, "property", "properties"))
            }
            ("maxProperties", Value::Object(members)) if is_above(members.len(), rule) => {
                format!("{shown} has more than {}", Count(rule, "property", "properties"))
            }
            ("uniqueItems", Value::Array(items)) if *rule == true && has_repeats(items) => {
                format!("{shown} has non-unique elements")
            }
            _ => return,
        };
        self.add(path, violation);
    }

    /// Checks a rule that applies other schemas.
    fn inner_rule(
        &mut self,
        rules: &Map<String, Value>,
        keyword: &str,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
    ) {
        let rule = &rules[keyword];
        let schemas = || rule.as_array().map_or(&[][..], Vec::as_slice);
        match (keyword, value) {
            ("$ref", _) => {
                if let Some(target) = rule.as_str().and_then(|it| resolve(self.root, it)) {
                    self.value(target, value, path, depth + 1);
                }
            }
            ("allOf", _) => {
                for schema in schemas() {
                    self.value(schema, value, path, depth + 1);
                }
            }
            ("anyOf" | "oneOf", _) => {
                let count = schemas().iter().filter(|it| self.matches(it, value, depth)).count();
                let shown = Shown(value);
                if count == 0 {
                    self.add(
                        path,
                        format_args!(
                            "{shown} is not valid under any of the schemas listed in the '{keyword}' keyword"
                        ),
                    );
                } else if count > 1 && keyword == "oneOf" {
                    self.add(
                        path,
                        format_args!(
                            "{shown} is valid under more than one of the schemas listed in the 'oneOf' keyword"
                        ),
                    );
                }
            }
            ("not", _) if self.matches(rule, value, depth) => {
                self.add(path, format_args!("{rule} is not allowed for {}", Shown(value)));
            }
            ("properties", Value::Object(members)) => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(member) = members.get(name) {
                        self.value(schema, member, &Path::Member(path, name), depth + 1);
                    }
                }
            }
            ("additionalProperties", Value::Object(members)) => {
                let known = rules.get("properties").and_then(Value::as_object);
                let is_more = |name: &str| known.is_none_or(|known| !known.contains_key(name));
                let more = members.iter().filter(|(name, _)| is_more(name));
                if rule == &Value::Bool(false) {
                    let names: Vec<String> = more.map(|(name, _)| format!("'{name}'")).collect();
                    if !names.is_empty() {
                        let verb = if names.len() == 1 { "was" } else { "were" };
                        let names = names.join(", ");
                        self.add(
                            path,
                            format_args!(
                                "Additional properties are not allowed ({names} {verb} unexpected)"
                            ),
                        );
                    }
                } else {
                    for (name, member) in more {
                        self.value(rule, member, &Path::Member(path, name), depth + 1);
                    }
                }
            }
            ("prefixItems", Value::Array(items)) => {
                for (at, (item, schema)) in items.iter().zip(schemas()).enumerate() {
                    self.value(schema, item, &Path::Item(path, at), depth + 1);
                }
            }
            ("items", Value::Array(items)) => {
                let prefix = rules.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                for (at, item) in items.iter().enumerate().skip(prefix) {
                    self.value(rule, item, &Path::Item(path, at), depth + 1);
                }
            }
            _ => (),
        }
    }
}

fn is_below(size: usize, limit: &Value) -> bool {
    limit.as_u64().is_some_and(|limit| (size as u64) < limit)
}

fn is_above(size: usize, limit: &Value) -> bool {
    limit.as_u64().is_some_and(|limit| size as u64 > limit)
}

fn has_repeats(items: &[Value]) -> bool {
    let is_repeated = |(at, item)| items[..at].iter().any(|it| equal(it, item));
    items.iter().enumerate().any(is_repeated)
}

/// Returns `true` if a number differs from a bound in this way.
fn differs(number: &Number, bound: &Value, way: impl Fn(Ordering) -> bool) -> bool {
    bound.as_number().and_then(|bound| compare(number, bound)).is_some_and(way)
}

/// Compares whole numbers exactly, and others as floating point numbers.
fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// Returns `true` if two values are equal as JSON Schema defines it: `1` equals `1.0`.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            compare(left, right).is_some_and(Ordering::is_eq)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let is_same = |(name, value): (&String, &Value)| {
                right.get(name).is_some_and(|other| equal(value, other))
            };
            left.len() == right.len() && left.iter().all(is_same)
        }
        _ => left == right,
    }
}

/// A value in a message.
struct Shown<'a>(&'a Value);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        match text.char_indices().nth(MAX_SHOWN_CHARS) {
            Some((end, _)) => write!(f, "{}…", &text[..end]),
            None => f.write_str(&text),
        }
    }
}

/// A number of things in a message.
struct Count<'a>(&'a Value, &'static str, &'static str);

impl Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, one, more) = self;
        write!(f, "{number} {}", if number.as_u64() == Some(1) { one } else { more })
    }
}

/// Values in a message, with a word before the last one.
struct List<'a>(&'a [Value], &'a str);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, value) in self.0.iter().enumerate() {
            let separator = match at {
                0 => "",
                at if at + 1 == self.0.len() => self.1,
                _ => ", ",
            };
            write!(f, "{separator}{value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
