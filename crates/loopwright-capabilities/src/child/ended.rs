//! What became of a child.

use std::sync::Arc;

use loopwright_core::{
    AgentState, ExecutionStatus, ToolOutput, ToolPause,
    messages::{Message, TurnBody},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ChildError;

/// A child that is done, or can go no further.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildOutcome {
    /// Its name.
    pub name: Arc<str>,
    /// All that it remembers.
    pub state: AgentState,
    /// What its parent waits for, if it waits.
    pub pause: Option<ToolPause>,
}

/// What a child answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildAnswer {
    /// What it said last; empty if it said nothing.
    pub text: String,
    /// Why it is not a final answer, if it is none.
    pub cut_short: Option<String>,
}

impl ChildOutcome {
    /// Returns what it answered. A child that was stopped has said what it has said, and why it was
    /// stopped.
    ///
    /// # Errors
    ///
    /// If it failed, or waits for somebody.
    pub fn answer(&self) -> Result<ChildAnswer, ChildError> {
        let (name, steps) = (Arc::clone(&self.name), self.state.step_count());
        let said = self.interrupted().or_else(|| self.state.current_response());
        let text = said.map(|it| it.text().trim().to_owned()).unwrap_or_default();
        match self.state.status() {
            ExecutionStatus::Failed(failure) => {
                let tokens = self.state.usage().total();
                Err(ChildError::Failed { name, steps, tokens, reason: failure.to_string() })
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

    /// Makes what a tool answers with: a text for the model, and for hooks and programs who worked, how
    /// it ended and what it took.
    pub fn to_output(&self, text: impl Into<Arc<str>>) -> ToolOutput {
        let state = &self.state;
        let value = json!({
            "subagent": self.name,
            "agent": state.id(),
            "status": state.status().as_str(),
            "steps": state.step_count(),
            "spent": state.spent(),
            "stop": state.stop_signal(),
            "response": state.final_response().map(loopwright_core::messages::Message::text),
        });
        ToolOutput { value: Some(Arc::new(value)), ..ToolOutput::text(text) }
    }
}

impl ChildAnswer {
    /// Returns what a model is told: what was said, and if it was not the end, why.
    pub fn to_text(&self) -> String {
        match &self.cut_short {
            None => self.text.clone(),
            Some(reason) if self.text.is_empty() => format!("(no answer: {reason})"),
            Some(reason) => format!("{}\n\n(not finished: {reason})", self.text),
        }
    }
}
