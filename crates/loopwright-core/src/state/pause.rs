//! Questions of tools in the middle of a call, and their answers.

use std::sync::Arc;

use loopwright_messages::ToolCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    clock::Timestamp,
    outcome::{ApprovalDecision, ApprovalRequest, Arguments, ToolOutcome},
    step::{CallState, OpenStep},
};

/// What the model reads before the reason if an interrupted call is not repeated.
const NOT_REPEATED: &str =
    "the call was interrupted after it started, so its effects are unknown; it was not repeated";

/// A request for answers before a tool can finish a call. A tool returns it as an error
/// ([`ToolError::Pause`](crate::ToolError::Pause)). When the answer is recorded, the same call runs
/// again, in any process, with [`ToolCx::answer`](crate::ToolCx::answer) and
/// [`ToolCx::resume_value`](crate::ToolCx::resume_value).
///
/// The call runs again from its beginning, even if it must not happen twice. A tool that asks
/// before it takes effect needs no further care. A tool that asks afterwards must record that in
/// the resume value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[must_use = "a pause does nothing until the tool returns it"]
pub struct ToolPause {
    /// The open requests: one question of the tool itself, or those of a sub-agent.
    pub requests: Vec<PauseRequest>,
    /// The value that the tool gets back when it is called again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Arc<Value>>,
    /// Whether the tool is called again if the user declines or cancels its question.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_refusals: bool,
}

/// How the user refused to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionRefusal {
    /// The user declined to answer.
    Declined,
    /// The user did not decide.
    Cancelled,
}

/// A request for one answer or decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PauseRequest {
    /// The sub-agent that asks, as a path from the outermost one; empty if the tool itself asks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) path: Vec<PathSegment>,
    /// The waiting call of the sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<ToolCall>,
    /// The directory in which commands of the sub-agent start; empty for its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<Arc<str>>,
    pub(crate) question: ApprovalRequest,
    pub(crate) kind: RequestKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<ApprovalDecision>,
}

/// A call of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSegment {
    /// The name of the sub-agent.
    pub agent: Arc<str>,
    /// The position of the call in its open step.
    pub call: u16,
}

/// The kind of the required decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestKind {
    /// Whether the call can run.
    Approval,
    /// The answer to a question of the tool: [`ApprovalDecision::Reply`].
    Question {
        /// The JSON Schema of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Arc<Value>>,
    },
    /// The result of a tool that [runs elsewhere](crate::ExternalTool):
    /// [`ApprovalDecision::Reply`], or [`ApprovalDecision::Fail`] for an error.
    External {
        /// The JSON Schema of the result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        schema: Option<Arc<Value>>,
    },
}

impl RequestKind {
    /// Returns the name for users and programs: `approval`, `question` or `result`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question { .. } => "question",
            Self::External { .. } => "result",
        }
    }

    /// Returns the JSON Schema of the answer or the result.
    pub fn answer_schema(&self) -> Option<&Arc<Value>> {
        match self {
            Self::Approval => None,
            Self::Question { schema } | Self::External { schema } => schema.as_ref(),
        }
    }

    /// Returns `true` if a decision matches.
    pub(crate) fn accepts(&self, decision: &ApprovalDecision) -> bool {
        let is_approval = matches!(self, Self::Approval);
        match decision {
            ApprovalDecision::Deny { .. }
            | ApprovalDecision::DenyAndStop { .. }
            | ApprovalDecision::Answer(_) => true,
            ApprovalDecision::Approve | ApprovalDecision::ApproveWith { .. } => is_approval,
            ApprovalDecision::Reply(_) => !is_approval,
            ApprovalDecision::Fail { .. } => matches!(self, Self::External { .. }),
            ApprovalDecision::Cancel => matches!(self, Self::Question { .. }),
        }
    }
}

impl ToolPause {
    /// Creates a pause with a question; any JSON value answers it.
    pub fn ask(text: impl Into<String>) -> Self {
        Self::of(text, RequestKind::Question { schema: None })
    }

    /// Creates a pause until the result of the call arrives from elsewhere.
    pub(crate) fn external(tool: &str, schema: Option<Arc<Value>>) -> Self {
        let text = format!("`{tool}` runs elsewhere; pass the result of the call");
        Self::of(text, RequestKind::External { schema })
    }

    fn of(text: impl Into<String>, kind: RequestKind) -> Self {
        let question = ApprovalRequest::new(text, "");
        let own = PauseRequest {
            path: Vec::new(),
            call: None,
            directory: None,
            question,
            kind,
            decision: None,
        };
        Self { requests: vec![own], ..Self::default() }
    }

    /// Sets the time after which the call is denied without an answer.
    pub fn with_deadline(mut self, at: Timestamp) -> Self {
        for request in &mut self.requests {
            request.question.deadline = Some(at);
        }
        self
    }

    /// Sets the JSON Schema of the answer.
    pub fn with_schema(mut self, schema: impl Into<Arc<Value>>) -> Self {
        let expected = schema.into();
        for request in &mut self.requests {
            if let RequestKind::Question { schema } = &mut request.kind {
                *schema = Some(Arc::clone(&expected));
            }
        }
        self
    }

    /// Calls the tool again if the user declines or cancels the question, with
    /// [`ToolCx::refusal`](crate::ToolCx::refusal). Without this, such a decision ends the call.
    pub fn with_refusals(mut self) -> Self {
        self.takes_refusals = true;
        self
    }

    /// Sets the value that the tool gets back when it is called again.
    pub fn with_resume(mut self, value: impl Into<Arc<Value>>) -> Self {
        self.resume = Some(value.into());
        self
    }

    /// Sets the tool as the source of its own questions.
    pub(crate) fn name_tool(&mut self, tool: &Arc<str>) {
        for request in self.requests.iter_mut().filter(|it| it.question.source.is_empty()) {
            request.question.source = Arc::clone(tool);
        }
    }

    /// Returns the decision about the tool's own question.
    pub(crate) fn own_decision(&self) -> Option<&ApprovalDecision> {
        self.requests.iter().find(|it| it.path.is_empty())?.decision.as_ref()
    }

    /// Returns how the user refused to answer the tool's own question.
    pub(crate) fn refusal(&self) -> Option<QuestionRefusal> {
        match self.own_decision().filter(|_| self.takes_refusals)? {
            ApprovalDecision::Deny { .. } => Some(QuestionRefusal::Declined),
            ApprovalDecision::Cancel => Some(QuestionRefusal::Cancelled),
            _ => None,
        }
    }

    /// Sets the deadline of the tool's own questions that have none. A sub-agent sets those of its
    /// own.
    pub(crate) fn expire_at(&mut self, at: Option<Timestamp>) {
        for request in self.requests.iter_mut().filter(|it| it.path.is_empty()) {
            request.question.expire_at(at);
        }
    }

    /// Returns the outcome of the call if its own question has no answer and its deadline has
    /// passed.
    pub(crate) fn expired(&self, now: Timestamp) -> Option<ToolOutcome> {
        let mut own = self.requests.iter().filter(|it| it.path.is_empty());
        let expired = own.find(|it| it.decision.is_none() && it.question.is_expired(now))?;
        Some(expired.question.expired())
    }

    /// Returns the reason if a decision stops the run.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        self.requests.iter().find_map(|it| match &it.decision {
            Some(ApprovalDecision::DenyAndStop { reason }) => Some(&**reason),
            _ => None,
        })
    }

    /// Returns `true` if the call can continue: it has an answer, or a request of a sub-agent has
    /// expired.
    pub(crate) fn can_continue(&self, now: Timestamp) -> bool {
        let is_over = |it: &PauseRequest| it.decision.is_some() || it.question.is_expired(now);
        self.requests.is_empty() || self.requests.iter().any(is_over)
    }

    /// Returns `true` if a sub-agent waits. In a run that does not wait, it refuses its own requests when it resumes.
    pub(crate) fn is_of_subagent(&self) -> bool {
        self.requests.iter().any(|it| !it.path.is_empty() && it.decision.is_none())
    }

    pub(crate) fn decide(&mut self, below: &[u16], decision: &ApprovalDecision) {
        let asked = self.requests.iter_mut().find(|it| it.is_at(below) && it.decision.is_none());
        if let Some(request) = asked.filter(|it| it.kind.accepts(decision)) {
            request.decision = Some(decision.clone());
        }
    }
}

impl PauseRequest {
    /// Creates a request of a sub-agent from one that is pending in its state.
    pub fn of_subagent(agent: &Arc<str>, asked: &PendingApproval<'_>) -> Self {
        let first = PathSegment { agent: Arc::clone(agent), call: asked.index };
        Self {
            path: [first].into_iter().chain(asked.path.iter().cloned()).collect(),
            call: Some(asked.call.clone()),
            directory: asked.directory.cloned(),
            question: asked.question.clone(),
            kind: asked.kind.clone(),
            decision: None,
        }
    }

    /// Sets the directory in which commands of the sub-agent start, unless the request has one from a sub-agent below it.
    /// An empty path is the working directory.
    #[must_use]
    pub fn with_directory(self, directory: Option<Arc<str>>) -> Self {
        let directory = if self.path.len() > 1 { self.directory } else { directory };
        Self { directory, ..self }
    }

    /// Returns the sub-agent that asks, as a path from the outermost one; empty if the tool itself
    /// asks.
    pub fn path(&self) -> &[PathSegment] {
        &self.path
    }

    /// Returns the waiting call of the sub-agent. Returns `None` if the tool itself asks.
    pub fn call(&self) -> Option<&ToolCall> {
        self.call.as_ref()
    }

    /// Returns the request for a decision or an answer.
    pub fn question(&self) -> &ApprovalRequest {
        &self.question
    }

    fn is_at(&self, below: &[u16]) -> bool {
        self.path.iter().map(|it| it.call).eq(below.iter().copied())
    }
}

/// Data about a call that was changed or has paused, kept until the call ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallNote {
    pub(crate) call: u16,
    /// The arguments for the next attempt of the call.
    pub(crate) arguments: Arguments,
    /// The call with these arguments, unless the model wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shown: Option<Box<ToolCall>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pause: Option<Arc<ToolPause>>,
}

/// A call that waits for a decision or an answer; see [`AgentState::pending`](crate::AgentState::pending).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PendingApproval<'a> {
    /// The position of this agent's call in its step.
    pub index: u16,
    /// The sub-agent that waits, as a path from the outermost one; empty if this agent's call
    /// waits.
    pub path: &'a [PathSegment],
    /// The waiting call with the arguments that an approval covers: those of the model, unless a hook rewrote them.
    /// That of the sub-agent if one waits.
    pub call: &'a ToolCall,
    /// The request for a decision or an answer.
    pub question: &'a ApprovalRequest,
    /// The kind of the required decision.
    pub kind: &'a RequestKind,
    /// For a call of a sub-agent: the directory in which its commands start, if that is known; empty for the working
    /// directory.
    pub directory: Option<&'a Arc<str>>,
}

impl<'a> PendingApproval<'a> {
    pub(crate) fn of(open: &'a OpenStep) -> Vec<Self> {
        if open.is_being_stopped() {
            return Vec::new();
        }
        let calls = open.thought.iter().flat_map(|it| it.message.tool_calls()).zip(0..=u16::MAX);
        let mut pending = Vec::new();
        for ((written, index), state) in calls.zip(&open.calls) {
            let call = || open.note(index).and_then(|it| it.shown.as_deref()).unwrap_or(written);
            match state {
                CallState::AwaitingApproval(question) => {
                    let (path, kind) = (&[], &RequestKind::Approval);
                    pending.push(Self {
                        index,
                        path,
                        call: call(),
                        question,
                        kind,
                        directory: None,
                    });
                }
                CallState::AwaitingAnswer => {
                    let pause = open.note(index).and_then(|it| it.pause.as_ref());
                    let requests = pause.into_iter().flat_map(|it| &it.requests);
                    let waiting = requests.filter(|it| it.decision.is_none());
                    pending.extend(waiting.map(|it| Self {
                        index,
                        path: &it.path,
                        call: it.call.as_ref().unwrap_or_else(call),
                        question: &it.question,
                        kind: &it.kind,
                        directory: it.directory.as_ref(),
                    }));
                }
                _ => (),
            }
        }
        pending
    }

    /// Returns the position of this agent's call, then those of the sub-agents' calls.
    pub fn address(&self) -> Vec<u16> {
        [self.index].into_iter().chain(self.path.iter().map(|it| it.call)).collect()
    }

    /// Returns a decision as it is recorded: if an interrupted call is not to run again, the model learns that
    /// the call may have taken effect.
    pub(super) fn recorded(&self, decision: ApprovalDecision) -> ApprovalDecision {
        let told = |reason: String| {
            if self.question.is_recovery() { format!("{NOT_REPEATED}: {reason}") } else { reason }
        };
        match decision {
            ApprovalDecision::Deny { reason } => ApprovalDecision::Deny { reason: told(reason) },
            ApprovalDecision::DenyAndStop { reason } => {
                ApprovalDecision::DenyAndStop { reason: told(reason) }
            }
            other => other,
        }
    }

    /// Formats an address for people, as in `0.2`.
    pub fn format_address(address: &[u16]) -> String {
        address.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
    }
}
