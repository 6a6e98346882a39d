//! The model for capabilities that make their own model calls.

use std::sync::Arc;

use loopwright_core::{
    AgentLoop, AgentState, ChatModel, LlmConfig, ModelError, ModelErrorKind, ModelProvider,
    messages::{InferenceRequest, Message, Prompt, Transcript},
};

/// Who is asked.
#[derive(Clone)]
pub(crate) enum ModelSource {
    /// This model, whatever the agent's own is.
    One(Arc<dyn ChatModel>),
    /// Of these models, the one that the state selects.
    OfState(Arc<dyn ModelProvider>),
    /// Of these models, this one, or else their default.
    These(Arc<dyn ModelProvider>, Option<LlmConfig>),
    /// Of the agent's own models, this one, or else the one that the agent calls.
    Own(Option<LlmConfig>),
}

impl ModelSource {
    /// Returns who is asked, and a request of instructions and a question.
    pub(crate) fn request(
        &self,
        state: &AgentState,
        agent: &AgentLoop,
        system: Option<Arc<str>>,
        question: String,
    ) -> Result<(Arc<dyn ChatModel>, InferenceRequest), ModelError> {
        let mut turns = Transcript::new();
        // A question of the user calls no tools, so it can be said.
        let said = turns.push_message(Message::user(question));
        debug_assert!(said.is_ok());
        let request =
            InferenceRequest { system, prompt: Prompt::of(turns), ..InferenceRequest::default() };
        match self {
            Self::One(model) => Ok((Arc::clone(model), request)),
            Self::OfState(models) => {
                let chosen = state.llm().filter(|it| names_one(it));
                let model = chosen.and_then(|it| it.model.clone());
                Ok((models.resolve(chosen)?, InferenceRequest { model, ..request }))
            }
            Self::These(models, selected) => {
                let llm = selected.clone().unwrap_or_default();
                let model = models.resolve(Some(&llm).filter(|it| names_one(it)))?;
                let (name, options) = (llm.model, llm.options);
                Ok((model, InferenceRequest { model: name, options, ..request }))
            }
            Self::Own(selected) => {
                let models = agent.driver().models().ok_or_else(no_model)?;
                let llm = own(selected.as_ref(), state, agent);
                let model = models.resolve(Some(&llm).filter(|it| names_one(it)))?;
                let options = selected.as_ref().map(|it| it.options.clone()).unwrap_or_default();
                Ok((model, InferenceRequest { model: llm.model, options, ..request }))
            }
        }
    }
}

/// Returns the selection of a model: what is selected here, or else what the state or the driver select.
fn own(selected: Option<&LlmConfig>, state: &AgentState, agent: &AgentLoop) -> LlmConfig {
    let agents = state.llm().filter(|it| names_one(it)).cloned();
    let agents = agents.unwrap_or_else(|| agent.driver().llm());
    let Some(selected) = selected.filter(|it| names_one(it)) else { return agents };
    let provider = selected.provider.clone().or(agents.provider);
    LlmConfig { provider, ..selected.clone() }
}

fn names_one(llm: &LlmConfig) -> bool {
    llm.provider.is_some() || llm.model.is_some()
}

fn no_model() -> ModelError {
    let text = "the agent's driver has no model to share; name a model";
    ModelError::new(ModelErrorKind::NoModel, text)
}
