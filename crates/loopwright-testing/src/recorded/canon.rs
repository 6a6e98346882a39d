//! Provider-independent requests: system text, items, tools and options.

use loopwright_core::messages::Media;
use serde_json::{Map, Value};

mod anthropic;
mod bedrock;
mod chat;
mod gemini;
mod media;
mod read;
mod responses;

pub(crate) use self::read::canon;

/// A request in no provider's terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Canon {
    pub(crate) model: Option<String>,
    pub(crate) streams: bool,
    pub(crate) system: Vec<String>,
    pub(crate) items: Vec<Item>,
    pub(crate) tools: Vec<CanonTool>,
    pub(crate) options: Map<String, Value>,
    /// The id of the container in which the provider runs code.
    pub(crate) container: Option<String>,
}

/// One thing said, called or answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) role: String,
    pub(crate) content: ItemContent,
    /// Signatures and encrypted reasoning.
    pub(crate) opaque: Vec<String>,
}

/// What an item holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemContent {
    Text(String),
    Reasoning(String),
    Call {
        id: Option<String>,
        name: String,
        arguments: Value,
    },
    Result {
        id: Option<String>,
        name: Option<String>,
        text: String,
        is_error: bool,
        /// Pictures and documents.
        media: Vec<Media>,
    },
    /// Pictures, documents and what else only a provider knows.
    Other {
        kind: String,
        value: Value,
    },
}

/// A tool on offer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CanonTool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Value,
    pub(crate) kind: String,
}

impl CanonTool {
    /// Returns `true` if the client runs it, by arguments that are JSON.
    pub(crate) fn is_function(&self) -> bool {
        matches!(self.kind.as_str(), "" | "function")
            || self.kind == "custom" && !self.schema.is_null()
    }

    /// Reads a tool of a script.
    pub(crate) fn of_script(value: &Value) -> Self {
        Self {
            name: text(value, "name").to_owned(),
            description: text(value, "description").to_owned(),
            schema: value["schema"].clone(),
            kind: text(value, "kind").to_owned(),
        }
    }
}

impl Item {
    pub(crate) fn text(role: &str, text: impl Into<String>) -> Self {
        Self::of(role, ItemContent::Text(text.into()))
    }

    fn of(role: &str, content: ItemContent) -> Self {
        Self { role: role.to_owned(), content, opaque: Vec::new() }
    }

    fn call(id: &Value, name: &Value, arguments: Value) -> Self {
        let (id, name) = (owned(id), owned(name).unwrap_or_default());
        Self::of("assistant", ItemContent::Call { id, name, arguments })
    }

    fn result(id: &Value, name: Option<String>, text: String, is_error: bool) -> Self {
        let (id, media) = (owned(id), Vec::new());
        Self::of("tool", ItemContent::Result { id, name, text, is_error, media })
    }

    /// Adds the pictures and documents among these parts to a result.
    fn showing(mut self, parts: &Value, read: impl Fn(&Value) -> Option<Self>) -> Self {
        if let ItemContent::Result { media, .. } = &mut self.content {
            let shown = list(parts).iter().filter_map(read);
            media.extend(shown.filter_map(|item| item.media()));
        }
        self
    }

    /// Returns the picture or the document that it is.
    pub(crate) fn media(&self) -> Option<Media> {
        match &self.content {
            ItemContent::Other { kind, value } => media::media(kind, value),
            _ => None,
        }
    }

    /// Returns its type and its id if it is something that only the model's provider understands.
    pub(crate) fn provider_block(&self) -> Option<(String, String)> {
        let ItemContent::Other { kind, value } = &self.content else { return None };
        if !self.is_assistant() || self.media().is_some() {
            return None;
        }
        let names = ["id", "tool_use_id", "toolUseId", "call_id"];
        let id = names.iter().find_map(|name| owned(&value[*name]))?;
        Some((owned(&value["type"]).unwrap_or_else(|| kind.clone()), id))
    }

    fn reasoning(role: &str, text: impl Into<String>, opaque: Vec<String>) -> Self {
        Self { opaque, ..Self::of(role, ItemContent::Reasoning(text.into())) }
    }

    fn other(role: &str, kind: &str, value: Value) -> Self {
        Self::of(role, ItemContent::Other { kind: kind.to_owned(), value })
    }

    fn with_opaque(mut self, opaque: Option<&str>) -> Self {
        self.opaque.extend(opaque.map(str::to_owned));
        self
    }

    pub(crate) fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    pub(crate) fn is_result(&self) -> bool {
        matches!(self.content, ItemContent::Result { .. })
    }

    pub(crate) fn is_reasoning(&self) -> bool {
        matches!(self.content, ItemContent::Reasoning(_))
    }

    /// Returns the kind's name.
    pub(crate) fn kind(&self) -> &str {
        match &self.content {
            ItemContent::Text(_) => "text",
            ItemContent::Reasoning(_) => "reasoning",
            ItemContent::Call { .. } => "tool_call",
            ItemContent::Result { .. } => "tool_result",
            ItemContent::Other { kind, .. } => kind,
        }
    }

    /// Reads an item of a script.
    pub(crate) fn of_script(value: &Value) -> Self {
        let role = text(value, "role");
        let said = || text(value, "text").to_owned();
        let item = match text(value, "kind") {
            "text" => Self::text(role, said()),
            "reasoning" => Self::reasoning(role, said(), Vec::new()),
            "tool_call" => Self::call(&value["id"], &value["name"], value["arguments"].clone()),
            "tool_result" => {
                let is_error = value["is_error"] == true;
                Self::result(&value["id"], owned(&value["name"]), said(), is_error)
            }
            kind => Self::other(role, kind, value["value"].clone()),
        };
        let opaque = list(&value["opaque"]).iter().filter_map(owned).collect();
        Self { opaque, ..item }
    }
}

/// Joins neighbouring texts of one role.
pub(crate) fn merged(items: Vec<Item>) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::with_capacity(items.len());
    for item in items {
        if let (Some(last), ItemContent::Text(more)) = (all.last_mut(), &item.content)
            && last.role == item.role
            && last.opaque.is_empty()
            && item.opaque.is_empty()
            && let ItemContent::Text(text) = &mut last.content
        {
            text.push('\n');
            text.push_str(more);
            continue;
        }
        all.push(item);
    }
    all
}

/// Gives results the names of the calls that they answer.
fn name_results(items: &mut [Item]) {
    let names: Vec<(String, String)> = items
        .iter()
        .filter_map(|item| match &item.content {
            ItemContent::Call { id: Some(id), name, .. } => Some((id.clone(), name.clone())),
            _ => None,
        })
        .collect();
    for item in items {
        if let ItemContent::Result { id: Some(id), name: name @ None, .. } = &mut item.content {
            *name = names.iter().rfind(|it| it.0 == *id).map(|it| it.1.clone());
        }
    }
}

/// Returns the words of a result or of some content.
fn flat(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(flat).collect(),
        Value::Object(fields) => {
            let known = ["text", "output", "content", "result", "return_value"];
            let beside = ["type", "annotations", "cache_control"];
            let count = fields.keys().filter(|it| !beside.contains(&it.as_str())).count();
            let inner = known.iter().filter_map(|name| fields.get(*name));
            let mut inner = inner.filter(|it| it.is_string() || it.is_array());
            match inner.next() {
                Some(inner) if count == 1 => flat(inner),
                _ => value.to_string(),
            }
        }
        other => other.to_string(),
    }
}

/// Returns the words of a result; pictures and documents in it have none.
fn words(value: &Value) -> String {
    let is_shown = |part: &&Value| {
        matches!(text(part, "type"), "image" | "document" | "input_image" | "input_file")
            || part["image"].is_object()
            || part["document"].is_object()
    };
    match value {
        Value::Array(parts) => parts.iter().filter(|part| !is_shown(part)).map(flat).collect(),
        other => flat(other),
    }
}

/// Returns arguments, parsed where they are a text of JSON.
fn arguments(value: &Value) -> Value {
    match value {
        Value::Null => Value::Object(Map::new()),
        Value::String(text) if text.trim().is_empty() => Value::Object(Map::new()),
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        other => other.clone(),
    }
}

/// Returns a part of a message of chat completions and of what is like them.
fn part(role: &str, part: &Value) -> Item {
    match text(part, "type") {
        "text" | "input_text" | "output_text" => Item::text(role, text(part, "text")),
        "refusal" => Item::text(role, text(part, "refusal")),
        "image_url" | "input_image" => {
            let address = &part["image_url"];
            let address = if address.is_object() { &address["url"] } else { address };
            Item::other(role, "image", address.clone())
        }
        "file" | "input_file" | "document" | "document_url" => {
            let mut value = part.clone();
            if let Some(fields) = value.as_object_mut() {
                fields.remove("type");
            }
            Item::other(role, "document", value)
        }
        "input_audio" => Item::other(role, "audio", part["input_audio"].clone()),
        "thinking" => {
            let signature = owned(&part["signature"]).into_iter().collect();
            Item::reasoning(role, flat(&part["thinking"]), signature)
        }
        _ => Item::other(role, "other", part.clone()),
    }
}

fn keep_options(body: &Value, into: &mut Canon, names: &[&str]) {
    for name in names {
        if let Some(value) = body.get(name).filter(|it| !it.is_null()) {
            into.options.insert((*name).to_owned(), value.clone());
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// Returns a text that is not empty.
fn owned(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
