//! Drivers, which produce responses from a state.

mod react;
mod react_decision;
mod tool_calling;

pub use self::{react::ReActDriver, tool_calling::ToolCallingDriver};

use std::sync::Arc;

use loopwright_core::{
    AgentState, ChatModel, LlmConfig, ModelError, ModelProvider,
    messages::{InferenceOptions, InferenceRequest},
};

/// The default model of a driver.
#[derive(Clone)]
struct ModelSelection {
    models: Arc<dyn ModelProvider>,
    llm: LlmConfig,
}

impl ModelSelection {
    /// Returns the model that the state selects, and fills in missing settings.
    fn resolve(
        &self,
        state: &AgentState,
        request: &mut InferenceRequest,
    ) -> Result<Arc<dyn ChatModel>, ModelError> {
        let chosen = self.chosen(state);
        request.model.clone_from(&chosen.model);
        request.options = request.options.with_defaults(&self.llm.options);
        self.models.resolve(Some(&chosen).filter(|it| it.provider.is_some() || it.model.is_some()))
    }

    /// Returns the default model.
    fn by_default(&self) -> LlmConfig {
        let known = || self.models.resolve(None).ok()?.model();
        LlmConfig { model: self.llm.model.clone().or_else(known), ..self.llm.clone() }
    }

    fn chosen(&self, state: &AgentState) -> LlmConfig {
        let Some(llm) = state.llm() else {
            let (provider, model) = (self.llm.provider.clone(), self.llm.model.clone());
            return LlmConfig { provider, model, options: InferenceOptions::default() };
        };
        // The driver's model belongs to the driver's provider.
        let same_provider = llm.provider.is_none() || llm.provider == self.llm.provider;
        let default_model = same_provider.then(|| self.llm.model.clone()).flatten();
        LlmConfig {
            provider: llm.provider.clone().or_else(|| self.llm.provider.clone()),
            model: llm.model.clone().or(default_model),
            options: InferenceOptions::default(),
        }
    }
}
