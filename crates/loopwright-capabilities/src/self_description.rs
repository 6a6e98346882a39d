//! Self-description: the composition of the agent and the location of its documentation.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::self_description::UseSelfDescription;
//! # use loopwright_testing::FakeModel;
//! # let model = FakeModel::default();
//!
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseSelfDescription)
//!     .build()?;
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod tool;
mod knowledge;
mod capability;

pub use self::{
    capability::UseSelfDescription,
    knowledge::{ReadToolRequirement, UseSelfKnowledge},
    tool::{DescribeSelf, DescribeSelfArgs, Section},
};

#[cfg(test)]
mod tests;
