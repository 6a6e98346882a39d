//! What this crate has on offer, as data: for definitions, configuration files and binaries that list
//! what they were compiled with.
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

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, CapabilityEntry, CapabilityRegistry};
use loopwright_broadcast::BroadcastConfig;
use loopwright_core::messages::InferenceOptions;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    bash::UseBash,
    broadcasting::UseBroadcasting,
    coding::UseCodingTools,
    compaction::{CompactionPolicy, UseCompaction},
    files::UseFileTools,
    history::UseExecutionHistory,
    llm::UseLlm,
    metadata::UseMetadataTools,
    recording::{UseRecording, UseReplay},
    retrospective::UseExecutionRetrospective,
    self_description::{UseSelfDescription, UseSelfKnowledge},
    summarization::UseSummarization,
    system_prompt::UseSystemPrompt,
    tasks::UseTaskPlanning,
};

/// The capabilities that can be made of a configuration alone, by name.
pub const ENTRIES: &[CapabilityEntry] = &[
    CapabilityEntry::new("use_bash", "Commands in a sandbox, in a `directory`.", |config| {
        made(config, "use_bash", |it: Directory| UseBash::in_dir(it.directory))
    }),
    CapabilityEntry::new(
        "use_broadcasting",
        "What the agent does, as lines in a `file`.",
        |config| made(config, "use_broadcasting", Told::into_capability),
    ),
    CapabilityEntry::new("use_coding_tools", "Files and commands, in a `directory`.", |config| {
        made(config, "use_coding_tools", |it: Directory| UseCodingTools::in_dir(it.directory))
    }),
    CapabilityEntry::new("use_compaction", "Conversations made short, by `window`.", |config| {
        made(config, "use_compaction", CompactionConfig::into_capability)
    }),
    CapabilityEntry::new("use_execution_history", "The last executions, in the state.", |config| {
        made(config, "use_execution_history", |it: Kept| UseExecutionHistory::in_state(it.most))
    }),
    CapabilityEntry::new("use_execution_retrospective", "Going back to a checkpoint.", |config| {
        made(config, "use_execution_retrospective", UseExecutionRetrospective::new)
    }),
    CapabilityEntry::new("use_file_tools", "Reading and writing, in a `directory`.", |config| {
        made(config, "use_file_tools", |it: Directory| UseFileTools::in_dir(it.directory))
    }),
    CapabilityEntry::new(
        "use_llm",
        "The model to ask, named by `llm`, with `options`.",
        |config| {
            made(config, "use_llm", |it: Named| UseLlm::named(&it.llm).with_options(it.options))
        },
    ),
    CapabilityEntry::new("use_metadata_tools", "A scratchpad for the model.", |config| {
        made(config, "use_metadata_tools", UseMetadataTools::new)
    }),
    CapabilityEntry::new("use_recording", "Questions to models, to a `file`.", |config| {
        made(config, "use_recording", |it: OneFile| UseRecording::to_file(it.file))
    }),
    CapabilityEntry::new("use_replay", "Answers of models, from a `file`.", |config| {
        made(config, "use_replay", |it: OneFile| UseReplay::from_file(it.file))
    }),
    CapabilityEntry::new("use_self_description", "The tool `describe_self`.", |_| {
        CapabilityEntry::ready(UseSelfDescription)
    }),
    CapabilityEntry::new("use_self_knowledge", "Where documentation is.", |config| {
        made(config, "use_self_knowledge", |it: Directory| UseSelfKnowledge::in_dir(it.directory))
    }),
    CapabilityEntry::new("use_summarization", "Older messages as a summary.", |config| {
        made(config, "use_summarization", UseSummarization::new)
    }),
    CapabilityEntry::new("use_system_prompt", "A prompt made of the tools.", |config| {
        made(config, "use_system_prompt", SystemPromptConfig::into_capability)
    }),
    CapabilityEntry::new("use_task_planning", "A list of tasks for the model.", |config| {
        made(config, "use_task_planning", UseTaskPlanning::new)
    }),
];

/// Makes a registry of everything that is on offer here.
pub fn registry() -> CapabilityRegistry {
    let mut registry = CapabilityRegistry::new();
    registry.register_all(ENTRIES);
    registry
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    file: PathBuf,
    session: Option<String>,
    #[serde(default)]
    config: BroadcastConfig,
}

impl Told {
    fn into_capability(self) -> UseBroadcasting {
        let told = UseBroadcasting::to_file(self.file).with_config(self.config);
        match self.session {
            Some(session) => told.with_session(session),
            None => told,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Directory {
    directory: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneFile {
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    llm: String,
    #[serde(default)]
    options: InferenceOptions,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Kept {
    most: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self { most: 50 }
    }
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CompactionConfig {
    window: u64,
    directory: Option<PathBuf>,
    policy: CompactionPolicy,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self { window: 128_000, directory: None, policy: CompactionPolicy::default() }
    }
}

impl CompactionConfig {
    fn into_capability(self) -> UseCompaction {
        let compaction = UseCompaction::of_window(self.window).policy(self.policy);
        match self.directory {
            Some(directory) => compaction.spilling_to(directory),
            None => compaction,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SystemPromptConfig {
    preamble: String,
    guidelines: Vec<String>,
    append: String,
}

impl SystemPromptConfig {
    fn into_capability(self) -> UseSystemPrompt {
        let prompt = UseSystemPrompt::new(self.preamble).append(self.append);
        self.guidelines.into_iter().fold(prompt, UseSystemPrompt::guideline)
    }
}

/// Reads a configuration, of which null is an empty one, and makes a capability of it.
fn made<T: DeserializeOwned, C: Capability + 'static>(
    config: &Value,
    name: &'static str,
    make: impl FnOnce(T) -> C,
) -> Result<Arc<dyn Capability>, BuildError> {
    let config =
        if config.is_null() { Value::Object(serde_json::Map::new()) } else { config.clone() };
    let config = serde_json::from_value(config).map_err(|error| {
        let reason = "its configuration does not fit".to_owned();
        BuildError::Capability { capability: name.into(), reason, source: Some(error.into()) }
    })?;
    CapabilityEntry::ready(make(config))
}

#[cfg(test)]
mod tests;
