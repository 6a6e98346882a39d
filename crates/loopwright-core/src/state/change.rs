//! Everything that can happen to a state.

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

/// Something that happened to a state. A state is the fold of its changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// An execution began.
    ExecutionStarted {
        /// The agent's name, if it has none yet.
        agent: AgentId,
        /// The execution's name.
        execution: ExecutionId,
    },
    /// An execution resumes: it was interrupted or paused, or it ended before an answer.
    ExecutionResumed,
    /// A step begins, or begins again.
    StepStarted {
        /// How often, counted from one.
        attempt: u32,
    },
    /// The model answered.
    ModelResponded(Arc<StepResponse>),
    /// The run ended while the model answered: what it had written so far becomes part of the
    /// conversation.
    AnswerInterrupted {
        /// The text so far, and a note on what interrupted it.
        message: Message,
    },
    /// A call waits for a decision.
    ApprovalRequested {
        /// The call's position.
        call: u16,
        /// What has to be decided.
        question: ApprovalRequest,
    },
    /// A tool asks in the middle of its call, which waits for the answer.
    AnswerRequested {
        /// The call's position.
        call: u16,
        /// What the tool is given when it is called again.
        arguments: Arguments,
        /// What it asks.
        pause: Arc<ToolPause>,
        /// What the tool consumed of models so far.
        #[serde(default, skip_serializing_if = "Spend::is_zero")]
        spend: Spend,
    },
    /// A tool is about to begin.
    ToolCallStarted {
        /// The call's position.
        call: u16,
        /// How often, counted from one.
        attempt: u32,
        /// What the tool is given.
        arguments: Arguments,
    },
    /// A call is over.
    ToolCallCompleted {
        /// The call's position.
        call: u16,
        /// What became of it.
        outcome: Arc<ToolOutcome>,
        /// What the tool consumed of models.
        #[serde(default, skip_serializing_if = "Spend::is_zero")]
        spend: Spend,
        /// When the call started. `None` means at the stamp of its `Started`, or of the model's answer if
        /// its start is not recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started_at: Option<Timestamp>,
    },
    /// All calls are over: the step becomes part of the conversation.
    StepCompleted {
        /// How long it was worked on.
        duration: Duration,
    },
    /// There is no answer.
    StepFailed {
        /// Why.
        failure: Failure,
        /// What was consumed nevertheless.
        #[serde(default, skip_serializing_if = "Spend::is_zero")]
        spend: Spend,
        /// How long it was worked on.
        duration: Duration,
    },
    /// A hook consumed of models.
    SpendRecorded(Spend),
    /// Time was worked beyond that of the steps that are over: by hooks between steps, or on a step that is
    /// paused or stopped.
    Worked(Duration),
    /// A hook, an action or the caller edited the state.
    StateEdited {
        /// Who.
        by: Arc<str>,
        /// How.
        edit: Edit,
    },
    /// The user said something while the run went on.
    MessageSteered(Message),
    /// Somebody asks to stop.
    StopRaised(StopSignal),
    /// A soft reason to stop no longer holds.
    StopWithdrawn(StopReason),
    /// Somebody asks for another step.
    ContinuationRequested {
        /// Who.
        by: Arc<str>,
    },
    /// The run went on although there were reasons to end it.
    StopOverruled,
    /// The journal failed, and the run ended where it stood. The open step stays.
    JournalFailed(Failure),
    /// The run waits for decisions.
    ExecutionPaused,
    /// The execution is over.
    ExecutionEnded(ExecutionStatus),
    /// The execution was let go; what was left of an open step is in the conversation.
    ExecutionCleared,
}

impl Change {
    /// Returns the position of a call that is about to begin.
    pub(crate) fn started_call(&self) -> Option<u16> {
        match self {
            Self::ToolCallStarted { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// Returns the kind of change, as it is written in logs.
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

/// A change and its moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub change: Change,
}

/// What hooks, actions and callers may do to a state: nothing that erases or forges an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Edit {
    /// Says something. While a step is open, it is said after the step.
    Append {
        /// Where.
        section: SectionName,
        /// What.
        message: Message,
    },
    /// Replaces a section.
    Replace {
        /// Which.
        section: SectionName,
        /// By what.
        turns: Transcript,
        /// Why.
        cause: CacheBreak,
    },
    /// Moves the oldest turns of a section to the end of another one. Where that one stands right before
    /// the first, a model reads the same as before.
    Move {
        /// Out of which.
        from: SectionName,
        /// Into which.
        to: SectionName,
        /// How many; all of them if there are fewer.
        turns: usize,
    },
    /// Keeps a value, or removes it.
    Set(StateKey, Option<Value>),
    /// Replaces the session's system prompt.
    SystemPrompt(Option<Arc<str>>),
    /// Replaces the form of answers.
    ResponseFormat(Option<ResponseFormat>),
    /// Selects another model.
    Llm(Option<Arc<LlmConfig>>),
    /// Replaces the budget.
    Budget(Budget),
    /// Has the budget of the execution count anew from here. An execution that ended because a limit was
    /// reached can resume after this.
    RenewBudget,
    /// Names the agent that this one works for.
    Parent(AgentId),
    /// Decides about a call of the open step.
    Resolve {
        /// The call's position.
        call: u16,
        /// What was decided.
        resolution: ApprovalDecision,
    },
    /// Decides about a call of a sub-agent that a call of the open step runs.
    ResolveNested {
        /// The position of the call of this agent, then those of the sub-agents' calls.
        path: Vec<u16>,
        /// What was decided.
        resolution: ApprovalDecision,
    },
}
