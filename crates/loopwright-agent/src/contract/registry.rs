//! Types of agents by name.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use super::{AgentContract, AgentFactory, ContractAgent, ContractError};

/// Types of agents by name. It is a value: registering returns another one.
#[derive(Clone, Default)]
pub struct AgentContractRegistry(BTreeMap<String, Make>);

type Make = fn(&str, &Value) -> Result<ContractAgent, ContractError>;

impl AgentContractRegistry {
    /// Knows no agents.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type of agent under the name by which its descriptors call it, in the place of one that has
    /// that name.
    #[must_use]
    pub fn register<C: AgentContract>(mut self, name: impl Into<String>) -> Self {
        self.0.insert(name.into(), |name, config| {
            let contract = C::from_config(config)
                .map_err(|source| ContractError::Config { name: name.to_owned(), source })?;
            ContractAgent::new(contract)
        });
        self
    }

    /// Returns `true` if there is an agent of that name.
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
