//! The outcome of a sub-agent.

use std::sync::Arc;

use loopwright_core::{
    AgentState, DeniedCall, ExecutionStatus, RequestKind, ToolOutput, ToolPause,
    messages::{Message, TurnBody},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ChildError;

/// A sub-agent that has ended, or cannot continue.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildOutcome {
    /// The name.
    pub name: Arc<str>,
    /// The state.
    pub state: AgentState,
    /// The pause that the parent must wait for, if any.
    pub pause: Option<ToolPause>,
    /// What is left of its own place. `None` means that nothing is left, or that it had none.
    pub left: Option<String>,
}

/// The answer of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildAnswer {
    /// The last text; empty if there is none.
    pub text: String,
    /// The reason why it is not a final answer. `None` means that it is one.
    pub cut_short: Option<String>,
}

impl ChildOutcome {
    /// Returns the answer. If the sub-agent was stopped, this is its last text, with the reason for
    /// the stop.
    ///
    /// # Errors
    ///
    /// Returns an error if it failed or is waiting.
    pub fn answer(&self) -> Result<ChildAnswer, ChildError> {
        let (name, steps) = (Arc::clone(&self.name), self.state.step_count());
        let said = self.interrupted().or_else(|| self.state.current_response());
        let text = said.map(|it| it.text().trim().to_owned()).unwrap_or_default();
        match self.state.status() {
            ExecutionStatus::Failed(failure) => {
                let tokens = self.state.usage().total();
                let reason = match &self.left {
                    Some(left) => format!("{failure}; {left}"),
                    None => failure.to_string(),
                };
                Err(ChildError::Failed { name, steps, tokens, reason })
            }
            ExecutionStatus::Paused => {
                let pause = self.pause.clone().unwrap_or_default();
                Err(ChildError::Waits { name, pause: Box::new(pause) })
            }
            ExecutionStatus::Completed if self.state.has_final_response() => {
                Ok(ChildAnswer { text, cut_short: None })
            }
            _ => Ok(ChildAnswer { text, cut_short: Some(self.state.explain_stop()) }),
        }
    }

    /// Returns an answer that was interrupted, as far as it came: it ends the conversation, and no step has it.
    fn interrupted(&self) -> Option<&Message> {
        match self.state.transcript().last()?.body() {
            TurnBody::Reply(message) => Some(message),
            _ => None,
        }
    }

    /// Returns the calls of a paused sub-agent that wait for a decision or an answer, as calls that do not run.
    pub(crate) fn refused_calls(&self) -> Vec<DeniedCall> {
        if *self.state.status() != ExecutionStatus::Paused {
            return Vec::new();
        }
        let pending = self.state.pending();
        let refused = pending.iter().map(|asked| {
            let arguments = asked.call.parse_arguments();
            DeniedCall {
                agents: asked.path.iter().map(|it| Arc::clone(&it.agent)).collect(),
                tool: Arc::clone(&asked.call.name),
                arguments: arguments.unwrap_or_else(|_| asked.call.arguments.to_string().into()),
                reason: match asked.kind {
                    RequestKind::Approval => format!("needs approval ({})", asked.question.text),
                    _ => format!("needs an answer ({})", asked.question.text),
                },
            }
        });
        refused.collect()
    }

    /// Creates the output of a tool: the text for the model, with what is left of the sub-agent's place, and for hooks and programs the name,
    /// the status and the usage of the sub-agent. The calls that a paused sub-agent waits for count as denied: the output of a call
    /// that waits for them is not created.
    pub fn to_output(&self, text: impl Into<Arc<str>>) -> ToolOutput {
        let state = &self.state;
        let mut value = json!({
            "subagent": self.name,
            "agent": state.id(),
            "status": state.status().as_str(),
            "steps": state.step_count(),
            "spent": state.spent(),
            "stop": state.stop_signal(),
            "response": state.final_response().map(loopwright_core::messages::Message::text),
        });
        let denied = [state.denied_calls(), self.refused_calls()].concat();
        if let Some((member, calls)) = DeniedCall::to_member(&denied) {
            value[member] = calls;
        }
        let mut text: Arc<str> = text.into();
        if let Some(left) = &self.left {
            text = format!("{text}\n\n[{left}]").into();
        }
        ToolOutput { value: Some(Arc::new(value)), ..ToolOutput::text(text) }
    }
}

impl ChildAnswer {
    /// Returns the text for the model: the answer, and the reason if it is not final.
    pub fn to_text(&self) -> String {
        match &self.cut_short {
            None => self.text.clone(),
            Some(reason) if self.text.is_empty() => format!("(no answer: {reason})"),
            Some(reason) => format!("{}\n\n(not finished: {reason})", self.text),
        }
    }
}
