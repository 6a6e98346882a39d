//! The end of a conversation, message by message.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_broadcast::{Redactor, text::shorten};
use loopwright_core::messages::{Message, Role, ToolCall, ToolExchange, Transcript, TurnBody};
use serde::{Deserialize, Serialize};

use super::SlimSerializationConfig;

/// What stands in the place of what a tool returned.
const OMITTED: &str = "[tool result omitted]";

/// A compact form of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimMessage {
    /// The role: `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text, truncated to a length.
    pub content: String,
    /// Further data.
    #[serde(rename = "_metadata")]
    pub metadata: SlimMetadata,
}

/// Further data of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlimMetadata {
    /// The calls of the assistant.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<SlimCall>,
    /// The ID of the call with this result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<Arc<str>>,
    /// The tool with this result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<Arc<str>>,
    /// Whether the call failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// A compact form of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredCall")]
pub struct SlimCall {
    /// The provider's id.
    pub id: Option<Arc<str>>,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments as the model wrote them, with secrets redacted. `None` means that arguments
    /// are omitted, or longer than the limit of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<str>>,
}

/// A call as it may be found: older forms have the name elsewhere.
#[derive(Deserialize)]
struct StoredCall {
    #[serde(default)]
    id: Option<Arc<str>>,
    #[serde(default)]
    name: Option<Arc<str>>,
    #[serde(default)]
    function: Option<StoredFunction>,
    #[serde(default)]
    arguments: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct StoredFunction {
    #[serde(default)]
    name: Option<Arc<str>>,
}

impl From<StoredCall> for SlimCall {
    fn from(stored: StoredCall) -> Self {
        let name = stored.name.or(stored.function.and_then(|it| it.name));
        let name = name.unwrap_or_else(|| "unknown".into());
        Self { id: stored.id, name, arguments: stored.arguments }
    }
}

impl SlimCall {
    /// Keeps the name and the id.
    pub(super) fn without_arguments(call: &ToolCall) -> Self {
        Self { id: call.id.clone(), name: Arc::clone(&call.name), arguments: None }
    }

    fn of(call: &ToolCall, config: &SlimSerializationConfig) -> Self {
        let fits = |text: &Arc<str>| text.chars().count() <= config.max_content_length;
        let arguments = (!config.redact_tool_args).then(|| clean(&call.arguments)).filter(fits);
        Self { arguments, ..Self::without_arguments(call) }
    }
}

/// Returns arguments without what is secret in them.
fn clean(arguments: &Arc<str>) -> Arc<str> {
    match Redactor::default().arguments(arguments) {
        Cow::Borrowed(_) => Arc::clone(arguments),
        Cow::Owned(clean) => clean.into(),
    }
}

/// Returns the last messages, and no turn by halves.
pub(super) fn of(transcript: &Transcript, config: &SlimSerializationConfig) -> Vec<SlimMessage> {
    let mut first = transcript.len();
    let mut room = config.max_messages;
    while let Some(turn) = first.checked_sub(1).and_then(|before| transcript.get(before)) {
        let size = match turn.body() {
            TurnBody::ToolExchange(exchange) => 1 + exchange.results().len(),
            _ => 1,
        };
        let Some(left) = room.checked_sub(size) else { break };
        (room, first) = (left, first - 1);
    }
    transcript.iter_from(first).flat_map(|turn| slim(turn.body(), config)).collect()
}

fn slim(body: &TurnBody, config: &SlimSerializationConfig) -> Vec<SlimMessage> {
    match body {
        TurnBody::Input(message) | TurnBody::Reply(message) => {
            vec![said(message, SlimMetadata::default(), config)]
        }
        TurnBody::ToolExchange(exchange) => exchanged(exchange, config),
    }
}

fn exchanged(exchange: &ToolExchange, config: &SlimSerializationConfig) -> Vec<SlimMessage> {
    let calls = exchange.reply().tool_calls().map(|it| SlimCall::of(it, config));
    let metadata = SlimMetadata { tool_calls: calls.collect(), ..SlimMetadata::default() };
    let results = exchange.pairs().map(|(call, result)| SlimMessage {
        role: "tool".to_owned(),
        content: if config.include_tool_results {
            cut(&result.to_text(), config)
        } else {
            OMITTED.to_owned()
        },
        metadata: SlimMetadata {
            tool_call_id: call.id.clone(),
            tool_name: Some(Arc::clone(&call.name)),
            is_error: result.is_error,
            ..SlimMetadata::default()
        },
    });
    std::iter::once(said(exchange.reply(), metadata, config)).chain(results).collect()
}

fn said(
    message: &Message,
    metadata: SlimMetadata,
    config: &SlimSerializationConfig,
) -> SlimMessage {
    let role = match message.role() {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    SlimMessage { role: role.to_owned(), content: cut(&message.text(), config), metadata }
}

fn cut(text: &str, config: &SlimSerializationConfig) -> String {
    shorten(text, config.max_content_length, config.max_content_length)
}
