//! The capability for sub-agents.

use std::{borrow::Cow, sync::Arc};

use loopwright_agent::{
    BuildError, Capability, CapabilityRegistry, Configurator, Definitions, StateFactory,
};

use crate::background::BackgroundTasks;
use crate::child::IsolateAgents;
#[cfg(all(feature = "skills", target_os = "linux"))]
use crate::skills::SkillLibrary;
use crate::subagents::background::{BackgroundAgents, BackgroundEnds, SubagentRead, SubagentStop};
use crate::subagents::{ResearchSubagent, SpawnSubagent, SubagentPolicy};

/// Adds the tool `spawn_subagent`, and optionally `research_subagent`. If a definition works in the background, it adds
/// `subagent_read` and `subagent_stop`, too.
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
    /// Creates it with these definitions.
    pub fn new(definitions: impl Definitions + 'static) -> Self {
        Self::from_arc(Arc::new(definitions))
    }

    /// Creates it with shared definitions.
    pub fn from_arc(definitions: Arc<dyn Definitions>) -> Self {
        Self { spawn: SpawnSubagent::from_arc(definitions), ..Self::default() }
    }

    /// Creates the capability with these definitions and a maximum nesting depth.
    pub fn for_depth(max_depth: u32, definitions: impl Definitions + 'static) -> Self {
        Self::new(definitions).with_policy(SubagentPolicy::for_depth(max_depth))
    }

    /// Sets the policy of sub-agents.
    pub fn with_policy(mut self, policy: SubagentPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the registry of the capabilities that definitions name; see
    /// [`SpawnSubagent::with_capabilities`].
    pub fn with_capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.spawn = self.spawn.with_capabilities(capabilities);
        self
    }

    #[cfg(all(feature = "skills", target_os = "linux"))]
    /// Sets the library of the skills that definitions name; see [`SpawnSubagent::with_skills`].
    pub fn with_skills(mut self, skills: SkillLibrary) -> Self {
        self.spawn = self.spawn.with_skills(skills);
        self
    }

    /// Sets the factory of the sub-agents' initial states; see [`SpawnSubagent::with_states`].
    pub fn with_states(mut self, states: Arc<dyn StateFactory>) -> Self {
        self.spawn = self.spawn.with_states(states);
        self
    }

    /// Sets what gives sub-agents their own places, whose definition has an [isolation](loopwright_agent::AgentDefinition::isolation).
    /// Without it, they do not start.
    pub fn with_isolation(mut self, isolation: Arc<dyn IsolateAgents>) -> Self {
        self.spawn = self.spawn.with_isolation(isolation);
        self
    }

    /// Sets the list in which sub-agents in the background appear.
    pub fn with_background_tasks(mut self, tasks: BackgroundTasks) -> Self {
        self.spawn.background = BackgroundAgents::listed_in(tasks);
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
        agent.tools.add(self.spawn.clone().with_policy(self.policy.clone()));
        if self.spawn.has_background() {
            let agents = &self.spawn.background;
            agent.tools.add(SubagentRead(agents.clone()));
            agent.tools.add(SubagentStop(agents.clone()));
            agent.hooks.add(BackgroundEnds(agents.clone()));
        }
        if self.research {
            agent.tools.add(research);
        }
        Ok(())
    }
}
