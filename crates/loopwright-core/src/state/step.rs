//! What one turn of the loop did, or is doing.

use std::{sync::Arc, time::Duration};

use loopwright_messages::{
    ExecutionId, FinishReason, InferenceResponse, Message, Role, ToolCall, Turn, Usage,
};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{
    budget::Spend,
    clock::Timestamp,
    failure::Failure,
    outcome::{ApprovalDecision, ApprovalRequest, Arguments, ToolOutcome},
    pause::{CallNote, ToolPause},
};

/// Most steps have one call, which needs no list.
pub(crate) type Few<T> = SmallVec<[T; 1]>;

/// What a driver made of a state: the model's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResponse {
    /// What the model said, calls included.
    pub message: Message,
    /// Why it stopped there.
    pub finish_reason: FinishReason,
    /// What it took to get there.
    #[serde(default, skip_serializing_if = "Spend::is_zero")]
    pub spend: Spend,
    /// The hook that answered in the model's place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
}

impl StepResponse {
    /// Makes a thought of an answer.
    pub fn from_response(response: InferenceResponse) -> Self {
        let spend = Spend { usage: response.usage, cost: response.cost.unwrap_or_default() };
        Self {
            message: response.message,
            finish_reason: response.finish_reason,
            spend,
            answered_by: None,
        }
    }
}

/// What a step amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The model asked for tools.
    ToolExecution,
    /// The model asked for none.
    FinalResponse,
    /// There is no answer.
    Error,
}

/// A step that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    #[serde(default = "unknown")]
    pub(crate) execution: ExecutionId,
    pub(crate) number: u32,
    pub(crate) kind: StepKind,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) turn: Option<Arc<Turn>>,
    #[serde(skip_serializing_if = "SmallVec::is_empty", default)]
    pub(crate) outcomes: Few<Arc<ToolOutcome>>,
    #[serde(skip_serializing_if = "SmallVec::is_empty", default)]
    pub(crate) times: Few<CallTimes>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) failure: Option<Box<Failure>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) finish: Option<FinishReason>,
    #[serde(skip_serializing_if = "Spend::is_zero", default)]
    pub(crate) spend: Spend,
    pub(crate) started_at: Timestamp,
    pub(crate) duration: Duration,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) continued_by: Option<Arc<str>>,
}

/// When a tool call started and ended, hooks before it excluded. The two are equal for a call that did not run, or
/// whose execution was dropped before the call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// When the call started. A call that runs again after an interruption starts again.
    pub started_at: Timestamp,
    /// When the outcome of the call was recorded.
    pub ended_at: Timestamp,
}

impl CallTimes {
    pub(crate) fn at(moment: Timestamp) -> Self {
        Self { started_at: moment, ended_at: moment }
    }

    /// Returns the time from start to end, by the time of day in whole milliseconds.
    pub fn duration(self) -> Duration {
        self.ended_at.since(self.started_at)
    }
}

fn unknown() -> ExecutionId {
    ExecutionId::new("")
}

impl Step {
    /// Returns a name that no other step of any execution has.
    pub fn id(&self) -> String {
        format!("{}/{}", self.execution, self.number)
    }

    /// Returns the step's number within its execution, counted from one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns what the step amounts to.
    pub fn kind(&self) -> StepKind {
        self.kind
    }

    /// Returns what the step added to the conversation.
    pub fn turn(&self) -> Option<&Turn> {
        self.turn.as_deref()
    }

    /// Returns what the model said; `None` if it said nothing.
    pub fn message(&self) -> Option<&Message> {
        self.turn.as_deref().map(Turn::message)
    }

    /// Returns the calls the model asked for, each with what became of it, in call order.
    pub fn tool_executions(&self) -> impl Iterator<Item = (&ToolCall, &ToolOutcome)> {
        let calls = self.message().into_iter().flat_map(Message::tool_calls);
        calls.zip(self.outcomes.iter().map(Arc::as_ref))
    }

    /// Returns when each call started and ended, in call order. Empty if the state was written as JSON by a
    /// version that did not keep these times; replaying its changes restores them.
    pub fn tool_times(&self) -> &[CallTimes] {
        &self.times
    }

    /// Returns `true` if the model asked for tools.
    pub fn has_tool_calls(&self) -> bool {
        self.kind == StepKind::ToolExecution
    }

    /// Returns the tokens of the step.
    pub fn usage(&self) -> Usage {
        self.spend.usage
    }

    /// Returns the tokens and the money of the step.
    pub fn spend(&self) -> Spend {
        self.spend
    }

    /// Returns why the model stopped writing.
    pub fn finish_reason(&self) -> Option<&FinishReason> {
        self.finish.as_ref()
    }

    /// Returns why there is no answer.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_deref()
    }

    /// Returns what requested the step after this one: a hook, a criterion, `on_stop` for a hook that refused
    /// to stop, or `user`. Returns `None` if the request was only the model's own (tool calls) or a retry, or if
    /// no step follows. [`Execution::continuation`](crate::Execution::continuation) has every criterion's
    /// decision after the newest step.
    pub fn continued_by(&self) -> Option<&str> {
        self.continued_by.as_deref()
    }

    /// Returns what went wrong: the step itself, and tools that did not answer.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let tools = self.outcomes.iter().filter(|it| it.is_error()).map(|it| it.error_message());
        self.failure().map(ToString::to_string).into_iter().chain(tools)
    }

    /// Returns `true` if anything went wrong.
    pub fn has_errors(&self) -> bool {
        self.failure.is_some() || self.outcomes.iter().any(|it| it.is_error())
    }

    /// Returns when the step began.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Returns when the step was over, if it was not interrupted.
    pub fn ended_at(&self) -> Timestamp {
        self.started_at.plus(self.duration)
    }

    /// Returns how long the step was worked on, model and tools included.
    pub fn duration(&self) -> Duration {
        self.duration
    }
}

/// A step that has begun and is not over: it survives crashes, pauses and dropped futures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenStep {
    pub(crate) number: u32,
    pub(crate) attempt: u32,
    pub(crate) started_at: Timestamp,
    /// The time that was worked on the step before it was paused.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub(crate) worked: Duration,
    pub(crate) thought: Option<Arc<StepResponse>>,
    pub(crate) calls: Few<CallState>,
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    pub(crate) times: Few<CallTimes>,
    /// The calls that were changed by who decided about them, or that wait in the middle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<CallNote>,
    /// What was said while the step was open; it follows the step in the conversation.
    pub(crate) said: Vec<Message>,
}

/// Where a call of an open step stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallState {
    /// Nothing has been done about it.
    Queued,
    /// Somebody has to decide.
    AwaitingApproval(ApprovalRequest),
    /// Somebody has decided.
    Decided(ApprovalDecision),
    /// The tool has begun.
    Started {
        /// How often it has begun, counted from one.
        attempt: u32,
        /// What it was given.
        arguments: Arguments,
    },
    /// The tool has begun and asked somebody. It is called again with the answer.
    AwaitingAnswer,
    /// It is over.
    Completed(Arc<ToolOutcome>),
}

impl OpenStep {
    /// Returns `true` if the user wrote while the step was open: a message that wants another step.
    pub(crate) fn is_spoken_to(&self) -> bool {
        self.said.iter().any(|message| message.role() == Role::User && !message.is_empty())
    }

    /// Returns the step's number within its execution, counted from one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns how often the step has begun, counted from one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the model's answer, once there is one.
    pub fn thought(&self) -> Option<&Arc<StepResponse>> {
        self.thought.as_ref()
    }

    /// Returns where each call stands, in call order.
    pub fn calls(&self) -> &[CallState] {
        &self.calls
    }

    /// Keeps what a call is given when its tool is called, and what the tool asked if it did.
    pub(crate) fn keep(
        &mut self,
        call: u16,
        arguments: &Arguments,
        pause: Option<&Arc<ToolPause>>,
    ) {
        let earlier = self.notes.iter().position(|it| it.call == call);
        let earlier = earlier.and_then(|at| self.notes.swap_remove(at).pause);
        let (arguments, pause) = (arguments.clone(), pause.cloned().or(earlier));
        self.notes.push(CallNote { call, arguments, pause });
    }

    pub(crate) fn note(&self, call: u16) -> Option<&CallNote> {
        self.notes.iter().find(|it| it.call == call)
    }

    /// Returns a call as the model wrote it.
    pub fn call(&self, index: u16) -> Option<&ToolCall> {
        self.thought.as_ref()?.message.tool_calls().nth(usize::from(index))
    }
}
