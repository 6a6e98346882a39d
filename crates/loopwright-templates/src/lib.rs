//! Agents as files: Markdown with front matter, YAML and JSON, those of other programs included.
//!
//! | module | holds |
//! |---|---|
//! | [`registry`] | the definitions there are: [`AgentDefinitionRegistry`] |
//! | [`loader`] | one file: [`DefinitionLoader`] |
//! | [`document`] | the formats: what a file says, before it is a definition |
//! | [`problem`] | what is wrong with a file, by line and key |
//! | [`writing`] | definitions as text, which is read again without loss |
//! | [`validator`] | what a definition asks for that does not exist |
//! | [`store`] | definitions that are written to a directory |
//! | [`capability`] | an agent that reads and writes definitions: [`UseAgentDefinitions`] |
//! | [`instructions`] | what a project tells every agent: `AGENTS.md` |
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
    instructions::{ProjectInstructions, UseProjectInstructions},
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
