//! The agent runtime: the state, the loop that advances it, and the extension points of the loop.
//!
//! - [`AgentState`] is everything an agent remembers. It is built from its [`Change`]s.
//! - [`AgentLoop`] runs states. [`Run`] is one execution in progress.
//! - [`Driver`], [`ContextCompiler`], [`ChatModel`], [`Tool`], [`ToolSource`], [`Hook`],
//!   [`Journal`] and [`EventSink`] are the extension points.
//!
//! This crate does no I/O. It reads time and random numbers only through [`RunEnv`].

#![cfg_attr(
    not(feature = "engine"),
    allow(
        dead_code,
        unused_imports,
        reason = "what only the engine uses stands beside what it is part of"
    )
)]

mod value;
mod state;
mod contract;
#[cfg(feature = "engine")]
mod engine;

// Each module is named by its own name in this crate, whichever layer it is in.
#[cfg(feature = "engine")]
use self::engine::{agent_loop, decide, driver, executor, infer, interceptor, reply, run, trace};
use self::{
    contract::{
        agent, compile, event, event_bus, handle, hook, host, instructions, journal, layer, model,
        profile, step_error, tool,
    },
    state::{change, continuation, denied, edit, execution, fold, outbox, outcome, pause, step},
    value::{
        budget, clock, failure, file_changes, interrupted, key, llm, meter, on_ask, shared, stop,
    },
};

pub use loopwright_messages as messages;

pub use crate::{
    agent::AgentLoop,
    budget::{Budget, BudgetUsage, Spend},
    change::{Change, ChangeRecord, Edit, Seq},
    clock::{Clock, RunEnv, SystemClock, Timestamp},
    compile::{CompileError, ContextCompiler},
    continuation::{CRITERIA_RESULTS, ContinuationDecision, ContinuationOutcome, Evaluation},
    denied::DeniedCall,
    edit::StateEdit,
    event::{AgentEvent, CustomEvent, CustomEventData, EventEnvelope, EventType, StreamFragment},
    event_bus::{EventBus, EventSink, EventSinks},
    execution::{Execution, ExecutionStatus},
    failure::{Failure, FailureKind, panic_message},
    file_changes::{ChangedFile, FileChangeKind, FilesChanged, Writes},
    fold::ReplayError,
    handle::{CancelReason, RunHandle},
    hook::{
        AsyncHookFn, CallableHook, ErrorDecision, Flow, Hook, HookCx, HookError, HookPoint,
        HookPoints, InferenceDecision, StopDecision, ToolDecision,
    },
    instructions::{Audience, DeriveFn, Fragment, Instructions},
    interrupted::OnInterrupted,
    journal::{EffectRecord, IdempotencyKey, Journal, JournalError},
    key::{Key, Metadata, Namespace, Scope, StateKey},
    layer::{ModelLayer, ModelLayers},
    llm::LlmConfig,
    meter::{BudgetAccount, Reservation},
    model::{
        ChatModel, Delta, DeltaSink, DiscardDeltas, FixedModel, InferCx, MediaKind, ModelCache,
        ModelError, ModelErrorKind, ModelProvider,
    },
    on_ask::OnAsk,
    outcome::{ApprovalDecision, ApprovalRequest, Arguments, StateEffect, ToolOutcome, ToolOutput},
    pause::{PathSegment, PauseRequest, PendingApproval, QuestionRefusal, RequestKind, ToolPause},
    profile::AgentMeta,
    state::{AgentContext, AgentState},
    step::{CallState, CallTimes, OpenStep, Step, StepKind, StepResponse},
    step_error::StepError,
    stop::{StopReason, StopSignal, Strength},
    tool::{
        AnyTool, ExternalTool, FnTool, IntoTool, IntoToolOutput, Json, NoArgs, Reach,
        RegistryError, SOURCE_TOOLS, SideEffects, StartedAgent, Tool, ToolApproval, ToolCx,
        ToolDescriptor, ToolError, ToolHandler, ToolListing, ToolOptions, ToolRegistry, ToolRetry,
        ToolSet, ToolSource, ToolSourceError, ToolSources, ToolVisibility, tool_fn, tool_fn_with,
    },
};

#[cfg(feature = "engine")]
pub use crate::{
    agent_loop::AgentParts,
    decide::DecisionError,
    driver::{Driver, ThinkCx},
    executor::{ToolExecutor, ToolRunner},
    interceptor::{HookStack, Interceptor, Priority, RegisteredHook},
    reply::{AskError, Reply},
    run::{Run, RunOptions},
    tool::{SCHEMA_TOO_COMPLEX, violation_of},
};

#[cfg(feature = "json-schema")]
pub use crate::tool::BoundedSchema;

/// `true` if this build checks every keyword of JSON Schema: it has the feature `json-schema`.
///
/// Without it, arguments are checked by the keywords that describe Rust types and most hand-written schemas. A schema
/// with another keyword, such as `pattern`, is refused when an agent is built, and calls of such a tool fail.
pub const HAS_SCHEMA_VALIDATOR: bool = cfg!(feature = "json-schema");

/// All event types, by name.
pub mod events {
    pub use crate::event::*;
}

/// An error of any kind, where the implementation chooses the type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Support code for the expansion of `#[tool]`. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use schemars;
    pub use serde;
    pub use std;

    pub use crate::tool::{ToolArgument, WritePath};
    pub use crate::{
        BoxError, IntoToolOutput, SideEffects, Tool, ToolApproval, ToolCx, ToolError, ToolOptions,
        ToolOutput, ToolRetry, Writes,
    };
}
