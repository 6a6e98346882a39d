//! Errors of operations on sessions, with remedies.

use std::io;
use std::path::PathBuf;

use loopwright_core::{BoxError, Timestamp};
use loopwright_sessions::{Owner, SessionError, SessionId, SessionStatus, StoreError};

use super::find::short;
use crate::exit::ExitCode;
use crate::store::StoreLocationError;

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// There is no place for sessions.
    #[error(transparent)]
    Place(#[from] StoreLocationError),
    /// No name begins so.
    #[error("no session matches `{0}`; list sessions with `loopwright sessions list --all`")]
    Unknown(SessionId),
    /// It was deleted.
    #[error("session `{0}` was deleted; its ID cannot be reused")]
    Deleted(SessionId),
    /// More than one name begins so.
    #[error("session ID `{beginning}` is ambiguous; use more of its characters\n  {}", found.join("\n  "))]
    Ambiguous {
        /// What was typed.
        beginning: SessionId,
        /// Names that begin so, with titles.
        found: Vec<String>,
    },
    /// There is none to resume.
    #[error(
        "no session to resume in {}; run without `--continue` to start one, or pass `--resume ID` (`loopwright sessions list --all` shows all sessions)",
        workdir.display()
    )]
    NoLatest {
        /// The directory.
        workdir: PathBuf,
    },
    /// Another process uses it.
    #[error(
        "session {} is in use by {owner} until at least {until}; wait, send it a message with `--steer`, or stop the run with `loopwright sessions stop {}`",
        short(id),
        short(id)
    )]
    Busy {
        /// The session.
        id: SessionId,
        /// Who has it.
        owner: String,
        /// Until when, unless it is renewed.
        until: Timestamp,
    },
    /// The run of another session uses it.
    #[error(
        "session {} is a sub-agent of session {session}, which is in use by {owner} until at least {until}; wait, or stop that run with `loopwright sessions stop {session}`",
        short(id),
        session = short(session)
    )]
    BusyForSession {
        /// The session.
        id: SessionId,
        /// The session whose run it is part of.
        session: SessionId,
        /// Who runs that.
        owner: String,
        /// Until when, unless it is renewed.
        until: Timestamp,
    },
    /// It takes no messages.
    #[error(
        "session {} is {status} and accepts no messages; resume it with `loopwright sessions resume {}`",
        short(id),
        short(id)
    )]
    NotActive {
        /// The session.
        id: SessionId,
        /// What it is.
        status: SessionStatus,
    },
    /// Nothing was interrupted and nothing was said.
    #[error(
        "session {} has no unfinished work; send it a message with `loopwright run --resume {} \"…\"`",
        short(.0), short(.0)
    )]
    NothingLeft(SessionId),
    /// It was deleted while its agent worked.
    #[error(
        "session {} was deleted during its run; the run has stopped, and its file changes remain",
        short(.0)
    )]
    DeletedMeanwhile(SessionId),
    /// The process that ran it ended in the middle.
    #[error(
        "the process running session {} exited before the run finished; resume it with `loopwright run --resume {}`",
        short(.0), short(.0)
    )]
    Left(SessionId),
    /// Its directory is a link by now.
    #[error(
        "directory {1} of session {0} now resolves to {2}; workers do not follow moved directories",
        short(id), path.display(), real.display()
    )]
    Moved {
        /// The session.
        id: SessionId,
        /// Its directory.
        path: PathBuf,
        /// Where it leads.
        real: PathBuf,
    },
    /// A worker may not work in its directory.
    #[error(
        "directory {1} of session {0} is outside the roots of this worker ({roots}); add a root with `--root`, or in `worker.roots` of your configuration",
        short(id), path.display()
    )]
    OutsideRoots {
        /// The session.
        id: SessionId,
        /// Its directory.
        path: PathBuf,
        /// Where the worker may work.
        roots: String,
    },
    /// Its directory holds more than a project.
    #[error(
        "directory {1} of session {0} is too broad for a worker: it extends beyond a single project, or contains private files of other programs",
        short(id), path.display()
    )]
    Broad {
        /// The session.
        id: SessionId,
        /// Its directory.
        path: PathBuf,
    },
    /// A worker cannot work below a folder.
    #[error("{} cannot be used as a worker root; choose an existing directory", path.display())]
    WorkerRoot {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Its directory is gone.
    #[error(
        "directory {1} of session {0} cannot be used; choose another directory with `-C`",
        short(id), path.display()
    )]
    Workdir {
        /// The session.
        id: SessionId,
        /// Its directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The name is taken.
    #[error(
        "session ID `{0}` is already taken; choose another one with `--id` of `sessions import`, or with `--session-id`"
    )]
    Taken(SessionId),
    /// A file sets what only the user's own agents may set.
    #[error(
        "line {line} of {} sets `{key}`, which cannot be imported: it controls what is sent with your key; remove it from the file, or set it in an agent of your own",
        path.display()
    )]
    Privileged {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// What it sets.
        key: String,
    },
    /// The input is invalid here.
    #[error("{0}")]
    Usage(String),
    /// The chat has no session yet.
    #[error("no messages yet")]
    NoMessages,
    /// A file cannot be read or written.
    #[error("{} cannot be {doing}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// What is stored of it is damaged.
    #[error(
        "session {} cannot be read: {reason}; repair it with `loopwright sessions check --repair`",
        short(id)
    )]
    Damaged {
        /// The session.
        id: SessionId,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// Writes that were acknowledged are lost.
    #[error(
        "session {} is incomplete: {problem}; tool calls of the lost steps may have taken effect; inspect the session with `loopwright sessions show {}`, then accept the loss with `loopwright sessions resume {}`",
        short(id),
        short(id),
        short(id)
    )]
    Incomplete {
        /// The session.
        id: SessionId,
        /// What is missing.
        problem: String,
    },
    /// Its directory is stored as snapshots, which turns in this process would not restore.
    #[error(
        "the directory of session {id} is stored as snapshots, which only workers with `--session-dirs` and `--snapshots` restore; use `loopwright submit --session {id}`, or copy the files with `loopwright sessions fetch {id}`",
        id = short(.0)
    )]
    HasSnapshots(SessionId),
    /// Another folder stands where its open calls were requested.
    #[error(
        "{path} is not the folder in which session {id} requested its open calls; to run them in this folder, use `loopwright run --resume {id} -C {path}`",
        id = short(id)
    )]
    ReplacedFolder {
        /// The session.
        id: SessionId,
        /// The path of both.
        path: PathBuf,
    },
    /// The settings of its project cannot be read or changed.
    #[error(transparent)]
    Settings(BoxError),
    /// Anything else.
    #[error(transparent)]
    Session(SessionError),
}

impl SessionsError {
    /// Returns the exit status.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Place(
                StoreLocationError::Directory { .. }
                | StoreLocationError::Open { .. }
                | StoreLocationError::Damaged { .. },
            ) => ExitCode::Internal,
            Self::Place(_) | Self::Settings(_) => ExitCode::Config,
            Self::Busy { .. } | Self::BusyForSession { .. } => ExitCode::Busy,
            Self::Session(
                SessionError::NoStep { .. }
                | SessionError::Status(_)
                | SessionError::NotPending { .. }
                | SessionError::Superseded { .. }
                | SessionError::Decision(_)
                | SessionError::HasSnapshots(_),
            ) => ExitCode::Usage,
            Self::Session(_)
            | Self::DeletedMeanwhile(_)
            | Self::Left(_)
            | Self::Damaged { .. }
            | Self::Incomplete { .. } => ExitCode::Internal,
            _ => ExitCode::Usage,
        }
    }

    /// Returns the word for it in results.
    pub fn stop_reason(&self) -> &'static str {
        match self.exit_code() {
            ExitCode::Busy => "busy",
            ExitCode::Usage => "usage",
            ExitCode::Config => "configuration",
            _ => "session",
        }
    }
}

impl From<SessionError> for SessionsError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::NotActive { id, status } => Self::NotActive { id, status },
            SessionError::Action(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => Self::Session(SessionError::Action(error)),
            },
            other => Self::Session(other),
        }
    }
}

impl From<StoreError> for SessionsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound(id) => Self::Unknown(id),
            StoreError::Exists(id) => Self::Taken(id),
            StoreError::Busy { id, owner, until } => match Owner::session_of(&owner) {
                Some(session) => {
                    Self::BusyForSession { id, session, owner: Owner::describe(&owner), until }
                }
                None => Self::Busy { id, owner: Owner::describe(&owner), until },
            },
            StoreError::Corrupt { id, reason } => Self::Damaged { id, reason },
            other => Self::Session(other.into()),
        }
    }
}

/// Returns `true` if the run of another session has it.
pub(crate) fn is_for_session(error: &StoreError) -> bool {
    matches!(error, StoreError::Busy { owner, .. } if Owner::session_of(owner).is_some())
}
