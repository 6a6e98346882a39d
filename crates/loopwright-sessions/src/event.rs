//! What happens to sessions.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{header::SessionHeader, id::SessionId, status::SessionStatus};

/// Something that happened to a session. What its agent does is told as events of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionEvent {
    /// It was loaded.
    #[serde(rename = "session.loaded")]
    Loaded(SessionSnapshot),
    /// An action did something with it; what it did is not kept yet.
    #[serde(rename = "session.action_executed")]
    ActionExecuted {
        /// The session.
        session: SessionId,
        /// The action's name.
        action: Cow<'static, str>,
        /// The version before; checkpoints on the way raise it.
        before: u64,
        /// The version after.
        after: u64,
        /// The status before.
        status_before: SessionStatus,
        /// The status after.
        status_after: SessionStatus,
    },
    /// It was saved.
    #[serde(rename = "session.saved")]
    Saved(SessionSnapshot),
    /// It could not be loaded.
    #[serde(rename = "session.load_failed")]
    LoadFailed {
        /// The session.
        session: SessionId,
        /// Why.
        error: Arc<str>,
    },
    /// It could not be saved.
    #[serde(rename = "session.save_failed")]
    SaveFailed {
        /// The session.
        session: SessionId,
        /// Why.
        error: Arc<str>,
    },
}

/// A session at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// The session.
    pub session: SessionId,
    /// Its version.
    pub version: u64,
    /// Its status.
    pub status: SessionStatus,
}

impl SessionSnapshot {
    /// Tells of a session what its header says.
    pub(crate) fn of(header: &SessionHeader) -> Self {
        Self { session: header.id.clone(), version: header.version, status: header.status }
    }
}

/// Listens to what happens to sessions. It must not block. Its panics are contained.
pub trait SessionListener: Send + Sync {
    /// Takes note of an event.
    fn on_event(&self, event: &SessionEvent);
}

impl<F: Fn(&SessionEvent) + Send + Sync> SessionListener for F {
    fn on_event(&self, event: &SessionEvent) {
        self(event);
    }
}
