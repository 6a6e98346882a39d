//! `loopwright trust`.

use std::io::{self, IsTerminal as _};

use crate::args::Cli;
use crate::args::policy::TrustArgs;
use crate::claude_keys::ClaudeKeys;
use crate::command_hooks::{self, AgentHooks, SkillHooks};
use crate::config::{Config, ConfigSources};
use crate::console;
use crate::exit::ExitCode;
use crate::folders::{self, Folder};
use crate::mcp_servers::ConfiguredServers;
use crate::permissions::allowed_by;
use crate::policy::{PolicyError, load};
use crate::project::plain;
use crate::project_settings::ProjectSettings;
use crate::render::sanitize_terminal;

/// Trusts the settings of a project as they are now, or no longer.
pub fn trust(cli: &Cli, args: &TrustArgs) -> ExitCode {
    trusted(cli, args).unwrap_or_else(|error| console::fail(&error, error.exit_code()))
}

fn trusted(cli: &Cli, args: &TrustArgs) -> Result<ExitCode, PolicyError> {
    let (sources, config) = load(cli, &args.workdir, None)?;
    let project = ProjectSettings::find(&config, &sources)?;
    let root = project.root.clone();
    let shown = sanitize_terminal(&plain(&root));
    if args.revoke {
        folders::update(&sources, &root, Folder::revoke)?;
        console::tell(&format!("{shown} is no longer trusted"));
        return Ok(ExitCode::Done);
    }
    // What is trusted is what is shown, whatever changes meanwhile.
    let fingerprint = project.fingerprint().map_err(Clone::clone)?.to_owned();
    for line in allowed(&config, &sources, &project) {
        console::tell(&format!("  {}", sanitize_terminal(&line)));
    }
    if !args.yes && !io::stdin().is_terminal() {
        return Err(PolicyError::NotConfirmed);
    }
    if !args.yes && !console::is_agreed("trust all of this?") {
        console::tell(&format!("nothing was changed; to trust {shown}, answer `y`"));
        return Ok(ExitCode::Done);
    }
    folders::update(&sources, &root, |it| it.trust(fingerprint, project.guards()))?;
    console::tell(&format!(
        "{shown} is trusted until one of these settings, or a file that they run, changes"
    ));
    Ok(ExitCode::Done)
}

/// Returns what the settings of a project may do once it is trusted, a line each.
pub(crate) fn allowed(
    config: &Config,
    sources: &ConfigSources,
    project: &ProjectSettings,
) -> Vec<String> {
    let mut lines: Vec<String> = project.paths().map(plain).collect();
    let named = project.named_files().filter(|it| project.text(it).is_none());
    lines.extend(named.map(|it| format!("{} (run by a command below)", plain(&it))));
    lines.extend(allowed_by(config, project));
    for (_, path, text) in project.claude() {
        lines.extend(command_hooks::read(&path, text).0.iter().map(|it| format!("hook {it}")));
    }
    for (_, path, text) in project.claude() {
        let file = plain(&path);
        lines.extend(ClaudeKeys::read(text).to_lines().iter().map(|it| format!("{it} ({file})")));
    }
    let of_agents = AgentHooks::of_project(project);
    lines.extend(of_agents.iter().map(|(agent, hook)| format!("hook of {agent}: {hook}")));
    let of_skills = SkillHooks::of_project(sources, project);
    lines.extend(of_skills.iter().flat_map(|it| &it.hooks).map(|hook| format!("hook {hook}")));
    for (path, command) in project.skill_commands() {
        lines.push(format!("command of {}: {command}", plain(path)));
    }
    // Servers of the user are not the project's.
    let found = ConfiguredServers::find(config, sources, project).servers;
    for found in found.iter().filter(|it| it.file.starts_with(&project.root)) {
        lines.push(format!("MCP server {}", found.server.name));
        lines.extend(found.server.describe().iter().map(|line| format!("  {line}")));
    }
    lines
}
