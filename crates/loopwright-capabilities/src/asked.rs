//! Which model is asked by what works beside the agent.

use std::sync::Arc;

use loopwright_core::{
    AgentState, ChatModel, ModelError, Models,
    messages::{InferenceRequest, Message, Prompt, Transcript},
};

/// Who is asked.
#[derive(Clone)]
pub(crate) enum Asked {
    /// This model, whatever the agent's own is.
    One(Arc<dyn ChatModel>),
    /// The agent's own.
    OfState(Arc<dyn Models>),
}

impl Asked {
    /// Returns who is asked, and a request of instructions and a question.
    pub(crate) fn request(
        &self,
        state: &AgentState,
        system: &'static str,
        question: String,
    ) -> Result<(Arc<dyn ChatModel>, InferenceRequest), ModelError> {
        let mut turns = Transcript::new();
        // A question of the user calls no tools, so it can be said.
        let said = turns.say(Message::user(question));
        debug_assert!(said.is_ok());
        let request = InferenceRequest {
            system: Some(system.into()),
            prompt: Prompt::of(turns),
            ..InferenceRequest::default()
        };
        match self {
            Self::One(model) => Ok((Arc::clone(model), request)),
            Self::OfState(models) => {
                let chosen = state.llm().filter(|it| it.provider.is_some() || it.model.is_some());
                let model = chosen.and_then(|it| it.model.clone());
                Ok((models.resolve(chosen)?, InferenceRequest { model, ..request }))
            }
        }
    }
}
