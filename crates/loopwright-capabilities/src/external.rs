//! Tools that run elsewhere, as a capability.
//!
//! A call of such a tool waits as a pending request until its result or an error is recorded, from any process. See
//! [`ExternalTool`].
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::external::{ExternalTool, UseExternalTools};
//! use loopwright_core::{AgentState, ApprovalDecision};
//! use loopwright_testing::{FakeModel, ScenarioStep, block_on};
//! use serde_json::json;
//!
//! # let model = FakeModel::script([ScenarioStep::tool_call("locate", json!({})), "In Bern.".into()]);
//! let locate = ExternalTool::new("locate", "Returns the position of the phone.");
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseExternalTools::new([locate]))
//!     .build()?;
//! let state = block_on(agent.execute(AgentState::new().with_user_message("Where am I?")));
//!
//! let path = state.pending()[0].address();
//! let state = agent.decide(&state, &path, ApprovalDecision::Reply(json!([46.9, 7.4])))?;
//! assert_eq!(block_on(agent.execute(state)).text(), "In Bern.");
//! # Ok::<_, loopwright_core::BoxError>(())
//! ```

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};
pub use loopwright_core::ExternalTool;
use serde::Deserialize;

/// Adds tools that run elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct UseExternalTools {
    /// The tools.
    #[serde(default)]
    tools: Vec<ExternalTool>,
}

impl UseExternalTools {
    /// Adds these tools.
    pub fn new(tools: impl IntoIterator<Item = ExternalTool>) -> Self {
        Self { tools: tools.into_iter().collect() }
    }

    /// Adds a tool.
    pub fn with_tool(mut self, tool: ExternalTool) -> Self {
        self.tools.push(tool);
        self
    }
}

impl Capability for UseExternalTools {
    fn name(&self) -> Cow<'static, str> {
        "use_external_tools".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        for tool in &self.tools {
            agent.tools.add(tool.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
