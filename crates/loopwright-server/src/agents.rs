//! The agents that a server offers.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use loopwright_agent::LoopFactory;
use loopwright_core::{BoxError, PendingApproval};
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

/// How long the rules of a decision hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// In the session, and in its forks.
    Session,
    /// In all sessions of the user in the same project.
    Always,
}

/// Rules that the user chose with a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRules {
    /// How long they hold.
    pub scope: RuleScope,
    /// Whether they allow calls; otherwise they deny them.
    pub allows: bool,
    /// The rules, as they were shown.
    pub rules: Vec<String>,
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

    /// Returns the rules that would decide about calls like a waiting one from now on. They are shown to the user before they are
    /// kept. Empty means that no rule can be kept.
    async fn suggested_rules(
        &self,
        _session: &AgentSession,
        _call: &PendingApproval<'_>,
    ) -> Result<Vec<String>, BoxError> {
        Ok(Vec::new())
    }

    /// Adds rules that hold in a session to it. They are recorded together with the decision that they come from.
    fn with_session_rules(
        &self,
        _session: AgentSession,
        _rules: &KeptRules,
    ) -> Result<AgentSession, BoxError> {
        Err(BoxError::from("this server does not store permission rules"))
    }

    /// Keeps rules that hold [always](RuleScope::Always), after the decision about a call of a session was recorded.
    async fn keep_rules(
        &self,
        _session: &SessionHeader,
        _rules: &KeptRules,
    ) -> Result<(), BoxError> {
        Err(BoxError::from("this server cannot save rules"))
    }

    /// Returns the folder of a session that may be shown to its principal. `None` means that it has none.
    fn folder(&self, _session: &SessionHeader) -> Option<PathBuf> {
        None
    }

    /// Removes the folder of a session that was deleted, if the folder is its own.
    async fn removed(&self, _session: &SessionHeader) {}
}
