//! Restores a state from its compact form.

use std::sync::Arc;

use loopwright_core::{
    AgentState,
    messages::{
        Content, Message, Part, Role, ToolCall, ToolExchange, ToolResult, Transcript, Turn,
        TurnBody, TurnError, TurnMeta,
    },
};

use super::{SlimMessage, SlimState};

/// The error of a compact form that is not a valid state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlimError {
    /// The role is unknown.
    #[error("message {number} has unknown role `{role}`")]
    Role {
        /// The message, counted from one.
        number: usize,
        /// Its role.
        role: String,
    },
    /// A call without its results, or a result without its call.
    #[error("tool calls and results at message {number} do not match")]
    Pair {
        /// The message, counted from one.
        number: usize,
        /// Why.
        #[source]
        source: Option<TurnError>,
    },
}

impl SlimState {
    /// Creates a state with the conversation, the metadata and the parent agent.
    ///
    /// An execution cannot be restored from the compact form: status, steps, usage and times are
    /// only for display. Other sections than the messages, instructions and truncated text are not
    /// restored either.
    ///
    /// # Errors
    ///
    /// Returns an error if the messages are not a valid conversation.
    pub fn restore(&self) -> Result<AgentState, SlimError> {
        let state = AgentState::new().with_transcript(transcript(&self.messages)?);
        let state = match &self.parent_agent_id {
            Some(parent) => state.with_parent(parent.clone()),
            None => state,
        };
        let metadata = self.metadata.iter();
        Ok(metadata
            .fold(state, |state, (name, value)| state.with_metadata(name.as_str(), value.clone())))
    }
}

fn transcript(messages: &[SlimMessage]) -> Result<Transcript, SlimError> {
    let mut transcript = Transcript::new();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        let results = message.metadata.tool_calls.len();
        let following = messages.get(at + 1..at + 1 + results);
        let pair = |source| SlimError::Pair { number: at + 1, source };
        let following = following.ok_or_else(|| pair(None))?;
        let turn = turn(at + 1, message, following)?;
        // Whatever uses tools is a step on the way.
        let meta = TurnMeta { is_trace: results > 0, ..TurnMeta::default() };
        transcript.push(Turn::new(turn).map_err(|source| pair(Some(source)))?.with_meta(meta));
        at += 1 + results;
    }
    Ok(transcript)
}

fn turn(
    number: usize,
    message: &SlimMessage,
    results: &[SlimMessage],
) -> Result<TurnBody, SlimError> {
    let role = match message.role.as_str() {
        "system" => Role::System,
        "developer" => Role::Developer,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => return Err(SlimError::Pair { number, source: None }),
        role => return Err(SlimError::Role { number, role: role.to_owned() }),
    };
    let text = Some(message.content.as_str()).filter(|it| !it.is_empty()).map(Part::text);
    if results.is_empty() {
        let said = Message::new(role, text);
        let is_reply = role == Role::Assistant;
        return Ok(if is_reply { TurnBody::Reply(said) } else { TurnBody::Input(said) });
    }
    let calls = message.metadata.tool_calls.iter().map(|call| {
        let arguments = call.arguments.clone().unwrap_or_else(|| Arc::from("{}"));
        let mut made = ToolCall::new("", Arc::clone(&call.name), arguments);
        made.id.clone_from(&call.id);
        Part::new(Content::ToolCall(made))
    });
    let reply = Message::new(role, text.into_iter().chain(calls));
    let results = results.iter().filter(|it| it.role == "tool").map(|it| {
        let text = it.content.as_str();
        if it.metadata.is_error { ToolResult::error(text) } else { ToolResult::text(text) }
    });
    let exchange = ToolExchange::new(reply, results);
    exchange
        .map(TurnBody::ToolExchange)
        .map_err(|source| SlimError::Pair { number, source: Some(source) })
}
