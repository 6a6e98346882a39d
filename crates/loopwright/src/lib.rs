//! An agent runtime: a loop over immutable state, composed from capabilities.
//!
//! An agent is an [`AgentLoop`](core::AgentLoop): it takes an [`AgentState`](core::AgentState), thinks
//! and acts step by step, and gives the state back. An [`AgentBuilder`](agent::AgentBuilder) puts it
//! together from capabilities.
//!
//! | read | for |
//! |---|---|
//! | [`prelude`] | what most programs need |
//! | [`agent`] | builder, capabilities, drivers, guards, definitions |
//! | [`capabilities`] | tools for files and commands, confined to one directory; tasks, skills, sub-agents and the like |
//! | [`broadcast`] | what agents do, told to the world outside |
//! | [`sandbox`] | what commands are confined by |
//! | [`core`] | state, loop, and the seams: tools, hooks, journals, events, models |
//! | [`messages`] | conversations as data |
//! | [`models`] | providers |
//! | [`sessions`] | conversations that are kept, and go on after a crash |
//! | `templates` | agents as files |
//! | [`worker`] | processes that do what is queued for sessions |

pub use loopwright_agent as agent;
pub use loopwright_broadcast as broadcast;
pub use loopwright_capabilities as capabilities;
pub use loopwright_core as core;
pub use loopwright_core::messages;
pub use loopwright_macros::tool;
pub use loopwright_models as models;
pub use loopwright_sandbox as sandbox;
pub use loopwright_sessions as sessions;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use loopwright_store_sql as store_sql;
#[cfg(feature = "templates")]
pub use loopwright_templates as templates;
pub use loopwright_worker as worker;

#[doc(hidden)]
pub use loopwright_core::__private;

/// What most programs need.
///
/// A `Hook` or a `ChatModel` of one's own is implemented under the attribute `#[async_trait]`, which is
/// here as well.
pub mod prelude {
    pub use async_trait::async_trait;
    pub use loopwright_agent::{
        AgentBuilder, Capability, Configurator, ContinuationCriteria, ErrorPolicy, SimpleLoop,
        UseCachedContext, UseContextCompiler, UseContextCompilerDecorator, UseContextConfig,
        UseContinuation, UseDriver, UseDriverDecorator, UseErrorPolicy, UseGuards, UseHook,
        UseInterceptor, UseLlmConfig, UseReActConfig, UseStateProcessor, UseToolFactory, UseTools,
    };
    pub use loopwright_capabilities::{
        bash::{Bash, BashPolicy, UseBash},
        broadcasting::UseBroadcasting,
        cancellation::UseCooperativeCancellation,
        coding::UseCodingTools,
        compaction::UseCompaction,
        critique::UseSelfCritique,
        files::{EditFile, Grep, ListDir, ReadFile, SearchFiles, UseFileTools, WriteFile},
        history::UseExecutionHistory,
        llm::UseLlm,
        llm_query::LlmQueryTool,
        metadata::UseMetadataTools,
        planning::UsePlanningSubagent,
        recording::{UseRecording, UseReplay},
        retrospective::UseExecutionRetrospective,
        self_description::{UseSelfDescription, UseSelfKnowledge},
        skills::UseSkills,
        structured::{RunTyped, UseStructuredOutputs},
        subagents::UseSubagents,
        summarization::UseSummarization,
        system_prompt::UseSystemPrompt,
        tasks::UseTaskPlanning,
        tool_registry::UseToolRegistry,
    };
    pub use loopwright_core::{
        AgentLoop, AgentState, BoxError, Budget, CallableHook, Envelope, Execution, Flow, Hook,
        HookCx, Json, LlmConfig, NoArgs, Run, RunHandle, RunOptions, StateEdit, Status, Step,
        StopReason, StopSignal, Tool, ToolCx, ToolDecision, ToolError, ToolOutcome, ToolOutput,
        ToolSet, kinds,
        messages::{Message, Part, Role, ToolCall},
        tool_fn,
    };
    pub use loopwright_macros::tool;
    pub use loopwright_models::Providers;
}

#[cfg(doctest)]
mod pages;
