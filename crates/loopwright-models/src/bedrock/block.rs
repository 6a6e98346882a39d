//! A block of a response in progress.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use loopwright_core::{
    Delta, DeltaSink,
    messages::{Content, Part, ProviderPayload, ToolCall},
};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::wire::{ReasoningDelta, WireDelta};
use crate::{json::quoted, object::Object};

/// A block: what it began with and what was added.
#[derive(Debug)]
pub(super) struct Block {
    kind: Kind,
    /// The words, or the input of a tool.
    text: String,
    /// The block as it stands in an answer that is not streamed, if it came so.
    whole: Option<String>,
}

#[derive(Debug)]
enum Kind {
    /// Words, and where they are from.
    Text {
        citations: Vec<String>,
    },
    Reasoning {
        signature: String,
        redacted: Vec<u8>,
    },
    /// A tool of ours; counted among the calls.
    Call {
        index: u16,
        id: String,
        name: String,
    },
    /// A tool of the provider's own: the fields it began with, and what it said.
    Provider {
        kind: String,
        fields: Vec<(String, String)>,
        said: Vec<String>,
    },
}

impl Kind {
    /// Returns the kind of a block that is not announced.
    fn of(delta: &WireDelta<'_>) -> Option<Self> {
        if delta.text.is_some() || delta.citation.is_some() {
            return Some(Self::Text { citations: Vec::new() });
        }
        delta.reasoning_content.as_ref()?;
        Some(Self::Reasoning { signature: String::new(), redacted: Vec::new() })
    }
}

impl Block {
    /// Begins a block that is announced: a tool. It is the answer's call of this number if it is one.
    pub(super) fn begin(
        start: &Object<'_>,
        calls: u16,
        deltas: &mut dyn DeltaSink,
    ) -> Option<Self> {
        let (name, raw) = start.0.first()?;
        let fields: Object<'_> = serde_json::from_str(raw.get()).ok()?;
        let block =
            Self { kind: Self::tool(name, &fields, calls), text: String::new(), whole: None };
        block.announce(deltas);
        Some(block)
    }

    /// Reads a block of a whole answer. Returns `None` if it is none.
    pub(super) fn whole(raw: &RawValue, calls: u16) -> Option<Self> {
        let block: Object<'_> = serde_json::from_str(raw.get()).ok()?;
        let (name, value) = block.0.first()?;
        let fields: Object<'_> = serde_json::from_str(value.get()).unwrap_or_default();
        let whole = Some(raw.get().to_owned());
        let (kind, text) = match &**name {
            "text" => {
                return Some(Self {
                    kind: Kind::Text { citations: Vec::new() },
                    text: block.text("text"),
                    whole: None,
                });
            }
            "citationsContent" => {
                let parts = fields.get("content").unwrap_or("[]");
                let parts: Vec<Object<'_>> = serde_json::from_str(parts).unwrap_or_default();
                let text = parts.iter().map(|part| part.text("text")).collect();
                (Kind::Text { citations: Vec::new() }, text)
            }
            "reasoningContent" => {
                let words = fields.get("reasoningText").unwrap_or("{}");
                let words: Object<'_> = serde_json::from_str(words).unwrap_or_default();
                let redacted = fields.text("redactedContent").into_bytes();
                let signature = words.text("signature");
                (Kind::Reasoning { signature, redacted }, words.text("text"))
            }
            _ => {
                let kind = Self::tool(name, &fields, calls);
                let input = match kind {
                    Kind::Call { .. } => fields.get("input").unwrap_or_default().to_owned(),
                    _ => String::new(),
                };
                (kind, input)
            }
        };
        Some(Self { kind, text, whole })
    }

    /// Begins a block that was not announced. Returns `None` if what is added does not tell its
    /// kind.
    pub(super) fn unannounced(delta: &WireDelta<'_>) -> Option<Self> {
        Some(Self { kind: Kind::of(delta)?, text: String::new(), whole: None })
    }

    fn tool(name: &str, fields: &Object<'_>, calls: u16) -> Kind {
        let kind = fields.text("type");
        if name == "toolUse" && matches!(kind.as_str(), "" | "tool_use") {
            return Kind::Call {
                index: calls,
                id: fields.text("toolUseId"),
                name: fields.text("name"),
            };
        }
        let fields = fields.0.iter();
        let fields = fields.map(|(name, value)| (name.to_string(), value.get().to_owned()));
        Kind::Provider { kind: name.to_owned(), fields: fields.collect(), said: Vec::new() }
    }

    fn announce(&self, deltas: &mut dyn DeltaSink) {
        if let Kind::Call { index, id, name } = &self.kind {
            let id = Some(id.as_str()).filter(|it| !it.is_empty());
            deltas.push(Delta::ToolCall { index: *index, id, name });
        }
    }

    /// Adds to the block.
    pub(super) fn add(&mut self, delta: &WireDelta<'_>, deltas: &mut dyn DeltaSink) {
        if let Some(text) = &delta.text {
            self.say(text, deltas);
        }
        if let Some(tool) = &delta.tool_use {
            self.say(&tool.input, deltas);
        }
        if let Some(reasoning) = &delta.reasoning_content {
            self.reason(reasoning, deltas);
        }
        match &mut self.kind {
            Kind::Text { citations } => {
                citations.extend(delta.citation.map(|it| it.get().to_owned()));
            }
            Kind::Provider { said, .. } => {
                let more = delta.tool_result.iter().flatten();
                said.extend(more.map(|it| it.get().to_owned()));
            }
            _ => {}
        }
    }

    fn say(&mut self, more: &str, deltas: &mut dyn DeltaSink) {
        if more.is_empty() {
            return;
        }
        self.text.push_str(more);
        match self.kind {
            Kind::Text { .. } => deltas.push(Delta::Text(more)),
            Kind::Reasoning { .. } => deltas.push(Delta::Reasoning(more)),
            Kind::Call { index, .. } => {
                deltas.push(Delta::ToolArguments { index, fragment: more });
            }
            Kind::Provider { .. } => {}
        }
    }

    fn reason(&mut self, delta: &ReasoningDelta<'_>, deltas: &mut dyn DeltaSink) {
        if let Kind::Reasoning { signature, redacted } = &mut self.kind {
            signature.push_str(&delta.signature);
            // Each piece is base64 of its own: they are put together as bytes.
            redacted.extend(BASE64_STANDARD.decode(&*delta.redacted_content).unwrap_or_default());
        }
        self.say(&delta.text, deltas);
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Call { .. })
    }

    pub(super) fn is_nameless_call(&self) -> bool {
        matches!(&self.kind, Kind::Call { name, .. } if name.is_empty())
    }

    /// Returns the part that it is, or `None` if it says nothing.
    ///
    /// Reasoning is kept for the provider if it has a signature or is encrypted. Not every model takes
    /// other reasoning back, so that it is written anew for those that do.
    pub(super) fn into_part(self) -> Option<Part> {
        let Self { kind, text, whole } = self;
        let (content, own) = match kind {
            Kind::Text { .. } if text.is_empty() => return None,
            Kind::Text { citations } => {
                let own =
                    whole.or_else(|| (!citations.is_empty()).then(|| cited(&text, &citations)));
                (Content::Text(text.into()), own)
            }
            Kind::Reasoning { signature, redacted }
                if signature.is_empty() && redacted.is_empty() =>
            {
                if text.is_empty() {
                    return None;
                }
                (Content::Reasoning(text.into()), None)
            }
            Kind::Reasoning { signature, redacted } => {
                let own = whole.unwrap_or_else(|| reasoned(&text, &signature, &redacted));
                (Content::Reasoning(text.into()), Some(own))
            }
            Kind::Call { id, name, .. } => {
                let id = Some(id).filter(|it| !it.is_empty()).map(Into::into);
                let call = ToolCall { id, name: name.into(), arguments: text.into() };
                (Content::ToolCall(call), None)
            }
            Kind::Provider { kind, fields, said } => {
                let own = whole.or_else(|| provided(&kind, &fields, &text, &said));
                (Content::Provider { kind: kind.into() }, own)
            }
        };
        let part = Part::new(content);
        Some(match own {
            Some(json) => part.with_provider_payload(ProviderPayload::new(json)),
            None => part,
        })
    }
}

fn cited(text: &str, citations: &[String]) -> String {
    let (text, citations) = (quoted(text), citations.join(","));
    format!(r#"{{"citationsContent":{{"content":[{{"text":{text}}}],"citations":[{citations}]}}}}"#)
}

fn reasoned(text: &str, signature: &str, redacted: &[u8]) -> String {
    if redacted.is_empty() {
        let (text, signature) = (quoted(text), quoted(signature));
        return format!(
            r#"{{"reasoningContent":{{"reasoningText":{{"text":{text},"signature":{signature}}}}}}}"#
        );
    }
    let redacted = BASE64_STANDARD.encode(redacted);
    format!(r#"{{"reasoningContent":{{"redactedContent":"{redacted}"}}}}"#)
}

/// Returns a streamed block of the provider's own, or `None` if it was cut off.
fn provided(
    kind: &str,
    fields: &[(String, String)],
    input: &str,
    said: &[String],
) -> Option<String> {
    let mut fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    if kind == "toolUse" {
        let input = if input.trim().is_empty() { "{}" } else { input };
        serde_json::from_str::<IgnoredAny>(input).ok()?;
        fields.push(format!("\"input\":{input}"));
    }
    if kind == "toolResult" {
        fields.push(format!("\"content\":[{}]", said.join(",")));
    }
    Some(format!("{{{}:{{{}}}}}", quoted(kind), fields.join(",")))
}
