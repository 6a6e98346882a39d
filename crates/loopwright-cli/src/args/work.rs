//! What can be left for workers, and what can be said to them.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use loopwright_sessions::{JobId, JobStatus, SessionId};

use super::AgentArgs;
use super::session::{OnInterruptedArg, ResumeArgs, SessionArgs};
use super::values::{StoreParser, parsed};
use crate::completions;
use crate::config::Text;
use crate::prompt::PromptSource;

/// What can be said about something that is left for a worker.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SubmitArgs {
    /// What the agent should do, followed by what is piped in; `-` reads it from standard input, nothing
    /// goes on with a session
    #[arg(value_name = "PROMPT|-")]
    pub prompt: Option<String>,
    /// The session; the beginning of its name is enough, and `new` begins one
    #[arg(long, value_name = "ID|new", default_value = "new", conflicts_with = "definition", help_heading = "Session", add = ArgValueCompleter::new(completions::sessions))]
    pub session: SessionId,
    /// Wait for the job to finish, and print the answer
    #[arg(long)]
    pub follow: bool,
    /// Job ID; a job submitted twice under one ID runs once
    #[arg(long, value_name = "NAME")]
    pub id: Option<JobId>,
    /// Where sessions are kept [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser, help_heading = "Session")]
    pub store: Option<Text>,
    /// Who answers, how much may be used, and where.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// What can be said to a worker.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct WorkerArgs {
    /// Number of jobs to run concurrently
    #[arg(short = 'j', long, value_name = "N", default_value = "1")]
    pub concurrency: NonZeroUsize,
    /// Exit when the queue is empty
    #[arg(long)]
    pub exit_when_idle: bool,
    /// Seconds that running steps have to finish after a stop signal
    #[arg(long, value_name = "S", default_value = "30", value_parser = parsed::<Duration>)]
    pub drain_timeout: Duration,
    /// Work only on sessions of this folder and those in it; may be repeated [default: where it is started]
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
    /// Where sessions are kept [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser, help_heading = "Session")]
    pub store: Option<Text>,
    /// Who answers, how much may be used, and where.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Which jobs are listed.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct JobsArgs {
    /// Those with this status only
    #[arg(long, value_name = "STATUS", value_enum)]
    pub status: Option<JobStatusArg>,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Where sessions are kept [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JobStatusArg {
    /// It waits for a worker
    Queued,
    /// A worker is processing it
    Running,
    /// The agent answered
    Completed,
    /// The session waits for a decision
    NeedsInput,
    /// The agent was stopped
    Stopped,
    /// It was refused or given up
    Failed,
}

impl From<JobStatusArg> for JobStatus {
    fn from(status: JobStatusArg) -> Self {
        match status {
            JobStatusArg::Queued => Self::Queued,
            JobStatusArg::Running => Self::Running,
            JobStatusArg::Completed => Self::Completed,
            JobStatusArg::NeedsInput => Self::NeedsInput,
            JobStatusArg::Stopped => Self::Stopped,
            JobStatusArg::Failed => Self::Failed,
        }
    }
}

impl SubmitArgs {
    /// The session that was named, unless it is to be a new one.
    pub fn named(&self) -> Option<&SessionId> {
        Some(&self.session).filter(|it| it.as_str() != "new")
    }

    /// The session in the terms of a run.
    pub fn session_args(&self) -> SessionArgs {
        let origin = ResumeArgs { resume: self.named().cloned(), ..ResumeArgs::default() };
        session_args(origin, self.store.clone())
    }

    /// Where the prompt comes from; `None` if there is none.
    pub fn prompt(&self) -> Option<PromptSource> {
        let typed = self.prompt.as_deref().map(|it| PromptSource::new(Some(it)));
        typed.or_else(|| self.named().is_none().then(|| PromptSource::new(None)))
    }
}

impl WorkerArgs {
    /// The sessions in the terms of a run.
    pub fn session_args(&self) -> SessionArgs {
        session_args(ResumeArgs::default(), self.store.clone())
    }
}

fn session_args(origin: ResumeArgs, store: Option<Text>) -> SessionArgs {
    SessionArgs { origin, store, on_interrupted: OnInterruptedArg::RequireDecision }
}
