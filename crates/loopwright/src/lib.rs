//! An agent runtime: a loop over immutable state, composed from capabilities.
//!
//! An agent is an [`AgentLoop`](core::AgentLoop): it takes an [`AgentState`](core::AgentState), thinks
//! and acts step by step, and gives the state back. An [`AgentBuilder`](agent::AgentBuilder) puts it
//! together from capabilities.
//!
//! ```
//! use loopwright::prelude::*;
//! use loopwright_testing::{FakeModel, ScenarioStep};
//! use serde_json::json;
//!
//! /// Adds two numbers.
//! #[tool(side_effects = "read_only")]
//! async fn add(a: i64, b: i64) -> i64 {
//!     a + b
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! // A script stands for a model; `UseLlm::new("ollama/qwen3")` is a real one.
//! let model = FakeModel::script([
//!     ScenarioStep::tool_call("add", json!({ "a": 2, "b": 40 })),
//!     ScenarioStep::final_answer("It is 42."),
//! ]);
//! let agent = AgentBuilder::standard()
//!     .with(UseLlm::from_model(model))
//!     .with(UseTools::new().with_tool(add))
//!     .build()?;
//! let reply = agent.ask("What is 2 + 40?").await?;
//! assert_eq!((reply.text(), reply.state().step_count()), ("It is 42.", 2));
//! # Ok(())
//! # }
//! ```
//!
//! # A tour
//!
//! Whoever begins needs the [`prelude`] and nothing else for a while. Then, in this order:
//!
//! 1. **Questions and answers**: [`AgentLoop::ask`](core::AgentLoop::ask) returns a [`core::Reply`], or a
//!    [`core::AskError`] that carries the state. Below it, [`AgentLoop::execute`](core::AgentLoop::execute) takes a
//!    [`core::AgentState`] and returns it with a [`core::ExecutionStatus`], never with an `Err`: [`AgentState::explain_stop`](core::AgentState::explain_stop) says in a
//!    sentence what became of a run.
//! 2. **Composition**: [`agent::AgentBuilder`] and the capabilities of [`agent`], such as
//!    [`UseTools`](agent::UseTools), [`UseGuards`](agent::UseGuards) and
//!    [`UseContextConfig`](agent::UseContextConfig). Each is a value named `UseX`.
//! 3. **Tools**: [`macro@tool`] for functions, [`core::tool_fn`] for closures, [`core::Tool`] for types
//!    with a state of their own. What a call does to the world, [`core::SideEffects`], decides what a crash
//!    may repeat.
//! 4. **Models**: [`UseLlm`](capabilities::llm::UseLlm) by name; [`models::Providers`] for addresses,
//!    keys, fallbacks and recordings; [`core::ChatModel`] for one of your own.
//! 5. **Ready-made capabilities**: [`capabilities`], from files and commands to sub-agents. A program whose
//!    agents run commands calls [`sandbox::init`] first in `main`.
//! 6. **Taking part**: [`core::Hook`], or closures by [`core::CallableHook`], at the ten
//!    [points](core::HookPoint) of a run.
//! 7. **Watching**: `on_event` and `wiretap` of the builder, the [kinds](core::kinds) of events,
//!    [`broadcast`] for other programs.
//! 8. **Keeping**: [`sessions::SessionRuntime::open`] over a store; [`worker::Worker`] for many machines.
//! 9. **In between**: [`core::Run`], to advance, steer, pause and leave a run by hand.
//!
//! | module | holds |
//! |---|---|
//! | [`prelude`] | what most programs need |
//! | [`core`] | state, loop, and the seams: tools, hooks, journals, events, models |
//! | [`agent`] | builder, capabilities, drivers, guards, definitions |
//! | [`capabilities`] | tools for files and commands, confined to one directory; tasks, skills, sub-agents and the like |
//! | [`models`] | providers |
//! | [`sandbox`] | what commands are confined by |
//! | [`sessions`] | conversations that are kept, and go on after a crash |
//! | `templates` | agents as files |
//! | [`broadcast`] | what agents do, told to the world outside |
//! | [`worker`] | processes that do what is queued for sessions |
//! | [`messages`] | conversations as data |
//!
//! Agents are tested with the crate `loopwright-testing`: models and drivers that follow a script, mock
//! tools, a clock that stands still. Parts for a web server are in `loopwright-server`.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `templates`, on by default | the module `templates`: agents as Markdown, YAML and JSON |
//! | `bedrock` | Amazon Bedrock, and with it what signs requests to AWS |
//! | `sqlite` | the module `store_sql` with sessions in a SQLite file |
//! | `postgres` | the same with sessions in PostgreSQL |
//!
//! Features add and never change what is there.

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
        AgentBuilder, AgentDefinition, AgentLoopExt, Capability, Configurator,
        ContinuationCriteria, DefinitionLoopFactory, ErrorPolicy, UseCachedContext,
        UseContextCompiler, UseContextCompilerDecorator, UseContextConfig, UseContinuation,
        UseDriver, UseDriverDecorator, UseErrorPolicy, UseGuards, UseHook, UseInterceptor,
        UseLlmConfig, UseReActConfig, UseStateProcessor, UseToolFactory, UseTools,
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
        llm_query::{LlmQueryTool, UseLlmQuery},
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
        AgentLoop, AgentState, AskError, BoxError, Budget, CallableHook, EventEnvelope, Execution,
        ExecutionStatus, Flow, Hook, HookCx, Json, LlmConfig, NoArgs, Reply, Run, RunEnv,
        RunHandle, RunOptions, StateEdit, Step, StopReason, StopSignal, Tool, ToolCx, ToolDecision,
        ToolError, ToolOutcome, ToolOutput, ToolSet, kinds,
        messages::{Message, Part, Role, ToolCall},
        tool_fn,
    };
    pub use loopwright_macros::tool;
    pub use loopwright_models::Providers;
    pub use loopwright_sessions::{
        Chat, ChatError, FileStore, SendMessage, SessionFactory, SessionId, SessionRuntime,
        SessionStore,
    };
}

#[cfg(doctest)]
mod pages;
