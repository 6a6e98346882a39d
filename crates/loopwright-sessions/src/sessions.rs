//! The operations on sessions, as a trait.

use async_trait::async_trait;

use crate::{
    action::SessionAction,
    error::SessionError,
    header::{SessionHeader, SessionList, SessionQuery},
    id::SessionId,
    runtime::SessionRuntime,
    session::AgentSession,
};

/// Creates, runs and reads sessions.
///
/// [`SessionRuntime`] implements it with a store and agents. A program that takes an `Arc<dyn
/// Sessions>` can use another implementation, such as a client of another process, or a fake with
/// fixed answers. To test with real sessions, use a [`SessionRuntime`] with a
/// [`MemoryStore`](crate::MemoryStore) and a scripted model.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Creates a session, and returns it as it was saved.
    ///
    /// # Errors
    ///
    /// Returns an error if the ID is taken or the session cannot be saved.
    async fn create(&self, session: AgentSession) -> Result<AgentSession, SessionError>;

    /// Runs an action on a session, and returns the session after it. Dropping the future interrupts the action;
    /// what was saved stays.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist or is in use, the action fails, or its result cannot be
    /// saved.
    async fn execute(
        &self,
        id: &SessionId,
        action: &dyn SessionAction,
    ) -> Result<AgentSession, SessionError>;

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist, is deleted or cannot be loaded.
    async fn session(&self, id: &SessionId) -> Result<AgentSession, SessionError>;

    /// Returns the header of a session, even if it is deleted.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist or its header cannot be loaded.
    async fn info(&self, id: &SessionId) -> Result<SessionHeader, SessionError>;

    /// Returns a page of sessions.
    ///
    /// # Errors
    ///
    /// Returns an error if the sessions cannot be listed.
    async fn list(&self, query: &SessionQuery) -> Result<SessionList, SessionError>;
}

#[async_trait]
impl Sessions for SessionRuntime {
    async fn create(&self, session: AgentSession) -> Result<AgentSession, SessionError> {
        Self::create(self, session).await
    }

    async fn execute(
        &self,
        id: &SessionId,
        action: &dyn SessionAction,
    ) -> Result<AgentSession, SessionError> {
        Self::execute(self, id, action).await
    }

    async fn session(&self, id: &SessionId) -> Result<AgentSession, SessionError> {
        Self::session(self, id).await
    }

    async fn info(&self, id: &SessionId) -> Result<SessionHeader, SessionError> {
        Self::info(self, id).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, SessionError> {
        Self::list(self, query).await
    }
}
