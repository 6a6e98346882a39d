//! Self-critique as a capability.

use std::{borrow::Cow, fmt, sync::Arc};

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{ChatModel, LlmConfig, ModelProvider};

use crate::{
    critique::{CritiquePolicy, SelfCritic, hook::Critic},
    model_source::ModelSource,
};

/// Has final answers judged; see the [module](crate::critique).
///
/// ```
/// use loopwright_capabilities::critique::{CritiquePolicy, OnCriticFailure, UseSelfCritique};
/// use loopwright_testing::FakeModel;
///
/// let policy = CritiquePolicy { on_failure: OnCriticFailure::Stop, ..CritiquePolicy::of_iterations(3) };
/// let critique = UseSelfCritique::with_model(FakeModel::echo()).policy(policy).with_tool();
/// ```
#[derive(Clone)]
#[must_use]
pub struct UseSelfCritique {
    critics: ModelSource,
    policy: CritiquePolicy,
    tool: bool,
}

impl Default for UseSelfCritique {
    /// Asks the agent's own model for judgements.
    fn default() -> Self {
        Self::by(ModelSource::Own(None))
    }
}

impl UseSelfCritique {
    /// Asks one model for judgements, whatever the agent's own is.
    pub fn with_model(model: impl ChatModel + 'static) -> Self {
        Self::by(ModelSource::One(Arc::new(model)))
    }

    /// Asks the models that states select.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self::by(ModelSource::OfState(models))
    }

    /// Asks another one of the agent's own models.
    pub fn with_llm(llm: LlmConfig) -> Self {
        Self::by(ModelSource::Own(Some(llm)))
    }

    fn by(critics: ModelSource) -> Self {
        Self { critics, policy: CritiquePolicy::default(), tool: false }
    }

    /// Sets how answers are judged.
    pub fn policy(mut self, policy: CritiquePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how many answers of an execution are judged; 2 by default.
    pub fn max_iterations(mut self, max: u32) -> Self {
        self.policy.max_iterations = max;
        self
    }

    /// Adds the tool `self_critic`, with which the agent has an answer judged when it wants to.
    pub fn with_tool(mut self) -> Self {
        self.tool = true;
        self
    }
}

impl Capability for UseSelfCritique {
    fn name(&self) -> Cow<'static, str> {
        "use_self_critique".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.hooks.add(Critic { critics: self.critics.clone(), policy: self.policy });
        if self.tool {
            agent.tools.add(SelfCritic(self.critics.clone()));
        }
        Ok(())
    }
}

impl fmt::Debug for UseSelfCritique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseSelfCritique")
            .field("policy", &self.policy)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}
