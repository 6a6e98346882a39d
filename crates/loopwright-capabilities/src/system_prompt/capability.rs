//! The derived prompt as a capability.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::system_prompt::prompt::Recipe;

/// Tells the model what it can do: a preamble, a line for each tool that it is shown, and guidelines.
///
/// It is a fragment of the system prompt like others: a state's own prompt, the prompt of
/// `UseContextConfig` and the fragments of other capabilities stay. It is made of the tools that the
/// agent has when it runs, so that a copy of the agent with other tools is told of those.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseSystemPrompt(Recipe);

/// After the agent's own instructions, before those of capabilities.
const ORDER: i16 = -50;

impl UseSystemPrompt {
    /// Begins with a preamble; blank text counts as none.
    pub fn new(preamble: impl Into<String>) -> Self {
        Self(Recipe { preamble: preamble.into(), ..Recipe::default() })
    }

    /// Adds a guideline, before those that are always there.
    pub fn guideline(mut self, line: impl Into<String>) -> Self {
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
