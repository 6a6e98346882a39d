//! Creation of agents for sessions, by type.

use std::sync::Arc;

use loopwright_core::AgentLoop;
use serde_json::Value;

use super::{AgentContractRegistry, AgentFactory as _, CONFIG, ContractError};
use crate::{capability::BuildError, definition::AgentDefinition, factories::LoopFactory};

/// Creates the agents of a registry from the definitions in their sessions, and all others with a
/// fallback. A worker therefore needs only the session.
#[derive(Clone)]
pub struct ContractLoopFactory {
    registry: AgentContractRegistry,
    others: Option<Arc<dyn LoopFactory>>,
}

impl ContractLoopFactory {
    /// Creates a factory for the agents of a registry.
    pub fn new(registry: AgentContractRegistry) -> Self {
        Self { registry, others: None }
    }

    /// Sets the fallback for all other agents.
    #[must_use]
    pub fn with_fallback(self, others: impl LoopFactory + 'static) -> Self {
        Self { others: Some(Arc::new(others)), ..self }
    }
}

impl LoopFactory for ContractLoopFactory {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let name = &definition.name;
        if let Some(others) = self.others.as_ref().filter(|_| !self.registry.contains(name)) {
            return others.instantiate(definition);
        }
        let config = definition.metadata.get(CONFIG).unwrap_or(&Value::Null);
        self.registry.create(name, config)?.agent()
    }
}

impl From<ContractError> for BuildError {
    fn from(error: ContractError) -> Self {
        match error {
            ContractError::Unknown { name, known } => Self::Unknown { kind: "agent", name, known },
            error => Self::Capability {
                capability: "contract".into(),
                reason: error.to_string(),
                source: Some(error.into()),
            },
        }
    }
}

impl std::fmt::Debug for ContractLoopFactory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContractLoopFactory")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
