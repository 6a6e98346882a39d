//! Review of final answers before they are given.
//!
//! When the agent is about to end with an answer, a critic compares the answer with the task and
//! the tool results. A rejected answer goes back to the agent with the problems; after a limited
//! number of reviews, the run is stopped.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::critique::{UseSelfCritique, CRITIC_VERDICT};
//! use loopwright_core::AgentState;
//! use loopwright_testing::{FakeModel, block_on};
//!
//! let model = FakeModel::script(["Paris."]);
//! let critic = FakeModel::script([r#"{ "approved": true, "summary": "It is right." }"#]);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseSelfCritique::with_model(critic))
//!     .build()?;
//! let state = block_on(agent.execute(AgentState::new().with_user_message("Capital of France?")));
//! assert_eq!(state.text(), "Paris.");
//! assert_eq!(state.get(&CRITIC_VERDICT).map(|it| it.approved), Some(true));
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```

mod capability;
mod evidence;
mod hook;
mod policy;
mod prompt;
mod tool;
mod verdict;
#[cfg(test)]
mod tests;

pub(crate) use self::prompt::is_feedback;
pub use self::{
    capability::UseSelfCritique,
    policy::{CritiquePolicy, OnCriticFailure},
    tool::{SelfCritic, SelfCriticArgs},
    verdict::{CRITIC_VERDICT, CriticVerdict, ITERATIONS},
};
