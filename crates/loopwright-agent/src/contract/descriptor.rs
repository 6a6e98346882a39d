//! What an agent says of itself.

use serde::{Deserialize, Serialize};

use crate::names::NameList;

/// What an agent says of itself, for the caller that chooses one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct AgentDescriptor {
    name: String,
    description: String,
    /// The names of its tools.
    pub tools: NameList,
    /// The names of what it can do.
    pub capabilities: NameList,
}

/// A descriptor that may be incomplete.
#[derive(Deserialize)]
struct Unchecked {
    name: String,
    description: String,
    #[serde(default)]
    tools: NameList,
    #[serde(default)]
    capabilities: NameList,
}

/// An agent that does not say what it must say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an agent has no {0}; set a non-empty one")]
pub struct InvalidDescriptor(&'static str);

impl AgentDescriptor {
    /// Describes an agent without tools.
    ///
    /// # Errors
    ///
    /// If the name or the description is empty.
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

    /// Names its tools.
    #[must_use]
    pub fn with_tools<S: Into<String>>(self, tools: impl IntoIterator<Item = S>) -> Self {
        Self { tools: tools.into_iter().collect(), ..self }
    }

    /// Names what it can do.
    #[must_use]
    pub fn with_capabilities<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        Self { capabilities: names.into_iter().collect(), ..self }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what it is for.
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
