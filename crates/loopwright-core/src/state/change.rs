//! The changes of a state.

use std::{sync::Arc, time::Duration};

use loopwright_messages::{
    AgentId, CacheBreak, ExecutionId, Message, ResponseFormat, SectionName, Transcript,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    budget::{Budget, Spend},
    clock::Timestamp,
    execution::ExecutionStatus,
    failure::Failure,
    key::StateKey,
    llm::LlmConfig,
    outcome::{ApprovalDecision, ApprovalRequest, Arguments, ToolOutcome},
    pause::ToolPause,
    step::StepResponse,
    stop::{StopReason, StopSignal},
};

/// The number of a change in the history of a state, counted from zero.
pub type Seq = u64;

/// A change of a state. A state is built from its changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// An execution started.
    ExecutionStarted {
        /// The agent's ID, if it has none yet.
        agent: AgentId,
        /// The execution's ID.
        execution: ExecutionId,
    },
    /// An execution resumes: it was interrupted or paused, or it ended before an answer.
    ExecutionResumed,
    /// A step starts, or starts again.
    StepStarted {
        /// The attempt, counted from one.
        attempt: u32,
    },
    /// The model responded.
    ModelResponded(Arc<StepResponse>),
    /// The run ended while the model responded. The text so far becomes part of the conversation.
    AnswerInterrupted {
        /// The text so far, and a note on what interrupted it.
        message: Message,
    },
    /// A call waits for a decision.
    ApprovalRequested {
        /// The call's position.
        call: u16,
        /// The request for a decision.
        question: ApprovalRequest,
        /// The arguments that the request is about, if they are not those of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Arguments>,
    },
    /// A tool asks in the middle of its call, which waits for the answer.
    AnswerRequested {
        /// The call's position.
        call: u16,
        /// The arguments for the next attempt of the call.
        arguments: Arguments,
        /// The pause with its questions.
        pause: Arc<ToolPause>,
        /// The tool's spend on models so far.
        #[serde(default, skip_serializing_if = "Spend::is_zero")]
        spend: Spend,
    },
    /// A tool is about to start.
    ToolCallStarted {
        /// The call's position.
        call: u16,
        /// The attempt, counted from one.
        attempt: u32,
        /// The arguments of the tool.
        arguments: Arguments,
    },
    /// A call ended.
    ToolCallCompleted {
        /// The call's position.
        call: u16,
        /// The outcome.
        outcome: Arc<ToolOutcome>,
        /// The tool's spend on models.
        #[serde(default, skip_serializing_if = "Spend::is_zero")]
        spend: Spend,
        /// The start time of the call. `None` means the timestamp of its `ToolCallStarted`, or of
        /// the model's response if its start is not recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
    },
    /// All calls have ended: the step becomes part of the conversation.
    StepCompleted {
        /// The active time of the step.
        duration: Duration,
    },
    /// The step has no response.
    StepFailed {
        /// The failure.
        failure: Failure,
        /// The spend of the failed step.
        #[serde(default, skip_serializing_if = "Spend::is_zero")]
        spend: Spend,
        /// The active time of the step.
        duration: Duration,
    },
    /// The spend of a hook on models.
    SpendRecorded(Spend),
    /// Active time outside completed steps: of hooks between steps, or of a step that is paused or
    /// stopped.
    Worked(Duration),
    /// A hook, an action or the caller edited the state.
    StateEdited {
        /// The hook, action or caller.
        by: Arc<str>,
        /// The edit.
        edit: Edit,
    },
    /// The user sent a message during the run.
    MessageSteered(Message),
    /// A stop was requested.
    StopRaised(StopSignal),
    /// A soft reason to stop no longer holds.
    StopWithdrawn(StopReason),
    /// Another step was requested.
    ContinuationRequested {
        /// The source of the request.
        by: Arc<str>,
    },
    /// The run continued although there were reasons to end it.
    StopOverruled,
    /// The journal failed, and the run ended at this point. The open step stays.
    JournalFailed(Failure),
    /// The run waits for decisions.
    ExecutionPaused,
    /// The execution ended.
    ExecutionEnded(ExecutionStatus),
    /// The execution was dropped; the remains of an open step are in the conversation.
    ExecutionCleared,
}

impl Change {
    /// Returns the position of a call that is about to start.
    pub(crate) fn started_call(&self) -> Option<u16> {
        match self {
            Self::ToolCallStarted { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// Returns the name of the change in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ExecutionStarted { .. } => "execution_started",
            Self::ExecutionResumed => "execution_resumed",
            Self::StepStarted { .. } => "step_started",
            Self::ModelResponded(_) => "model_responded",
            Self::AnswerInterrupted { .. } => "answer_interrupted",
            Self::ApprovalRequested { .. } => "approval_requested",
            Self::AnswerRequested { .. } => "answer_requested",
            Self::ToolCallStarted { .. } => "tool_call_started",
            Self::ToolCallCompleted { .. } => "tool_call_completed",
            Self::StepCompleted { .. } => "step_completed",
            Self::StepFailed { .. } => "step_failed",
            Self::SpendRecorded(_) => "spend_recorded",
            Self::Worked(_) => "worked",
            Self::StateEdited { .. } => "state_edited",
            Self::MessageSteered(_) => "message_steered",
            Self::StopRaised(_) => "stop_raised",
            Self::StopWithdrawn(_) => "stop_withdrawn",
            Self::ContinuationRequested { .. } => "continuation_requested",
            Self::StopOverruled => "stop_overruled",
            Self::JournalFailed(_) => "journal_failed",
            Self::ExecutionPaused => "execution_paused",
            Self::ExecutionEnded(_) => "execution_ended",
            Self::ExecutionCleared => "execution_cleared",
        }
    }
}

/// A change with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// The time of the change.
    pub at: Timestamp,
    /// The change.
    pub change: Change,
}

/// An edit by a hook, an action or a caller. No edit erases or forges an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Edit {
    /// Appends a message. While a step is open, the message follows the step.
    Append {
        /// The section.
        section: SectionName,
        /// The message.
        message: Message,
    },
    /// Replaces a section.
    Replace {
        /// The section.
        section: SectionName,
        /// The new turns.
        turns: Transcript,
        /// The cause of the cache break.
        cause: CacheBreak,
    },
    /// Moves the oldest turns of a section to the end of another one. If the other section is
    /// directly before the first, the model sees the same text as before.
    Move {
        /// The source section.
        from: SectionName,
        /// The target section.
        to: SectionName,
        /// The number of turns; all if the section has fewer.
        turns: usize,
    },
    /// Sets a value, or removes it.
    Set(StateKey, Option<Value>),
    /// Replaces the session's system prompt.
    SystemPrompt(Option<Arc<str>>),
    /// Replaces the response format.
    ResponseFormat(Option<ResponseFormat>),
    /// Selects another model.
    Llm(Option<Arc<LlmConfig>>),
    /// Replaces the budget.
    Budget(Budget),
    /// Resets the budget of the execution, so that it counts from zero again. An execution that
    /// ended because of a limit can resume after this.
    RenewBudget,
    /// Sets the agent that this one works for.
    Parent(AgentId),
    /// Decides about a call of the open step.
    Resolve {
        /// The call's position.
        call: u16,
        /// The decision.
        resolution: ApprovalDecision,
    },
    /// Decides about a call of a sub-agent that a call of the open step runs.
    ResolveNested {
        /// The position of the call of this agent, then those of the sub-agents' calls.
        path: Vec<u16>,
        /// The decision.
        resolution: ApprovalDecision,
    },
}
