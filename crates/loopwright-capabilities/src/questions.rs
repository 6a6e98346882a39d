//! Questions from the model to the user.
//!
//! `ask_user` asks in the middle of a step. The call waits like a call that needs approval: the run pauses, the question is
//! [pending](loopwright_core::AgentState::pending), and any process can record the answer and resume the run.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::questions::UseQuestions;
//! use loopwright_core::{AgentState, ApprovalDecision};
//! use loopwright_testing::{FakeModel, ScenarioStep, block_on};
//! use serde_json::json;
//!
//! # let ask = json!({ "question": "Which color?", "options": ["red", "blue"] });
//! # let model = FakeModel::script([ScenarioStep::tool_call("ask_user", ask), "Painted.".into()]);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseQuestions::default())
//!     .build()?;
//! let state = block_on(agent.execute(AgentState::new().with_user_message("Paint the door.")));
//! assert_eq!(state.pending()[0].question.text, "Which color?");
//!
//! let path = state.pending()[0].address();
//! let state = agent.decide(&state, &path, ApprovalDecision::Reply(json!("blue")))?;
//! assert_eq!(block_on(agent.execute(state)).text(), "Painted.");
//! # Ok::<_, loopwright_core::BoxError>(())
//! ```

mod capability;
mod tool;
#[cfg(test)]
mod tests;

#[cfg(feature = "permissions")]
pub(crate) use self::tool::NAME;
pub use self::{
    capability::UseQuestions,
    tool::{AskUser, AskUserArgs, OnQuestion},
};
