//! Encodes tool results, in the format that matches the kind of call.

use loopwright_core::messages::{Content, MediaSource, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use super::parts::{WirePart, address};
use crate::{
    json::{key, value},
    result_text::result_text,
};

/// The kind of item that a call came as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Function,
    /// A tool that takes free text.
    Custom,
    LocalShell,
    Shell,
    ApplyPatch,
    Computer,
    ToolSearch,
}

impl CallKind {
    /// Reads the kind of an item.
    pub(super) fn of(item: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Kind<'a> {
            #[serde(borrow, rename = "type")]
            kind: std::borrow::Cow<'a, str>,
        }
        let item: Kind<'_> = serde_json::from_str(item).unwrap_or_default();
        match &*item.kind {
            "custom_tool_call" => Self::Custom,
            "local_shell_call" => Self::LocalShell,
            "shell_call" => Self::Shell,
            "apply_patch_call" => Self::ApplyPatch,
            "computer_call" => Self::Computer,
            "tool_search_call" => Self::ToolSearch,
            _ => Self::Function,
        }
    }

    /// Returns the type of the item that answers it.
    fn answer(self) -> &'static str {
        match self {
            Self::Function => "function_call_output",
            Self::Custom => "custom_tool_call_output",
            Self::LocalShell => "local_shell_call_output",
            Self::Shell => "shell_call_output",
            Self::ApplyPatch => "apply_patch_call_output",
            Self::Computer => "computer_call_output",
            Self::ToolSearch => "tool_search_output",
        }
    }
}

/// Writes the item that answers a call.
pub(super) fn write(out: &mut Vec<u8>, kind: CallKind, id: &str, result: &ToolResult) {
    out.extend_from_slice(b"{\"type\":");
    value(out, kind.answer());
    key(out, "call_id");
    value(out, id);
    match kind {
        CallKind::Function | CallKind::Custom => {
            key(out, "output");
            write_content(out, result);
        }
        CallKind::LocalShell => put(out, "output", &result_text(result).into_owned().into()),
        CallKind::Shell => {
            let outcome = json!({ "type": "exit", "exit_code": i32::from(result.is_error) });
            let text = result_text(result);
            put(out, "output", &json!([{ "stdout": text, "stderr": "", "outcome": outcome }]));
        }
        CallKind::ApplyPatch => {
            let status = if result.is_error { "failed" } else { "completed" };
            put(out, "status", &status.into());
            put(out, "output", &result_text(result).into_owned().into());
        }
        CallKind::Computer => put(out, "output", &screenshot(result)),
        CallKind::ToolSearch => {
            let tools = serde_json::from_str(&result_text(result)).ok().filter(Value::is_array);
            put(out, "execution", &"client".into());
            put(out, "tools", &tools.unwrap_or_else(|| json!([])));
        }
    }
    out.push(b'}');
}

/// Writes what a function returned: words, or a list if it returned more than words.
fn write_content(out: &mut Vec<u8>, result: &ToolResult) {
    let is_words = result.content.iter().all(|part| part.as_text().is_some());
    if is_words {
        return value(out, &result_text(result));
    }
    let parts: Vec<_> = result.content.iter().filter_map(WirePart::of).collect();
    value(out, &parts);
}

/// Returns the last picture; the words, if there is none.
fn screenshot(result: &ToolResult) -> Value {
    let image = result.content.iter().rev().find_map(|part| match part.content() {
        Content::Image(media) => match &media.source {
            MediaSource::Base64(data) => Some(("image_url", address(media, data))),
            MediaSource::Url(url) => Some(("image_url", url.to_string())),
            MediaSource::File(id) => Some(("file_id", id.to_string())),
            _ => None,
        },
        _ => None,
    });
    match image {
        Some((field, image)) => json!({ "type": "computer_screenshot", field: image }),
        None => json!({ "type": "input_text", "text": result_text(result) }),
    }
}

fn put(out: &mut Vec<u8>, name: &str, content: &Value) {
    key(out, name);
    value(out, content);
}
