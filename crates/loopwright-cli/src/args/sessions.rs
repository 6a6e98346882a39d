//! Arguments of `loopwright sessions`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use loopwright_sessions::{SessionId, SessionStatus};

use super::session::ForkRef;
use super::values::StoreParser;
use crate::completions;
use crate::config::Text;

/// Arguments of `sessions`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SessionsArgs {
    /// Use this session store [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, global = true, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
    /// The command to run.
    #[command(subcommand)]
    pub command: SessionsCommand,
}

/// The commands of `sessions`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions of this directory, latest first
    List(ListArgs),
    /// Show the messages and tool calls of a session
    Show(ShowArgs),
    /// Open a session in a browser; requires a running `loopwright serve`
    Open(OpenArgs),
    /// Follow a running session from another terminal; Ctrl-C stops the output but not the session
    Follow(FollowArgs),
    /// Write a session to a file that another machine can import
    Export(ExportArgs),
    /// Import an exported session into this directory
    Import(ImportArgs),
    /// Write the last snapshot of a session's directory to a folder
    Fetch(FetchArgs),
    /// Copy a session up to a step and print the ID of the copy
    Fork(ForkArgs),
    /// Rewind a session to the end of a step; step 0 is the start of the session
    Rewind(RewindArgs),
    /// Approve or deny a tool call, or answer a question
    Decide(DecideArgs),
    /// Ask a running session to stop after the current step
    Stop(SessionIdsArgs),
    /// Ask a running session to stop now
    Cancel(SessionIdsArgs),
    /// Suspend a session, so that it accepts no messages
    Suspend(SessionIdsArgs),
    /// Resume a suspended session
    Resume(SessionIdsArgs),
    /// Permanently delete sessions
    Delete(DeleteArgs),
    /// Check that every session can be read
    Check(CheckArgs),
    /// Copy all sessions to a new file, even while they are in use
    Backup(BackupArgs),
    /// Delete old sessions and finished jobs, and free their disk space
    Prune(PruneArgs),
}

/// The default number of listed sessions.
pub const LIMIT: u32 = 20;

/// Arguments of `approvals`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ApprovalsArgs {
    /// Search only the N most recently changed sessions
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Keep watching, and print further calls that need a decision or an answer, until Ctrl-C
    #[arg(long)]
    pub follow: bool,
    /// Print one JSON object; with --follow, print one per session, each on its own line
    #[arg(long)]
    pub json: bool,
    /// Use the sessions in this store
    #[arg(long, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
}

/// Arguments of `sessions list`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ListArgs {
    /// List the sessions of all directories
    #[arg(short, long)]
    pub all: bool,
    /// List at most N sessions
    #[arg(short = 'n', long, value_name = "N", default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// List only sessions with this status
    #[arg(long, value_name = "STATUS", value_enum)]
    pub status: Option<StatusArg>,
    /// List only sessions of this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Continue from this cursor, printed at the end of the previous page
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The values of `--status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusArg {
    /// Accepts messages
    Active,
    /// Accepts no messages until resumed
    Suspended,
    /// Completed
    Completed,
    /// Abandoned
    Failed,
    /// Deleted; the ID cannot be reused
    Deleted,
}

/// A session argument.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct IdArg {
    /// The session ID, or a unique prefix
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completions::sessions))]
    pub id: SessionId,
}

/// One or more session arguments.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SessionIdsArgs {
    /// The session IDs, or unique prefixes
    #[arg(value_name = "ID", required = true, add = ArgValueCompleter::new(completions::sessions))]
    pub ids: Vec<SessionId>,
}

/// Arguments of `sessions show`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// Show the arguments and results of tool calls in full
    #[arg(long)]
    pub full: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sessions open`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct OpenArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The URL of the server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787")]
    pub url: String,
    /// Sign in with this token file [default: tokens.json in ~/.local/state/loopwright]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tokens: Option<PathBuf>,
    /// Print the URL instead of opening a browser
    #[arg(long)]
    pub print: bool,
}

/// Arguments of `sessions follow`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct FollowArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// Start after the event with this `seq` number in `--json` output; 0 is the start of the session
    /// [default: the start of the latest run]
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// Print each event as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sessions export`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ExportArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The file to write, which must not exist; `-` writes to standard output [default: -]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// Arguments of `sessions import`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ImportArgs {
    /// The exported file; `-` reads standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Import the session under this ID
    #[arg(long, value_name = "ID")]
    pub id: Option<SessionId>,
}

/// Arguments of `sessions fetch`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct FetchArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The folder to write, which must not exist or be empty
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub to: PathBuf,
    /// The storage of snapshots, as for `loopwright worker`: `file:///DIR` or `s3://BUCKET/PREFIX`
    #[arg(long, value_name = "URL")]
    pub snapshots: String,
}

/// Arguments of `sessions fork`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ForkArgs {
    /// The session, and the step after which the copy branches off
    #[arg(value_name = "ID[@STEP]", add = ArgValueCompleter::new(completions::sessions))]
    pub from: ForkRef,
}

/// Arguments of `sessions rewind`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct RewindArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The step, as numbered by `sessions show`
    #[arg(value_name = "STEP")]
    pub step: u64,
    /// Also undo file changes that tools made after that step, except in files that were also changed by other means
    #[arg(long)]
    pub files: bool,
}

/// Arguments of `sessions decide`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DecideArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The call, as numbered by `sessions show`, and the decision; omit the call if only one is waiting.
    /// For an approval: `approve`, optionally with different arguments as JSON, or `deny`, optionally
    /// with a reason. For a question: `reply ANSWER`, `decline` or `cancel`. For a tool that runs elsewhere:
    /// `result JSON` or `error TEXT`. For an interrupted call: `retry`, `done`, optionally with its
    /// result, or `skip`. For any call: `stop`, which denies it and stops the run. Without a decision, the
    /// waiting calls are listed
    #[arg(value_name = "[CALL] DECISION [TEXT]", num_args = 0..=3)]
    pub what: Vec<String>,
    /// Also allow or deny such calls in this project from now on, once you have confirmed the rule
    #[arg(long, group = "lasting")]
    pub always: bool,
    /// Also allow or deny such calls for the rest of this session, once you have confirmed the rule
    #[arg(long, group = "lasting")]
    pub session: bool,
    /// Store the rule without confirmation
    #[arg(short, long, requires = "lasting")]
    pub yes: bool,
}

/// Arguments of `sessions delete`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DeleteArgs {
    /// The sessions.
    #[command(flatten)]
    pub ids: SessionIdsArgs,
    /// Delete without confirmation
    #[arg(short, long)]
    pub yes: bool,
}

/// Arguments of `sessions check`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct CheckArgs {
    /// Repair damage that can be repaired without losing data
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sessions backup`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct BackupArgs {
    /// The file to create, or the directory to create for a file store; must not exist yet
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub to: PathBuf,
}

/// Arguments of `sessions prune`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct PruneArgs {
    /// Delete sessions that have not been used for this long, such as `30d` or `12h`
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub older_than: Duration,
    /// List the sessions without deleting them
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Also delete changes that were removed by a rewind and that no fork uses
    #[arg(long)]
    pub unreachable: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl From<StatusArg> for SessionStatus {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Active => Self::Active,
            StatusArg::Suspended => Self::Suspended,
            StatusArg::Completed => Self::Completed,
            StatusArg::Failed => Self::Failed,
            StatusArg::Deleted => Self::Deleted,
        }
    }
}
