//! Agents as files: Markdown with front matter, YAML and JSON, including those of other programs.
//!
//! | module | holds |
//! |---|---|
//! | [`registry`] | the registry of definitions: [`AgentDefinitionRegistry`] |
//! | [`loader`] | one file: [`DefinitionLoader`] |
//! | [`document`] | the formats: the content of a file, before it becomes a definition |
//! | [`problem`] | problems of a file, by line and key |
//! | [`writing`] | definitions as text, without loss |
//! | [`validator`] | unknown names in a definition |
//! | [`store`] | storing definitions in a directory |
//! | [`capability`] | an agent that reads and writes definitions: [`UseAgentDefinitions`] |
//! | [`instructions`] | a project's instructions for all agents: `AGENTS.md` |
//!
//! ```
//! use loopwright_agent::Definitions as _;
//! use loopwright_templates::{AgentDefinitionRegistry, DefinitionFormat, DefinitionLoader};
//!
//! let text = "---\nname: reviewer\ndescription: Reviews code.\ntools: Read, Grep\n---\nYou review.\n";
//! let loaded = DefinitionLoader::new().read(DefinitionFormat::Markdown.extension(), text)?;
//! let tools: Vec<_> = loaded.definition.tools.iter().flat_map(|it| it.iter()).collect();
//! assert_eq!(tools, ["read_file", "grep"]);
//!
//! let agents = AgentDefinitionRegistry::new();
//! agents.register(loaded.definition);
//! assert_eq!(agents.get("reviewer")?.system_prompt, "You review.");
//! # Ok::<_, loopwright_core::BoxError>(())
//! ```

pub mod problem;
pub mod document;
mod reading;
pub mod writing;
pub mod loader;
mod directory;
pub mod registry;
pub mod validator;
pub mod store;
pub mod capability;
pub mod instructions;

pub use crate::{
    capability::UseAgentDefinitions,
    document::{DefinitionParser, Document, JsonDefinitions, MarkdownDefinitions, YamlDefinitions},
    instructions::{FolderInstructions, ProjectInstructions, UseProjectInstructions},
    loader::{DefinitionLoader, LoadedDefinition},
    problem::{DefinitionFileError, DefinitionWarning, Diagnostic, DiagnosticKind},
    reading::privileged_settings,
    registry::{
        AgentDefinitionRegistry, DefinitionPaths, DefinitionScope, DefinitionSource, Depth,
    },
    store::{DefinitionStoreError, FileDefinitionStore, OnExisting, SavedDefinition},
    validator::{DefinitionValidator, InvalidField},
    writing::DefinitionFormat,
};
