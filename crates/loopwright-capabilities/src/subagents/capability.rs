//! Sub-agents as a capability.

use std::{borrow::Cow, sync::Arc};

use loopwright_agent::{
    BuildError, Capability, CapabilityRegistry, Configurator, Definitions, StateFactory,
};

#[cfg(all(feature = "skills", target_os = "linux"))]
use crate::skills::SkillLibrary;
use crate::subagents::{ResearchSubagent, SpawnSubagent, SubagentPolicy};

/// Adds the tool `spawn_subagent`, and `research_subagent` where that is wanted.
///
/// ```
/// use loopwright_agent::{AgentDefinition, DefinitionRegistry};
/// use loopwright_capabilities::subagents::UseSubagents;
///
/// let mut agents = DefinitionRegistry::new();
/// agents.register(AgentDefinition::new("tester", "Runs tests.", "You run tests."));
/// let subagents = UseSubagents::new(agents).with_research();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseSubagents {
    spawn: SpawnSubagent,
    policy: SubagentPolicy,
    research: bool,
}

impl UseSubagents {
    /// Offers the agents of these definitions.
    pub fn new(definitions: impl Definitions + 'static) -> Self {
        Self::from_arc(Arc::new(definitions))
    }

    /// Offers the agents of definitions that are also held elsewhere.
    pub fn from_arc(definitions: Arc<dyn Definitions>) -> Self {
        Self { spawn: SpawnSubagent::from_arc(definitions), ..Self::default() }
    }

    /// Offers the agents of these definitions, and lets sub-agents be so deep.
    pub fn for_depth(max_depth: u32, definitions: impl Definitions + 'static) -> Self {
        Self::new(definitions).policy(SubagentPolicy::for_depth(max_depth))
    }

    /// Sets what sub-agents may do.
    pub fn policy(mut self, policy: SubagentPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets where capabilities that definitions name are found; see [`SpawnSubagent::capabilities`].
    pub fn capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.spawn = self.spawn.capabilities(capabilities);
        self
    }

    #[cfg(all(feature = "skills", target_os = "linux"))]
    /// Sets where skills that definitions name are found; see [`SpawnSubagent::skills`].
    pub fn skills(mut self, skills: SkillLibrary) -> Self {
        self.spawn = self.spawn.skills(skills);
        self
    }

    /// Sets the factory of the states that sub-agents begin with; see [`SpawnSubagent::states`].
    pub fn states(mut self, states: Arc<dyn StateFactory>) -> Self {
        self.spawn = self.spawn.states(states);
        self
    }

    /// Adds the tool `research_subagent`.
    pub fn with_research(mut self) -> Self {
        self.research = true;
        self
    }
}

impl Capability for UseSubagents {
    fn name(&self) -> Cow<'static, str> {
        "use_subagents".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let research =
            ResearchSubagent::from_policy(self.policy.clone()).waiting_in(&self.spawn.queue);
        agent.tools.add(self.spawn.clone().policy(self.policy.clone()));
        if self.research {
            agent.tools.add(research);
        }
        Ok(())
    }
}
