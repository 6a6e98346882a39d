//! The capability for the history of executions.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::Priority;

use crate::history::{
    hook::{Place, Recording},
    store::{HistoryStore, MemoryHistory},
};

/// Stores a summary of each execution when it ends, for whatever reason.
#[derive(Clone)]
#[must_use]
pub struct UseExecutionHistory(Place);

impl Default for UseExecutionHistory {
    /// Keeps the last 50 summaries in the state.
    fn default() -> Self {
        Self::in_state(50)
    }
}

impl UseExecutionHistory {
    /// Stores summaries in a store.
    pub fn with_store(store: Arc<dyn HistoryStore>) -> Self {
        Self(Place::Store(store))
    }

    /// Keeps summaries in memory, and returns the store.
    pub fn in_memory() -> (Self, Arc<MemoryHistory>) {
        let store = Arc::new(MemoryHistory::new());
        (Self::with_store(store.clone()), store)
    }

    /// Keeps this number of newest summaries in the state itself, and so in its session;
    /// [`history_of`](crate::history::history_of) returns them.
    pub fn in_state(most: usize) -> Self {
        Self(Place::State(most))
    }
}

impl Capability for UseExecutionHistory {
    fn name(&self) -> Cow<'static, str> {
        "use_execution_history".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.hooks.add_at(Priority::HISTORY, Recording(self.0.clone()));
        Ok(())
    }
}

impl fmt::Debug for UseExecutionHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UseExecutionHistory")
    }
}
