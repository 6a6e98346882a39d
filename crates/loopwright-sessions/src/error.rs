//! Errors of operations on sessions.

use loopwright_agent::BuildError;
use loopwright_core::{BoxError, DecisionError, JournalError, PendingApproval, ReplayError};

use crate::{
    id::{InvalidSessionId, SessionId},
    status::{InvalidTransition, SessionStatus},
    store::StoreError,
};

/// Errors of operations on sessions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The store failed: the session does not exist, a conflict, another owner's lease, or the
    /// store is unavailable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The status does not allow the change.
    #[error(transparent)]
    Status(#[from] InvalidTransition),
    /// The session is not active, so it accepts no messages.
    #[error("session `{id}` is {status} and accepts no messages; resume it first")]
    NotActive {
        /// The session.
        id: SessionId,
        /// The current status.
        status: SessionStatus,
    },
    /// The ID is invalid.
    #[error(transparent)]
    Id(#[from] InvalidSessionId),
    /// The agent cannot be built.
    #[error("the agent of the session cannot be built")]
    Build(#[from] BuildError),
    /// The stored changes do not produce a valid state.
    #[error("session `{id}` cannot be read")]
    Replay {
        /// The session.
        id: SessionId,
        /// The error.
        #[source]
        source: ReplayError,
    },
    /// The requested step does not exist.
    #[error("unknown step {step} of session `{id}`; it has {steps} steps")]
    NoStep {
        /// The session.
        id: SessionId,
        /// The requested step.
        step: u64,
        /// The number of steps of the session.
        steps: u64,
    },
    /// The directory of the session is stored as snapshots, which the operation would not restore or change.
    #[error(
        "the directory of session `{0}` is stored as snapshots, so the session cannot be forked and its file changes cannot be \
         undone; copy its files with `loopwright sessions fetch`, and submit a new session"
    )]
    HasSnapshots(SessionId),
    /// No call is waiting for a decision, or the call is ambiguous.
    #[error("{}", not_pending(.id, .path.as_deref(), .waiting))]
    NotPending {
        /// The session.
        id: SessionId,
        /// The address of the requested call.
        path: Option<Vec<u16>>,
        /// The addresses of the waiting calls.
        waiting: Vec<Vec<u16>>,
    },
    /// The request was answered, or its call was changed, after it was shown.
    #[error(
        "the request about call {} of session `{id}` was answered or changed in the meantime; this decision was not saved",
        PendingApproval::format_address(.path)
    )]
    Superseded {
        /// The session.
        id: SessionId,
        /// The address of the call.
        path: Vec<u16>,
    },
    /// The decision does not match the call.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// The state could not be saved.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An action or a hook panicked. Changes that an agent had already made are saved, and the
    /// session remains usable.
    #[error("an action or a hook panicked: {0}")]
    Panicked(String),
    /// An action or a hook failed.
    #[error("{0}")]
    Action(#[source] BoxError),
}

fn not_pending(id: &SessionId, path: Option<&[u16]>, waiting: &[Vec<u16>]) -> String {
    let calls = waiting.iter().map(|it| PendingApproval::format_address(it));
    let calls = calls.collect::<Vec<_>>().join(", ");
    match (path.map(PendingApproval::format_address), waiting) {
        (_, []) => format!("session `{id}` has no call that waits for a decision"),
        (Some(call), _) => format!(
            "call {call} is not waiting for a decision; waiting calls: \
            {calls}"
        ),
        (None, _) => format!("several calls are waiting for decisions; name one of {calls}"),
    }
}
