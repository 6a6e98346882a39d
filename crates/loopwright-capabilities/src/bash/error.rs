//! Errors of commands, for the model.

use loopwright_core::BoxError;
use loopwright_sandbox::{ExitOutcome, SandboxError, transaction::TransactionError};

/// An error of a command, for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BashError {
    /// The command looks dangerous, and the policy blocks it.
    #[error("Command blocked by safety policy: it contains `{0}`; ask the user to run it")]
    Blocked(String),
    /// The sandbox did not run the command.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The run was cancelled, or the command's supervisor process was killed.
    #[error("{said}")]
    Interrupted {
        /// The outcome.
        outcome: ExitOutcome,
        /// The outcome as text, and the output.
        said: String,
    },
    /// The command requests access beyond the sandbox, which cannot be granted here.
    #[error(
        "hosts and paths outside the sandbox cannot be granted here; omit `network`, `read` and `write`"
    )]
    NoNeeds,
    /// The request for access beyond the sandbox is invalid.
    #[error("{0}")]
    Need(String),
    /// The background command does not exist.
    #[error(
        "unknown background command {0}; background commands end with the run or the program that started them"
    )]
    NoSuchCommand(String),
    /// The limit of background commands is reached.
    #[error("{0} background commands are already running; stop one with `bash_stop`")]
    TooManyBackground(usize),
    /// The changes of the command could not be read or applied.
    #[error("the command's changes could not be applied: {0}")]
    Changes(#[source] TransactionError),
    /// The changes of the command could not be recorded for undo, so they were not applied.
    #[error("the command's changes were discarded because they could not be recorded: {0}")]
    NotRecorded(#[source] BoxError),
    /// The process exited while the command applied its changes directly.
    #[error(
        "the process running the command exited, and the outcome is unknown; check the effects before you run the command again"
    )]
    OutcomeUnknown,
    /// Background commands need a runtime that drives them.
    #[error("background commands are not available here; use `bash`")]
    NoRuntime,
}
