//! Agents of sessions.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::LoopFactory;
use loopwright_core::BoxError;
use loopwright_sessions::{AgentSession, SessionHeader};

/// Finds the agents of sessions, for programs whose agents depend on more than their definitions,
/// such as the directory of the session.
#[async_trait]
pub trait AgentResolver: Send + Sync {
    /// Returns the factory for the agent of a session.
    ///
    /// # Errors
    ///
    /// Returns an error if this program cannot run it. The job then fails. It is tried again if the error is a
    /// [`StoreError::Unavailable`](loopwright_sessions::StoreError::Unavailable), or a
    /// [`SessionError`](loopwright_sessions::SessionError) with one.
    async fn of(&self, session: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError>;

    /// Returns the factory for the agent of a session that was loaded for a job. Implement it if the agent depends on the
    /// conversation or the state, so that the session is not loaded again. The default ignores them.
    ///
    /// # Errors
    ///
    /// As for [`of`](AgentResolver::of).
    async fn of_session(&self, session: &AgentSession) -> Result<Arc<dyn LoopFactory>, BoxError> {
        self.of(session.header()).await
    }
}

/// Creates the agents of all sessions from their definitions.
pub(crate) struct Everywhere(pub(crate) Arc<dyn LoopFactory>);

#[async_trait]
impl AgentResolver for Everywhere {
    async fn of(&self, _session: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError> {
        Ok(Arc::clone(&self.0))
    }
}
