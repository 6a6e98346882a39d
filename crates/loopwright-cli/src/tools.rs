//! The tools of the model: files of one directory, and commands in a sandbox.

use std::io;
use std::path::Path;

use loopwright_capabilities::bash::{Background, BashPolicy};
use loopwright_capabilities::coding::UseCodingTools;
use loopwright_capabilities::files::WorkspaceRoot;
use serde::Deserialize;

use crate::commands::Commands;
use crate::project::real_dir;

/// The names of the tools that run commands.
pub(crate) const COMMANDS: [&str; 2] = ["bash", "bash_start"];

/// Takes a directory to work in, by its path without links.
///
/// # Errors
///
/// Returns an error if there is no such directory.
pub fn workdir(path: &Path) -> io::Result<WorkspaceRoot> {
    real_dir(path).map(WorkspaceRoot::new)
}

/// Returns the tools for a directory, whose commands are run so.
pub fn tools(workdir: &WorkspaceRoot, commands: &Commands) -> UseCodingTools {
    commands.apply(UseCodingTools::in_dir(workdir.clone()).persist_cwd())
}

/// What a definition may say of the tools. What they may reach is not among it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ToolsConfig {
    display: BashPolicy,
    background: Background,
}

impl ToolsConfig {
    /// Lays what a definition says over the tools.
    pub(crate) fn over(self, tools: UseCodingTools) -> UseCodingTools {
        tools.with_output_policy(self.display).with_background(self.background)
    }
}
