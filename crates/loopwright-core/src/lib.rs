//! What an agent *is*: its state, the loop that advances it, and the seams the loop calls through.
//!
//! - [`AgentState`] is everything an agent remembers. It is the fold of its [`Change`]s.
//! - [`AgentLoop`] runs states; [`Run`] is one execution in progress, the heart of this crate.
//! - [`Driver`], [`ContextCompiler`], [`ChatModel`], [`Tool`], [`Hook`], [`Journal`] and [`EventSink`]
//!   are the seams.
//!
//! This crate does no I/O and reads neither clock nor randomness but through [`RunEnv`].

mod clock;
mod failure;
mod stop;
mod budget;
mod meter;
mod llm;
mod key;
mod outcome;
mod step;
mod execution;
mod change;
mod outbox;
mod state;
mod fold;
mod continuation;
mod edit;
mod event;
mod event_bus;
mod journal;
mod model;
mod layer;
mod profile;
mod compile;
mod infer;
mod instructions;
mod tool;
mod hook;
mod interceptor;
mod driver;
mod executor;
mod run;
mod agent_loop;

pub use loopwright_messages as messages;

pub use crate::{
    agent_loop::{AgentLoop, AgentParts},
    budget::{Budget, BudgetUsage, Spend},
    change::{Change, ChangeRecord, Edit, Seq},
    clock::{Clock, RunEnv, SystemClock, Timestamp},
    compile::{CompileError, ContextCompiler},
    continuation::{CRITERIA_RESULTS, ContinuationDecision, ContinuationOutcome, Evaluation},
    driver::{Driver, StepError, ThinkCx},
    edit::StateEdit,
    event::{AgentEvent, EventEnvelope, EventType, StreamFragment},
    event_bus::{EventBus, EventSink, EventSinks},
    execution::{Execution, ExecutionStatus},
    executor::{ToolExecutor, ToolRunner},
    failure::{Failure, FailureKind, panic_message},
    fold::ReplayError,
    hook::{
        CallableHook, ErrorDecision, Flow, Hook, HookCx, HookPoint, HookPoints, InferenceDecision,
        StopDecision, ToolDecision,
    },
    instructions::{Audience, DeriveFn, Fragment, Instructions},
    interceptor::{HookError, HookStack, Interceptor, Priority, RegisteredHook},
    journal::{EffectRecord, IdempotencyKey, Journal, JournalError},
    key::{Key, Metadata, Namespace, Scope, StateKey},
    layer::{ModelLayer, ModelLayers},
    llm::LlmConfig,
    meter::{BudgetAccount, Reservation},
    model::{
        ChatModel, Delta, DeltaSink, DiscardDeltas, FixedModel, InferCx, ModelCache, ModelError,
        ModelErrorKind, ModelProvider,
    },
    outcome::{ApprovalDecision, ApprovalRequest, Arguments, StateEffect, ToolOutcome, ToolOutput},
    profile::AgentMeta,
    run::{OnInterrupted, Run, RunHandle, RunOptions},
    state::{AgentContext, AgentState, PendingApproval},
    step::{CallState, CallTimes, OpenStep, Step, StepKind, StepResponse},
    stop::{StopReason, StopSignal, Strength},
    tool::{
        AnyTool, FnTool, IntoTool, IntoToolOutput, Json, NoArgs, Reach, RegistryError, SideEffects,
        Tool, ToolCx, ToolDescriptor, ToolError, ToolHandler, ToolOptions, ToolRegistry, ToolRetry,
        ToolSet, ToolVisibility, tool_fn, tool_fn_with,
    },
};

/// Every kind of event, by its name.
pub mod events {
    pub use crate::event::*;
}

/// An error of any kind, at a seam where the kind is the implementor's business.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What `#[tool]` expands to. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use schemars;
    pub use serde;
    pub use std;

    pub use crate::tool::ToolArgument;
    pub use crate::{
        BoxError, IntoToolOutput, SideEffects, Tool, ToolCx, ToolError, ToolOptions, ToolOutput,
        ToolRetry,
    };
}
