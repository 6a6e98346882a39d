//! Encodes messages of the model.

use loopwright_core::messages::{Content, Message, Part};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::parts::{NO_DOCUMENT, NO_IMAGE};
use crate::json::{List, key, value};

/// What stands in the opaque payloads that this wire makes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Own<'a> {
    #[serde(borrow)]
    tool_plan: Option<&'a RawValue>,
    #[serde(borrow)]
    citations: Option<&'a RawValue>,
}

impl<'a> Own<'a> {
    fn of(part: &'a Part) -> Self {
        let opaque = part.opaque().map(|opaque| serde_json::from_str(opaque.as_str()));
        opaque.and_then(Result::ok).unwrap_or_default()
    }
}

/// Writes a message of the model, its calls under these ids; nothing if nothing of it can be said.
///
/// Plans, thoughts and citations are written if the message is the very same model's.
pub(super) fn write(list: &mut List<'_>, message: &Message, ids: &[String], is_own: bool) {
    let own = || message.parts().iter().filter(|_| is_own).map(Own::of);
    let plan = own().find_map(|it| it.tool_plan);
    let citations = own().find_map(|it| it.citations);
    let mut content = Vec::new();
    write_content(&mut content, message, is_own);
    if content.is_empty() && ids.is_empty() && plan.is_none() {
        return;
    }
    list.item(|out| {
        out.extend_from_slice(b"{\"role\":\"assistant\"");
        put(out, "tool_plan", plan.map(|it| it.get().as_bytes()));
        put(out, "content", Some(&*content).filter(|it| !it.is_empty()));
        write_calls(out, message, ids);
        put(out, "citations", citations.map(|it| it.get().as_bytes()));
        out.push(b'}');
    });
}

fn put(out: &mut Vec<u8>, name: &str, json: Option<&[u8]>) {
    if let Some(json) = json {
        key(out, name);
        out.extend_from_slice(json);
    }
}

/// Writes the content, if there is any: a text, or a list if there is more than one.
fn write_content(out: &mut Vec<u8>, message: &Message, is_own: bool) {
    let block = |part| match Part::content(part) {
        Content::Text(text) | Content::Refusal(text) if !text.is_empty() => Some(Ok(&**text)),
        Content::Image(_) => Some(Ok(NO_IMAGE)),
        Content::Document(_) => Some(Ok(NO_DOCUMENT)),
        Content::Reasoning(_) if is_own => Some(Err(part.opaque()?.as_str())),
        _ => None,
    };
    let blocks: Vec<Result<&str, &str>> = message.parts().iter().filter_map(block).collect();
    match &*blocks {
        [] => {}
        [Ok(text)] => value(out, text),
        blocks => {
            out.push(b'[');
            let mut list = List::new(out);
            for block in blocks {
                match block {
                    Ok(text) => list.item(|out| {
                        out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                        value(out, text);
                        out.push(b'}');
                    }),
                    Err(thought) => list.raw(thought.as_bytes()),
                }
            }
            out.push(b']');
        }
    }
}

fn write_calls(out: &mut Vec<u8>, message: &Message, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    key(out, "tool_calls");
    out.push(b'[');
    let mut list = List::new(out);
    for (id, call) in ids.iter().zip(message.tool_calls()) {
        list.item(|out| {
            out.extend_from_slice(b"{\"id\":");
            value(out, id);
            out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            value(out, &*call.name);
            key(out, "arguments");
            // Nothing at all and `null` mean an empty object, but servers do not know that.
            let is_blank = matches!(call.arguments.trim(), "" | "null");
            value(out, if is_blank { "{}" } else { &call.arguments });
            out.extend_from_slice(b"}}");
        });
    }
    out.push(b']');
}
