//! The agents that a server offers.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use loopwright_agent::LoopFactory;
use loopwright_core::BoxError;
use loopwright_sessions::{AgentSession, SessionHeader, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::principal::Principal;

/// An agent that new sessions can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentInfo {
    /// Its name.
    pub name: String,
    /// The description.
    pub description: String,
}

/// The error of a session that cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentsError {
    /// No agent has this name.
    #[error("unknown agent")]
    Unknown,
    /// The agent cannot be used.
    #[error("the agent cannot be used")]
    Unusable(#[source] BoxError),
}

/// The agents that a server offers, and the folders that their sessions work in.
#[async_trait]
pub trait ServedAgents: Send + Sync {
    /// Returns the agents. The first one is the default.
    async fn list(&self) -> Result<Vec<AgentInfo>, BoxError>;

    /// Creates an unsaved session with this ID for a principal, and its folder if it has one of its
    /// own.
    ///
    /// # Errors
    ///
    /// [`Unknown`](AgentsError::Unknown) if no agent has this name.
    async fn begin(
        &self,
        agent: &str,
        id: SessionId,
        principal: &Principal,
    ) -> Result<AgentSession, AgentsError>;

    /// Returns the agent of a session, which validates edited arguments of calls.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot run the agent.
    async fn of(&self, session: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError>;

    /// Returns the folder of a session that may be shown to its principal. `None` means that it has none.
    fn folder(&self, _session: &SessionHeader) -> Option<PathBuf> {
        None
    }

    /// Removes the folder of a session that was deleted, if the folder is its own.
    async fn removed(&self, _session: &SessionHeader) {}
}
