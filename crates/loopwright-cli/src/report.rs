//! The report of a finished run.

use std::time::Duration;

use loopwright_core::{
    AgentState, Budget, DeniedCall, ExecutionStatus, PendingApproval, StopReason, Timestamp,
    messages::{Cost, ToolCall, Usage},
};
use loopwright_permissions::Mode;
use loopwright_sessions::{SessionId, ShownRequest};
use serde::Serialize;
use serde_json::Value;

use crate::ending::{Interruption, RunEnding};
use crate::exit::ExitCode;
use crate::session::{address, kind, short, waiting_call};
use crate::session_budget;
use crate::verification::Verification;

/// The version of everything that is written as JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// What there is to say about a run when it has ended: the last thing that is written as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "result")]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The final answer; empty if there is none.
    pub text: String,
    /// The answer that matches `--schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<Value>,
    /// Where the execution stands: `completed`, `stopped`, `failed`, `paused`.
    pub status: &'static str,
    /// Why it ended; see `docs/exit-codes.md`.
    pub stop_reason: &'static str,
    /// The exit status of the program.
    pub exit_code: ExitCode,
    /// Steps that were taken.
    pub steps: u32,
    /// Tokens.
    pub usage: Tokens,
    /// Money, if prices are known.
    pub cost_usd: Option<f64>,
    /// Money above `--max-cost`, if the last answer cost more than was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_over_limit_usd: Option<f64>,
    /// How long it took.
    pub duration_ms: u64,
    /// What went wrong on the way.
    pub errors: Vec<String>,
    /// Calls that wait for a decision or an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingCall>,
    /// Calls that were denied on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<DeniedCall>,
    /// The verdict of the command of `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// The permission mode in force at the end; absent if the run did not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<Mode>,
    /// Who gave the final answer, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's name.
    pub agent_id: Option<String>,
    /// The execution's name.
    pub execution_id: Option<String>,
    /// The session's name; absent if nothing is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What people should hear about the ending.
    #[serde(skip)]
    pub remark: Option<String>,
}

/// A call that waits for a decision or an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PendingCall {
    /// The number that `sessions decide` takes: the position of the call, and for one of a sub-agent those below it.
    pub call: String,
    /// The number with a tag of what is shown here, such as `0@9f86d081884c7d65`: a decision about it is refused if the call has
    /// been decided about or waits with different arguments.
    pub request: String,
    /// The sub-agents that lead to the call, from the outermost one on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The tool.
    pub tool: String,
    /// The arguments, as JSON.
    pub arguments: Value,
    /// What has to be decided or answered.
    pub question: String,
    /// `approval`, `question`, `result` or `interrupted`.
    pub kind: &'static str,
    /// The JSON Schema of the answer or the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The time after which the call is denied without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

impl PendingCall {
    /// Returns the calls of a session's state that wait.
    pub(crate) fn list(session: &SessionId, state: &AgentState) -> Vec<Self> {
        state.pending().iter().map(|it| Self::of(session, state, it)).collect()
    }

    /// Returns those whose deadline has not passed.
    pub(crate) fn unexpired(session: &SessionId, state: &AgentState, now: Timestamp) -> Vec<Self> {
        let pending = state.pending();
        let waiting = pending.iter().filter(|it| !it.question.is_expired(now));
        waiting.map(|it| Self::of(session, state, it)).collect()
    }

    fn of(session: &SessionId, state: &AgentState, asked: &PendingApproval<'_>) -> Self {
        Self {
            call: PendingApproval::format_address(&asked.address()),
            request: ShownRequest::of(session, state, asked).address().to_string(),
            agents: asked.path.iter().map(|it| it.agent.to_string()).collect(),
            tool: asked.call.name.to_string(),
            arguments: arguments(asked.call),
            question: asked.question.text.clone(),
            kind: kind(asked),
            schema: asked.kind.answer_schema().map(|it| Value::clone(it)),
            deadline: asked.question.deadline,
        }
    }
}

/// Returns the arguments of a call; as text if they are no JSON.
fn arguments(call: &ToolCall) -> Value {
    call.parse_arguments().unwrap_or_else(|_| Value::String(call.arguments.to_string()))
}

/// Tokens with their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Read and written.
    #[serde(flatten)]
    pub usage: Usage,
    /// Read and written, each once.
    pub total: u64,
}

impl Report {
    /// Sums a run up. Without a session, no call can be decided later, so that none is listed as waiting.
    pub fn of(
        session: Option<&SessionId>,
        state: &AgentState,
        interruption: Option<Interruption>,
        took: Duration,
    ) -> Self {
        let ending = RunEnding::of(state, interruption);
        let spent = state.spent();
        Self {
            schema_version: SCHEMA_VERSION,
            text: state.text(),
            structured_output: None,
            status: state.status().as_str(),
            stop_reason: ending.name(),
            exit_code: ending.exit_code(),
            steps: state.step_count(),
            usage: spent.usage.into(),
            cost_usd: Some(spent.cost.dollars()).filter(|dollars| *dollars > 0.0),
            cost_over_limit_usd: excess(state).map(Cost::dollars),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            errors: errors(state),
            pending: session.map(|it| PendingCall::list(it, state)).unwrap_or_default(),
            denials: state.denied_calls(),
            verification: None,
            permission_mode: None,
            model: answered_by(state),
            agent_id: state.id().map(ToString::to_string),
            execution_id: state.execution().map(|it| it.id().to_string()),
            session_id: None,
            remark: with_excess(
                remark(state, ending).map(|it| lasting(it, session, ending)),
                state,
            ),
        }
    }

    /// Says so if a limit that stopped the turn is what the session had left, and not the turn's own.
    #[must_use]
    pub fn within(mut self, turn: &Budget, state: &AgentState) -> Self {
        let Some(signal) = state.stop_signal() else { return self };
        let budget = state.budget();
        let is_own = match signal.reason {
            StopReason::StepsLimitReached => budget.steps == turn.steps,
            StopReason::TokenLimitReached => budget.tokens == turn.tokens,
            StopReason::TimeLimitReached => budget.time == turn.time,
            StopReason::CostLimitReached => budget.cost == turn.cost,
            _ => true,
        };
        if !is_own && signal.source.as_deref() == Some("budget") {
            let said = format!("session limit: {}", signal.message);
            self.remark = with_excess(
                Some(stopped(&said, signal.reason, Some(session_budget::SOURCE))),
                state,
            );
        }
        self
    }

    /// Names the permission mode in force.
    #[must_use]
    pub fn under(self, mode: Mode) -> Self {
        Self { permission_mode: Some(mode), ..self }
    }

    /// Reports if another model answered than the selected one.
    #[must_use]
    pub fn expecting(mut self, asked: &str) -> Self {
        if let Some(model) = self.model.as_deref().filter(|model| *model != asked) {
            let told = format!("answered by {model}: {asked} failed");
            self.remark =
                Some(self.remark.map_or(told.clone(), |remark| format!("{remark}; {told}")));
        }
        self
    }

    /// Replaces the ending of a run that has answered.
    #[must_use]
    pub(crate) fn ending(self, ending: RunEnding, remark: String) -> Self {
        let (stop_reason, exit_code) = (ending.name(), ending.exit_code());
        Self { stop_reason, exit_code, remark: Some(remark), ..self }
    }

    /// Reports a run that never began.
    pub fn refused(exit_code: ExitCode, stop_reason: &'static str, error: String) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            text: String::new(),
            structured_output: None,
            status: "failed",
            stop_reason,
            exit_code,
            steps: 0,
            usage: Tokens::default(),
            cost_usd: None,
            cost_over_limit_usd: None,
            duration_ms: 0,
            errors: vec![error],
            pending: Vec::new(),
            denials: Vec::new(),
            verification: None,
            permission_mode: None,
            model: None,
            agent_id: None,
            execution_id: None,
            session_id: None,
            remark: None,
        }
    }

    /// Reports that a message was left to the process that runs the session.
    pub fn left(id: &SessionId) -> Self {
        Self {
            status: "steered",
            errors: Vec::new(),
            remark: Some("message sent to the running session".to_owned()),
            session_id: Some(id.to_string()),
            ..Self::refused(ExitCode::Done, "steered", String::new())
        }
    }

    /// Names the session.
    #[must_use]
    pub fn of_session(self, id: &SessionId) -> Self {
        let decide = format!("; decide with: loopwright sessions decide {}", short(id));
        let decide = Some(decide).filter(|_| self.status == "paused").unwrap_or_default();
        let remark = self.remark.map(|remark| remark + &decide);
        Self { session_id: Some(id.to_string()), remark, ..self }
    }

    /// Returns `true` if it is about a run that began.
    pub fn has_run(&self) -> bool {
        self.execution_id.is_some()
    }
}

impl From<Usage> for Tokens {
    fn from(usage: Usage) -> Self {
        Self { usage, total: usage.total() }
    }
}

fn answered_by(state: &AgentState) -> Option<String> {
    let origin = state.final_response()?.origin()?;
    Some(format!("{}/{}", origin.provider, origin.model))
}

fn errors(state: &AgentState) -> Vec<String> {
    let mut errors: Vec<String> = state.errors().collect();
    if let ExecutionStatus::Failed(failure) = state.status() {
        let failure = failure.to_string();
        if !errors.contains(&failure) {
            errors.push(failure);
        }
    }
    errors
}

/// Says what happened and what can be done about it; `None` after an answer that is whole.
fn remark(state: &AgentState, ending: RunEnding) -> Option<String> {
    Some(match ending {
        RunEnding::Answered
        | RunEnding::AnsweredWithToolErrors
        | RunEnding::Unverified
        | RunEnding::OutputClosed => return None,
        RunEnding::SchemaUnmet => {
            let said = state.stop_signal().map_or("", |signal| signal.message.as_str());
            format!("the answer does not match the schema: {said}")
        }
        RunEnding::AnsweredAfterDenial => {
            let last = state.denied_calls().pop();
            let call = last.map(|it| format!("`{}`: {}", it.tool, it.reason)).unwrap_or_default();
            format!("denied: {call}")
        }
        RunEnding::FinishReason if state.has_final_response() => return None,
        RunEnding::Empty | RunEnding::FinishReason => "the model returned no answer".to_owned(),
        RunEnding::CutOff => {
            "the answer is incomplete: the model reached its length limit".to_owned()
        }
        RunEnding::Filtered => {
            "the answer is incomplete: the provider's filter cut it off".to_owned()
        }
        RunEnding::Refused => match state.last_step().and_then(|step| step.message()?.refusal()) {
            Some(words) => format!("the model declined: {words}"),
            None => "the model declined to answer".to_owned(),
        },
        RunEnding::Stopped(StopReason::UserRequested) => "interrupted".to_owned(),
        RunEnding::Terminated => "terminated".to_owned(),
        RunEnding::Stopped(reason) => {
            let said = state.stop_signal().map_or("", |signal| signal.message.as_str());
            let source = state.stop_signal().and_then(|it| it.source.as_deref());
            stopped(said, reason, source)
        }
        RunEnding::ForbiddenAfterProvider => state.explain_stop(),
        RunEnding::Failed(_) => match state.status() {
            ExecutionStatus::Failed(failure) => failure.to_string(),
            _ => state.explain_stop(),
        },
        RunEnding::Paused => needed(state),
        RunEnding::Unfinished => "the run ended mid-step; this is a bug".to_owned(),
    })
}

/// Adds to the remark of a run that waits that no session keeps what it waits for.
fn lasting(remark: String, session: Option<&SessionId>, ending: RunEnding) -> String {
    if session.is_some() || ending != RunEnding::Paused {
        return remark;
    }
    format!(
        "{remark}; without a session, no later command can decide: omit `--no-session`, or pass `--on-ask deny`"
    )
}

/// Says what a run waits for.
pub(crate) fn needed(state: &AgentState) -> String {
    let pending = state.pending();
    let is = |expected: &str| pending.iter().all(|it| kind(it) == expected);
    let needed = match () {
        () if is("question") => "answer",
        () if is("result") => "result",
        () if is("interrupted") => "decision",
        () => "approval",
    };
    let asked = pending.iter().map(|it| waiting(it, pending.len() > 1));
    format!("{needed} needed: {}", asked.collect::<Vec<_>>().join("; "))
}

/// Names a call that waits and what it asks; its address, too, if there are others.
fn waiting(asked: &PendingApproval<'_>, is_one_of_many: bool) -> String {
    let address = if is_one_of_many { format!("call {}, ", address(asked)) } else { String::new() };
    format!("{address}{}: {}", waiting_call(asked), asked.question.text)
}

/// Says what stopped a run, and how to allow more.
fn stopped(said: &str, reason: StopReason, source: Option<&str>) -> String {
    match option_of(reason, source == Some(session_budget::SOURCE)) {
        Some(_) if source.is_some_and(|it| it.starts_with("guard:")) => {
            format!("stopped: {said}; the agent's definition sets this limit in `use_guards`")
        }
        Some(option) => format!("stopped: {said}; raise {option} to allow more"),
        None => format!("stopped: {said}"),
    }
}

/// Returns what was spent above the limit of the turn.
fn excess(state: &AgentState) -> Option<Cost> {
    let (spent, limit) = (spent_of_turn(state), state.budget().cost?);
    (spent > limit).then(|| spent.saturating_sub(limit))
}

/// Returns what counts against the limit: a turn that continues an execution has a limit of its own.
fn spent_of_turn(state: &AgentState) -> Cost {
    state.execution().map_or(Cost::ZERO, |it| it.budget_usage(Duration::ZERO).cost)
}

/// Adds what was spent above the limit: a provider says what an answer costs after it is written.
fn with_excess(remark: Option<String>, state: &AgentState) -> Option<String> {
    let Some(excess) = excess(state) else { return remark };
    let (spent, limit) = (spent_of_turn(state), state.budget().cost.unwrap_or_default());
    let told = format!(
        "spent {spent}, {excess} over the limit of {limit}: the last response cost more than the \
            rest of the budget"
    );
    Some(remark.map_or(told.clone(), |remark| format!("{remark}; {told}")))
}

fn option_of(reason: StopReason, is_sessions: bool) -> Option<&'static str> {
    match reason {
        StopReason::StepsLimitReached if is_sessions => Some("--max-session-steps"),
        StopReason::TokenLimitReached if is_sessions => Some("--max-session-tokens"),
        StopReason::TimeLimitReached if is_sessions => Some("--max-session-seconds"),
        StopReason::CostLimitReached if is_sessions => Some("--max-session-cost"),
        StopReason::StepsLimitReached => Some("--max-steps"),
        StopReason::TokenLimitReached => Some("--max-tokens"),
        StopReason::TimeLimitReached => Some("--max-seconds"),
        StopReason::CostLimitReached => Some("--max-cost"),
        _ => None,
    }
}
