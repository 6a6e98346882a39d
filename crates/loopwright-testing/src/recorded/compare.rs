//! Differences between requests and recorded ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use loopwright_core::messages::{Media, MediaSource};
use serde_json::{Map, Number, Value, json};

use super::canon::{Canon, CanonTool, Item, ItemContent, canon};

/// A difference between a request and the recorded one.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The severity.
    pub severity: Severity,
    /// The point.
    pub what: String,
    /// The recorded value.
    pub recorded: Value,
    /// The received value.
    pub received: Value,
}

/// The severity of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The model sees other content: texts, calls, results, tools or signatures.
    Hard,
    /// Another default, another wording of a schema, another order.
    Soft,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, recorded, received, .. } = self;
        write!(f, "{what}: recorded {}, received {}", short(recorded), short(received))
    }
}

fn short(value: &Value) -> String {
    const MAX: usize = 300;
    let text = value.to_string();
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Compares a request with the recorded one, as the model sees them: the order of fields and
/// whitespace do not matter. Tools that the provider itself runs are ignored.
pub fn compare(api: &str, recorded: &Value, received: &Value) -> Vec<Difference> {
    match (canon(api, recorded), canon(api, received)) {
        (Some(want), Some(got)) => compare_canons(api, &want, &got, received),
        _ => vec![Difference {
            severity: Severity::Hard,
            what: "wire".to_owned(),
            recorded: api.into(),
            received: Value::Null,
        }],
    }
}

/// Compares what a request should say with the body that was received.
pub(crate) fn compare_canons(
    api: &str,
    want: &Canon,
    got: &Canon,
    received: &Value,
) -> Vec<Difference> {
    let mut found = Found::default();
    found.hard("system", system(want), system(got));
    for kind in [Kind::Text, Kind::Calls, Kind::Results, Kind::Media] {
        let (want, got) = (said(api, &want.items, kind), said(api, &got.items, kind));
        let missing: Vec<_> = want.iter().filter(|it| !got.contains(it)).cloned().collect();
        let added: Vec<_> = got.iter().filter(|it| !want.contains(it)).cloned().collect();
        if want != got {
            let all_there = missing.is_empty() && added.is_empty();
            let (want, got) = if all_there { (want, got) } else { (missing, added) };
            found.hard(kind.name(), want, got);
        }
    }
    if want.container.is_some() {
        found.hard("container", want.container.clone(), got.container.clone());
    }
    found.soft("order of items", order(&want.items), order(&got.items));
    let lost: Vec<&str> = lost_handles(want, received).into_iter().collect();
    found.hard("opaque handles that were not sent back", lost, Vec::<&str>::new());
    if !matches!(api, "gemini-generate" | "bedrock-converse") {
        found.soft("stream", want.streams, got.streams);
    }
    compare_tools(&mut found, &functions(want), &functions(got));
    let names: BTreeSet<&String> = want.options.keys().chain(got.options.keys()).collect();
    for name in names {
        let value = |canon: &Canon| canon.options.get(name).cloned().unwrap_or_default();
        found.soft(format!("option {name}"), value(want), value(got));
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn hard(&mut self, what: impl Into<String>, want: impl Into<Value>, got: impl Into<Value>) {
        self.add(Severity::Hard, what.into(), want.into(), got.into());
    }

    fn soft(&mut self, what: impl Into<String>, want: impl Into<Value>, got: impl Into<Value>) {
        self.add(Severity::Soft, what.into(), want.into(), got.into());
    }

    fn add(&mut self, severity: Severity, what: String, recorded: Value, received: Value) {
        if recorded != received {
            self.0.push(Difference { severity, what, recorded, received });
        }
    }
}

/// What must agree of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Calls,
    Results,
    Media,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Calls => "tool calls",
            Self::Results => "tool results",
            Self::Media => "pictures and documents",
        }
    }
}

/// Returns what must agree of one kind.
///
/// Gemini's calls mostly have no ids; there results belong to calls by their names. Arguments that
/// are null are none.
pub(crate) fn said(api: &str, items: &[Item], kind: Kind) -> Vec<Value> {
    let has_ids = api != "gemini-generate";
    let say = |item: &Item| match &item.content {
        ItemContent::Text(text) if kind == Kind::Text => {
            let words = words(text);
            (!words.is_empty()).then(|| json!([item.role, words]))
        }
        ItemContent::Call { id, name, arguments } if kind == Kind::Calls => {
            let id = id.as_ref().filter(|_| has_ids);
            let nothing = Value::Object(Map::new());
            let arguments = if arguments.is_null() { &nothing } else { arguments };
            Some(json!([name, loose(arguments), id]))
        }
        ItemContent::Result { media, .. } if kind == Kind::Media => {
            (!media.is_empty()).then(|| media.iter().map(shown).collect())
        }
        ItemContent::Other { .. } if kind == Kind::Media && !item.is_assistant() => {
            item.media().map(|media| json!([shown(&media)]))
        }
        ItemContent::Result { id, name, text, .. } if kind == Kind::Results => {
            let whose = if has_ids { id } else { name };
            Some(json!([whose, loose(&Value::from(text.as_str()))]))
        }
        _ => None,
    };
    let mut said: Vec<Value> = items.iter().filter_map(say).collect();
    if kind == Kind::Media {
        // Some wires have no place for them in results: there they follow.
        said = said.into_iter().flat_map(|it| it.as_array().cloned().unwrap_or_default()).collect();
    }
    if matches!(kind, Kind::Results | Kind::Media) {
        said.sort_by_key(Value::to_string);
    }
    said
}

fn shown(media: &Media) -> Value {
    match &media.source {
        MediaSource::Base64(text) | MediaSource::Url(text) | MediaSource::File(text) => {
            Value::from(&**text)
        }
        _ => Value::Null,
    }
}

/// Returns the types and ids of what only the model's provider understands.
pub(crate) fn provider_blocks(canon: &Canon) -> BTreeSet<(String, String)> {
    canon.items.iter().filter_map(Item::provider_block).collect()
}

fn system(canon: &Canon) -> String {
    words(&canon.system.join(" "))
}

fn order(items: &[Item]) -> Vec<&str> {
    items.iter().filter(|it| !it.is_reasoning()).map(Item::kind).collect()
}

fn lost_handles<'a>(want: &'a Canon, received: &Value) -> BTreeSet<&'a str> {
    let received = plain_base64(&received.to_string());
    let handles = want.items.iter().flat_map(|item| &item.opaque).map(String::as_str);
    let is_lost = |handle: &&str| {
        let quoted = Value::from(*handle).to_string();
        !received.contains(&plain_base64(quoted.trim_matches('"')))
    };
    handles.filter(is_lost).collect()
}

/// Writes base64 in one of its two alphabets: some clients send handles back in the other one.
fn plain_base64(text: &str) -> String {
    text.replace('-', "+").replace('_', "/")
}

fn functions(canon: &Canon) -> BTreeMap<&str, &CanonTool> {
    let functions = canon.tools.iter().filter(|tool| tool.is_function());
    functions.map(|tool| (tool.name.as_str(), tool)).collect()
}

fn compare_tools(
    found: &mut Found,
    want: &BTreeMap<&str, &CanonTool>,
    got: &BTreeMap<&str, &CanonTool>,
) {
    let names = |tools: &BTreeMap<&str, &CanonTool>| -> Vec<Value> {
        tools.keys().map(|name| Value::from(*name)).collect()
    };
    found.hard("tool names", names(want), names(got));
    for (name, want) in want {
        if let Some(got) = got.get(name) {
            found.soft(format!("schema of {name}"), schema(&want.schema), schema(&got.schema));
            let (want, got) = (words(&want.description), words(&got.description));
            found.soft(format!("description of {name}"), want, got);
        }
    }
}

/// Returns a text with single blanks between its words.
pub(crate) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a value in which texts of JSON are JSON, blanks do not matter, wrappers around results are
/// gone and numbers are the same however they are written.
fn loose(value: &Value) -> Value {
    const WRAPPERS: [&str; 5] = ["output", "result", "content", "return_value", "text"];
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(value) => loose(&value),
            Err(_) => words(text).into(),
        },
        Value::Array(values) => values.iter().map(loose).collect(),
        Value::Object(fields) => match fields.iter().next() {
            Some((name, inner)) if fields.len() == 1 && WRAPPERS.contains(&name.as_str()) => {
                loose(inner)
            }
            _ => fields.iter().map(|(name, value)| (name.clone(), loose(value))).collect(),
        },
        Value::Number(number) => Value::Number(plain(number)),
        other => other.clone(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is a whole number below 2^53")]
fn plain(number: &Number) -> Number {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            Number::from(float as i64)
        }
        _ => number.clone(),
    }
}

/// Returns a schema without what providers add or refuse.
fn schema(value: &Value) -> Value {
    const LEFT_OUT: [&str; 6] =
        ["title", "additionalProperties", "$schema", "strict", "description", "$defs"];
    let Value::Object(fields) = value else { return value.clone() };
    let kept = fields.iter().filter(|(name, value)| {
        !LEFT_OUT.contains(&name.as_str()) && !value.is_null() && **value != json!([])
    });
    kept.map(|(name, value)| (name.clone(), schema_field(name, value)))
        .collect::<Map<_, _>>()
        .into()
}

fn schema_field(name: &str, value: &Value) -> Value {
    match value {
        Value::Array(values) if matches!(name, "required" | "enum") => {
            let mut values: Vec<String> = values.iter().map(Value::to_string).collect();
            values.sort();
            values.into()
        }
        Value::Array(values) => values.iter().map(schema).collect(),
        Value::Object(fields) if name == "properties" => {
            fields.iter().map(|(name, value)| (name.clone(), schema(value))).collect()
        }
        Value::Object(_) => schema(value),
        Value::String(kind) if name == "type" => kind.to_ascii_lowercase().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
