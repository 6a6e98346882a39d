//! Decisions, which are checked before they are recorded.

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

/// A decision that was not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// No call waits at this address.
    #[error("no call is waiting at {}; choose a call that `pending` lists", PendingApproval::format_address(.path))]
    NotPending {
        /// The address of the call.
        path: Vec<u16>,
    },
    /// A question of a tool was approved, or an approval received a reply.
    #[error("`{tool}` {}", remedy(.waits_for))]
    WrongKind {
        /// The tool.
        tool: Arc<str>,
        /// The kind of the request, as [`RequestKind::as_str`] names it.
        waits_for: &'static str,
    },
    /// The deadline of the request has passed.
    #[error(
        "the deadline of the pending call to `{tool}` has passed: the call will be denied when the run resumes"
    )]
    Expired {
        /// The tool.
        tool: Arc<str>,
    },
    /// The agent that asked did not have the tool.
    #[error("`{tool}` is not a tool of this agent; deny the call, or supply its result")]
    UnknownTool {
        /// The tool.
        tool: Arc<str>,
    },
    /// The edited arguments do not match the schema of the tool.
    #[error(
        "the edited arguments do not match the schema of `{tool}`: {reason}; correct them and decide again"
    )]
    InvalidArguments {
        /// The tool.
        tool: Arc<str>,
        /// The violation.
        reason: String,
    },
    /// The reply does not match the schema of the tool's question, or of its result.
    #[error(
        "the reply to `{tool}` does not match its schema: {reason}; correct it and reply again"
    )]
    InvalidReply {
        /// The tool.
        tool: Arc<str>,
        /// The violation.
        reason: String,
    },
}

fn remedy(kind: &str) -> &'static str {
    match kind {
        "question" => "asks a question and cannot be approved; reply to the question",
        "result" => {
            "runs elsewhere and cannot be approved; pass the result of the call, or an error"
        }
        _ => "waits for approval, not for a reply; approve or deny the call",
    }
}

impl AgentLoop {
    /// Decides about a waiting call, by its [address](PendingApproval::address), after a check: the
    /// call is [pending](AgentState::pending), the decision has the required kind, edited arguments
    /// match the schema of their tool, as the request stores it and as the agent has it, and a reply
    /// matches the schema of the question.
    ///
    /// # Errors
    ///
    /// Returns an error if the decision is invalid. It is then not recorded.
    pub fn decide(
        &self,
        state: &AgentState,
        path: &[u16],
        decision: ApprovalDecision,
    ) -> Result<AgentState, DecisionError> {
        let pending = state.pending();
        let asked = find(&pending, path)?;
        asked.check(&decision)?;
        if let (true, ApprovalDecision::ApproveWith { arguments }) =
            (asked.path.is_empty(), &decision)
        {
            let tool = || Arc::clone(&asked.call.name);
            let known = self.tools().get(&asked.call.name);
            let known = known.ok_or_else(|| DecisionError::UnknownTool { tool: tool() })?;
            check_edited(asked, arguments, |value| known.violation(value))?;
        }
        Ok(state.clone().decide_at(path, decision))
    }
}

impl AgentState {
    /// Decides about a waiting call, as [`AgentLoop::decide`] does, without the agent: the requests store the schemas.
    ///
    /// # Errors
    ///
    /// Returns an error if the decision is invalid. It is then not recorded.
    pub fn try_decide(
        &self,
        path: &[u16],
        decision: ApprovalDecision,
    ) -> Result<Self, DecisionError> {
        find(&self.pending(), path)?.check(&decision)?;
        Ok(self.clone().decide_at(path, decision))
    }
}

impl PendingApproval<'_> {
    /// Checks a decision against the request.
    fn check(&self, decision: &ApprovalDecision) -> Result<(), DecisionError> {
        let tool = || Arc::clone(&self.call.name);
        if !self.kind.accepts(decision) {
            let waits_for = self.kind.as_str();
            return Err(DecisionError::WrongKind { tool: tool(), waits_for });
        }
        match (self.kind, decision) {
            (kind, ApprovalDecision::Reply(value)) => {
                let invalid = |reason| DecisionError::InvalidReply { tool: tool(), reason };
                let violation = kind.answer_schema().and_then(|it| violation_of(it, value));
                violation.map_or(Ok(()), |reason| Err(invalid(reason)))
            }
            (RequestKind::Approval, ApprovalDecision::ApproveWith { arguments }) => {
                let schema = self.question.parameters.as_ref();
                let schema = schema.ok_or_else(|| DecisionError::UnknownTool { tool: tool() })?;
                check_edited(self, arguments, |value| violation_of(schema, value))
            }
            _ => Ok(()),
        }
    }
}

fn find<'p, 'a>(
    pending: &'p [PendingApproval<'a>],
    path: &[u16],
) -> Result<&'p PendingApproval<'a>, DecisionError> {
    let asked = pending.iter().find(|it| it.address() == path);
    asked.ok_or_else(|| DecisionError::NotPending { path: path.to_vec() })
}

/// Checks edited arguments: they are JSON and match the schemas.
fn check_edited(
    asked: &PendingApproval<'_>,
    arguments: &Arguments,
    violation: impl FnOnce(&Value) -> Option<String>,
) -> Result<(), DecisionError> {
    let tool = Arc::clone(&asked.call.name);
    let call = ToolCall { arguments: Arc::clone(arguments.shared()), ..asked.call.clone() };
    let reason = match call.parse_arguments() {
        Ok(value) => violation(&value),
        Err(error) => Some(error.to_string()),
    };
    reason.map_or(Ok(()), |reason| Err(DecisionError::InvalidArguments { tool, reason }))
}
