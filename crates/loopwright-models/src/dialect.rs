//! Tool calls and their results as plain text, for models without native tool calls.

use std::fmt::Write as _;

use loopwright_core::messages::ToolExchange;

use crate::result_text::result_text;

/// An exchange as text: the message of the model, and the results for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReActText {
    /// The model's text: its thought, then an action and its input for each call.
    pub reply: String,
    /// The user's text: one observation for each call.
    pub observations: String,
}

/// Renders an exchange as thought, action and observation.
///
/// ```
/// use loopwright_core::messages::{ToolExchange, Message, Part, Role, ToolCall, ToolResult, Content};
/// use loopwright_models::react_text;
///
/// let call = Part::new(Content::ToolCall(ToolCall::new("1", "add", r#"{"a":1,"b":2}"#)));
/// let reply = Message::new(Role::Assistant, [Part::text("I must add."), call]);
/// let text = react_text(&ToolExchange::new(reply, [ToolResult::text("3")]).unwrap());
/// assert_eq!(text.reply, "Thought: I must add.\nAction: add\nAction Input: {\"a\":1,\"b\":2}");
/// assert_eq!(text.observations, "Observation: 3");
/// ```
pub fn react_text(exchange: &ToolExchange) -> ReActText {
    const THOUGHT: &str = "Thought:";
    let thought = exchange.reply().text();
    let thought = thought.trim();
    let mut reply = match thought {
        "" => String::new(),
        _ if thought.starts_with(THOUGHT) => thought.to_owned(),
        _ => format!("{THOUGHT} {thought}"),
    };
    let mut observations = String::new();
    for (call, result) in exchange.pairs() {
        let arguments = call.arguments.trim();
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        let _ =
            write!(reply, "{}Action: {}\nAction Input: {arguments}", line_break(&reply), call.name);
        let line_break = line_break(&observations);
        let _ = write!(observations, "{line_break}Observation: {}", result_text(result));
    }
    ReActText { reply, observations }
}

fn line_break(text: &str) -> &'static str {
    if text.is_empty() { "" } else { "\n" }
}
