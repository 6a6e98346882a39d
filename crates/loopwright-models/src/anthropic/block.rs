//! A block of a response in progress.

use loopwright_core::{
    Delta, DeltaSink,
    messages::{Content, Part, ProviderPayload, ToolCall},
};
use serde::de::IgnoredAny;
use serde_json::{Value, value::RawValue};

use super::wire::WireDelta;
use crate::{
    json::{key, quoted, value},
    object::Object,
};

/// A block: what it began with and what was added.
///
/// What is kept of it for the provider is the block as it stands in an answer that is not streamed.
#[derive(Debug)]
pub(super) struct Block {
    kind: Kind,
    /// The fields that it began with, as JSON.
    fields: Vec<(String, String)>,
    /// The JSON that it began with, as long as nothing was added.
    whole: Option<String>,
    /// The words of a text or of thinking, the input of a tool.
    text: String,
    signature: String,
    citations: Vec<String>,
    /// What was added in ways not known here: fields and their values.
    more: Vec<(String, Value)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Redacted,
    /// A tool of ours; counted among the calls.
    Call {
        index: u16,
        id: String,
        name: String,
    },
    /// Something of the provider's own.
    Provider(String),
}

impl Block {
    /// Begins a block with what stands in the event, or in a whole answer. It is the answer's call of
    /// this number if it is one.
    ///
    /// # Errors
    ///
    /// Returns an error if it is no object.
    pub(super) fn begin(
        raw: &RawValue,
        calls: u16,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Self, serde_json::Error> {
        let object: Object<'_> = serde_json::from_str(raw.get())?;
        let kind = match object.text("type").as_str() {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "redacted_thinking" => Kind::Redacted,
            "tool_use" => {
                Kind::Call { index: calls, id: object.text("id"), name: object.text("name") }
            }
            other => Kind::Provider(other.to_owned()),
        };
        let text = match kind {
            Kind::Text => object.text("text"),
            Kind::Thinking => object.text("thinking"),
            _ => String::new(),
        };
        let citations = object.get("citations").filter(|_| kind == Kind::Text);
        let citations = citations.and_then(|it| serde_json::from_str::<Vec<&RawValue>>(it).ok());
        let citations = citations.unwrap_or_default();
        let mut block = Self {
            kind,
            whole: Some(raw.get().to_owned()),
            text: String::new(),
            signature: object.text("signature"),
            citations: citations.into_iter().map(|it| it.get().to_owned()).collect(),
            more: Vec::new(),
            fields: Vec::with_capacity(object.0.len()),
        };
        for (name, value) in object.0 {
            block.fields.push((name.into_owned(), value.get().to_owned()));
        }
        if let Kind::Call { index, id, name } = &block.kind {
            let id = Some(id.as_str()).filter(|it| !it.is_empty());
            deltas.push(Delta::ToolCall { index: *index, id, name });
        }
        block.say(&text, deltas);
        Ok(block)
    }

    /// Begins a block that was not announced. Returns `None` if what is added does not tell its
    /// kind.
    pub(super) fn unannounced(delta: &WireDelta<'_>) -> Option<Self> {
        let (kind, name) = match &*delta.kind {
            "text_delta" => (Kind::Text, "text"),
            "thinking_delta" => (Kind::Thinking, "thinking"),
            _ => return None,
        };
        Some(Self {
            kind,
            fields: vec![("type".to_owned(), quoted(name))],
            whole: None,
            text: String::new(),
            signature: String::new(),
            citations: Vec::new(),
            more: Vec::new(),
        })
    }

    /// Adds to the block. `data` is the event, for what is not known here.
    pub(super) fn add(&mut self, delta: &WireDelta<'_>, data: &[u8], deltas: &mut dyn DeltaSink) {
        match &*delta.kind {
            "text_delta" => self.say(&delta.text, deltas),
            "thinking_delta" => self.say(&delta.thinking, deltas),
            "signature_delta" => self.signature.push_str(&delta.signature),
            "input_json_delta" => self.say(&delta.partial_json, deltas),
            "citations_delta" => {
                self.citations.extend(delta.citation.map(|it| it.get().to_owned()));
            }
            _ => self.add_unknown(data),
        }
        self.whole = None;
    }

    /// Ends the block. An input that came at once, with its beginning, is passed on now.
    pub(super) fn close(&mut self, deltas: &mut dyn DeltaSink) {
        if let Kind::Call { .. } = self.kind
            && self.text.is_empty()
            && let Some(input) = self.field("input").filter(|it| !matches!(*it, "{}" | "null"))
        {
            let input = input.to_owned();
            self.say(&input, deltas);
        }
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Call { .. })
    }

    pub(super) fn is_nameless_call(&self) -> bool {
        matches!(&self.kind, Kind::Call { name, .. } if name.is_empty())
    }

    /// Returns the part that it is, or `None` if it says nothing.
    ///
    /// Of an answer that was cut off, thinking without a signature is not kept for the provider: it
    /// would not be taken back.
    pub(super) fn into_part(self, is_cut: bool) -> Option<Part> {
        let is_plain = self.is_plain();
        let (keeps_own, content) = match &self.kind {
            Kind::Text if self.text.is_empty() => return None,
            Kind::Text => (!is_plain, Content::Text(self.text.as_str().into())),
            Kind::Thinking if self.text.is_empty() && self.signature.is_empty() => return None,
            Kind::Thinking => {
                let is_kept = !is_cut || !self.signature.is_empty();
                (is_kept, Content::Reasoning(self.text.as_str().into()))
            }
            Kind::Redacted => (true, Content::Reasoning("".into())),
            Kind::Call { id, name, .. } => {
                let id = Some(id.as_str()).filter(|it| !it.is_empty()).map(Into::into);
                let (name, arguments) = (name.as_str().into(), self.text.as_str().into());
                let call = ToolCall { id, name, arguments };
                (!is_plain && self.has_whole_input(), Content::ToolCall(call))
            }
            Kind::Provider(kind) => {
                (self.has_whole_input(), Content::Provider { kind: kind.as_str().into() })
            }
        };
        let part = Part::new(content);
        Some(if keeps_own {
            part.with_provider_payload(ProviderPayload::new(self.into_json()))
        } else {
            part
        })
    }

    fn say(&mut self, more: &str, deltas: &mut dyn DeltaSink) {
        if more.is_empty() {
            return;
        }
        self.text.push_str(more);
        match self.kind {
            Kind::Text => deltas.push(Delta::Text(more)),
            Kind::Thinking => deltas.push(Delta::Reasoning(more)),
            Kind::Call { index, .. } => {
                deltas.push(Delta::ToolArguments { index, fragment: more });
            }
            _ => {}
        }
    }

    /// Adds the values of a delta to the fields of the same names.
    fn add_unknown(&mut self, data: &[u8]) {
        let event: Object<'_> = serde_json::from_slice(data).unwrap_or_default();
        let delta = event.get("delta").unwrap_or_default();
        let delta: Object<'_> = serde_json::from_str(delta).unwrap_or_default();
        for (name, value) in delta.0.into_iter().filter(|(name, _)| name != "type") {
            let Ok(value) = serde_json::from_str::<Value>(value.get()) else { continue };
            let mut known = self.more.iter_mut();
            if let Some((_, so_far)) = known.find(|(it, _)| **it == *name) {
                add_value(so_far, value);
            } else {
                let begun = self.field(&name).and_then(|it| serde_json::from_str(it).ok());
                let mut begun = begun.unwrap_or(Value::Null);
                add_value(&mut begun, value);
                self.more.push((name.into_owned(), begun));
            }
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(it, _)| it == name).map(|(_, json)| json.as_str())
    }

    /// Returns `true` if the block says nothing that its part does not.
    fn is_plain(&self) -> bool {
        self.citations.is_empty()
            && self.more.is_empty()
            && self.fields.iter().all(|(name, json)| match name.as_str() {
                "type" | "text" | "id" | "name" | "input" => true,
                "citations" => matches!(json.as_str(), "[]" | "null"),
                "caller" => serde_json::from_str::<Object<'_>>(json)
                    .is_ok_and(|it| it.0.len() == 1 && it.text("type") == "direct"),
                _ => json == "null",
            })
    }

    /// Returns `true` if a tool's input is not cut off.
    fn has_whole_input(&self) -> bool {
        self.text.is_empty() || serde_json::from_str::<IgnoredAny>(&self.text).is_ok()
    }

    /// Returns the block as it stands in an answer that is not streamed.
    fn into_json(self) -> String {
        if let Some(whole) = self.whole {
            return whole;
        }
        let mut said: Vec<(&str, String)> = Vec::new();
        match self.kind {
            Kind::Text => said.push(("text", quoted(&self.text))),
            Kind::Thinking => {
                said.push(("thinking", quoted(&self.text)));
                said.push(("signature", quoted(&self.signature)));
            }
            _ if self.text.is_empty() => {}
            _ => said.push(("input", self.text)),
        }
        if !self.citations.is_empty() {
            said.push(("citations", format!("[{}]", self.citations.join(","))));
        }
        said.extend(self.more.iter().map(|(name, value)| (name.as_str(), value.to_string())));
        let mut json = vec![b'{'];
        let new = |name: &str| !self.fields.iter().any(|(it, _)| it == name);
        let added = said.iter().filter(|(name, _)| new(name));
        let begun = self.fields.iter().map(|(name, begun)| {
            let said = said.iter().find(|(it, _)| it == name);
            (name.as_str(), said.map_or(begun.as_str(), |(_, json)| json))
        });
        for (name, field) in begun.chain(added.map(|(name, json)| (*name, json.as_str()))) {
            if json.len() == 1 {
                value(&mut json, name);
                json.push(b':');
            } else {
                key(&mut json, name);
            }
            json.extend_from_slice(field.as_bytes());
        }
        json.push(b'}');
        String::from_utf8_lossy(&json).into_owned()
    }
}

/// Adds a piece of a field to what there is of it: texts and lists grow, anything else is replaced.
fn add_value(so_far: &mut Value, more: Value) {
    match (so_far, more) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(&more),
        (Value::Array(items), Value::Array(more)) => items.extend(more),
        (so_far, more) => *so_far = more,
    }
}
