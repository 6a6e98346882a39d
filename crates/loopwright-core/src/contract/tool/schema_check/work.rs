//! How many schemas the validator of the feature `json-schema` applies. It has no limit of its own.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::MAX_APPLIED;

/// The most schemas that one schema may apply to the same value.
const MAX_IN_PLACE: u64 = 100_000;

/// Schemas that are applied within each other, in a schema or in a value.
const MAX_NESTED: usize = 500;

/// The keywords that refer to a schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Returns `true` if a schema applies a bounded number of others to one value, so that the check of a small value takes a bounded time.
/// One with references that cannot be followed does not.
pub fn is_bounded_schema(schema: &Value) -> bool {
    let mut costs = Costs { references: References::of(schema), known: HashMap::new() };
    costs.all_below(schema);
    costs.known.values().all(|cost| *cost <= MAX_IN_PLACE)
}

/// Returns `true` if a [bounded](is_bounded_schema) schema applies at most a million others to a value and all that is in it. A small
/// schema that refers to itself for members or items can apply exponentially many to a value that is as deep.
pub fn is_bounded_check(schema: &Value, value: &Value) -> bool {
    let mut work = Work { references: References::of(schema), left: MAX_APPLIED };
    work.schema(schema, value, 0);
    work.left > 0
}

/// What the references of a schema refer to.
struct References<'a> {
    /// By the text of the reference. `None` means that it cannot be followed.
    targets: HashMap<*const Value, Option<&'a Value>>,
    /// The schemas with a URI of their own, the root first.
    resources: Vec<(String, &'a Value)>,
    /// The schemas with a name, by the resource that they are in.
    anchors: HashMap<(*const Value, &'a str), &'a Value>,
}

impl<'a> References<'a> {
    fn of(root: &'a Value) -> Self {
        let base = id_of(root).unwrap_or_default().to_owned();
        let mut references = Self {
            targets: HashMap::new(),
            resources: vec![(base.clone(), root)],
            anchors: HashMap::new(),
        };
        references.collect(root, root, &base);
        references.link(root, root, &base);
        references
    }

    fn collect(&mut self, value: &'a Value, resource: &'a Value, base: &str) {
        for name in names_of(value) {
            self.anchors.entry((std::ptr::from_ref(resource), name)).or_insert(value);
        }
        for inner in below(value) {
            match id_of(inner) {
                Some(id) => {
                    let uri = joined(base, id);
                    self.resources.push((uri.clone(), inner));
                    self.collect(inner, inner, &uri);
                }
                None => self.collect(inner, resource, base),
            }
        }
    }

    /// Follows each reference in a part of a resource.
    fn link(&mut self, value: &'a Value, resource: &'a Value, base: &str) {
        for name in REFERENCES {
            if let Some(rule) = value.get(name)
                && let Some(reference) = rule.as_str()
            {
                let target = self.target(reference, resource, base);
                self.targets.insert(rule, target);
            }
        }
        for inner in below(value) {
            match id_of(inner) {
                Some(id) => self.link(inner, inner, &joined(base, id)),
                None => self.link(inner, resource, base),
            }
        }
    }

    fn target(&self, reference: &str, resource: &'a Value, base: &str) -> Option<&'a Value> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let within = if uri.is_empty() {
            resource
        } else {
            let uri = joined(base, uri);
            self.resources.iter().find(|it| it.0 == uri)?.1
        };
        let fragment = decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return within.pointer(&fragment);
        }
        self.anchors.get(&(std::ptr::from_ref(within), fragment.as_str())).copied()
    }

    /// Returns the schemas that a rule applies to the same value. `None` means that this is unknown.
    fn in_place(&self, keyword: &str, rule: &'a Value) -> Option<Vec<&'a Value>> {
        Some(match (keyword, rule) {
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter().collect(),
            ("not" | "if" | "then" | "else", rule) => vec![rule],
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                schemas.values().collect()
            }
            (keyword, Value::String(_)) if REFERENCES.contains(&keyword) => {
                vec![self.targets.get(&std::ptr::from_ref(rule)).copied()??]
            }
            _ => Vec::new(),
        })
    }
}

/// Returns what is directly in a value.
fn below(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the URI of a schema. A fragment alone is an anchor, and the value of a property is none.
fn id_of(schema: &Value) -> Option<&str> {
    let id = schema.get("$id")?.as_str()?.trim_end_matches('#');
    (!id.is_empty() && !id.starts_with('#')).then_some(id)
}

/// Resolves a reference to a URI without a fragment.
fn joined(base: &str, reference: &str) -> String {
    let is_whole = reference.contains(':') || base.is_empty();
    let host = base.find("://").map_or(0, |at| at + 3);
    let path = base[host..].find('/').map_or(base.len(), |at| host + at);
    if is_whole {
        reference.to_owned()
    } else if reference.starts_with('/') {
        format!("{}{reference}", &base[..path])
    } else {
        let folder = base.rfind('/').filter(|at| *at >= path).map_or(host, |at| at + 1);
        format!("{}{reference}", &base[..folder])
    }
}

/// Replaces `%20` and the like.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// Returns the names of a schema, which fragments of references give.
fn names_of(schema: &Value) -> impl Iterator<Item = &str> {
    let text = |keyword: &str| schema.get(keyword).and_then(Value::as_str);
    let old = text("$id").and_then(|it| it.strip_prefix('#'));
    [text("$anchor"), text("$dynamicAnchor"), old].into_iter().flatten()
}

/// How many schemas each schema applies to the same value, itself included.
struct Costs<'a> {
    references: References<'a>,
    known: HashMap<*const Value, u64>,
}

impl<'a> Costs<'a> {
    /// Looks at every place where a schema can be.
    fn all_below(&mut self, value: &'a Value) {
        self.cost(value, 0);
        for it in below(value) {
            self.all_below(it);
        }
    }

    fn cost(&mut self, schema: &'a Value, depth: usize) -> u64 {
        let Value::Object(rules) = schema else { return 1 };
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        // Until it is known, it is endless: so is a schema that applies itself.
        self.known.insert(schema, u64::MAX);
        if depth > super::MAX_DEPTH {
            return u64::MAX;
        }
        let mut cost = 1_u64;
        for (keyword, rule) in rules {
            let inner = match self.references.in_place(keyword, rule) {
                Some(schemas) => schemas
                    .into_iter()
                    .fold(0, |sum: u64, it| sum.saturating_add(self.cost(it, depth + 1))),
                None => u64::MAX,
            };
            cost = cost.saturating_add(inner);
        }
        self.known.insert(schema, cost);
        cost
    }
}

/// Counts the schemas that are applied to a value. It counts some that are not, such as those of patterns that no name matches.
struct Work<'a> {
    references: References<'a>,
    /// How many more may be applied.
    left: usize,
}

impl<'a> Work<'a> {
    fn schema(&mut self, schema: &'a Value, value: &Value, depth: usize) {
        let is_too_deep = depth > MAX_NESTED;
        self.left = if is_too_deep { 0 } else { self.left.saturating_sub(1) };
        let Value::Object(rules) = schema else { return };
        if self.left == 0 {
            return;
        }
        self.same_value(rules, value, depth);
        if rules.contains_key("unevaluatedProperties") || rules.contains_key("unevaluatedItems") {
            // They ask again what the others have looked at.
            self.same_value(rules, value, depth);
        }
        match value {
            Value::Object(members) => self.members(rules, members, depth),
            Value::Array(items) => self.items(rules, items, depth),
            _ => {}
        }
    }

    fn same_value(&mut self, rules: &'a Map<String, Value>, value: &Value, depth: usize) {
        for (keyword, rule) in rules {
            for schema in self.references.in_place(keyword, rule).unwrap_or_default() {
                self.schema(schema, value, depth + 1);
            }
        }
    }

    fn members(
        &mut self,
        rules: &'a Map<String, Value>,
        members: &Map<String, Value>,
        depth: usize,
    ) {
        let named = rules.get("properties").and_then(Value::as_object);
        let patterns = rules.get("patternProperties").and_then(Value::as_object);
        let each = ["additionalProperties", "unevaluatedProperties", "propertyNames"];
        let each: Vec<&Value> = each.iter().filter_map(|it| rules.get(*it)).collect();
        for (name, member) in members {
            let own = named.and_then(|it| it.get(name));
            let patterns = patterns.into_iter().flat_map(Map::values);
            for schema in own.into_iter().chain(patterns).chain(each.iter().copied()) {
                self.schema(schema, member, depth + 1);
            }
        }
    }

    fn items(&mut self, rules: &'a Map<String, Value>, items: &[Value], depth: usize) {
        let each = ["items", "additionalItems", "unevaluatedItems", "contains"];
        let each: Vec<&Value> = each.iter().filter_map(|it| rules.get(*it)).collect();
        let by_place = ["prefixItems", "items"].map(|it| rules.get(it).and_then(Value::as_array));
        for (at, item) in items.iter().enumerate() {
            let placed = by_place.iter().flatten().filter_map(|schemas| schemas.get(at));
            for schema in placed.chain(each.iter().copied()) {
                self.schema(schema, item, depth + 1);
            }
        }
    }
}
