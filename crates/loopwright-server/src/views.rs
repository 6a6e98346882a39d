//! Response types for sessions and runs.

use loopwright_core::{
    AgentState, ExecutionStatus, PendingApproval, RequestKind,
    messages::{Turn, TurnBody, Usage},
};
use loopwright_sessions::{AgentSession, JobRecord, SessionHeader, ShownRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ran::{ChangedArguments, RanWith};

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    /// The ID.
    pub id: String,
    /// The agent.
    pub agent: String,
    /// The title: by default, the beginning of the first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The status: `active`, `suspended`, `completed` or `failed`.
    pub status: String,
    /// The number of writes.
    pub version: u64,
    /// The session from which it was forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it was created, in RFC 3339.
    pub created_at: String,
    /// When it was last written, in RFC 3339.
    pub updated_at: String,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// The entry in lists.
    #[serde(flatten)]
    pub summary: SessionSummary,
    /// The status of its last run: `pending`, `in_progress`, `paused`, `completed`, `stopped` or
    /// `failed`.
    pub run_status: String,
    /// The text of the last answer, or of the current step.
    pub text: String,
    /// The number of steps.
    pub steps: u64,
    /// The number of calls waiting for a decision.
    pub pending: usize,
}

/// A page of sessions, most recently changed first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionSummary>,
    /// The cursor of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A run: a message to an agent, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// The ID.
    pub id: String,
    /// The session.
    pub session: String,
    /// `queued`, `running`, `completed`, `needs_input`, `stopped` or `failed`.
    pub status: String,
    /// The reason for the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was queued, in RFC 3339.
    pub created_at: String,
    /// When its status last changed, in RFC 3339.
    pub updated_at: String,
}

/// Runs of a session, latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunView>,
}

/// A page of the conversation of a session, in its order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<MessageView>,
    /// The cursor of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageView {
    /// `system`, `developer`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub text: String,
    /// The tool calls, with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallView>,
}

/// A tool call with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallView {
    /// The ID from the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool.
    pub tool: String,
    /// The arguments from the model, as JSON text.
    pub arguments: String,
    /// The arguments that it ran with instead; absent if those of the model were not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_with: Option<RanWith>,
    /// The result.
    pub result: String,
    /// `true` if the call failed.
    pub is_error: bool,
}

/// A call that waits for a decision or an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingView {
    /// Its address, such as `0` or, for a call of a sub-agent, `0.2`.
    pub call: String,
    /// The address with a tag of what is shown here, such as `0@9f86d081884c7d65`. A decision at this address is refused if the
    /// call has been decided about or waits with different arguments.
    pub request: String,
    /// The tool.
    pub tool: String,
    /// The arguments, as JSON text.
    pub arguments: String,
    /// The question, for people.
    pub question: String,
    /// `approval`: approve or deny the call. `answer`: answer the question of the tool.
    pub kind: PendingKind,
    /// The JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// `true` if the call was interrupted and may have taken effect.
    pub is_interrupted: bool,
    /// The rules that decide about such calls from now on if they are kept with the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

/// The kind of decision that a pending call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// Approval or denial of the call.
    Approval,
    /// The answer to a question of the tool.
    Answer,
    /// The result of a tool that runs elsewhere.
    Result,
}

/// The calls of a session that wait for decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingList {
    /// The calls.
    pub pending: Vec<PendingView>,
}

/// The usage of a session, over all its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// Of the input: read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Of the input: written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Of the output: reasoning.
    pub reasoning_tokens: u64,
    /// The cost in US dollars, as far as prices are known.
    pub cost_usd: f64,
    /// The number of steps.
    pub steps: u64,
}

impl From<&SessionHeader> for SessionSummary {
    fn from(header: &SessionHeader) -> Self {
        // The parent of a sub-agent's session is the session that it works for.
        let parent = header.parent.as_ref().filter(|_| header.call.is_none());
        Self {
            id: header.id.to_string(),
            agent: header.agent_name.to_string(),
            title: header.title.as_deref().map(str::to_owned),
            status: header.status.to_string(),
            version: header.version,
            parent: parent.map(ToString::to_string),
            created_at: header.created_at.to_string(),
            updated_at: header.updated_at.to_string(),
        }
    }
}

impl From<&AgentSession> for SessionView {
    fn from(session: &AgentSession) -> Self {
        let state = session.state();
        Self {
            summary: session.header().into(),
            run_status: run_status(state.status()).to_owned(),
            text: state.text(),
            steps: state.total_steps(),
            pending: state.pending().len(),
        }
    }
}

fn run_status(status: &ExecutionStatus) -> &'static str {
    match status {
        ExecutionStatus::Pending => "pending",
        ExecutionStatus::InProgress => "in_progress",
        ExecutionStatus::Paused => "paused",
        ExecutionStatus::Completed => "completed",
        ExecutionStatus::Stopped(_) => "stopped",
        ExecutionStatus::Failed(_) => "failed",
    }
}

impl From<&JobRecord> for RunView {
    fn from(record: &JobRecord) -> Self {
        Self {
            id: record.job.id.to_string(),
            session: record.job.session.to_string(),
            status: record.status.to_string(),
            reason: record.reason.as_deref().map(str::to_owned),
            created_at: record.created_at.to_string(),
            updated_at: record.updated_at.to_string(),
        }
    }
}

impl From<&Turn> for MessageView {
    fn from(turn: &Turn) -> Self {
        let message = turn.message();
        let calls = match turn.body() {
            TurnBody::ToolExchange(exchange) => exchange
                .pairs()
                .map(|(call, result)| CallView {
                    id: call.id.as_deref().map(str::to_owned),
                    tool: call.name.to_string(),
                    arguments: call.arguments.to_string(),
                    ran_with: None,
                    result: result.to_text(),
                    is_error: result.is_error,
                })
                .collect(),
            TurnBody::Input(_) | TurnBody::Reply(_) => Vec::new(),
        };
        let role = match message.role() {
            loopwright_core::messages::Role::System => "system",
            loopwright_core::messages::Role::Developer => "developer",
            loopwright_core::messages::Role::User => "user",
            loopwright_core::messages::Role::Assistant => "assistant",
        };
        Self { role: role.to_owned(), text: message.text(), calls }
    }
}

impl MessageView {
    /// Returns the view of a turn, with the arguments that its calls ran with.
    pub(crate) fn of(turn: &Turn, changed: &ChangedArguments) -> Self {
        let (mut view, meta) = (Self::from(turn), turn.meta());
        if let (Some(execution), Some(step)) = (&meta.execution, meta.step) {
            for (at, call) in view.calls.iter_mut().enumerate() {
                call.ran_with = changed.of_call(execution, step, at).cloned();
            }
        }
        view
    }
}

impl PendingView {
    /// Returns the calls of a session that wait for decisions.
    pub fn list(session: &AgentSession) -> Vec<Self> {
        session.state().pending().iter().map(|it| Self::of(session, it)).collect()
    }

    /// Returns the view of a call that waits in a session.
    pub fn of(session: &AgentSession, pending: &PendingApproval<'_>) -> Self {
        let kind = match pending.kind {
            RequestKind::Question { .. } => PendingKind::Answer,
            RequestKind::External { .. } => PendingKind::Result,
            _ => PendingKind::Approval,
        };
        let schema = pending.kind.answer_schema().map(|it| Value::clone(it));
        let request = ShownRequest::of(session.id(), session.state(), pending);
        Self {
            call: PendingApproval::format_address(&pending.address()),
            request: request.address().to_string(),
            tool: pending.call.name.to_string(),
            arguments: pending.call.arguments.to_string(),
            question: pending.question.text.clone(),
            kind,
            schema,
            is_interrupted: pending.question.is_recovery(),
            rules: Vec::new(),
        }
    }
}

impl From<&AgentState> for UsageView {
    fn from(state: &AgentState) -> Self {
        let spent = state.total_spent();
        let Usage { input, output, cache_read, cache_write, reasoning } = spent.usage;
        Self {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: cache_read,
            cache_write_tokens: cache_write,
            reasoning_tokens: reasoning,
            cost_usd: spent.cost.dollars(),
            steps: state.total_steps(),
        }
    }
}
