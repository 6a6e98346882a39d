//! The capability for the derived prompt.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::system_prompt::prompt::Recipe;

/// Describes the agent's abilities to the model: a preamble, a line for each visible tool, and
/// guidelines.
///
/// It is one fragment of the system prompt: a state's own prompt, the prompt of `UseContextConfig`
/// and the fragments of other capabilities stay. It is derived from the tools that the agent has
/// when it runs, so it is correct for a copy of the agent with other tools.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseSystemPrompt(Recipe);

/// After the agent's own instructions, before those of capabilities.
const ORDER: i16 = -50;

impl UseSystemPrompt {
    /// Creates the capability with a preamble; blank text means none.
    pub fn new(preamble: impl Into<String>) -> Self {
        Self(Recipe { preamble: preamble.into(), ..Recipe::default() })
    }

    /// Adds a guideline before the built-in ones.
    pub fn with_guideline(mut self, line: impl Into<String>) -> Self {
        self.0.guidelines.push(line.into());
        self
    }

    /// Adds text at the end.
    pub fn append(mut self, text: impl Into<String>) -> Self {
        self.0.append = text.into();
        self
    }
}

impl Capability for UseSystemPrompt {
    fn name(&self) -> Cow<'static, str> {
        "use_system_prompt".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let recipe = self.0.clone();
        agent
            .prompt
            .derive(ORDER, "system_prompt", move |agent| Some(recipe.write(agent.tools()).into()));
        Ok(())
    }
}
