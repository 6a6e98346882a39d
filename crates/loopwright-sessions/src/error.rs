//! Why something could not be done with a session.

use loopwright_agent::BuildError;
use loopwright_core::{BoxError, DecisionError, JournalError, PendingApproval, ReplayError};

use crate::{
    id::{InvalidSessionId, SessionId},
    status::{InvalidTransition, SessionStatus},
    store::StoreError,
};

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The store did not do it: no such session, a conflict, another owner's lease, or no store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The status does not allow it.
    #[error(transparent)]
    Status(#[from] InvalidTransition),
    /// Messages are for active sessions.
    #[error("session `{id}` is {status} and accepts no messages; resume it first")]
    NotActive {
        /// The session.
        id: SessionId,
        /// What it is.
        status: SessionStatus,
    },
    /// The name is none.
    #[error(transparent)]
    Id(#[from] InvalidSessionId),
    /// The agent cannot be put together.
    #[error("the agent of the session cannot be built")]
    Build(#[from] BuildError),
    /// What is stored does not lead to a state.
    #[error("session `{id}` cannot be read")]
    Replay {
        /// The session.
        id: SessionId,
        /// Where it goes wrong.
        #[source]
        source: ReplayError,
    },
    /// A step was asked for that the session does not have.
    #[error("unknown step {step} of session `{id}`; it has {steps} steps")]
    NoStep {
        /// The session.
        id: SessionId,
        /// The step that was asked for.
        step: u64,
        /// How many there are.
        steps: u64,
    },
    /// There is nothing to decide, or it is not clear about which call.
    #[error("{}", not_pending(.id, .path.as_deref(), .waiting))]
    NotPending {
        /// The session.
        id: SessionId,
        /// The address of the call that was named.
        path: Option<Vec<u16>>,
        /// The addresses of the calls that wait.
        waiting: Vec<Vec<u16>>,
    },
    /// The decision does not fit the call.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// The state could not be kept.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An action or a hook panicked. What an agent had done already is kept, and the session can be used.
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
        (_, []) => format!("session `{id}` waits for no decision"),
        (Some(call), _) => format!("call {call} waits for no decision; these do: {calls}"),
        (None, _) => format!("more than one call waits for a decision: name one of {calls}"),
    }
}
