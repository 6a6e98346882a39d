//! Decisions that are checked before they are recorded.

use std::sync::Arc;

use loopwright_messages::ToolCall;

use crate::{agent::AgentLoop, outcome::ApprovalDecision, state::AgentState};

/// Why a decision was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No call waits there.
    #[error("no call waits at {path:?}: see what `pending` lists; decide about one of those")]
    NotPending {
        /// The position of the call that was named.
        path: Vec<u16>,
    },
    /// The agent does not have the tool.
    #[error(
        "`{tool}` is not a tool of this agent: deny the call, or answer in the place of the tool"
    )]
    UnknownTool {
        /// The tool.
        tool: Arc<str>,
    },
    /// The edited arguments do not fit the schema of the tool.
    #[error(
        "the edited arguments do not fit the schema of `{tool}`: {reason}; correct them and decide again"
    )]
    InvalidArguments {
        /// The tool.
        tool: Arc<str>,
        /// What does not fit.
        reason: String,
    },
}

impl AgentLoop {
    /// Decides about a call that waits, after a check: the call is [pending](AgentState::pending), and edited
    /// arguments fit the schema of its tool.
    ///
    /// # Errors
    ///
    /// If the decision does not fit. Nothing is recorded then.
    pub fn decide(
        &self,
        state: &AgentState,
        call: u16,
        decision: ApprovalDecision,
    ) -> Result<AgentState, DecisionError> {
        let pending = state.pending();
        let asked = pending.iter().find(|it| it.index == call);
        let asked = asked.ok_or_else(|| DecisionError::NotPending { path: vec![call] })?;
        if let ApprovalDecision::ApproveWith { arguments } = &decision {
            let arguments = Arc::clone(arguments.shared());
            self.check_edited(&ToolCall { arguments, ..asked.call.clone() })?;
        }
        Ok(state.clone().decide(call, decision))
    }

    fn check_edited(&self, call: &ToolCall) -> Result<(), DecisionError> {
        let tool = || Arc::clone(&call.name);
        let invalid = |reason| DecisionError::InvalidArguments { tool: tool(), reason };
        let known = self.tools().get(&call.name);
        let known = known.ok_or_else(|| DecisionError::UnknownTool { tool: tool() })?;
        let arguments = call.parse_arguments().map_err(|error| invalid(error.to_string()))?;
        known.violation(&arguments).map_or(Ok(()), |reason| Err(invalid(reason)))
    }
}
