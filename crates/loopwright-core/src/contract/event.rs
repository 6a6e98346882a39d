//! What is told about a run while it goes on.

mod custom;

use std::{borrow::Cow, sync::Arc, time::Duration};

use loopwright_messages::{AgentId, CacheBreak, ExecutionId, FinishReason, Usage};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    clock::Timestamp,
    continuation::ContinuationOutcome,
    failure::Failure,
    outcome::{ApprovalRequest, ToolOutcome},
    step::StepKind,
    stop::StopSignal,
};

pub use self::custom::{CustomEvent, CustomEventData};

/// A kind of event, for listeners that want one kind only. Implemented by the events of the core and by every
/// [`CustomEvent`].
pub trait EventType: Sized {
    /// Returns the event if it is of this kind.
    fn of(event: &AgentEvent) -> Option<&Self>;
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        /// Something that happened. New kinds may be added.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum AgentEvent {
            $($(#[$doc])* $name($name),)*
            /// Something that the core does not know.
            #[serde(untagged)]
            Custom(CustomEventData),
        }

        /// The events of the core, as they are read.
        #[derive(Deserialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        enum CoreEvent {
            $($name($name),)*
        }

        /// The names of the events of the core.
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum CoreName {
            $($name,)*
        }

        impl From<CoreEvent> for AgentEvent {
            fn from(event: CoreEvent) -> Self {
                match event { $(CoreEvent::$name(event) => Self::$name(event),)* }
            }
        }

        impl AgentEvent {
            /// Returns the name of the kind: that of its type, or [`CustomEvent::NAME`].
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$name(_) => stringify!($name),)*
                    Self::Custom(event) => event.name(),
                }
            }
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[non_exhaustive]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl EventType for $name {
                fn of(event: &AgentEvent) -> Option<&Self> {
                    match event {
                        AgentEvent::$name(event) => Some(event),
                        _ => None,
                    }
                }
            }

            impl From<$name> for AgentEvent {
                fn from(event: $name) -> Self {
                    Self::$name(event)
                }
            }
        )*
    };
}

events! {
    /// An execution began, or goes on after an interruption.
    ExecutionStarted {
        /// The agent's name.
        name: Arc<str>,
        /// Turns in the conversation.
        messages: usize,
        /// Tools on offer.
        tools: usize,
        /// Whether it had begun before.
        resumed: bool,
    }
    /// A step is about to begin.
    StepStarted {
        /// Counted from one.
        step: u32,
        /// Turns in the conversation.
        messages: usize,
        /// Names of the tools on offer.
        tools: Arc<[Arc<str>]>,
    }
    /// A model is about to be asked.
    InferenceRequestStarted {
        /// The step, counted from one.
        step: u32,
        /// Turns in the request.
        messages: usize,
        /// The model, if the request names one.
        model: Option<Arc<str>>,
    }
    /// A fragment of an answer arrived. Told before it is durable.
    StreamDelta {
        /// The step, counted from one.
        step: u32,
        /// The fragment.
        delta: StreamFragment,
        /// Whether it is of an answer beside the conversation, such as one that a hook or a tool asked for.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aside: bool,
    }
    /// A model answered.
    InferenceResponseReceived {
        /// The step, counted from one.
        step: u32,
        /// Tokens.
        usage: Usage,
        /// Why the model stopped writing.
        finish: FinishReason,
        /// How long it took.
        duration: Duration,
        /// The hook that answered in the model's place.
        answered_by: Option<Arc<str>>,
    }
    /// A request did not begin with the request before it, so that the provider's cache is of no use.
    PromptCacheBroken {
        /// The step, counted from one.
        step: u32,
        /// Why.
        cause: CacheBreak,
    }
    /// A tool is about to begin.
    ToolCallStarted {
        /// The step, counted from one.
        step: u32,
        /// The call's position in the step.
        call: u16,
        /// The provider's id of the call.
        id: Option<Arc<str>>,
        /// The tool's name.
        tool: Arc<str>,
        /// What the tool is given, as JSON text.
        arguments: Arc<str>,
        /// How often it has begun, counted from one.
        attempt: u32,
    }
    /// A call is over.
    ToolCallCompleted {
        /// The step, counted from one.
        step: u32,
        /// The call's position in the step.
        call: u16,
        /// The provider's id of the call.
        id: Option<Arc<str>>,
        /// The tool's name.
        tool: Arc<str>,
        /// What the model wrote, as JSON text.
        arguments: Arc<str>,
        /// What became of it.
        outcome: Arc<ToolOutcome>,
        /// Whether the tool answered.
        success: bool,
        /// How long it took; nothing for calls that did not run.
        duration: Duration,
    }
    /// A hook kept a tool from running.
    ToolCallBlocked {
        /// The step, counted from one.
        step: u32,
        /// The call's position in the step.
        call: u16,
        /// The tool's name.
        tool: Arc<str>,
        /// What the model wrote, as JSON text.
        arguments: Arc<str>,
        /// For the model.
        reason: String,
        /// The hook, or the user.
        hook: Arc<str>,
    }
    /// A call waits for a decision.
    ToolApprovalRequested {
        /// The step, counted from one.
        step: u32,
        /// The call's position in the step.
        call: u16,
        /// The tool's name.
        tool: Arc<str>,
        /// What has to be decided.
        question: ApprovalRequest,
    }
    /// A step is over.
    StepCompleted {
        /// Counted from one.
        step: u32,
        /// What it amounts to.
        kind: StepKind,
        /// Whether the model asked for tools.
        has_tool_calls: bool,
        /// What went wrong.
        errors: Vec<String>,
        /// Tokens.
        usage: Usage,
        /// Why the model stopped writing.
        finish: Option<FinishReason>,
        /// How long it was worked on, model and tools included.
        duration: Duration,
    }
    /// A step consumed tokens.
    TokenUsageReported {
        /// What consumed them.
        operation: Cow<'static, str>,
        /// The step, counted from one.
        step: u32,
        /// Tokens.
        usage: Usage,
    }
    /// The state has another step.
    StateUpdated {
        /// Where the execution stands.
        status: Cow<'static, str>,
        /// Steps that are over.
        step_count: u32,
    }
    /// A stop was requested.
    StopSignalReceived {
        /// Who, and why.
        signal: StopSignal,
    }
    /// It was decided whether another step is taken.
    ContinuationEvaluated {
        /// Steps that are over.
        step: u32,
        /// What was decided, by which criterion, and the result of each criterion.
        outcome: ContinuationOutcome,
    }
    /// The user said something while the run went on, and it is part of the conversation now.
    MessageSteered {
        /// What was said.
        text: String,
    }
    /// The run waits for decisions.
    ExecutionPaused {
        /// The positions of the calls that wait.
        calls: Vec<u16>,
    }
    /// The execution was stopped.
    ExecutionStopped {
        /// Who, and why.
        signal: StopSignal,
        /// Steps that are over.
        steps: u32,
    }
    /// The execution failed.
    ExecutionFailed {
        /// Why.
        failure: Failure,
        /// Steps that are over.
        steps: u32,
        /// Tokens.
        usage: Usage,
    }
    /// The execution is over, however it ended.
    ExecutionCompleted {
        /// How it ended.
        status: Cow<'static, str>,
        /// Steps that are over.
        steps: u32,
        /// Tokens.
        usage: Usage,
        /// What went wrong.
        errors: usize,
    }
    /// The tools of a source changed for this run.
    ToolSourceUpdated {
        /// The name of the source.
        source: Arc<str>,
        /// New tools, and tools that are available again.
        added: Vec<Arc<str>>,
        /// Tools whose description or schema changed.
        changed: Vec<Arc<str>>,
        /// Tools whose calls fail from now on.
        removed: Vec<Arc<str>>,
        /// Tools that the run does not use because their names belong to the agent or to another source.
        refused: Vec<Arc<str>>,
    }
    /// A source could not list its tools. The run keeps the tools that it has.
    ToolSourceFailed {
        /// The name of the source.
        source: Arc<str>,
        /// Why.
        error: String,
    }
    /// A sub-agent is about to begin.
    SubagentSpawning {
        /// The sub-agent's name.
        subagent: Arc<str>,
        /// The beginning of what it is asked.
        prompt: String,
        /// How deep it is, counted from one.
        depth: u32,
        /// How deep it may be.
        max_depth: u32,
    }
    /// A sub-agent is done.
    SubagentCompleted {
        /// The sub-agent's name.
        subagent: Arc<str>,
        /// Its own id.
        subagent_id: Option<AgentId>,
        /// How it ended.
        status: Cow<'static, str>,
        /// Steps it took.
        steps: u32,
        /// Tokens it used.
        usage: Usage,
        /// How long it took.
        duration: Duration,
    }
    /// A hook was called.
    HookExecuted {
        /// The point of the lifecycle.
        point: Cow<'static, str>,
        /// The hook's name.
        hook: Arc<str>,
        /// How long it took.
        duration: Duration,
    }
    /// A model's decision could not be read.
    DecisionExtractionFailed {
        /// The step, counted from one.
        step: u32,
        /// Why.
        error: String,
        /// Which attempt it was, counted from one.
        attempt: u32,
        /// How many there are.
        max_attempts: u32,
    }
    /// A model's answer does not have the form it must have.
    ValidationFailed {
        /// The step, counted from one.
        step: u32,
        /// What was validated.
        subject: Cow<'static, str>,
        /// What is wrong.
        errors: Vec<String>,
    }
}

impl<'de> Deserialize<'de> for AgentEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_known = value.get("type").is_some_and(|it| CoreName::deserialize(it).is_ok());
        let event = if is_known {
            CoreEvent::deserialize(value).map(Self::from)
        } else {
            CustomEventData::deserialize(value).map(Self::Custom)
        };
        event.map_err(serde::de::Error::custom)
    }
}

impl ValidationFailed {
    /// Says what is wrong with an answer, for tools and hooks that look at one.
    pub fn new(step: u32, subject: impl Into<Cow<'static, str>>, errors: Vec<String>) -> Self {
        Self { step, subject: subject.into(), errors }
    }
}

/// A fragment of an answer, as events carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamFragment {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A tool call begins.
    ToolCall {
        /// Its position in the answer.
        index: u16,
        /// The tool's name.
        name: String,
    },
    /// More of a tool call's arguments.
    ToolArguments {
        /// The call's position in the answer.
        index: u16,
        /// JSON text.
        fragment: String,
    },
    /// Nothing more comes.
    End,
}

/// An event and the facts that every event has, stamped once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventEnvelope {
    /// The event's number within its run, counted from zero.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Whose event it is.
    pub agent: AgentId,
    /// The agent that this one works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// The execution it belongs to.
    pub execution: ExecutionId,
    /// What happened.
    pub event: AgentEvent,
}
