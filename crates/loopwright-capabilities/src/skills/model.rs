//! The model of the active skill.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{AgentState, Driver, LlmConfig, StepError, StepResponse, ThinkCx};

use crate::skills::active::ACTIVE;

/// Shows a driver a state that asks for the active skill's model. The state itself asks for what it
/// always did, so nothing has to be put back when the skill ends.
pub(super) struct SkillModel(pub(super) Arc<dyn Driver>);

#[async_trait]
impl Driver for SkillModel {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let Some(model) = state.get(&ACTIVE).and_then(|it| it.model) else {
            return self.0.think(state, cx).await;
        };
        let state = state.clone().with_llm(over(state.llm(), &model));
        self.0.think(&state, cx).await
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

/// Lays a model over a selection.
pub(super) fn over(llm: Option<&LlmConfig>, model: &str) -> LlmConfig {
    let named = LlmConfig::named(model);
    let mut llm = llm.cloned().unwrap_or_default();
    llm.provider = named.provider.or(llm.provider);
    llm.model = named.model;
    llm
}
