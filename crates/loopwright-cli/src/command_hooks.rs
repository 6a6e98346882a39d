//! Commands of the user that run at events of an agent, as in Claude Code.

mod arguments;
mod hook;
mod of_agents;
mod of_skills;
mod output;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loopwright_permissions::{Call, Decision, Mode, Policy, Source, SourceKind};
use loopwright_sandbox::SandboxPolicy;
use regex::Regex;
use serde_json::Value;

pub(crate) use self::hook::{HookSetup, UseCommandHooks};
pub(crate) use self::of_agents::AgentHooks;
pub(crate) use self::of_skills::{SkillHooks, skill_hooks};
pub(crate) use self::settings::{is_readable, read, read_events};

/// The variable with the folder of the skill that brings a hook.
const SKILL_DIR: &str = "CLAUDE_SKILL_DIR";

/// The hooks of a run, in the order in which they are configured. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandHooks {
    hooks: Arc<[CommandHook]>,
    memory: Arc<hook::Memory>,
}

/// A command that runs at an event.
#[derive(Clone, Debug)]
pub(crate) struct CommandHook {
    pub(crate) event: HookEvent,
    matcher: Matcher,
    /// A rule that the call must also match.
    condition: Option<String>,
    action: Action,
    timeout: Duration,
    on_failure: OnFailure,
    /// Whether it runs only once in a session.
    is_once: bool,
    /// The file that configures it.
    source: Arc<PathBuf>,
    /// The skill that brings it, while which is active it runs; `None` means always.
    skill: Option<Arc<str>>,
}

/// What a hook does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// Runs a command.
    Run(String),
    /// Blocks, because the hook cannot be read.
    Block(String),
    /// Requires approval, because the hook cannot run here.
    Ask(String),
}

/// The effect of a failing hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnFailure {
    /// The failure is reported, and the agent continues.
    Continue,
    /// The failure blocks, like a decision to block.
    Block,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookEvent {
    /// Before a tool call.
    PreToolUse,
    /// After a tool call that returned.
    PostToolUse,
    /// When the user has sent a message.
    UserPromptSubmit,
    /// When a session starts, or another process resumes it.
    SessionStart,
    /// When the agent is about to finish.
    Stop,
    /// When a sub-agent has finished.
    SubagentStop,
    /// Before a conversation is compacted.
    PreCompact,
    /// When a run waits for the user.
    Notification,
}

impl HookEvent {
    const ALL: [Self; 8] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::UserPromptSubmit,
        Self::SessionStart,
        Self::Stop,
        Self::SubagentStop,
        Self::PreCompact,
        Self::Notification,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::SessionStart => "SessionStart",
            Self::Stop => "Stop",
            Self::SubagentStop => "SubagentStop",
            Self::PreCompact => "PreCompact",
            Self::Notification => "Notification",
        }
    }

    /// Returns the names of the events at which hooks of agent files run. The others belong to a run and not to one agent.
    pub(crate) fn of_agents() -> impl Iterator<Item = &'static str> {
        let is_of_run = |event: &Self| matches!(event, Self::PreCompact | Self::Notification);
        Self::ALL.into_iter().filter(move |event| !is_of_run(event)).map(Self::name)
    }

    fn default_timeout(self) -> Duration {
        match self {
            Self::UserPromptSubmit => Duration::from_secs(30),
            _ => Duration::from_mins(10),
        }
    }
}

/// The tools, or the sources of a session start, that a hook applies to.
#[derive(Clone, Debug)]
enum Matcher {
    Every,
    Names(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    /// Parses a matcher: names separated by `|` or `,`, or a regular expression that matches a part of the name.
    fn new(text: &str) -> Result<Self, regex::Error> {
        // No name has a blank, so an expression with one would match nothing.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-|, ".contains(c);
        match text.trim() {
            "" | "*" => Ok(Self::Every),
            names if names.chars().all(is_name) => {
                let names = names.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
                Ok(Self::Names(names.map(str::to_owned).collect()))
            }
            pattern => Regex::new(pattern).map(Self::Pattern),
        }
    }

    fn matches(&self, names: &[&str]) -> bool {
        names.iter().any(|name| match self {
            Self::Every => true,
            Self::Names(listed) => listed.iter().any(|listed| listed == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        })
    }
}

impl CommandHook {
    /// Returns the hook without its command: it requires approval for the calls that it matches, and blocks prompts.
    pub(crate) fn without_command(self, reason: &str) -> Self {
        let action = match self.event {
            HookEvent::PreToolUse => Action::Ask(reason.to_owned()),
            _ => Action::Block(reason.to_owned()),
        };
        Self { action, on_failure: OnFailure::Block, is_once: false, ..self }
    }

    /// Returns the command that it runs, if it can run one.
    pub(crate) fn command(&self) -> Option<&str> {
        match &self.action {
            Action::Run(command) => Some(command),
            Action::Block(_) | Action::Ask(_) => None,
        }
    }
}

impl CommandHooks {
    pub(crate) fn new(hooks: impl IntoIterator<Item = CommandHook>) -> Self {
        Self { hooks: hooks.into_iter().collect(), memory: Arc::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &CommandHook> {
        self.hooks.iter()
    }

    /// Returns the hooks of an event for one of these names, with their positions.
    fn at<'a>(
        &'a self,
        event: HookEvent,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = (usize, &'a CommandHook)> {
        // At an event without names, a matcher does not count.
        let is_unnamed = names.iter().all(|name| name.is_empty());
        let matches = move |hook: &CommandHook| {
            hook.event == event && (is_unnamed || hook.matcher.matches(names))
        };
        self.iter().enumerate().filter(move |(_, hook)| matches(hook))
    }
}

/// Where the paths in the conditions of hooks start, as in permission rules.
#[derive(Clone, Copy, Debug)]
struct Places<'a> {
    workdir: &'a Path,
    /// The root of the project, for its hooks.
    project: &'a Path,
    /// The home directory, for hooks of the user.
    home: Option<&'a Path>,
}

impl CommandHook {
    /// Returns `true` if the hook runs while these skills are active.
    fn is_in_force(&self, active: &[String]) -> bool {
        self.skill.as_ref().is_none_or(|skill| active.iter().any(|name| **name == **skill))
    }

    /// Returns what the hook may do, of which a skill's hook may also read the folder of the skill.
    fn within(&self, policy: &SandboxPolicy) -> SandboxPolicy {
        let policy = policy.clone().with_timeout(self.timeout);
        match self.source.parent().filter(|_| self.skill.is_some()) {
            Some(folder) => policy.read(folder).with_env(SKILL_DIR, folder.to_string_lossy()),
            None => policy,
        }
    }

    /// Returns `true` if the hook applies to the call.
    fn concerns(&self, tool: &str, arguments: &Value, places: Places<'_>) -> bool {
        let Some(rule) = &self.condition else { return true };
        let base = if self.source.starts_with(places.project) {
            places.project
        } else {
            places.home.unwrap_or(Path::new("/"))
        };
        let source = Source::new(SourceKind::Flags, "if", base.to_string_lossy()).deny(rule, 0);
        let workdir = places.workdir.to_string_lossy();
        let builder = Policy::builder(workdir).mode(Mode::Unconfined).source(source);
        let policy = match places.home {
            Some(home) => builder.home(home.to_string_lossy()).build(),
            None => builder.build(),
        };
        // A rule that could match counts: in doubt, the hook sees the call.
        policy.decide(&Call::new(tool, arguments)).decision != Decision::Allow
    }
}

impl fmt::Display for CommandHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.event.name())?;
        match &self.matcher {
            Matcher::Every => {}
            Matcher::Names(names) => write!(f, " {}", names.join("|"))?,
            Matcher::Pattern(pattern) => write!(f, " /{pattern}/")?,
        }
        if let Some(condition) = &self.condition {
            write!(f, " if {condition}")?;
        }
        if let Some(skill) = &self.skill {
            write!(f, " in skill {skill}")?;
        }
        match &self.action {
            Action::Run(command) => write!(f, ": {command} ({})", self.source.display()),
            Action::Block(reason) => write!(f, ": blocks: {reason}"),
            Action::Ask(reason) => write!(f, ": asks: {reason}"),
        }
    }
}
