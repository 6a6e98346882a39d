//! Arguments of `loopwright jobs`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use loopwright_core::Timestamp;
use loopwright_sessions::{Job, JobId, JobLabel, JobStatus, SessionId};

use super::agent::AgentArgs;
use super::session::{OnInterruptedArg, ResumeArgs, SessionArgs};
use super::snapshots::SnapshotArgs;
use super::values::{StoreParser, parsed};
use crate::completions;
use crate::config::{BaseUrl, Text};
use crate::prompt::PromptSource;

/// Arguments of `submit`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SubmitArgs {
    /// The task, followed by any piped input; with `-`, the task is read from standard input; without PROMPT,
    /// the session is resumed
    #[arg(value_name = "PROMPT|-")]
    pub prompt: Option<String>,
    /// Use this session, by ID or unique prefix; `new` creates one
    #[arg(long, value_name = "ID|new", default_value = "new", conflicts_with = "definition", help_heading = "Session", add = ArgValueCompleter::new(completions::sessions))]
    pub session: SessionId,
    /// Wait for the job to finish and print the answer
    #[arg(long)]
    pub follow: bool,
    /// Set the job ID; a job that is submitted twice with the same ID runs only once
    #[arg(long, value_name = "NAME")]
    pub id: Option<JobId>,
    /// Run the job only on workers with this label, such as `gpu` or `zone=eu`; repeatable
    #[arg(long, value_name = "LABEL")]
    pub needs: Vec<JobLabel>,
    /// Set the priority of the job; higher numbers start first
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    pub priority: i32,
    /// Start the job after this duration, such as `90s` or `2h`
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, conflicts_with = "at")]
    pub after: Option<Duration>,
    /// Start the job at this time, such as `2027-01-31T07:00:00Z`
    #[arg(long, value_name = "TIME")]
    pub at: Option<Timestamp>,
    /// Submit one job per line of this file of JSON objects; `-` reads standard input
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["prompt", "id", "follow", "session", "after", "at"])]
    pub bulk: Option<PathBuf>,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser, help_heading = "Session")]
    pub store: Option<Text>,
    /// Give a new session a copy of the current directory, in this directory of the workers
    #[arg(
        long,
        value_name = "DIR",
        requires = "snapshots",
        conflicts_with = "bulk",
        help_heading = "Session"
    )]
    pub session_dirs: Option<PathBuf>,
    /// Where the directories of sessions are stored.
    #[command(flatten)]
    pub snapshots: SnapshotArgs,
    /// The agent, its limits and its output.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Arguments of `worker`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct WorkerArgs {
    /// Run up to N jobs concurrently
    #[arg(short = 'j', long, value_name = "N", default_value = "1")]
    pub concurrency: NonZeroUsize,
    /// Run jobs that need this label, such as `gpu` or `zone=eu`; repeatable
    #[arg(long = "label", value_name = "LABEL")]
    pub labels: Vec<JobLabel>,
    /// Exit when no job is left that this worker can run now
    #[arg(long)]
    pub exit_when_idle: bool,
    /// Give running steps S seconds to finish after a stop signal
    #[arg(long, value_name = "S", default_value = "30", value_parser = parsed::<Duration>)]
    pub drain_timeout: Duration,
    /// Run jobs that Restate delivers; this is the URL of the Restate ingress
    #[arg(long, value_name = "URL", value_parser = parsed::<BaseUrl>, conflicts_with_all = ["labels", "exit_when_idle"], help_heading = "Restate")]
    pub restate: Option<BaseUrl>,
    /// Share jobs with the workers of this Restate service [default: Loopwright]
    #[arg(long, value_name = "NAME", help_heading = "Restate")]
    pub restate_service: Option<String>,
    /// Reject requests that lack a valid signature for this Restate public key
    #[arg(long, value_name = "KEY", help_heading = "Restate")]
    pub restate_identity_key: Option<String>,
    /// Accept connections from Restate at this address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9080", help_heading = "Restate")]
    pub restate_listen: SocketAddr,
    /// Register this worker through the admin API of Restate at this address
    #[arg(long, value_name = "URL", value_parser = parsed::<BaseUrl>, help_heading = "Restate")]
    pub restate_admin: Option<BaseUrl>,
    /// Register this address, such as that of a load balancer, instead of the one on which the worker listens
    #[arg(long, value_name = "URL", value_parser = parsed::<BaseUrl>, requires = "restate_admin", help_heading = "Restate")]
    pub restate_address: Option<BaseUrl>,
    /// Process only sessions in this directory; repeatable [default: the current directory]
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
    /// Also process the sessions that have their own directory in this one; create this one if it is missing
    #[arg(long, value_name = "DIR", help_heading = "Session")]
    pub session_dirs: Option<PathBuf>,
    /// Where the directories of sessions are stored.
    #[command(flatten)]
    pub snapshots: SnapshotArgs,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser, help_heading = "Session")]
    pub store: Option<Text>,
    /// The agent, its limits and its output.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Arguments of `jobs`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct JobsArgs {
    /// The command to run; `None` lists jobs.
    #[command(subcommand)]
    pub command: Option<JobsCommand>,
    /// List only jobs with this status
    #[arg(long, value_name = "STATUS", value_enum)]
    pub status: Option<JobStatusArg>,
    /// List at most N jobs
    #[arg(short = 'n', long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The commands of `jobs`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum JobsCommand {
    /// Submit jobs on a schedule
    #[command(subcommand)]
    Schedule(ScheduleCommand),
}

/// The commands of `jobs schedule`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum ScheduleCommand {
    /// Add a schedule
    Add(Box<ScheduleAddArgs>),
    /// List schedules
    List(ScheduleListArgs),
    /// Remove a schedule; its jobs and sessions are kept
    Remove(ScheduleRemoveArgs),
}

/// Arguments of `jobs schedule add`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ScheduleAddArgs {
    /// The name of the schedule
    pub name: JobId,
    /// The times in UTC, as a cron pattern with five fields, such as `30 7 * * 1-5`
    #[arg(value_name = "CRON")]
    pub cron: String,
    /// The task for each job
    pub prompt: String,
    /// Send each task to this session, by ID or unique prefix; `new` uses a new session for each job
    #[arg(long, value_name = "ID|new", default_value = "new", conflicts_with = "definition", help_heading = "Session", add = ArgValueCompleter::new(completions::sessions))]
    pub session: SessionId,
    /// Run the job only on workers with this label, such as `gpu` or `zone=eu`; repeatable
    #[arg(long, value_name = "LABEL")]
    pub needs: Vec<JobLabel>,
    /// Set the priority of the job; higher numbers start first
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    pub priority: i32,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser, help_heading = "Session")]
    pub store: Option<Text>,
    /// The agent, its limits and its output.
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// Arguments of `jobs schedule list`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ScheduleListArgs {
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `jobs schedule remove`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ScheduleRemoveArgs {
    /// The name of the schedule
    pub name: JobId,
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
}

impl ScheduleAddArgs {
    /// Returns the options as those of a job.
    pub fn submit_args(&self) -> SubmitArgs {
        SubmitArgs {
            prompt: Some(self.prompt.clone()),
            session: self.session.clone(),
            follow: false,
            id: None,
            needs: self.needs.clone(),
            priority: self.priority,
            after: None,
            at: None,
            bulk: None,
            session_dirs: None,
            snapshots: SnapshotArgs::default(),
            store: self.store.clone(),
            agent: self.agent.clone(),
        }
    }
}

/// The values of `--status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum JobStatusArg {
    /// Waiting for a worker
    Queued,
    /// Being processed by a worker
    Running,
    /// Answered by the agent
    Completed,
    /// Waiting for a decision about a tool call
    NeedsInput,
    /// Stopped
    Stopped,
    /// Rejected or abandoned
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
    /// Returns the named session, or `None` for a new one.
    pub fn named(&self) -> Option<&SessionId> {
        Some(&self.session).filter(|it| it.as_str() != "new")
    }

    /// Returns the session options in the form that `run` uses.
    pub fn session_args(&self) -> SessionArgs {
        let origin = ResumeArgs { resume: self.named().cloned(), ..ResumeArgs::default() };
        session_args(origin, self.store.clone())
    }

    /// Returns the source of the prompt, or `None` if there is none.
    pub fn prompt(&self) -> Option<PromptSource> {
        let typed = self.prompt.as_deref().map(|it| PromptSource::new(Some(it)));
        typed.or_else(|| self.named().is_none().then(|| PromptSource::new(None)))
    }
}

impl SubmitArgs {
    /// Sets where, when and how urgently a job runs.
    pub fn placed(&self, job: Job, now: Timestamp) -> Job {
        let job = job.with_needs(self.needs.iter().cloned().collect()).with_priority(self.priority);
        match self.at.or_else(|| self.after.map(|after| now.plus(after))) {
            Some(at) => job.with_start_at(at),
            None => job,
        }
    }
}

impl WorkerArgs {
    /// Returns the session options in the form that `run` uses.
    pub fn session_args(&self) -> SessionArgs {
        session_args(ResumeArgs::default(), self.store.clone())
    }
}

fn session_args(origin: ResumeArgs, store: Option<Text>) -> SessionArgs {
    let on_interrupted = Some(OnInterruptedArg::RequireDecision);
    SessionArgs { origin, store, on_interrupted, ..SessionArgs::default() }
}
