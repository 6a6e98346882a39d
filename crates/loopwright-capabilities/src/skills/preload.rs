//! Skills that an agent starts with.

use std::sync::Arc;

use loopwright_agent::{AgentDefinition, DefinitionStateFactory, StateFactory};
use loopwright_core::AgentState;

use crate::skills::library::SkillLibrary;

/// Creates states from definitions, with the skills that a definition names as part of the
/// instructions. Argument placeholders are removed from their texts, and unknown skills are
/// ignored.
#[derive(Clone, Debug)]
pub struct SkillStateFactory<F = DefinitionStateFactory> {
    library: SkillLibrary,
    states: F,
}

impl SkillStateFactory {
    /// Creates the factory with a library.
    pub fn new(library: SkillLibrary) -> Self {
        Self { library, states: DefinitionStateFactory }
    }
}

impl<F> SkillStateFactory<F> {
    /// Sets the inner state factory.
    #[must_use]
    pub fn with_inner<G: StateFactory>(self, states: G) -> SkillStateFactory<G> {
        SkillStateFactory { library: self.library, states }
    }
}

impl<F: StateFactory> StateFactory for SkillStateFactory<F> {
    fn instantiate(&self, definition: &AgentDefinition, seed: AgentState) -> AgentState {
        let state = self.states.instantiate(definition, seed);
        let skills = definition.skills.iter().filter_map(|name| self.library.get(name));
        let texts: Vec<String> = skills.map(|it| it.render(Some(""))).collect();
        if texts.is_empty() {
            return state;
        }
        let own = state.context().system_prompt().map(Arc::clone);
        let all: Vec<&str> =
            own.as_deref().into_iter().chain(texts.iter().map(String::as_str)).collect();
        let prompt = all.join("\n\n");
        state.with_system_prompt(prompt)
    }
}
