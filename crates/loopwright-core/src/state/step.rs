//! Steps, both completed and open.

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

/// The response of a step, which a driver produces from a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResponse {
    /// The message of the model, including calls.
    pub message: Message,
    /// The reason why the model ended its response.
    pub finish_reason: FinishReason,
    /// The spend.
    #[serde(default, skip_serializing_if = "Spend::is_zero")]
    pub spend: Spend,
    /// The hook that responded instead of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Arc<str>>,
}

impl StepResponse {
    /// Creates a step response from an inference response.
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

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The model called tools.
    ToolExecution,
    /// The model called no tools.
    FinalResponse,
    /// The step has no response.
    Error,
}

/// A completed step.
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
    /// The calls whose arguments a hook or a decision changed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) rewritten: Vec<(u16, Box<ToolCall>)>,
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

/// The start and end times of a tool call, without the hooks before it. The two are equal for a
/// call that did not run, or whose execution was dropped before the call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// The start time of the call. A call that runs again after an interruption gets a new one.
    pub started_at: Timestamp,
    /// The time at which the outcome of the call was recorded.
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
    /// Returns an ID that no other step of any execution has.
    pub fn id(&self) -> String {
        format!("{}/{}", self.execution, self.number)
    }

    /// Returns the step's number within its execution, counted from one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the kind of the step.
    pub fn kind(&self) -> StepKind {
        self.kind
    }

    /// Returns the turn that the step added to the conversation.
    pub fn turn(&self) -> Option<&Turn> {
        self.turn.as_deref()
    }

    /// Returns the model's message, or `None` if it is empty.
    pub fn message(&self) -> Option<&Message> {
        self.turn.as_deref().map(Turn::message)
    }

    /// Returns the calls of the model with their outcomes, in call order.
    pub fn tool_executions(&self) -> impl Iterator<Item = (&ToolCall, &ToolOutcome)> {
        let calls = self.message().into_iter().flat_map(Message::tool_calls);
        calls.zip(self.outcomes.iter().map(Arc::as_ref))
    }

    /// Returns a call with the arguments that were decided about. Returns `None` if they are those of the model.
    pub fn rewritten_call(&self, index: u16) -> Option<&ToolCall> {
        self.rewritten.iter().find(|(call, _)| *call == index).map(|(_, call)| &**call)
    }

    /// Returns when each call started and ended, in call order. Empty if the state was written as JSON by a
    /// version that did not keep these times; replaying its changes restores them.
    pub fn tool_times(&self) -> &[CallTimes] {
        &self.times
    }

    /// Returns `true` if the model called tools.
    pub fn has_tool_calls(&self) -> bool {
        self.kind == StepKind::ToolExecution
    }

    /// Returns the tokens of the step.
    pub fn usage(&self) -> Usage {
        self.spend.usage
    }

    /// Returns the tokens and the cost of the step.
    pub fn spend(&self) -> Spend {
        self.spend
    }

    /// Returns why the model stopped writing.
    pub fn finish_reason(&self) -> Option<&FinishReason> {
        self.finish.as_ref()
    }

    /// Returns the failure of a step without a response.
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

    /// Returns the errors of the step itself, and of tools that failed.
    pub fn errors(&self) -> impl Iterator<Item = String> {
        let tools = self.outcomes.iter().filter(|it| it.is_error()).map(|it| it.error_message());
        self.failure().map(ToString::to_string).into_iter().chain(tools)
    }

    /// Returns `true` if the step has any error.
    pub fn has_errors(&self) -> bool {
        self.failure.is_some() || self.outcomes.iter().any(|it| it.is_error())
    }

    /// Returns when the step started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Returns when the step ended.
    pub fn ended_at(&self) -> Timestamp {
        self.started_at.plus(self.duration)
    }

    /// Returns the active time of the step, including model and tools.
    pub fn duration(&self) -> Duration {
        self.duration
    }
}

/// A step that has started and not ended. It survives crashes, pauses and dropped futures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenStep {
    pub(crate) number: u32,
    pub(crate) attempt: u32,
    pub(crate) started_at: Timestamp,
    /// The active time of the step before it was paused.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub(crate) worked: Duration,
    pub(crate) thought: Option<Arc<StepResponse>>,
    pub(crate) calls: Few<CallState>,
    #[serde(default, skip_serializing_if = "SmallVec::is_empty")]
    pub(crate) times: Few<CallTimes>,
    /// The calls whose arguments a hook or a decision changed, or that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<CallNote>,
    /// Messages sent while the step was open; they follow the step in the conversation.
    pub(crate) said: Vec<Message>,
}

/// The state of a call in an open step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallState {
    /// The call has not been handled.
    Queued,
    /// The call needs a decision.
    AwaitingApproval(ApprovalRequest),
    /// The call is decided.
    Decided(ApprovalDecision),
    /// The tool has started.
    Started {
        /// The attempt, counted from one.
        attempt: u32,
        /// The arguments.
        arguments: Arguments,
    },
    /// The tool has started and asked a question. It is called again with the answer.
    AwaitingAnswer,
    /// The call has ended.
    Completed(Arc<ToolOutcome>),
}

impl OpenStep {
    /// Returns `true` if the user sent a message while the step was open, which requires another
    /// step.
    pub(crate) fn is_spoken_to(&self) -> bool {
        self.said.iter().any(|message| message.role() == Role::User && !message.is_empty())
    }

    /// Returns the step's number within its execution, counted from one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the number of attempts to start the step, counted from one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the model's response; `None` before it arrives.
    pub fn thought(&self) -> Option<&Arc<StepResponse>> {
        self.thought.as_ref()
    }

    /// Returns the state of each call, in call order.
    pub fn calls(&self) -> &[CallState] {
        &self.calls
    }

    /// Records the arguments for the next attempt of a call, which its requests show, and the tool's question, if any.
    pub(crate) fn keep(
        &mut self,
        call: u16,
        arguments: &Arguments,
        pause: Option<&Arc<ToolPause>>,
    ) {
        let earlier = self.notes.iter().position(|it| it.call == call);
        let earlier = earlier.and_then(|at| self.notes.swap_remove(at).pause);
        let (arguments, pause) = (arguments.clone(), pause.cloned().or(earlier));
        let written = self.call(call).filter(|it| it.arguments != *arguments.shared());
        let shown = written.map(|it| {
            Box::new(ToolCall { arguments: Arc::clone(arguments.shared()), ..it.clone() })
        });
        self.notes.push(CallNote { call, arguments, shown, pause });
    }

    /// Returns `true` if a decision stops the run, so that no other call waits any more.
    pub(crate) fn is_being_stopped(&self) -> bool {
        self.calls.iter().zip(0..=u16::MAX).any(|(state, call)| match state {
            CallState::Decided(ApprovalDecision::DenyAndStop { .. }) => true,
            CallState::AwaitingAnswer => {
                let pause = self.note(call).and_then(|it| it.pause.as_ref());
                pause.is_some_and(|it| it.stop_reason().is_some())
            }
            _ => false,
        })
    }

    /// Returns the outcome of each call; `None` while a call has not ended.
    pub(crate) fn outcomes(&self) -> Option<Few<Arc<ToolOutcome>>> {
        let outcome = |state: &CallState| match state {
            CallState::Completed(outcome) => Some(Arc::clone(outcome)),
            _ => None,
        };
        self.calls.iter().map(outcome).collect()
    }

    pub(crate) fn note(&self, call: u16) -> Option<&CallNote> {
        self.notes.iter().find(|it| it.call == call)
    }

    /// Returns a call as written by the model.
    pub fn call(&self, index: u16) -> Option<&ToolCall> {
        self.thought.as_ref()?.message.tool_calls().nth(usize::from(index))
    }
}
