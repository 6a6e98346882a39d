//! Encodes messages of the model.

use loopwright_core::messages::{Content, Message, Part, ProviderPayload};
use serde::Serialize;

use super::{
    container::is_container,
    content::{WireBlock, not_shown},
};
use crate::{
    json::{List, value},
    tool_input::ToolInput,
};

/// Writes the blocks of a message of the model, its calls under these ids.
///
/// What only its own provider understands is written if the message is that provider's own, and let
/// go otherwise. So is reasoning: the wire has no form for reasoning without its own signature, and refuses a
/// message that ends with it.
pub(super) fn write(list: &mut List<'_>, message: &Message, ids: &[String], is_own: bool) {
    let mut ids = ids.iter();
    let is_last = |part: &Part| !is_container(part) && !is_reasoning(part);
    let end = message.parts().iter().rposition(is_last).map_or(0, |last| last + 1);
    for part in message.parts()[..end].iter().filter(|part| !is_container(part)) {
        let opaque = part.opaque().filter(|_| is_own).map(ProviderPayload::as_str);
        match (opaque, part.content()) {
            (_, Content::ToolCall(call)) => {
                let Some(id) = ids.next() else { continue };
                match opaque.filter(|_| call.id.as_deref() == Some(id)) {
                    Some(opaque) => list.raw(opaque.as_bytes()),
                    None => {
                        list.item(|out| value(out, &ToolUse::of(id, &call.name, &call.arguments)));
                    }
                }
            }
            (Some(opaque), _) => list.raw(opaque.as_bytes()),
            (None, _) => {
                if let Some(block) = block(part) {
                    list.item(|out| value(out, &block));
                }
            }
        }
    }
}

fn is_reasoning(part: &Part) -> bool {
    matches!(part.content(), Content::Reasoning(_))
}

/// Returns a part in the wire's own form.
fn block(part: &Part) -> Option<WireBlock<'_>> {
    match part.content() {
        // Models are not heard to show anything.
        Content::Image(_) => Some(not_shown("image")),
        Content::Document(_) => Some(not_shown("document")),
        _ => WireBlock::of(part),
    }
}

#[derive(Serialize)]
struct ToolUse<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    input: ToolInput<'a>,
}

impl<'a> ToolUse<'a> {
    fn of(id: &'a str, name: &'a str, arguments: &'a str) -> Self {
        Self { kind: "tool_use", id, name, input: ToolInput::of(arguments) }
    }
}
