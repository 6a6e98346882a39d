//! Encodes messages of the model.

use loopwright_core::messages::{Content, Message, Part, ProviderPayload, ToolCall};

use super::{
    outputs::CallKind,
    parts::{NO_DOCUMENT, NO_IMAGE},
};
use crate::json::{List, key, value};

/// Writes the items of a message, its calls under these ids. Returns how each call is answered.
///
/// Items that the very same model made go back as they came. Otherwise words and calls are written
/// anew; what only another provider understands is let go, and so is reasoning: the wire takes only
/// what it has made itself. Reasoning that nothing follows is left out: the wire refuses it alone.
pub(super) fn write(
    list: &mut List<'_>,
    message: &Message,
    ids: &[String],
    is_own: bool,
) -> Vec<CallKind> {
    let (mut ids, mut kinds) = (ids.iter(), Vec::new());
    // Whether the part before is words whose item holds the refusal that follows them.
    let mut is_said = false;
    let is_last = |part: &Part| !matches!(part.content(), Content::Reasoning(_));
    let end = message.parts().iter().rposition(is_last).map_or(0, |last| last + 1);
    for part in &message.parts()[..end] {
        let own = part.opaque().filter(|_| is_own).map(ProviderPayload::as_str);
        let was_said = std::mem::replace(&mut is_said, own.is_some() && part.as_text().is_some());
        match part.content() {
            Content::Refusal(_) if own.is_none() && was_said => {}
            Content::ToolCall(call) => {
                let Some(id) = ids.next() else { continue };
                let own = own.filter(|_| call.id.as_deref() == Some(id));
                kinds.push(own.map_or(CallKind::Function, CallKind::of));
                write_call(list, call, id, own);
            }
            _ if own.is_some() => list.raw(own.unwrap_or_default().as_bytes()),
            Content::Text(text) | Content::Refusal(text) => write_text(list, text),
            Content::Image(_) => write_text(list, NO_IMAGE),
            Content::Document(_) => write_text(list, NO_DOCUMENT),
            _ => {}
        }
    }
    kinds
}

/// Writes words of the model.
pub(super) fn write_text(list: &mut List<'_>, text: &str) {
    if text.is_empty() {
        return;
    }
    list.item(|out| {
        out.extend_from_slice(b"{\"type\":\"message\",\"role\":\"assistant\",\"content\":");
        value(out, text);
        out.push(b'}');
    });
}

fn write_call(list: &mut List<'_>, call: &ToolCall, id: &str, own: Option<&str>) {
    if let Some(own) = own {
        list.raw(own.as_bytes());
        return;
    }
    list.item(|out| {
        out.extend_from_slice(b"{\"type\":\"function_call\",\"call_id\":");
        value(out, id);
        key(out, "name");
        value(out, &*call.name);
        key(out, "arguments");
        // Nothing at all and `null` mean an empty object, but servers do not know that.
        let is_blank = matches!(call.arguments.trim(), "" | "null");
        value(out, if is_blank { "{}" } else { &call.arguments });
        out.push(b'}');
    });
}
