//! The capability for questions to a model.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::llm_query::LlmQueryTool;

/// Adds the tool `llm_query`, which asks a model a question, by default the agent's own model.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseLlmQuery(LlmQueryTool);

impl UseLlmQuery {
    /// Creates the capability from a configured tool.
    pub fn from_tool(tool: LlmQueryTool) -> Self {
        Self(tool)
    }
}

impl Capability for UseLlmQuery {
    fn name(&self) -> Cow<'static, str> {
        "use_llm_query".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(self.0.clone());
        Ok(())
    }
}
