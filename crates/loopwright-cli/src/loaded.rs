//! What a run found and loaded besides what was typed.

use std::path::{Path, PathBuf};

use loopwright_agent::Definitions as _;
use loopwright_capabilities::skills::SkillAudience;
use loopwright_templates::ProjectInstructions;
use serde::Serialize;

use crate::config::{Config, ConfigSources};
use crate::definitions::Defined;
use crate::mcp_servers::{McpServers, user_file};
use crate::permissions::{HOOKS, ProjectSettings, RunPermissions};

/// What a run found and loaded besides what was typed: the first line of `stream-json` names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadedParts {
    /// The user's files of settings.
    pub config: Vec<PathBuf>,
    /// The project's files of settings.
    pub project: Vec<PathBuf>,
    /// Whether the user trusts the project's settings.
    #[serde(rename = "project_trusted")]
    pub is_project_trusted: bool,
    /// The files with instructions, the nearest last.
    pub instructions: Vec<PathBuf>,
    /// The agents that are defined.
    pub agents: Vec<String>,
    /// The skills that the agent can load.
    pub skills: Vec<String>,
    /// The servers of the Model Context Protocol.
    pub mcp_servers: Vec<String>,
    /// The number of command hooks.
    pub hooks: usize,
}

impl LoadedParts {
    /// Lists what the files of a configuration lead to, before what agents are made of is known.
    pub(crate) fn of(config: &Config, sources: &ConfigSources, project: &ProjectSettings) -> Self {
        let own = sources.own_directory().map(|it| it.join(HOOKS));
        let own = own.into_iter().chain(user_file(sources)).filter(|it| it.is_file());
        Self {
            config: config.user_file.iter().map(|it| it.to_path_buf()).chain(own).collect(),
            project: project.paths().map(Path::to_path_buf).collect(),
            is_project_trusted: project.is_trusted(),
            ..Self::default()
        }
    }

    /// Adds what is defined.
    #[must_use]
    pub(crate) fn with_defined(self, defined: Option<&Defined>) -> Self {
        let Some(defined) = defined else { return self };
        let skills = defined.skills.list(SkillAudience::Models);
        Self {
            agents: defined.agents.all().iter().map(|it| it.name.clone()).collect(),
            skills: skills.iter().map(|it| it.name().to_owned()).collect(),
            ..self
        }
    }

    /// Adds what applies to every agent.
    #[must_use]
    pub(crate) fn with_shared(
        self,
        instructions: &ProjectInstructions,
        servers: &McpServers,
        permissions: &RunPermissions,
    ) -> Self {
        Self {
            instructions: instructions.texts.iter().map(|(path, _)| path.clone()).collect(),
            mcp_servers: servers.clients().iter().map(|it| it.server().name.clone()).collect(),
            hooks: permissions.hooks().map_or(0, |(hooks, _)| hooks.iter().count()),
            ..self
        }
    }
}
