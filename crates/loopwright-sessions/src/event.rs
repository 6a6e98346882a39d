//! Events of sessions.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{header::SessionHeader, id::SessionId, status::SessionStatus};

/// An event of a session. Its agent's activity is reported as agent events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionEvent {
    /// The session was loaded.
    #[serde(rename = "session.loaded")]
    Loaded(SessionSnapshot),
    /// An action changed the session; the changes are not saved yet.
    #[serde(rename = "session.action_executed")]
    ActionExecuted {
        /// The session.
        session: SessionId,
        /// The action's name.
        action: Cow<'static, str>,
        /// The version before the action; checkpoints during the action increment it.
        before: u64,
        /// The version after the action.
        after: u64,
        /// The status before the action.
        status_before: SessionStatus,
        /// The status after the action.
        status_after: SessionStatus,
    },
    /// The session was saved.
    #[serde(rename = "session.saved")]
    Saved(SessionSnapshot),
    /// The session could not be loaded.
    #[serde(rename = "session.load_failed")]
    LoadFailed {
        /// The session.
        session: SessionId,
        /// Why.
        error: Arc<str>,
    },
    /// The session could not be saved.
    #[serde(rename = "session.save_failed")]
    SaveFailed {
        /// The session.
        session: SessionId,
        /// Why.
        error: Arc<str>,
    },
}

/// A snapshot of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSnapshot {
    /// The session.
    pub session: SessionId,
    /// The version.
    pub version: u64,
    /// The status.
    pub status: SessionStatus,
}

impl SessionSnapshot {
    /// Tells of a session what its header says.
    pub(crate) fn of(header: &SessionHeader) -> Self {
        Self { session: header.id.clone(), version: header.version, status: header.status }
    }
}

/// Listens to the events of sessions. It must not block. Its panics are contained.
pub trait SessionListener: Send + Sync {
    /// Handles an event.
    fn on_event(&self, event: &SessionEvent);
}

impl<F: Fn(&SessionEvent) + Send + Sync> SessionListener for F {
    fn on_event(&self, event: &SessionEvent) {
        self(event);
    }
}
