//! Decisions that are checked before they are recorded.

use std::sync::Arc;

use loopwright_messages::ToolCall;
use serde_json::Value;

use crate::{
    agent::AgentLoop,
    outcome::{ApprovalDecision, Arguments},
    pause::{PendingApproval, RequestKind},
    state::AgentState,
    tool::violation_of,
};

/// Why a decision was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No call waits there.
    #[error("no call waits at {path:?}: see what `pending` lists; decide about one of those")]
    NotPending {
        /// The address of the call that was named.
        path: Vec<u16>,
    },
    /// A question of a tool was approved, or an approval was answered like a question.
    #[error("`{tool}` {}", .is_question.then_some("asks a question: approving it says nothing; reply to it").unwrap_or("waits for an approval: there is no question to reply to; approve or deny the call"))]
    WrongKind {
        /// The tool.
        tool: Arc<str>,
        /// Whether the tool asks a question.
        is_question: bool,
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
    /// The reply does not fit the schema that the tool asked with.
    #[error("the reply does not fit what `{tool}` asks for: {reason}; correct it and reply again")]
    InvalidReply {
        /// The tool.
        tool: Arc<str>,
        /// What does not fit.
        reason: String,
    },
}

impl AgentLoop {
    /// Decides about a call that waits, by its [address](PendingApproval::address), after a check: the call is
    /// [pending](AgentState::pending), the decision is of the kind that is needed, edited arguments fit the schema of
    /// their tool, and a reply fits the schema of the question.
    ///
    /// # Errors
    ///
    /// If the decision does not fit. Nothing is recorded then.
    pub fn decide(
        &self,
        state: &AgentState,
        path: &[u16],
        decision: ApprovalDecision,
    ) -> Result<AgentState, DecisionError> {
        let pending = state.pending();
        let asked = pending.iter().find(|it| it.address() == path);
        let asked = asked.ok_or_else(|| DecisionError::NotPending { path: path.to_vec() })?;
        self.check(asked, &decision)?;
        Ok(state.clone().decide_at(path, decision))
    }

    fn check(
        &self,
        asked: &PendingApproval<'_>,
        decision: &ApprovalDecision,
    ) -> Result<(), DecisionError> {
        let tool = || Arc::clone(&asked.call.name);
        if !asked.kind.accepts(decision) {
            let is_question = matches!(asked.kind, RequestKind::Question { .. });
            return Err(DecisionError::WrongKind { tool: tool(), is_question });
        }
        match (asked.kind, decision) {
            (RequestKind::Question { schema: Some(schema) }, ApprovalDecision::Reply(value)) => {
                let invalid = |reason| DecisionError::InvalidReply { tool: tool(), reason };
                violation_of(schema, value).map_or(Ok(()), |reason| Err(invalid(reason)))
            }
            (RequestKind::Approval { parameters }, ApprovalDecision::ApproveWith { arguments }) => {
                self.check_edited(asked, arguments, parameters.as_ref())
            }
            _ => Ok(()),
        }
    }

    /// Checks edited arguments: those for a sub-agent by the schema that the sub-agent told.
    fn check_edited(
        &self,
        asked: &PendingApproval<'_>,
        arguments: &Arguments,
        told: Option<&Arc<Value>>,
    ) -> Result<(), DecisionError> {
        let tool = || Arc::clone(&asked.call.name);
        let invalid = |reason| DecisionError::InvalidArguments { tool: tool(), reason };
        let call = ToolCall { arguments: Arc::clone(arguments.shared()), ..asked.call.clone() };
        let value = call.parse_arguments().map_err(|error| invalid(error.to_string()))?;
        let violation = if let Some(schema) = told {
            violation_of(schema, &value)
        } else {
            let known = self.tools().get(&call.name);
            known.ok_or_else(|| DecisionError::UnknownTool { tool: tool() })?.violation(&value)
        };
        violation.map_or(Ok(()), |reason| Err(invalid(reason)))
    }
}
