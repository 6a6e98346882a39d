//! Who works in a session.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::LoopFactory;
use loopwright_core::BoxError;
use loopwright_sessions::SessionHeader;

/// Knows the agents of sessions, for programs whose agents depend on more than their definitions: on the
/// directory of the session, for one.
#[async_trait]
pub trait AgentResolver: Send + Sync {
    /// Returns what makes the agent of a session.
    ///
    /// # Errors
    ///
    /// If this program cannot run it; the job fails then.
    async fn of(&self, session: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError>;
}

/// Makes the agents of all sessions alike, of their definitions.
pub(crate) struct Everywhere(pub(crate) Arc<dyn LoopFactory>);

#[async_trait]
impl AgentResolver for Everywhere {
    async fn of(&self, _session: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError> {
        Ok(Arc::clone(&self.0))
    }
}
