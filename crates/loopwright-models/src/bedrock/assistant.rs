//! Writes what the model said, as it is sent back to it.

use loopwright_core::messages::{Content, Message};
use serde::Serialize;

use super::content::{WireBlock, not_shown};
use crate::{
    json::{List, value},
    tool_input::ToolInput,
};

/// Writes the blocks of a message of the model, its calls under these ids.
///
/// What only its own provider understands is written if the message is that provider's own, and let
/// go otherwise. So is reasoning: others' signatures are not accepted.
pub(super) fn write(list: &mut List<'_>, message: &Message, ids: &[String], is_own: bool) {
    let mut ids = ids.iter();
    for part in message.parts() {
        let block = match (part.opaque().filter(|_| is_own), part.content()) {
            (_, Content::ToolCall(call)) => {
                let Some(id) = ids.next() else { continue };
                let input = ToolInput::of(&call.arguments);
                let call = Call { tool_use: Called { tool_use_id: id, name: &call.name, input } };
                list.item(|out| value(out, &call));
                continue;
            }
            (Some(opaque), _) => {
                list.raw(opaque.as_str().as_bytes());
                continue;
            }
            // Models are not heard to show anything.
            (None, Content::Image(_)) => Some(not_shown("image")),
            (None, Content::Document(_)) => Some(not_shown("document")),
            (None, _) => WireBlock::of(part),
        };
        if let Some(block) = block {
            list.item(|out| value(out, &block));
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Call<'a> {
    tool_use: Called<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Called<'a> {
    tool_use_id: &'a str,
    name: &'a str,
    input: ToolInput<'a>,
}
