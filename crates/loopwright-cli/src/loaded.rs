//! What a run found and loaded.

use std::path::PathBuf;

use serde::Serialize;

/// What a run found and loaded besides what was typed: the first line of `stream-json` names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LoadedParts {
    /// The user's files of settings.
    pub config: Vec<PathBuf>,
    /// The project's files of settings.
    pub project: Vec<PathBuf>,
    /// The folders that tools use besides the working directory.
    pub folders: Vec<PathBuf>,
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
