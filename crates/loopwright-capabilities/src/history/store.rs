//! Stores of summaries.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_core::{BoxError, messages::AgentId};

use crate::history::ExecutionSummary;

/// Stores summaries of executions, by agent.
///
/// An unknown agent has no summaries, which is not an error.
#[async_trait]
pub trait HistoryStore: Send + Sync {
    /// Appends a summary. The end of an execution waits for this call; a failure loses only the
    /// summary.
    async fn record(&self, agent: &AgentId, summary: &ExecutionSummary) -> Result<(), BoxError>;

    /// Returns the summaries of an agent, oldest first.
    async fn all(&self, agent: &AgentId) -> Result<Vec<ExecutionSummary>, BoxError>;

    /// Returns the newest summary of an agent.
    async fn last(&self, agent: &AgentId) -> Result<Option<ExecutionSummary>, BoxError> {
        Ok(self.all(agent).await?.pop())
    }

    /// Returns the number of summaries of an agent.
    async fn count(&self, agent: &AgentId) -> Result<usize, BoxError> {
        Ok(self.all(agent).await?.len())
    }
}

/// Keeps summaries in memory.
#[derive(Debug, Default)]
pub struct MemoryHistory(Mutex<HashMap<AgentId, Vec<ExecutionSummary>>>);

impl MemoryHistory {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl HistoryStore for MemoryHistory {
    async fn record(&self, agent: &AgentId, summary: &ExecutionSummary) -> Result<(), BoxError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entry(agent.clone()).or_default().push(summary.clone());
        Ok(())
    }

    async fn all(&self, agent: &AgentId) -> Result<Vec<ExecutionSummary>, BoxError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.get(agent).cloned().unwrap_or_default())
    }
}
