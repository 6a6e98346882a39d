//! The descriptor of an agent.

use serde::{Deserialize, Serialize};

use crate::names::NameList;

/// The public description of an agent, for callers that select one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct AgentDescriptor {
    name: String,
    description: String,
    /// The names of its tools.
    pub tools: NameList,
    /// The names of its capabilities.
    pub capabilities: NameList,
}

/// A descriptor that can be incomplete.
#[derive(Deserialize)]
struct Unchecked {
    name: String,
    description: String,
    #[serde(default)]
    tools: NameList,
    #[serde(default)]
    capabilities: NameList,
}

/// A descriptor without a required part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent has no {0}; set a non-empty {0}")]
pub struct InvalidDescriptor(&'static str);

impl AgentDescriptor {
    /// Creates a descriptor of an agent without tools.
    ///
    /// # Errors
    ///
    /// Returns an error if the name or the description is empty.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<Self, InvalidDescriptor> {
        let (name, description) = (name.into(), description.into());
        for (field, text) in [("name", &name), ("description", &description)] {
            if text.trim().is_empty() {
                return Err(InvalidDescriptor(field));
            }
        }
        Ok(Self {
            name,
            description,
            tools: NameList::default(),
            capabilities: NameList::default(),
        })
    }

    /// Sets the names of its tools.
    #[must_use]
    pub fn with_tools<S: Into<String>>(self, tools: impl IntoIterator<Item = S>) -> Self {
        Self { tools: tools.into_iter().collect(), ..self }
    }

    /// Sets the names of its capabilities.
    #[must_use]
    pub fn with_capabilities<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self { capabilities: names.into_iter().collect(), ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description.
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl TryFrom<Unchecked> for AgentDescriptor {
    type Error = InvalidDescriptor;

    fn try_from(unchecked: Unchecked) -> Result<Self, InvalidDescriptor> {
        let Unchecked { name, description, tools, capabilities } = unchecked;
        Ok(Self { tools, capabilities, ..Self::new(name, description)? })
    }
}
