//! The capabilities of this crate as data, for definitions, configuration files and binaries that
//! list their capabilities.
//!
//! ```
//! use loopwright_capabilities::inventory;
//! use serde_json::json;
//!
//! let mut registry = inventory::registry();
//! let planning = registry.configured("use_task_planning", &json!({ "max_items": 5 }))?;
//! assert_eq!(planning.name(), "use_task_planning");
//! # Ok::<_, loopwright_agent::CapabilityError>(())
//! ```

mod config;
mod sandbox;

use std::sync::Arc;

use loopwright_agent::{
    BuildError, Capability, CapabilityEntry, CapabilityRegistry, UseErrorPolicy,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    external::UseExternalTools, metadata::UseMetadataTools,
    retrospective::UseExecutionRetrospective, self_description::UseSelfDescription,
    summarization::UseSummarization, tasks::UseTaskPlanning,
};

/// The capabilities that can be created from a configuration alone, by name.
pub const ENTRIES: &[CapabilityEntry] = &[
    CapabilityEntry::new("use_bash", "Commands in a sandbox, in a `directory`.", |config| {
        tried(config, "use_bash", config::Commands::into_bash)
    }),
    CapabilityEntry::new(
        "use_broadcasting",
        "The agent's events, as lines in a `file`.",
        |config| made(config, "use_broadcasting", config::Told::into_capability),
    ),
    CapabilityEntry::new("use_coding_tools", "Files and commands, in a `directory`.", |config| {
        tried(config, "use_coding_tools", config::Commands::into_coding)
    }),
    CapabilityEntry::new(
        "use_compaction",
        "Compaction of long conversations to a `window`.",
        |config| made(config, "use_compaction", config::Compaction::into_capability),
    ),
    CapabilityEntry::new(
        "use_context_compiler",
        "Selection of the turns that the model sees, set by `show`.",
        |config| made(config, "use_context_compiler", config::Compiled::into_capability),
    ),
    CapabilityEntry::new("use_context_config", "The agent's own `system_prompt`.", |config| {
        made(config, "use_context_config", config::Context::into_capability)
    }),
    CapabilityEntry::new("use_error_policy", "Actions for each class of errors.", |config| {
        made(config, "use_error_policy", UseErrorPolicy)
    }),
    CapabilityEntry::new(
        "use_execution_history",
        "A history of the latest executions, in the state or a `file`.",
        |config| made(config, "use_execution_history", config::Kept::into_capability),
    ),
    CapabilityEntry::new("use_execution_retrospective", "Rewinding to a checkpoint.", |config| {
        made(config, "use_execution_retrospective", UseExecutionRetrospective::new)
    }),
    CapabilityEntry::new(
        "use_external_tools",
        "`tools` that run elsewhere: their calls wait for a result.",
        |config| made(config, "use_external_tools", |tools: UseExternalTools| tools),
    ),
    CapabilityEntry::new(
        "use_file_tools",
        "Reading and writing files in a `directory`.",
        |config| made(config, "use_file_tools", config::Files::into_capability),
    ),
    CapabilityEntry::new("use_guards", "Limits on steps, tokens, time and money.", |config| {
        made(config, "use_guards", config::Guards::into_capability)
    }),
    CapabilityEntry::new("use_llm", "The model, named by `llm`, with `options`.", |config| {
        made(config, "use_llm", config::Named::into_capability)
    }),
    CapabilityEntry::new(
        "use_llm_query",
        "Questions to a model, by default the agent's own.",
        |config| made(config, "use_llm_query", config::Query::into_capability),
    ),
    CapabilityEntry::new("use_metadata_tools", "A scratchpad for the model.", |config| {
        made(config, "use_metadata_tools", UseMetadataTools::new)
    }),
    CapabilityEntry::new(
        "use_planning_subagent",
        "A plan that a sub-agent makes before the work starts.",
        |config| made(config, "use_planning_subagent", config::Planning::into_capability),
    ),
    CapabilityEntry::new("use_questions", "Questions from the model to the user.", |config| {
        made(config, "use_questions", config::Questions::into_capability)
    }),
    CapabilityEntry::new("use_recording", "Recording of model calls to a `file`.", |config| {
        made(config, "use_recording", config::Recorded::into_capability)
    }),
    CapabilityEntry::new("use_replay", "Replay of recorded responses from a `file`.", |config| {
        made(config, "use_replay", config::Replayed::into_capability)
    }),
    CapabilityEntry::new("use_self_critique", "Final answers judged by a model.", |config| {
        made(config, "use_self_critique", config::Critique::into_capability)
    }),
    CapabilityEntry::new("use_self_description", "The tool `describe_self`.", |config| {
        made(config, "use_self_description", |_: config::Nothing| UseSelfDescription)
    }),
    CapabilityEntry::new("use_self_knowledge", "The locations of documentation.", |config| {
        made(config, "use_self_knowledge", config::Knowledge::into_capability)
    }),
    CapabilityEntry::new(
        "use_skills",
        "Instructions loaded when needed, from `directories`.",
        |config| made(config, "use_skills", config::Skills::into_capability),
    ),
    CapabilityEntry::new(
        "use_structured_outputs",
        "Extraction of data from text, as defined by `schemas`.",
        |config| made(config, "use_structured_outputs", config::Structured::into_capability),
    ),
    CapabilityEntry::new(
        "use_subagents",
        "Delegation to other `agents` and to a `research` sub-agent.",
        |config| made(config, "use_subagents", config::Subagents::into_capability),
    ),
    CapabilityEntry::new("use_summarization", "A summary in place of older messages.", |config| {
        made(config, "use_summarization", UseSummarization::new)
    }),
    CapabilityEntry::new("use_system_prompt", "A prompt that lists the tools.", |config| {
        made(config, "use_system_prompt", config::SystemPrompt::into_capability)
    }),
    CapabilityEntry::new("use_task_planning", "A list of tasks for the model.", |config| {
        made(config, "use_task_planning", UseTaskPlanning::new)
    }),
    CapabilityEntry::new(
        "use_tool_registry",
        "The agent's `tools` that are shown only when the model requests them.",
        |config| made(config, "use_tool_registry", config::OnDemand::into_capability),
    ),
];

/// The capabilities that cannot be created from a configuration, with the reasons.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    ("use_agent_definitions", "requires a registry of definitions that the program provides"),
    ("use_cached_context", "takes messages from the program"),
    ("use_context_compiler_decorator", "takes code"),
    ("use_continuation", "takes criteria, which are code"),
    ("use_cooperative_cancellation", "takes a source that the program controls"),
    ("use_driver", "takes a driver, which is code; to select a model, use `use_llm`"),
    ("use_driver_decorator", "takes code"),
    ("use_hook", "takes a hook, which is code"),
    ("use_identity", "a definition has its own name and description"),
    ("use_if_callable", "wraps another capability"),
    ("use_interceptor", "takes hooks, which are code"),
    ("use_llm_config", "takes models from the program; to select a model, use `use_llm`"),
    ("use_project_instructions", "takes files of a project that the program trusts"),
    ("use_react_config", "takes a driver with models from the program"),
    ("use_permissions", "takes a policy, which only the user may set"),
    (
        "use_remote_agent",
        "sends data and credentials to other servers, which only the user may choose",
    ),
    ("use_state_processor", "takes a processor, which is code"),
    ("use_tool_factory", "takes code"),
    ("use_tool_source", "takes code"),
    ("use_tools", "accepts tools, which only code can define"),
    ("use_web", "reaches the internet, which only the user may allow"),
];

/// Creates a registry of all capabilities of this crate.
pub fn registry() -> CapabilityRegistry {
    let mut registry = CapabilityRegistry::new();
    registry.register_all(ENTRIES);
    registry
}

/// Reads a configuration, of which null is an empty one, and makes a capability of it.
fn made<T: DeserializeOwned, C: Capability + 'static>(
    config: &Value,
    name: &'static str,
    make: impl FnOnce(T) -> C,
) -> Result<Arc<dyn Capability>, BuildError> {
    tried(config, name, |config| Ok(make(config)))
}

/// The same for configurations that can match the type and still be invalid.
fn tried<T: DeserializeOwned, C: Capability + 'static>(
    config: &Value,
    name: &'static str,
    make: impl FnOnce(T) -> Result<C, BuildError>,
) -> Result<Arc<dyn Capability>, BuildError> {
    CapabilityEntry::boxed(make(read(config, name)?)?)
}

/// Parses the configuration of a capability; null means an empty one.
///
/// # Errors
///
/// Returns an error that names the field if the configuration is invalid.
pub fn read<T: DeserializeOwned>(config: &Value, name: &'static str) -> Result<T, BuildError> {
    let config =
        if config.is_null() { Value::Object(serde_json::Map::new()) } else { config.clone() };
    serde_json::from_value(config).map_err(|error| {
        let reason = "its configuration is invalid".to_owned();
        BuildError::Capability { capability: name.into(), reason, source: Some(error.into()) }
    })
}

#[cfg(test)]
mod tests;
