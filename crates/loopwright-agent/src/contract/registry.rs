//! The registry of agent types.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use super::{AgentContract, AgentFactory, ContractAgent, ContractError};

/// Agent types by name. Registering a type returns a new registry.
#[derive(Clone, Default)]
pub struct AgentContractRegistry(BTreeMap<String, Make>);

type Make = fn(&str, &Value) -> Result<ContractAgent, ContractError>;

impl AgentContractRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent type under the name in its descriptors, or replaces the one with that name.
    #[must_use]
    pub fn register<C: AgentContract>(mut self, name: impl Into<String>) -> Self {
        self.0.insert(name.into(), |name, config| {
            let contract = C::from_config(config)
                .map_err(|source| ContractError::Config { name: name.to_owned(), source })?;
            ContractAgent::new(contract)
        });
        self
    }

    /// Returns `true` if the name is known.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl AgentFactory for AgentContractRegistry {
    fn create(&self, name: &str, config: &Value) -> Result<ContractAgent, ContractError> {
        let make = self.0.get(name).ok_or_else(|| ContractError::Unknown {
            name: name.to_owned(),
            known: self.names().collect::<Vec<_>>().join(", "),
        })?;
        make(name, config)
    }
}

impl fmt::Debug for AgentContractRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
