//! Encodes messages of the model.

use loopwright_core::messages::{Content, Message, Part, ToolCall};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{key, value};

/// Writes a message of the model, its calls under these ids.
///
/// What only its own provider understands is written if the message is that provider's own, and let
/// go otherwise. So is its reasoning: the wire has no format for the reasoning of other models.
pub(super) fn write(out: &mut Vec<u8>, message: &Message, ids: &[String], is_own: bool) {
    let (text, refusal) = (message.text(), message.refusal());
    out.extend_from_slice(b"{\"role\":\"assistant\"");
    match refusal.filter(|_| !is_own) {
        // Others know no refusals: there it is said in words.
        Some(refusal) => write_content(out, message, &in_words(&text, refusal), is_own),
        None => write_content(out, message, &text, is_own),
    }
    if let Some(refusal) = refusal.filter(|_| is_own) {
        key(out, "refusal");
        value(out, refusal);
    }
    if is_own {
        write_own(
            out,
            message.parts().iter().filter(|it| it.as_tool_call().is_none()).map(Own::of),
        );
    }
    if !ids.is_empty() {
        key(out, "tool_calls");
        out.push(b'[');
        let calls = message.parts().iter().filter_map(|part| Some((part.as_tool_call()?, part)));
        for (index, (id, (call, part))) in ids.iter().zip(calls).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let own = if is_own { Own::of(part) } else { Own::default() };
            write_call(out, id, call, &own);
        }
        out.push(b']');
    }
    out.push(b'}');
}

/// What stands in the opaque payloads that this wire makes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Own<'a> {
    #[serde(borrow, rename = "type")]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    thought_signature: Option<&'a RawValue>,
}

impl<'a> Own<'a> {
    fn of(part: &'a Part) -> Self {
        let opaque = part.opaque().map(|opaque| serde_json::from_str(opaque.as_str()));
        opaque.and_then(Result::ok).unwrap_or_default()
    }
}

fn in_words(text: &str, refusal: &str) -> String {
    let line_break = if text.is_empty() { "" } else { "\n" };
    format!("{text}{line_break}{refusal}")
}

/// Writes the content: words, null if there are calls instead, or a list if thinking is part of it.
fn write_content(out: &mut Vec<u8>, message: &Message, text: &str, is_own: bool) {
    key(out, "content");
    if is_own && message.parts().iter().any(|part| thinking(part).is_some()) {
        write_list(out, message);
        return;
    }
    let has_other = message.tool_calls().next().is_some() || message.refusal().is_some();
    match text {
        "" if has_other => out.extend_from_slice(b"null"),
        text => value(out, text),
    }
}

/// Returns a part's payload if it is a part of Mistral's content.
fn thinking(part: &Part) -> Option<&str> {
    let opaque = part.opaque()?;
    (Own::of(part).kind == "thinking").then_some(opaque.as_str())
}

fn write_list(out: &mut Vec<u8>, message: &Message) {
    out.push(b'[');
    let begin = out.len();
    for part in message.parts() {
        let mark = out.len();
        if mark > begin {
            out.push(b',');
        }
        match (thinking(part), part.content()) {
            (Some(thinking), _) => out.extend_from_slice(thinking.as_bytes()),
            (None, Content::Text(text)) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                value(out, &**text);
                out.push(b'}');
            }
            _ => out.truncate(mark),
        }
    }
    out.push(b']');
}

/// Writes the message's own fields, each once.
fn write_own<'a>(out: &mut Vec<u8>, parts: impl Iterator<Item = Own<'a>>) {
    let mut all = Own::default();
    for own in parts {
        all.reasoning_content = all.reasoning_content.or(own.reasoning_content);
        all.reasoning = all.reasoning.or(own.reasoning);
        all.reasoning_details = all.reasoning_details.or(own.reasoning_details);
        all.extra_content = all.extra_content.or(own.extra_content);
        all.thought_signature = all.thought_signature.or(own.thought_signature);
    }
    for (name, raw) in [
        ("reasoning_content", all.reasoning_content),
        ("reasoning", all.reasoning),
        ("reasoning_details", all.reasoning_details),
        ("extra_content", all.extra_content),
        ("thought_signature", all.thought_signature),
    ] {
        if let Some(raw) = raw {
            key(out, name);
            out.extend_from_slice(raw.get().as_bytes());
        }
    }
}

fn write_call(out: &mut Vec<u8>, id: &str, call: &ToolCall, own: &Own<'_>) {
    let is_custom = own.kind == "custom";
    out.extend_from_slice(b"{\"id\":");
    value(out, id);
    out.extend_from_slice(if is_custom {
        b",\"type\":\"custom\",\"custom\":{\"name\":".as_slice()
    } else {
        b",\"type\":\"function\",\"function\":{\"name\":"
    });
    value(out, &*call.name);
    key(out, if is_custom { "input" } else { "arguments" });
    // Nothing at all means an empty object, but servers that parse it do not know that.
    let is_blank = call.arguments.trim().is_empty() && !is_custom;
    value(out, if is_blank { "{}" } else { &call.arguments });
    out.push(b'}');
    if let Some(extra) = own.extra_content {
        key(out, "extra_content");
        out.extend_from_slice(extra.get().as_bytes());
    }
    out.push(b'}');
}
