//! The capability for questions.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use super::{AskUser, OnQuestion};

/// Adds the tool `ask_user`, with which the model asks the user.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct UseQuestions(OnQuestion);

impl UseQuestions {
    /// Sets the action of a question; by default, the call waits.
    pub fn new(on_question: OnQuestion) -> Self {
        Self(on_question)
    }
}

impl Capability for UseQuestions {
    fn name(&self) -> Cow<'static, str> {
        "use_questions".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(AskUser(self.0));
        Ok(())
    }
}
