//! The model of the active skill, and how much it reasons.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{AgentState, Driver, LlmConfig, StepError, StepResponse, ThinkCx};

use crate::skills::active::{ACTIVE, ActiveSkill};

/// Shows a driver a state that asks for the active skill's model. The state itself asks for what it
/// always did, so nothing has to be put back when the skill ends.
pub(super) struct SkillModel(pub(super) Arc<dyn Driver>);

#[async_trait]
impl Driver for SkillModel {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let Some(llm) = state.get(&ACTIVE).and_then(|it| asked(state.llm(), &it)) else {
            return self.0.think(state, cx).await;
        };
        self.0.think(&state.clone().with_llm(llm), cx).await
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn llm(&self) -> LlmConfig {
        self.0.llm()
    }

    fn models(&self) -> Option<Arc<dyn loopwright_core::ModelProvider>> {
        self.0.models()
    }
}

/// Lays the model and the effort of a skill over a selection. Returns `None` if the skill asks for neither.
pub(super) fn asked(llm: Option<&LlmConfig>, skill: &ActiveSkill) -> Option<LlmConfig> {
    if skill.model.is_none() && skill.effort.is_none() {
        return None;
    }
    let mut asked = match &skill.model {
        Some(model) => over(llm, model),
        None => llm.cloned().unwrap_or_default(),
    };
    asked.options.reasoning_effort = skill.effort.or(asked.options.reasoning_effort);
    Some(asked)
}

/// Lays a model over a selection.
pub(super) fn over(llm: Option<&LlmConfig>, model: &str) -> LlmConfig {
    let named = LlmConfig::named(model);
    let mut llm = llm.cloned().unwrap_or_default();
    llm.provider = named.provider.or(llm.provider);
    llm.model = named.model;
    llm
}
