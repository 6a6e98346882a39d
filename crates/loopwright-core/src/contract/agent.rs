//! The agent as tools, hooks and instructions see it.

use std::{any::Any, sync::Arc};

/// The agent loop: takes a state, thinks and acts step by step, and returns the new state.
///
/// It is stateless, cheap to clone and safe to share between runs. It has no policy: without hooks
/// and budget, it continues until the model calls no more tools.
// What it holds are its `AgentParts`. Contracts only hand it on, so that they need not know the engine.
#[derive(Clone)]
pub struct AgentLoop(pub(crate) Arc<dyn Any + Send + Sync>);

#[cfg(not(feature = "engine"))]
impl std::fmt::Debug for AgentLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentLoop").finish_non_exhaustive()
    }
}
