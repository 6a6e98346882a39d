//! A question to a model from within a run.
//!
//! It must be added explicitly, because each use costs a model call, which is charged to the run.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::llm_query::{LlmQueryTool, UseLlmQuery};
//! # use loopwright_testing::FakeModel;
//! # let (model, other) = (FakeModel::default(), FakeModel::default());
//!
//! let query = LlmQueryTool::new(other).with_system_prompt("Answer in one sentence.");
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseLlmQuery::from_tool(query))
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod capability;
mod tool;

pub use self::{
    capability::UseLlmQuery,
    tool::{LlmQueryArgs, LlmQueryTool},
};
pub use crate::model_source::{agent_model, as_model_takes};

#[cfg(test)]
mod tests;
