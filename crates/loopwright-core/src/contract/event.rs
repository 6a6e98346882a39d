//! Events of a run.

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

/// An event type, for listeners that want only this type. Implemented by the events of the core and
/// by every [`CustomEvent`].
pub trait EventType: Sized {
    /// Returns the event if it is of this kind.
    fn of(event: &AgentEvent) -> Option<&Self>;
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        /// An event. New variants may be added.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type", rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum AgentEvent {
            $($(#[$doc])* $name($name),)*
            /// An event that the core does not define.
            #[serde(untagged)]
            Custom(CustomEventData),
        }

        /// The events of the core, in their serialized form.
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
            /// Returns the name of the event: that of its type, or [`CustomEvent::NAME`].
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
    /// An execution started, or resumed after an interruption.
    ExecutionStarted {
        /// The agent's name.
        name: Arc<str>,
        /// Turns in the conversation.
        messages: usize,
        /// The number of available tools.
        tools: usize,
        /// `true` if the execution had started before.
        resumed: bool,
    }
    /// A step is about to start.
    StepStarted {
        /// The step, counted from one.
        step: u32,
        /// Turns in the conversation.
        messages: usize,
        /// Names of the available tools.
        tools: Arc<[Arc<str>]>,
    }
    /// A model is about to be called.
    InferenceRequestStarted {
        /// The step, counted from one.
        step: u32,
        /// Turns in the request.
        messages: usize,
        /// The model, if the request names one.
        model: Option<Arc<str>>,
    }
    /// A fragment of a response arrived. Emitted before the fragment is durable.
    StreamDelta {
        /// The step, counted from one.
        step: u32,
        /// The fragment.
        delta: StreamFragment,
        /// `true` if the response is not part of the conversation, such as one for a hook or a
        /// tool.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        aside: bool,
    }
    /// A model responded.
    InferenceResponseReceived {
        /// The step, counted from one.
        step: u32,
        /// Tokens.
        usage: Usage,
        /// The reason why the model stopped.
        finish: FinishReason,
        /// The duration of the model call.
        duration: Duration,
        /// The hook that responded instead of the model.
        answered_by: Option<Arc<str>>,
    }
    /// A request did not begin with the previous request, so that the provider's cache has no
    /// effect.
    PromptCacheBroken {
        /// The step, counted from one.
        step: u32,
        /// The cause.
        cause: CacheBreak,
    }
    /// A tool is about to start.
    ToolCallStarted {
        /// The step, counted from one.
        step: u32,
        /// The call's position in the step.
        call: u16,
        /// The provider's id of the call.
        id: Option<Arc<str>>,
        /// The tool's name.
        tool: Arc<str>,
        /// The arguments of the tool, as JSON text.
        arguments: Arc<str>,
        /// The attempt, counted from one.
        attempt: u32,
    }
    /// A call ended.
    ToolCallCompleted {
        /// The step, counted from one.
        step: u32,
        /// The call's position in the step.
        call: u16,
        /// The provider's id of the call.
        id: Option<Arc<str>>,
        /// The tool's name.
        tool: Arc<str>,
        /// The arguments of the tool, as JSON text: those of its `ToolCallStarted`. As the model wrote
        /// them for a call that did not start, and for a call without effects that was cancelled.
        arguments: Arc<str>,
        /// The outcome.
        outcome: Arc<ToolOutcome>,
        /// `true` if the tool succeeded.
        success: bool,
        /// The duration; zero for calls that did not run.
        duration: Duration,
    }
    /// A hook blocked a tool call.
    ToolCallBlocked {
        /// The step, counted from one.
        step: u32,
        /// The call's position in the step.
        call: u16,
        /// The tool's name.
        tool: Arc<str>,
        /// The arguments as written by the model, as JSON text.
        arguments: Arc<str>,
        /// The reason, for the model.
        reason: String,
        /// The hook or user that blocked the call.
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
        /// The arguments that the request is about.
        arguments: Arc<str>,
        /// The request for a decision.
        question: ApprovalRequest,
    }
    /// A step ended.
    StepCompleted {
        /// The step, counted from one.
        step: u32,
        /// The kind of the step.
        kind: StepKind,
        /// `true` if the model called tools.
        has_tool_calls: bool,
        /// The errors of the step.
        errors: Vec<String>,
        /// Tokens.
        usage: Usage,
        /// The reason why the model stopped.
        finish: Option<FinishReason>,
        /// The active time of the step, including model and tools.
        duration: Duration,
    }
    /// A step consumed tokens.
    TokenUsageReported {
        /// The operation that used them.
        operation: Cow<'static, str>,
        /// The step, counted from one.
        step: u32,
        /// Tokens.
        usage: Usage,
    }
    /// The state has another step.
    StateUpdated {
        /// The status of the execution.
        status: Cow<'static, str>,
        /// The number of completed steps.
        step_count: u32,
    }
    /// A stop was requested.
    StopSignalReceived {
        /// The signal, with its source and reason.
        signal: StopSignal,
    }
    /// The loop decided whether to take another step.
    ContinuationEvaluated {
        /// The number of completed steps.
        step: u32,
        /// The decision, the criterion that made it, and the result of each criterion.
        outcome: ContinuationOutcome,
    }
    /// A message that the user sent during the run is now part of the conversation.
    MessageSteered {
        /// The text of the message.
        text: String,
    }
    /// The run waits for decisions.
    ExecutionPaused {
        /// The positions of the calls that wait.
        calls: Vec<u16>,
    }
    /// The execution was stopped.
    ExecutionStopped {
        /// The signal, with its source and reason.
        signal: StopSignal,
        /// The number of completed steps.
        steps: u32,
    }
    /// The execution failed.
    ExecutionFailed {
        /// The failure.
        failure: Failure,
        /// The number of completed steps.
        steps: u32,
        /// Tokens.
        usage: Usage,
    }
    /// The execution ended, in whatever way.
    ExecutionCompleted {
        /// The final status.
        status: Cow<'static, str>,
        /// The number of completed steps.
        steps: u32,
        /// Tokens.
        usage: Usage,
        /// The number of errors.
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
        /// The error.
        error: String,
    }
    /// A sub-agent is about to start.
    SubagentSpawning {
        /// The sub-agent's name.
        subagent: Arc<str>,
        /// The beginning of its prompt.
        prompt: String,
        /// Its depth, counted from one.
        depth: u32,
        /// The maximum depth.
        max_depth: u32,
    }
    /// A sub-agent ended.
    SubagentCompleted {
        /// The sub-agent's name.
        subagent: Arc<str>,
        /// Its ID.
        subagent_id: Option<AgentId>,
        /// Its final status.
        status: Cow<'static, str>,
        /// Steps it took.
        steps: u32,
        /// Tokens it used.
        usage: Usage,
        /// The duration of its run.
        duration: Duration,
    }
    /// A hook was called.
    HookExecuted {
        /// The point of the lifecycle.
        point: Cow<'static, str>,
        /// The hook's name.
        hook: Arc<str>,
        /// The duration of the call.
        duration: Duration,
    }
    /// A model's decision could not be read.
    DecisionExtractionFailed {
        /// The step, counted from one.
        step: u32,
        /// The error.
        error: String,
        /// The attempt, counted from one.
        attempt: u32,
        /// The maximum number of attempts.
        max_attempts: u32,
    }
    /// A model's answer does not have the required form.
    ValidationFailed {
        /// The step, counted from one.
        step: u32,
        /// The subject of the validation.
        subject: Cow<'static, str>,
        /// The validation errors.
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
    /// Creates the event, for tools and hooks that validate an answer.
    pub fn new(step: u32, subject: impl Into<Cow<'static, str>>, errors: Vec<String>) -> Self {
        Self { step, subject: subject.into(), errors }
    }
}

/// A fragment of a response, in its event form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamFragment {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A tool call starts.
    ToolCall {
        /// The position of the call in the response.
        index: u16,
        /// The tool's name.
        name: String,
    },
    /// More of a tool call's arguments.
    ToolArguments {
        /// The call's position in the response.
        index: u16,
        /// JSON text.
        fragment: String,
    },
    /// The response is complete.
    End,
}

/// An event with the data that all events share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventEnvelope {
    /// The event's number within its run, counted from zero.
    pub seq: u64,
    /// The time of the event.
    pub at: Timestamp,
    /// The agent of the event.
    pub agent: AgentId,
    /// The agent that this one works for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// The execution that the event belongs to.
    pub execution: ExecutionId,
    /// The permission mode in force, if it is one that every event has to name, such as `unconfined`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<Cow<'static, str>>,
    /// The event.
    pub event: AgentEvent,
}
