//! The same agent for every session, and what works with sessions without an agent.

use std::sync::Arc;

use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::AgentLoop;
use loopwright_sessions::{SessionRuntime, SessionStore};

/// Gives the same agent to every caller.
pub(crate) struct FixedLoop(pub(crate) AgentLoop);

impl LoopFactory for FixedLoop {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.0.clone())
    }
}

/// Gives no agent: for whatever is done without one.
struct NoAgent;

impl LoopFactory for NoAgent {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Err(BuildError::NoDriver)
    }
}

/// Returns what works with sessions without running their agents.
pub(crate) fn maintenance_runtime(store: &Arc<dyn SessionStore>) -> SessionRuntime {
    SessionRuntime::new(Arc::clone(store), NoAgent)
}
