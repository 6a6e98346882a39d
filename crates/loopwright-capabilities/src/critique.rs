//! Final answers that are judged before they are given.
//!
//! When the agent wants to end with an answer, a critic compares it with the task and with what tools
//! said. An answer that is not accepted goes back to the agent with what is wrong with it; after so many
//! judgements the run is stopped.
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
