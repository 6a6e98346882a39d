//! The model for capabilities that make their own model calls.

use std::sync::Arc;

use loopwright_core::{
    AgentLoop, AgentState, ChatModel, LlmConfig, MediaKind, ModelError, ModelErrorKind,
    ModelProvider,
    messages::{Content, InferenceRequest, Message, Part, Prompt, Transcript},
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
                let (model, llm) = own_model(selected.as_ref(), state, agent)?;
                let options = selected.as_ref().map(|it| it.options.clone()).unwrap_or_default();
                Ok((model, InferenceRequest { model: llm.model, options, ..request }))
            }
        }
    }
}

/// Returns the model that an agent calls, and its selection.
///
/// # Errors
///
/// Returns an error if the agent's driver has no model to share.
pub fn agent_model(
    state: &AgentState,
    agent: &AgentLoop,
) -> Result<(Arc<dyn ChatModel>, LlmConfig), ModelError> {
    own_model(None, state, agent)
}

/// Replaces images and files by words if the model that an agent calls is known not to take them.
pub fn as_model_takes(parts: Vec<Part>, state: &AgentState, agent: &AgentLoop) -> Vec<Part> {
    let kind = |part: &Part| match part.content() {
        Content::Image(_) => Some(MediaKind::Image),
        Content::Document(_) => Some(MediaKind::Document),
        _ => None,
    };
    if parts.iter().all(|it| kind(it).is_none()) {
        return parts;
    }
    let Ok((model, llm)) = agent_model(state, agent) else { return parts };
    let request = InferenceRequest { model: llm.model, ..InferenceRequest::default() };
    let replaced = |part: Part| match kind(&part) {
        Some(kind) if model.takes(&request, kind) == Some(false) => Part::text(match kind {
            MediaKind::Image => "[image: not shown, because this model does not accept images]",
            _ => "[document: not shown, because this model does not accept documents]",
        }),
        _ => part,
    };
    parts.into_iter().map(replaced).collect()
}

fn own_model(
    selected: Option<&LlmConfig>,
    state: &AgentState,
    agent: &AgentLoop,
) -> Result<(Arc<dyn ChatModel>, LlmConfig), ModelError> {
    let models = agent.driver().models().ok_or_else(no_model)?;
    let llm = own(selected, state, agent);
    Ok((models.resolve(Some(&llm).filter(|it| names_one(it)))?, llm))
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
    let text = "the agent's driver has no model to share; specify a model";
    ModelError::new(ModelErrorKind::NoModel, text)
}
