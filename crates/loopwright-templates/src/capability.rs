//! The capability for reading and writing agent definitions.

mod tools;

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::registry::AgentDefinitionRegistry;
use crate::store::FileDefinitionStore;
use crate::validator::DefinitionValidator;

pub use self::tools::{
    DefinitionToolError, ListAgents, ReadAgent, ReadAgentArgs, WriteAgent, WriteAgentArgs,
    WriteAgentBudget,
};

/// Adds the tools `list_agents` and `read_agent`, and with a store also `write_agent`.
///
/// Values that may be secrets are never shown to the model. Definitions from the model are
/// validated first, and the process with the registry can use them as soon as they are on disk. The
/// store decides whether definitions can be replaced, and where they are stored.
///
/// ```
/// use loopwright_agent::{AgentBuilder, AgentDefinition, UseLlmConfig};
/// use loopwright_templates::{AgentDefinitionRegistry, UseAgentDefinitions};
/// # use loopwright_testing::FakeModel;
/// # let model = FakeModel::default();
///
/// let agents = AgentDefinitionRegistry::new();
/// agents.register(AgentDefinition::new("ada", "Counts.", "You count."));
/// let agent = AgentBuilder::base()
///     .with(UseLlmConfig::model(model))
///     .with(UseAgentDefinitions::new(agents))
///     .build()?;
/// let names: Vec<&str> = agent.tools().names().iter().map(|it| &**it).collect();
/// assert_eq!(names, ["list_agents", "read_agent"]);
/// # Ok::<_, loopwright_agent::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UseAgentDefinitions {
    agents: AgentDefinitionRegistry,
    validator: DefinitionValidator,
    store: Option<FileDefinitionStore>,
}

impl UseAgentDefinitions {
    /// Creates the value with a registry of definitions.
    pub fn new(agents: AgentDefinitionRegistry) -> Self {
        Self { agents, validator: DefinitionValidator::new(), store: None }
    }

    /// Sets the validator of definitions.
    pub fn with_validator(mut self, validator: DefinitionValidator) -> Self {
        self.validator = validator;
        self
    }

    /// Lets the model write definitions to this store.
    pub fn with_store(mut self, store: FileDefinitionStore) -> Self {
        self.store = Some(store);
        self
    }
}

impl Capability for UseAgentDefinitions {
    fn name(&self) -> Cow<'static, str> {
        "use_agent_definitions".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(ListAgents::new(self.agents.clone()));
        agent.tools.add(ReadAgent::new(self.agents.clone()));
        if let Some(store) = &self.store {
            let (agents, validator) = (self.agents.clone(), self.validator.clone());
            agent.tools.add(WriteAgent::new(agents, validator, store.clone()));
        }
        Ok(())
    }
}
