//! Ready-made tools and capabilities: files and commands, confined to one directory.
//!
//! | module | holds |
//! |---|---|
//! | [`files`] | reading, writing, editing, listing and searching files |
//! | [`bash`] | commands in a sandbox |
//! | [`coding`] | both together |
//! | [`child`] | agents that work for an agent |
//! | [`subagents`] | handing work to agents that definitions describe |
//! | [`planning`] | a plan by a sub-agent before the work begins |
//! | [`critique`] | having final answers judged before they are given |
//! | [`summarization`] | older messages as a summary |
//! | [`compaction`] | a conversation made short, with long outputs in files |
//! | [`retrospective`] | going back to an earlier point with what was learned since |
//! | [`skills`] | instructions that are loaded when they are needed |
//! | [`structured`] | data out of text, and answers of a Rust type |
//! | [`metadata`] | a scratchpad for the model |
//! | [`tasks`] | a list of tasks for the model |
//! | [`tool_registry`] | many tools that cost nothing until they are used |
//! | [`cancellation`] | runs that another process may end |
//! | [`system_prompt`] | a system prompt that is made of what the agent can do |
//! | [`history`] | a record of what executions came to |
//! | [`llm`] | a model by its name |
//! | [`llm_query`] | a question to a model from within a run |
//! | [`self_description`] | an agent that can say what it is made of |
//! | [`questions`] | questions of the model to the user |
//! | [`external`] | tools that run elsewhere |
//! | [`recording`] | what models were asked and answered, on file, and answers from there |
//! | [`front_matter`] | text files that begin with YAML |
//! | [`broadcasting`] | what the agent does, told to the world outside |
//! | `web` | pages of the web as Markdown |
//! | [`permissions`] | rules about which calls run, ask the user or are denied |
//! | [`inventory`] | what this crate has on offer, as data |
//!
//! | feature, on by default | adds |
//! |---|---|
//! | `tools` | `files`, `bash`, `coding`, `compaction` |
//! | `skills` | `skills`, `front_matter`, and `tools` |
//! | `models` | `llm` |
//! | `recording` | `recording` |
//! | `structured` | `structured`, with a validator of JSON Schemas |
//! | `inventory` | `inventory`, and all of the above |
//!
//! The feature `permissions`, which is off by default, adds `permissions`; `web`, which is off too, adds `web`.
//! The modules of `tools`, `skills` and `inventory` exist on Linux only.
//!
//! Nothing here trusts the model: paths are walked by handles and never leave their directory, and
//! commands are confined by the kernel.

#[cfg(all(feature = "tools", target_os = "linux"))]
pub mod files;
#[cfg(all(feature = "tools", target_os = "linux"))]
pub mod bash;
#[cfg(all(feature = "tools", target_os = "linux"))]
pub mod coding;
pub mod child;
mod model_source;
mod provenance;
mod private_file;
#[cfg(any(feature = "inventory", feature = "structured", feature = "tools"))]
#[cfg_attr(
    not(all(feature = "inventory", target_os = "linux")),
    allow(dead_code, reason = "each form is used by some capabilities only")
)]
mod written;
mod truncate;
pub mod subagents;
pub mod planning;
pub mod critique;
pub mod summarization;
#[cfg(all(feature = "tools", target_os = "linux"))]
pub mod compaction;
pub mod retrospective;
#[cfg(all(feature = "skills", target_os = "linux"))]
pub mod front_matter;
#[cfg(all(feature = "skills", target_os = "linux"))]
pub mod skills;
#[cfg(feature = "structured")]
pub mod structured;
mod earlier_calls;
pub mod metadata;
pub mod tasks;
pub mod tool_registry;
pub mod cancellation;
#[cfg(feature = "permissions")]
pub mod permissions;
#[cfg(feature = "web")]
pub mod web;
pub mod system_prompt;
pub mod history;
#[cfg(feature = "models")]
pub mod llm;
pub mod llm_query;
pub mod questions;
pub mod external;
pub mod self_description;
#[cfg(feature = "recording")]
pub mod recording;
pub mod broadcasting;
#[cfg(all(feature = "inventory", target_os = "linux"))]
pub mod inventory;
