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

/// A schema that applies a bounded number of others to one value, with its references followed once for the checks of all values.
///
/// A small schema that refers to itself for members or items can apply exponentially many to a value that is as deep, so each value
/// needs [`admits`](Self::admits) before it is validated.
#[derive(Clone, Debug)]
pub struct BoundedSchema {
    /// The schemas that are applied, by number. The first one is the schema itself.
    nodes: Vec<Node>,
}

impl BoundedSchema {
    /// Reads a schema. Returns `None` if it applies too many others to one value, or has references that cannot be followed: the
    /// check of a small value could then take an unbounded time.
    pub fn new(schema: &Value) -> Option<Self> {
        let mut costs = Costs { references: References::of(schema), known: HashMap::new() };
        costs.all_below(schema);
        let is_bounded = costs.known.values().all(|cost| *cost <= MAX_IN_PLACE);
        is_bounded.then(|| Self { nodes: Found::of(schema, &costs.references) })
    }

    /// Returns `true` if the schema applies at most a million others to a value and all that is in it.
    #[must_use]
    pub fn admits(&self, value: &Value) -> bool {
        let mut work = Work { nodes: &self.nodes, left: MAX_APPLIED };
        work.schema(0, value, 0);
        work.left > 0
    }
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

/// The number of a schema in a [`BoundedSchema`].
type Number = usize;

/// A schema, as far as it applies others. It includes some that are not applied, such as those of patterns that no name matches.
#[derive(Clone, Debug, Default)]
struct Node {
    /// The schemas of the same value.
    same: Vec<Number>,
    /// Whether they are applied twice, because a keyword asks again what the others have looked at.
    is_same_twice: bool,
    /// The schemas of members with these names.
    named: HashMap<String, Number>,
    /// The schemas of every member.
    each_member: Vec<Number>,
    /// The schemas of items by their place.
    placed: [Vec<Number>; 2],
    /// The schemas of every item.
    each_item: Vec<Number>,
}

/// The schemas that were found so far.
struct Found<'a> {
    nodes: Vec<Node>,
    numbers: HashMap<*const Value, Number>,
    /// Those that have not been read.
    unread: Vec<(Number, &'a Map<String, Value>)>,
}

impl<'a> Found<'a> {
    fn of(root: &'a Value, references: &References<'a>) -> Vec<Node> {
        let mut found = Self { nodes: Vec::new(), numbers: HashMap::new(), unread: Vec::new() };
        found.number(root);
        while let Some((number, rules)) = found.unread.pop() {
            found.nodes[number] = found.read(rules, references);
        }
        found.nodes
    }

    /// Returns the number of a schema, which is read later.
    fn number(&mut self, schema: &'a Value) -> Number {
        let next = self.nodes.len();
        let number = *self.numbers.entry(schema).or_insert(next);
        if number == next {
            self.nodes.push(Node::default());
            self.unread.extend(schema.as_object().map(|rules| (number, rules)));
        }
        number
    }

    fn all(&mut self, schemas: impl IntoIterator<Item = &'a Value>) -> Vec<Number> {
        schemas.into_iter().map(|schema| self.number(schema)).collect()
    }

    fn read(&mut self, rules: &'a Map<String, Value>, references: &References<'a>) -> Node {
        const AGAIN: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
        const MEMBERS: [&str; 3] =
            ["additionalProperties", "unevaluatedProperties", "propertyNames"];
        const ITEMS: [&str; 4] = ["items", "additionalItems", "unevaluatedItems", "contains"];
        let object = |name: &str| rules.get(name).and_then(Value::as_object);
        let same = rules.iter().filter_map(|(keyword, rule)| references.in_place(keyword, rule));
        let patterns = object("patternProperties").into_iter().flat_map(Map::values);
        let list = |name: &str| rules.get(name).and_then(Value::as_array).into_iter().flatten();
        Node {
            same: self.all(same.flatten()),
            is_same_twice: AGAIN.iter().any(|it| rules.contains_key(*it)),
            named: object("properties")
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), self.number(schema)))
                .collect(),
            each_member: self.all(patterns.chain(MEMBERS.iter().filter_map(|it| rules.get(*it)))),
            placed: ["prefixItems", "items"].map(|name| self.all(list(name))),
            each_item: self.all(ITEMS.iter().filter_map(|it| rules.get(*it))),
        }
    }
}

/// Counts the schemas that are applied to a value.
struct Work<'a> {
    nodes: &'a [Node],
    /// How many more may be applied.
    left: usize,
}

impl Work<'_> {
    fn schema(&mut self, number: Number, value: &Value, depth: usize) {
        let is_too_deep = depth > MAX_NESTED;
        self.left = if is_too_deep { 0 } else { self.left.saturating_sub(1) };
        if self.left == 0 {
            return;
        }
        let nodes = self.nodes;
        let node = &nodes[number];
        for _ in 0..=usize::from(node.is_same_twice) {
            self.all(&node.same, value, depth);
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    self.all(node.named.get(name), member, depth);
                    self.all(&node.each_member, member, depth);
                }
            }
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.all(node.placed.iter().filter_map(|it| it.get(at)), item, depth);
                    self.all(&node.each_item, item, depth);
                }
            }
            _ => {}
        }
    }

    fn all<'n>(
        &mut self,
        numbers: impl IntoIterator<Item = &'n Number>,
        value: &Value,
        depth: usize,
    ) {
        for number in numbers {
            self.schema(*number, value, depth + 1);
        }
    }
}
