//! The capability for self-critique.

use std::{borrow::Cow, fmt, sync::Arc};

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{ChatModel, LlmConfig, ModelProvider};

use crate::{
    critique::{CritiquePolicy, SelfCritic, hook::Critic},
    model_source::ModelSource,
};

/// Reviews final answers; see the [module](crate::critique).
///
/// ```
/// use loopwright_capabilities::critique::{CritiquePolicy, OnCriticFailure, UseSelfCritique};
/// use loopwright_testing::FakeModel;
///
/// let policy = CritiquePolicy { on_failure: OnCriticFailure::Stop, ..CritiquePolicy::of_iterations(3) };
/// let critique = UseSelfCritique::with_model(FakeModel::echo()).with_policy(policy).with_tool();
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
    /// Uses one model for reviews, regardless of the agent's own model.
    pub fn with_model(model: impl ChatModel + 'static) -> Self {
        Self::by(ModelSource::One(Arc::new(model)))
    }

    /// Uses the models that states select.
    pub fn from_models(models: Arc<dyn ModelProvider>) -> Self {
        Self::by(ModelSource::OfState(models))
    }

    /// Uses another model of the agent's own providers.
    pub fn with_llm(llm: LlmConfig) -> Self {
        Self::by(ModelSource::Own(Some(llm)))
    }

    fn by(critics: ModelSource) -> Self {
        Self { critics, policy: CritiquePolicy::default(), tool: false }
    }

    /// Sets the review policy.
    pub fn with_policy(mut self, policy: CritiquePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the maximum number of reviews per execution; 2 by default.
    pub fn with_max_iterations(mut self, max: u32) -> Self {
        self.policy.max_iterations = max;
        self
    }

    /// Adds the tool `self_critic`, with which the agent can request a review itself.
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
