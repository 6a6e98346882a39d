//! Who may keep a conversation from being compacted.

use async_trait::async_trait;
use loopwright_core::AgentState;

/// Decides before a conversation is compacted whether it stays as it is.
#[async_trait]
pub trait CompactionGate: Send + Sync {
    /// Returns `true` if the conversation must stay as it is. Before a step, the gate is called again some steps later.
    async fn keeps(&self, trigger: CompactionTrigger, state: &AgentState) -> bool;
}

/// Why a conversation is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionTrigger {
    /// It is long, or too long for the model.
    Auto,
    /// The user asked for it.
    Manual,
}

impl CompactionTrigger {
    /// Returns the name, `auto` or `manual`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
        }
    }
}
