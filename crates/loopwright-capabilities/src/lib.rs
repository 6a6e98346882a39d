//! Ready-made tools and capabilities: files and commands, confined to one directory.
//!
//! | module | holds |
//! |---|---|
//! | [`files`] | reading, writing, editing, listing and searching files |
//! | [`bash`] | commands in a sandbox |
//! | [`coding`] | both together |
//! | [`child`] | agents that work for an agent |
//! | [`subagents`] | delegation to agents from definitions |
//! | [`planning`] | a plan by a sub-agent before the work starts |
//! | [`critique`] | review of final answers |
//! | [`summarization`] | older messages as a summary |
//! | [`compaction`] | compaction of conversations, with long outputs in files |
//! | [`retrospective`] | rewinding to an earlier point with guidance |
//! | [`skills`] | instructions that are loaded when needed |
//! | [`structured`] | data extraction from text, and answers of a Rust type |
//! | [`metadata`] | a scratchpad for the model |
//! | [`tasks`] | a list of tasks for the model |
//! | [`tool_registry`] | many tools that cost nothing until they are used |
//! | [`cancellation`] | cancellation of runs from outside |
//! | [`system_prompt`] | a system prompt derived from the agent's tools |
//! | [`history`] | a history of executions |
//! | [`llm`] | a model by its name |
//! | [`llm_query`] | a question to a model from within a run |
//! | [`self_description`] | a description of the agent for its own model |
//! | [`questions`] | questions from the model to the user |
//! | [`external`] | tools that run elsewhere |
//! | [`recording`] | recording of model calls to a file, and replay |
//! | [`front_matter`] | text files that start with YAML |
//! | [`broadcasting`] | broadcasting of the agent's events |
//! | `web` | web pages as Markdown |
//! | `remote_agent` | delegation to agents on other servers |
//! | [`permissions`] | rules that decide which calls run, need approval or are denied |
//! | [`inventory`] | the capabilities of this crate, as data |
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
//! The feature `permissions`, which is off by default, adds `permissions`; `web` and `remote`, which are off too, add
//! `web` and `remote_agent`.
//! The modules of `tools`, `skills` and `inventory` exist on Linux only.
//!
//! No tool trusts the model: paths are resolved through open handles and never leave their
//! directory, and the kernel confines commands.

#[cfg(all(feature = "tools", target_os = "linux"))]
pub mod files;
#[cfg(all(feature = "tools", target_os = "linux"))]
pub mod bash;
#[cfg(all(feature = "tools", target_os = "linux"))]
pub mod coding;
pub mod child;
pub mod background;
mod model_source;
mod provenance;
mod private_file;
#[cfg(any(feature = "inventory", feature = "structured", feature = "tools", feature = "web"))]
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
#[cfg(feature = "remote")]
pub mod remote_agent;
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
