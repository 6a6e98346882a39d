//! Hooks that definitions of agents bring.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use loopwright_agent::{BuildError, HOOKS};
use loopwright_templates::DefinitionLoader;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{CommandHooks, read_events};
use crate::config::ConfigSources;
use crate::mcp_servers::user_agents;
use crate::permissions::{ProjectSettings, agent_files};

/// The events at which hooks of definitions run.
pub(crate) const AGENT_EVENTS: [&str; 6] =
    ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "Stop", "SubagentStop"];

/// The hooks of all definitions, by the name of the agent. They are read from the files: a session or an import brings
/// none.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentHooks {
    brought: BTreeMap<String, Brought>,
    /// Whether agents are checked and not run, so that trust does not matter.
    only_checks: bool,
}

#[derive(Clone, Debug)]
struct Brought {
    hooks: CommandHooks,
    warnings: Vec<String>,
    file: PathBuf,
    is_trusted: bool,
}

/// The configuration of the capability.
#[derive(Deserialize)]
struct Config {
    agent: String,
    hooks: Map<String, Value>,
}

impl AgentHooks {
    /// Finds the hooks of the user's agents, and those of a project's. Of two agents of a name, the user's counts.
    pub(crate) fn find(sources: &ConfigSources, project: &ProjectSettings) -> Self {
        let mut found = Self::default();
        for (path, text) in agent_files(user_agents(sources)) {
            found.add(&path, &text, true);
        }
        for (path, text) in project.agents() {
            found.add(path, text, project.is_trusted());
        }
        found
    }

    /// Accepts hooks of every definition and runs none.
    pub(crate) fn only_checked() -> Self {
        Self { only_checks: true, ..Self::default() }
    }

    fn add(&mut self, path: &Path, text: &str, is_trusted: bool) {
        let kind = path.extension().and_then(OsStr::to_str).unwrap_or_default();
        // What is wrong with the file is told where agents are read.
        let Ok(read) = DefinitionLoader::new().with_hooks(AGENT_EVENTS).read(kind, text) else {
            return;
        };
        let definition = read.definition;
        let (hooks, warnings) = read_events(path, &definition.hooks);
        let (hooks, file) = (CommandHooks::new(hooks), path.to_path_buf());
        let brought = Brought { hooks, warnings, file, is_trusted };
        self.brought.entry(definition.name).or_insert(brought);
    }

    /// Returns the hooks of an agent.
    pub(crate) fn of(&self, agent: &str) -> impl Iterator<Item = &super::CommandHook> {
        self.brought.get(agent).into_iter().flat_map(|it| it.hooks.iter())
    }

    /// Returns what is odd about the hooks of an agent.
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
        match self.brought.get(&config.agent) {
            Some(brought) if brought.is_trusted => Ok(brought.hooks.clone()),
            Some(brought) => Err(wrong(format!(
                "the hooks in {} run only if you trust the project: review them, then run `loopwright trust`",
                brought.file.display()
            ))),
            None => {
                let events = config.hooks.keys().map(|it| format!("`{it}`")).collect::<Vec<_>>();
                Err(wrong(format!(
                    "no agent file contains its hooks at {} any more; restore the file, or start a new session",
                    events.join(", ")
                )))
            }
        }
    }
}
