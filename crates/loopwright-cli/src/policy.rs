//! `loopwright policy`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::Definitions as _;
use loopwright_capabilities::skills::SkillAudience;
use loopwright_permissions::{Call, LintFinding, LintKind, Policy, Table, TableError, ToolRule};
use serde_json::{Value, json};

use crate::args::policy::{ExplainArgs, LintArgs, PolicyArgs, PolicyCommand, ShowArgs, TestArgs};
use crate::args::{Cli, PermissionArgs};
use crate::claude_settings::shared_settings;
use crate::commands::are_confined;
use crate::config::{Config, ConfigError, ConfigSources, Flags};
use crate::console;
use crate::definitions::Defined;
use crate::exit::ExitCode;
use crate::fingerprint::TooManyFiles;
use crate::folders::FoldersError;
use crate::load_config::load_and_warn;
use crate::permissions::{self, IgnoredKeys, SettingsFiles, confined};
use crate::project_settings::ProjectSettings;
use crate::render::sanitize_terminal;
use crate::report::SCHEMA_VERSION;
use crate::untrusted::REVIEW;

/// Why nothing can be said about rules.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Folders(#[from] FoldersError),
    #[error(transparent)]
    TooManyFiles(#[from] TooManyFiles),
    #[error(
        "the arguments of the call are not JSON; write them as `{{\"path\": \"src/main.rs\"}}`"
    )]
    Arguments(#[source] serde_json::Error),
    #[error("nothing was changed; without a terminal, pass `--yes` to trust the listed settings")]
    NotConfirmed,
    #[error("cannot read the table {}", path.display())]
    Table {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}: {source}", path.display())]
    Row { path: PathBuf, source: TableError },
}

impl PolicyError {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::Folders(_) | Self::TooManyFiles(_) => ExitCode::Config,
            Self::Arguments(_) | Self::NotConfirmed | Self::Table { .. } | Self::Row { .. } => {
                ExitCode::Usage
            }
        }
    }
}

/// Shows, explains or checks permission rules.
pub fn policy(cli: &Cli, args: &PolicyArgs) -> ExitCode {
    let done = match &args.command {
        PolicyCommand::Show(typed) => show(cli, args, typed),
        PolicyCommand::Explain(typed) => explain(cli, args, typed),
        PolicyCommand::Lint(typed) => lint(cli, args, typed),
        PolicyCommand::Test(typed) => test(cli, args, typed),
    };
    done.unwrap_or_else(|error| console::fail(&error, error.exit_code()))
}

pub(crate) fn load(
    cli: &Cli,
    workdir: &Path,
    typed: Option<&PermissionArgs>,
) -> Result<(ConfigSources, Config), PolicyError> {
    let mut flags =
        Flags { workdir: workdir.into(), config: cli.config.clone(), ..Flags::default() };
    if let Some(typed) = typed {
        typed.add_to(&mut flags);
    }
    Ok(load_and_warn(flags)?)
}

fn of(
    cli: &Cli,
    args: &PolicyArgs,
    typed: Option<&PermissionArgs>,
) -> Result<(Config, Policy), PolicyError> {
    let (sources, config) = load(cli, &args.workdir, typed)?;
    let (policy, project) = permissions::policy(&config, &sources)?;
    tell(&policy, &config, &sources, &project, IgnoredKeys::ByFile);
    Ok((config, policy))
}

/// Warns about settings that have no effect.
fn tell(
    policy: &Policy,
    config: &Config,
    sources: &ConfigSources,
    project: &ProjectSettings,
    ignored: IgnoredKeys,
) {
    permissions::tell_untrusted(policy, config, sources, project, (REVIEW, false));
    permissions::tell_warnings(policy, ignored);
}

fn show(cli: &Cli, args: &PolicyArgs, typed: &ShowArgs) -> Result<ExitCode, PolicyError> {
    let (sources, config) = load(cli, &args.workdir, Some(&typed.permissions))?;
    let (policy, project) = permissions::policy(&config, &sources)?;
    tell(&policy, &config, &sources, &project, IgnoredKeys::ByFile);
    let files = SettingsFiles { project: &project, for_all_projects: &shared_settings(&sources) };
    let (hooks, warnings) = permissions::hooks(&config, &sources, files);
    for warning in &warnings {
        console::warn(warning);
    }
    let hooks: Vec<String> =
        hooks.iter().map(|hook| sanitize_terminal(&hook.to_string())).collect();
    let rules: Vec<_> = policy.rules().collect();
    if typed.json {
        return Ok(console::print_json(&json!({
            "schema_version": SCHEMA_VERSION,
            "mode": policy.mode(),
            "rules": rules,
            "hooks": hooks,
        })));
    }
    let mut lines = vec![format!("mode {}", policy.mode())];
    lines.extend(rules.iter().map(|rule| sanitize_terminal(&rule.to_string())));
    lines.extend(hooks.iter().map(|hook| format!("hook {hook}")));
    Ok(console::print(format!("{}\n", lines.join("\n")).as_bytes()))
}

fn explain(cli: &Cli, args: &PolicyArgs, typed: &ExplainArgs) -> Result<ExitCode, PolicyError> {
    let (config, policy) = of(cli, args, Some(&typed.permissions))?;
    let arguments: Value = match &typed.tool {
        None => json!({ "command": typed.call }),
        Some(_) => serde_json::from_str(&typed.call).map_err(PolicyError::Arguments)?,
    };
    let tool = typed.tool.as_deref().unwrap_or("bash");
    let call = confined(Call::new(tool, &arguments), are_confined(&config.sandbox));
    let explanation = policy.explain(&call);
    if typed.json {
        let told = json!({ "schema_version": SCHEMA_VERSION, "explanation": explanation });
        return Ok(console::print_json(&told));
    }
    let explained = explanation.to_string();
    let mut lines: Vec<String> = explained.lines().map(sanitize_terminal).collect();
    let allowing = |rule: &str| sanitize_terminal(&format!("  to allow it: {rule}"));
    lines.extend(policy.suggest(&call).iter().map(|suggested| allowing(&suggested.rule)));
    Ok(console::print(format!("{}\n", lines.join("\n")).as_bytes()))
}

fn lint(cli: &Cli, args: &PolicyArgs, typed: &LintArgs) -> Result<ExitCode, PolicyError> {
    let (sources, config) = load(cli, &args.workdir, None)?;
    let (policy, project) = permissions::policy(&config, &sources)?;
    tell(&policy, &config, &sources, &project, IgnoredKeys::Each);
    // Without providers, the definitions cannot be read, and nothing is known about names.
    let defined = Defined::of(&config, &sources);
    let mut findings = policy.lint();
    let mut declared = defined.as_ref().map(Defined::external_tools).unwrap_or_default();
    declared.extend(permissions::own_external_tools(&config));
    findings.retain(|it| {
        let is_known =
            || permissions::is_known_tool(ToolRule::new(&it.rule.text).name(), &declared);
        it.kind != LintKind::UnknownTool || !is_known()
    });
    for finding in defined.iter().flat_map(|it| lint_names(it, &config, &policy)) {
        // One finding about a rule is enough.
        if !findings.iter().any(|known| Arc::ptr_eq(&known.rule, &finding.rule)) {
            findings.push(finding);
        }
    }
    findings.sort_by(|a, b| (&a.rule.file, a.rule.line).cmp(&(&b.rule.file, b.rule.line)));
    let exit_code = if findings.is_empty() { ExitCode::Done } else { ExitCode::Config };
    if typed.json {
        let told = json!({ "schema_version": SCHEMA_VERSION, "findings": findings });
        let printed = console::print_json(&told);
        return Ok(if printed == ExitCode::Done { exit_code } else { printed });
    }
    for finding in &findings {
        console::tell(&sanitize_terminal(&finding.to_string()));
    }
    if findings.is_empty() {
        console::tell(&format!("{} rules, no problems found", policy.rules().count()));
    }
    Ok(exit_code)
}

/// Types of agents that need no definition.
const AGENTS: [&str; 4] = ["general-purpose", "research", "Explore", "Plan"];

/// Finds rules about agents and skills that the directory does not have.
fn lint_names(defined: &Defined, config: &Config, policy: &Policy) -> Vec<LintFinding> {
    let (agents, skills) = (defined.agents.names(), defined.skills.names(SkillAudience::All));
    let remote = config.remote_agents.keys().map(String::as_str);
    let agents: Vec<&str> = agents.iter().map(String::as_str).chain(remote).chain(AGENTS).collect();
    let skills: Vec<&str> = skills.iter().map(String::as_str).collect();
    policy.lint_names(&agents, &skills)
}

fn test(cli: &Cli, args: &PolicyArgs, typed: &TestArgs) -> Result<ExitCode, PolicyError> {
    let (config, policy) = of(cli, args, Some(&typed.permissions))?;
    let path = typed.file.clone();
    let text = fs::read_to_string(&path)
        .map_err(|source| PolicyError::Table { path: path.clone(), source })?;
    let table = Table::parse(&text).map_err(|source| PolicyError::Row { path, source })?;
    let are_confined = are_confined(&config.sandbox);
    let failures = table.failures_with(&policy, |call| confined(call, are_confined));
    for failure in &failures {
        console::tell(&sanitize_terminal(&failure.to_string()));
    }
    console::tell(&format!("{} calls, {} with a different decision", table.len(), failures.len()));
    Ok(if failures.is_empty() { ExitCode::Done } else { ExitCode::Config })
}
