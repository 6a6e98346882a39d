//! Encodes messages of the model.

use loopwright_core::messages::{Content, Message, Part};
use serde::Serialize;

use super::content::{ReasoningText, WireBlock, not_shown};
use crate::{
    json::{List, value},
    tool_input::ToolInput,
    wire::EncodeInput,
};

/// What is sent back of a message besides its words and calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// What only the provider understands.
    opaque: bool,
    /// Reasoning without a signature.
    unsigned: bool,
}

impl Sent {
    /// Only what the model itself said is sent back: it accepts no other's signatures.
    pub(super) fn of(question: &EncodeInput<'_>, message: &Message) -> Self {
        let is_own = question.is_own(message);
        Self { opaque: is_own, unsigned: is_own && takes_unsigned_reasoning(question.model()) }
    }
}

/// Returns `true` if a model accepts its own reasoning although it has no signature.
///
/// Claude requires a signature, and `DeepSeek` accepts no reasoning at all. The makers named here sign
/// nothing. Of others, and of models that are named by a profile of the user's own, nothing is known.
fn takes_unsigned_reasoning(model: &str) -> bool {
    const MAKERS: [&str; 6] =
        ["amazon.nova-", "minimax.", "moonshot", "openai.gpt-oss", "qwen.", "zai."];
    MAKERS.iter().any(|maker| model.contains(maker))
}

/// Writes the blocks of a message of the model, its calls under these ids.
///
/// Reasoning that nothing follows is left out: the wire takes a message of nothing else for the
/// beginning of an answer.
pub(super) fn write(list: &mut List<'_>, message: &Message, ids: &[String], sent: Sent) {
    let mut ids = ids.iter();
    let is_last = |part: &Part| !matches!(part.content(), Content::Reasoning(_));
    let end = message.parts().iter().rposition(is_last).map_or(0, |last| last + 1);
    for part in &message.parts()[..end] {
        let block = match (part.opaque().filter(|_| sent.opaque), part.content()) {
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
            (None, Content::Reasoning(text)) if sent.unsigned && !text.trim().is_empty() => {
                Some(WireBlock::ReasoningContent { reasoning_text: ReasoningText { text } })
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
