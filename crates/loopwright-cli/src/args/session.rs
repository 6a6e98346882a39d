//! Options that select the session of a run.

use std::fmt;
use std::str::FromStr;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use loopwright_core::OnInterrupted;
use loopwright_sessions::{InvalidSessionId, SessionId};

use super::values::{StoreParser, mcp_servers};
use crate::completions;
use crate::config::{NamedServers, Text};

/// The session of a run.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Session")]
pub struct SessionArgs {
    /// The starting point.
    #[command(flatten)]
    pub origin: ResumeArgs,
    /// Resume a copy of the session that --continue or --resume selects
    #[arg(long, requires = "ResumeArgs", conflicts_with_all = ["fork", "no_session"])]
    pub fork_session: bool,
    /// Give the new session, or the copy, this ID
    #[arg(long, value_name = "ID")]
    pub session_id: Option<SessionId>,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
    /// Choose how to handle an interrupted call that may have taken effect [default: require-decision if a dialog can
    /// ask you, otherwise report-unknown]
    #[arg(long, value_name = "POLICY", value_enum)]
    pub on_interrupted: Option<OnInterruptedArg>,
    /// Servers of the Model Context Protocol.
    #[command(flatten)]
    pub servers: McpServerArgs,
}

/// Servers of the Model Context Protocol, named on the command line.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "MCP servers")]
pub struct McpServerArgs {
    /// Add the MCP servers from this file or JSON object, which has the keys of `.mcp.json`; they do not require a trusted project
    #[arg(long, value_name = "FILE|JSON", value_hint = ValueHint::FilePath, value_parser = mcp_servers)]
    pub mcp_config: Vec<NamedServers>,
    /// Use only the MCP servers from --mcp-config
    #[arg(long)]
    pub strict_mcp_config: bool,
}

/// The starting point of a run; without these options, a new session.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[group(multiple = false)]
pub struct ResumeArgs {
    /// Resume the latest session of this directory
    #[arg(short = 'c', long = "continue", conflicts_with = "definition")]
    pub latest: bool,
    /// Resume this session; a unique prefix of the ID is enough
    #[arg(short, long, value_name = "ID", conflicts_with = "definition", add = ArgValueCompleter::new(completions::sessions))]
    pub resume: Option<SessionId>,
    /// Resume a copy of this session, optionally only up to a step
    #[arg(long, value_name = "ID[@STEP]", conflicts_with = "definition", add = ArgValueCompleter::new(completions::sessions))]
    pub fork: Option<ForkRef>,
    /// Do not save the session
    #[arg(long, alias = "no-session-persistence", alias = "ephemeral")]
    pub no_session: bool,
}

impl ResumeArgs {
    /// Returns `true` if the run resumes or forks a session.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.latest || self.resume.is_some() || self.fork.is_some()
    }
}

/// How to handle an interrupted call that may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnInterruptedArg {
    /// Report to the model that the outcome is unknown
    ReportUnknown,
    /// Wait for your decision, made with `sessions decide`
    RequireDecision,
}

/// A session and one of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkRef {
    /// The session ID, or a prefix of it.
    pub id: SessionId,
    /// The step, counted from one over all runs; `None` is the end.
    pub step: Option<u64>,
}

/// An invalid session reference.
#[derive(Debug, thiserror::Error)]
pub enum InvalidForkRef {
    /// The text before the `@` is not a session ID.
    #[error(transparent)]
    Id(#[from] InvalidSessionId),
    /// The text after the `@` is not a number.
    #[error("the step must be a whole number, as in `7f3a@12`")]
    Step,
}

impl SessionArgs {
    /// Returns the options for another session than the one that was typed.
    #[must_use]
    pub fn with_origin(&self, origin: ResumeArgs) -> Self {
        Self { origin, fork_session: false, session_id: None, ..self.clone() }
    }

    /// Returns why the options contradict each other; `None` if they do not.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let resumes = self.origin.latest || self.origin.resume.is_some();
        (self.session_id.is_some() && resumes && !self.fork_session).then_some(
            "'--session-id' cannot change the ID of a session that is resumed; pass '--fork-session' to resume a copy with this ID",
        )
    }

    /// Returns the policy for interrupted calls; `None` means that it depends on whether a user can be asked.
    pub fn interrupted(&self) -> Option<OnInterrupted> {
        self.on_interrupted.map(|it| match it {
            OnInterruptedArg::ReportUnknown => OnInterrupted::ReportUnknown,
            OnInterruptedArg::RequireDecision => OnInterrupted::RequireApproval,
        })
    }
}

impl FromStr for ForkRef {
    type Err = InvalidForkRef;

    fn from_str(text: &str) -> Result<Self, InvalidForkRef> {
        let (id, step) = match text.split_once('@') {
            Some((id, step)) => (id, Some(step.parse().map_err(|_| InvalidForkRef::Step)?)),
            None => (text, None),
        };
        Ok(Self { id: SessionId::new(id)?, step })
    }
}

impl fmt::Display for ForkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "{}@{step}", self.id),
            None => self.id.fmt(f),
        }
    }
}
