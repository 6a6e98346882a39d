//! Rewinding to an earlier point of the conversation, with guidance.
//!
//! There is a checkpoint before each step. If the model realizes that its approach fails, it calls
//! `execution_retrospective` with the number of a checkpoint and guidance on what to do instead.
//! Later turns are removed from the conversation, and the guidance stays. Steps, usage and limits
//! do not change: the abandoned steps still count, and their file changes remain.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::retrospective::{Checkpoints, UseExecutionRetrospective};
//! use loopwright_core::AgentState;
//! use loopwright_testing::{FakeModel, ScenarioStep, block_on};
//! use serde_json::json;
//!
//! let back = json!({ "checkpoint_id": 0, "guidance": "Ask for the date first." });
//! let model = FakeModel::script([
//!     ScenarioStep::tool_call("execution_retrospective", back),
//!     "What is the date?".into(),
//! ]);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseExecutionRetrospective::default())
//!     .build()?;
//! let state = block_on(agent.execute(AgentState::new().with_user_message("Plan my week.")));
//! assert_eq!(Checkpoints::of(&state), Checkpoints { taken: 1, rewinds: 1 });
//! assert_eq!(state.step_count(), 2);
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod capability;
mod checkpoint;
mod compiler;
mod hook;
mod policy;
mod prompt;
mod tool;
#[cfg(test)]
mod tests;

pub(crate) use self::prompt::is_guidance;
pub use self::{
    capability::UseExecutionRetrospective,
    checkpoint::{Checkpoints, RewindRequest},
    policy::RetrospectivePolicy,
    tool::RewindError,
};
