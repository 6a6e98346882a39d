//! What can be asked of sessions.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::ArgValueCompleter;
use loopwright_sessions::{SessionId, SessionStatus};

use super::session::ForkRef;
use super::values::StoreParser;
use crate::completions;
use crate::config::Text;

/// Something to do with sessions.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SessionsArgs {
    /// Where sessions are kept [default: sessions.db in ~/.local/state/loopwright]
    #[arg(long, global = true, value_name = "URL", value_parser = StoreParser)]
    pub store: Option<Text>,
    /// What to do.
    #[command(subcommand)]
    pub command: SessionsCommand,
}

/// What can be done with sessions.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions of this directory, latest first
    List(ListArgs),
    /// Show the messages and tool calls of a session
    Show(ShowArgs),
    /// Watch what the agent of a session does, from another terminal; Ctrl-C only ends the watching
    Follow(FollowArgs),
    /// Write a session to a file that another machine can import
    Export(ExportArgs),
    /// Take in a session that was exported; it works in this directory then
    Import(ImportArgs),
    /// Make another session that begins like this one, and print its name
    Fork(ForkArgs),
    /// Go back to the end of a step; 0 is the beginning
    Rewind(RewindArgs),
    /// Decide a tool call that needs approval
    Decide(DecideArgs),
    /// Ask a running session to stop after the current step
    Stop(SessionIdsArgs),
    /// Ask a running session to stop now
    Cancel(SessionIdsArgs),
    /// Suspend a session: it accepts no messages
    Suspend(SessionIdsArgs),
    /// Resume a suspended session
    Resume(SessionIdsArgs),
    /// Permanently delete sessions
    Delete(DeleteArgs),
    /// Check that every session can be read
    Check(CheckArgs),
    /// Copy all sessions to a new file, also while they are in use
    Backup(BackupArgs),
    /// Delete sessions and finished jobs that were not used for a long time, and free their space
    Prune(PruneArgs),
}

/// How many sessions are listed if nobody says.
pub const LIMIT: u32 = 20;

/// Which sessions are listed.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ListArgs {
    /// Those of all directories
    #[arg(short, long)]
    pub all: bool,
    /// At most so many
    #[arg(short = 'n', long, value_name = "N", default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Those with this status only
    #[arg(long, value_name = "STATUS", value_enum)]
    pub status: Option<StatusArg>,
    /// Those of this agent only
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Go on where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A status, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusArg {
    /// It takes messages
    Active,
    /// It takes none until it is resumed
    Suspended,
    /// It is done
    Completed,
    /// It was given up
    Failed,
    /// It is gone; its name is left
    Deleted,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct IdArg {
    /// The session; the beginning of its name is enough
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completions::sessions))]
    pub id: SessionId,
}

/// One or more sessions.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct SessionIdsArgs {
    /// The sessions; the beginnings of their names are enough
    #[arg(value_name = "ID", required = true, add = ArgValueCompleter::new(completions::sessions))]
    pub ids: Vec<SessionId>,
}

/// Which session is shown.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Which session is followed, and from where.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct FollowArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// Go on after this event, by the number that `--json` shows as `seq`; 0 is the beginning
    /// [default: the beginning of the latest run]
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// Print one JSON object per line for every event
    #[arg(long)]
    pub json: bool,
}

/// Which session is exported.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ExportArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The file to write, which must not exist; `-` or nothing writes to standard output
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// Which session is taken in.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ImportArgs {
    /// The file that was exported; `-` reads standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Give it this name
    #[arg(long, value_name = "ID")]
    pub id: Option<SessionId>,
}

/// Which session is forked, and where.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct ForkArgs {
    /// The session, and the step after which the copy goes its own way
    #[arg(value_name = "ID[@STEP]", add = ArgValueCompleter::new(completions::sessions))]
    pub from: ForkRef,
}

/// Which session goes back, and where to.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct RewindArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The step, as `sessions show` counts them
    #[arg(value_name = "STEP")]
    pub step: u64,
    /// Undo too what file tools did since then; a file that has changed otherwise is left as it is
    #[arg(long)]
    pub files: bool,
}

/// What is decided about a call.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DecideArgs {
    /// The session.
    #[command(flatten)]
    pub id: IdArg,
    /// The call, as `sessions show` counts them, and what to do about it; the call may be left out
    /// if only one waits
    #[arg(value_name = "[CALL] approve|deny|mark-done", num_args = 1..=2, required = true)]
    pub what: Vec<String>,
}

/// Which sessions are deleted.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct DeleteArgs {
    /// The sessions.
    #[command(flatten)]
    pub ids: SessionIdsArgs,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// How sessions are checked.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct CheckArgs {
    /// Repair the damage that can be repaired without data loss
    #[arg(long)]
    pub repair: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Where sessions are copied to.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct BackupArgs {
    /// The file to write, or the directory for a store in files; it must not exist
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub to: PathBuf,
}

/// Which sessions are deleted for their age.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct PruneArgs {
    /// Those that were written last so long ago, such as `30d` or `12h`
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub older_than: Duration,
    /// Only say which
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Also free changes that a rewind removed and no fork uses
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
