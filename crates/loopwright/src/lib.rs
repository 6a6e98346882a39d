//! An agent runtime: a loop over immutable state, composed from capabilities.
//!
//! An agent is an [`AgentLoop`](runtime::AgentLoop). It takes an
//! [`AgentState`](runtime::AgentState), thinks and acts step by step, and returns the new state. An
//! [`AgentBuilder`](agent::AgentBuilder) builds an agent from capabilities.
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
//! Start with the [`prelude`], which is enough for a first program. Then read, in this order:
//!
//! 1. **Questions and answers**: [`AgentLoop::ask`](runtime::AgentLoop::ask) returns a
//!    [`runtime::Reply`], or a [`runtime::AskError`] that carries the state. At a lower level,
//!    [`AgentLoop::execute`](runtime::AgentLoop::execute) takes a [`runtime::AgentState`] and
//!    returns it with a [`runtime::ExecutionStatus`], never with an `Err`.
//!    [`AgentState::explain_stop`](runtime::AgentState::explain_stop) describes in a sentence how a
//!    run ended.
//! 2. **Composition**: [`agent::AgentBuilder`] and the capabilities of [`agent`], such as
//!    [`UseTools`](agent::UseTools), [`UseGuards`](agent::UseGuards) and
//!    [`UseContextConfig`](agent::UseContextConfig). Each is a value named `UseX`.
//! 3. **Tools**: [`macro@tool`] for functions, [`runtime::tool_fn`] for closures, [`runtime::Tool`]
//!    for types with their own state. The side effects of a call, [`runtime::SideEffects`], decide
//!    whether it is repeated after a crash.
//! 4. **Models**: [`UseLlm`](capabilities::llm::UseLlm) by name; [`models::Providers`] for base
//!    URLs, keys, fallbacks and recordings; [`runtime::ChatModel`] to implement your own.
//! 5. **Ready-made capabilities**: [`capabilities`], from files and commands to sub-agents. A program whose
//!    agents run commands calls [`sandbox::init`] first in `main`.
//! 6. **Hooks**: [`runtime::Hook`], or closures with [`runtime::CallableHook`], at the ten
//!    [points](runtime::HookPoint) of a run.
//! 7. **Events**: `on_event` and `wiretap` of the builder, the event [types](runtime::events), and
//!    [`broadcast`] to send events to other programs.
//! 8. **Persistence**: [`sessions::SessionRuntime::open`] over a store; [`worker::Worker`] for many
//!    machines.
//! 9. **Manual control**: [`runtime::Run`], to advance, steer, pause and abandon a run.
//!
//! | module | contains |
//! |---|---|
//! | [`prelude`] | what most programs need |
//! | [`runtime`] | state, loop, and the extension points: tools, hooks, journals, events, models |
//! | [`agent`] | builder, capabilities, drivers, guards, definitions |
//! | [`capabilities`] | tools for files and commands, confined to one directory; tasks, skills, sub-agents and others |
//! | [`models`] | providers |
//! | [`sandbox`] | confinement of commands |
//! | [`sessions`] | stored conversations, which continue after a crash |
//! | `templates` | agents as files |
//! | [`broadcast`] | events of agents, sent to other programs |
//! | `mcp` | clients for servers of the Model Context Protocol |
//! | [`worker`] | processes that run the queued jobs of sessions |
//! | `workspaces` | snapshots of working directories in object storage |
//! | [`messages`] | conversations as data |
//!
//! Test agents with the crate `loopwright-testing`: scripted models and drivers, mock tools, and a
//! manual clock. The crate `loopwright-server` contains the parts of a web server.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `http`, on by default | the module `models`: providers over HTTP, and `UseLlm` |
//! | `tools`, on by default | tools for files and commands, and the module `sandbox` |
//! | `json-schema` | schemas of tools with any keyword of JSON Schema, such as `pattern` |
//! | `skills` | instructions that the model loads when it needs them; with `tools` |
//! | `structured` | answers of a Rust type, with a validator of JSON Schemas |
//! | `recording` | recording and replay of model calls, in files |
//! | `inventory` | every capability by its name, for configurations |
//! | `permissions` | the module `permissions`: which calls run, ask or are denied |
//! | `web` | tools that read web pages and search the web |
//! | `remote` | agents on other servers as sub-agents |
//! | `images` | images that are scaled down to the limits of providers |
//! | `sessions` | the module `sessions`: conversations in memory and in files |
//! | `sqlite`, `postgres` | the module `store_sql`: sessions in a database |
//! | `mcp` | the module `mcp`: tools of servers that speak the Model Context Protocol |
//! | `worker` | the module `worker`: processes that run queued jobs |
//! | `workspaces` | the module `workspaces`, and workers that restore and save the working directories of sessions; on Linux |
//! | `templates` | the module `templates`: agents as Markdown, YAML and JSON |
//! | `bedrock` | Amazon Bedrock, with the signatures of AWS |
//! | `gzip` | compressed responses of providers, for requests that do not stream |
//! | `full` | all of the above |
//!
//! Without any feature, the crate contains the loop, the builder, and the capabilities that need
//! neither files nor a network. The program `loopwright` enables all features that it uses.
//!
//! Without `json-schema`, the loop checks arguments by the keywords that describe Rust types and most hand-written schemas.
//! [`build`](agent::AgentBuilder::build) refuses a tool whose schema has another one, and names the feature.
//!
//! Features only add items; they never change existing ones. On systems other than Linux, `tools`,
//! `skills` and `inventory` add only the module `sandbox`, which refuses every command there.

pub use loopwright_agent as agent;
pub use loopwright_broadcast as broadcast;
pub use loopwright_capabilities as capabilities;
pub use loopwright_core as runtime;
pub use loopwright_core::messages;
pub use loopwright_macros::tool;
#[cfg(feature = "mcp")]
pub use loopwright_mcp as mcp;
#[cfg(feature = "http")]
pub use loopwright_models as models;
#[cfg(feature = "permissions")]
pub use loopwright_permissions as permissions;
#[cfg(feature = "tools")]
pub use loopwright_sandbox as sandbox;
#[cfg(feature = "sessions")]
pub use loopwright_sessions as sessions;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use loopwright_store_sql as store_sql;
#[cfg(feature = "templates")]
pub use loopwright_templates as templates;
#[cfg(feature = "worker")]
pub use loopwright_worker as worker;
#[cfg(all(feature = "workspaces", target_os = "linux"))]
pub use loopwright_workspaces as workspaces;

#[doc(hidden)]
pub use loopwright_core::__private;

/// What most programs need; everything else comes from its module.
///
/// To implement a `Hook` or a `ChatModel`, use the attribute `#[async_trait]`, which is also here.
pub mod prelude {
    pub use async_trait::async_trait;
    pub use loopwright_agent::{
        AgentBuilder, AgentDefinition, AgentLoopExt, Capability, UseGuards, UseHook, UseTools,
    };
    #[cfg(feature = "http")]
    pub use loopwright_capabilities::llm::UseLlm;
    #[cfg(all(feature = "tools", target_os = "linux"))]
    pub use loopwright_capabilities::{bash::UseBash, coding::UseCodingTools, files::UseFileTools};
    pub use loopwright_core::{
        AgentLoop, AgentState, BoxError, Budget, CallableHook, ExecutionStatus, Flow, Hook, HookCx,
        Json, StateEdit, StopReason, Tool, ToolCx, ToolError, messages::Message,
    };
    pub use loopwright_macros::tool;
}

#[cfg(doctest)]
mod pages;
