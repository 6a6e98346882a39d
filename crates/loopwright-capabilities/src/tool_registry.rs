//! Large sets of tools that cost nothing until they are used: the model searches them and activates
//! those it needs.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::tool_registry::UseToolRegistry;
//! use loopwright_core::ToolRegistry;
//! # use loopwright_testing::{FakeModel, MockTool};
//! # let (model, weather) = (FakeModel::default(), MockTool::scripted());
//!
//! let mut registry = ToolRegistry::new();
//! registry.register(weather);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseToolRegistry::new(registry))
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod tool;
mod hook;
mod capability;

pub use self::{
    capability::{ToolExposure, UseToolRegistry},
    hook::OfferActivatedTools,
    tool::{ToolsAction, ToolsArgs, ToolsError, ToolsTool},
};

#[cfg(test)]
mod tests;
