//! Hooks of agent files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use loopwright_agent::{BuildError, HOOKS};
use loopwright_templates::{DefinitionLoader, LoadedDefinition};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{CommandHook, CommandHooks, HookEvent, read_events};
use crate::config::ConfigSources;
use crate::mcp_servers::user_agents;
use crate::project_settings::{ProjectSettings, agent_files};

/// The hooks of all agent files, by the name of the agent. Hooks in the definition that a session or an import contains never
/// run.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentHooks {
    brought: BTreeMap<String, Brought>,
    /// Whether agents are only checked, so that trust does not matter.
    only_checks: bool,
}

#[derive(Clone, Debug)]
struct Brought {
    hooks: CommandHooks,
    warnings: Vec<String>,
    file: PathBuf,
    is_trusted: bool,
}

/// The configuration of the capability [`HOOKS`].
#[derive(Deserialize)]
struct Config {
    agent: String,
    hooks: Map<String, Value>,
}

impl AgentHooks {
    /// Finds the hooks of the user's agents and of the project's. If two agents have one name, the user's takes
    /// precedence.
    pub(crate) fn find(sources: &ConfigSources, project: &ProjectSettings) -> Self {
        let mut found = Self::default();
        for (path, text) in agent_files(user_agents(sources)) {
            found.add(&path, &text, true);
        }
        found.add_project(project);
        found
    }

    /// Finds the hooks of the project's agents.
    pub(crate) fn of_project(project: &ProjectSettings) -> Self {
        let mut found = Self::default();
        found.add_project(project);
        found
    }

    fn add_project(&mut self, project: &ProjectSettings) {
        for (path, text) in project.agents() {
            self.add(path, text, project.is_trusted());
        }
    }

    /// Returns all hooks, with the names of their agents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &CommandHook)> {
        let agents = self.brought.iter();
        agents.flat_map(|(agent, it)| it.hooks.iter().map(move |hook| (agent.as_str(), hook)))
    }

    /// Accepts hooks of every definition and runs none.
    pub(crate) fn only_checked() -> Self {
        Self { only_checks: true, ..Self::default() }
    }

    fn add(&mut self, path: &Path, text: &str, is_trusted: bool) {
        let kind = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        // The code that reads agents reports errors of the file.
        let loader = DefinitionLoader::new().with_hooks(HookEvent::of_agents());
        let Ok(LoadedDefinition { definition, .. }) = loader.read(kind, text) else { return };
        let (hooks, warnings) = read_events(path, &definition.hooks);
        let (hooks, file) = (CommandHooks::new(hooks), path.to_path_buf());
        let brought = Brought { hooks, warnings, file, is_trusted };
        self.brought.entry(definition.name).or_insert(brought);
    }

    /// Returns the hooks of an agent.
    pub(crate) fn of(&self, agent: &str) -> impl Iterator<Item = &CommandHook> {
        self.brought.get(agent).into_iter().flat_map(|it| it.hooks.iter())
    }

    /// Returns warnings about the hooks of an agent.
    pub(crate) fn warnings(&self, agent: &str) -> &[String] {
        self.brought.get(agent).map_or(&[], |it| &it.warnings)
    }

    /// Returns the hooks that the configuration of [`HOOKS`] stands for.
    pub(crate) fn configured(&self, config: &Value) -> Result<CommandHooks, BuildError> {
        let wrong = |reason: String| BuildError::capability(HOOKS, reason);
        let config = Config::deserialize(config).map_err(|error| wrong(error.to_string()))?;
        if self.only_checks {
            return Ok(CommandHooks::default());
        }
        // If the file no longer has hooks, those that the session started with are missing from it.
        match self.brought.get(&config.agent).filter(|it| !it.hooks.is_empty()) {
            Some(brought) if brought.is_trusted => Ok(brought.hooks.clone()),
            Some(brought) => Err(wrong(format!(
                "the hooks in {} run only if you trust the project: review them, then run `loopwright trust`",
                brought.file.display()
            ))),
            None => {
                let events = config.hooks.keys().map(|it| format!("`{it}`")).collect::<Vec<_>>();
                Err(wrong(format!(
                    "the hooks for {} are no longer in the agent's file; restore them, or start a new session",
                    events.join(", ")
                )))
            }
        }
    }
}
