//! Agents of sessions, by their types.

use std::sync::Arc;

use loopwright_core::AgentLoop;
use serde_json::Value;

use super::{AgentContractRegistry, AgentFactory as _, CONFIG, ContractError};
use crate::{capability::BuildError, definition::AgentDefinition, factories::LoopFactory};

/// Makes the agents of a registry of the definitions that they gave their sessions, and all others in
/// another way: so a session is all that a worker has to know.
#[derive(Clone)]
pub struct ContractLoopFactory {
    registry: AgentContractRegistry,
    others: Option<Arc<dyn LoopFactory>>,
}

impl ContractLoopFactory {
    /// Makes the agents of a registry, and no others.
    pub fn new(registry: AgentContractRegistry) -> Self {
        Self { registry, others: None }
    }

    /// Makes all other agents in another way.
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
