//! A plan by a sub-agent before the work begins.
//!
//! `plan_with_subagent` hands a specification to a sub-agent that looks around and answers with a plan.
//! The agent is told to begin complex work with it.
//!
//! ```
//! use loopwright_agent::{AgentBuilder, UseLlmConfig};
//! use loopwright_capabilities::planning::UsePlanningSubagent;
//! use loopwright_core::AgentState;
//! use loopwright_testing::{FakeModel, ScenarioStep, block_on};
//! use serde_json::json;
//!
//! # let ask = json!({ "specification": "Goal: move the house. Context: it is a small one." });
//! # let steps = [ScenarioStep::tool_call("plan_with_subagent", ask), "1. Pack.".into(), "Done.".into()];
//! # let model = FakeModel::script(steps);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UsePlanningSubagent::default())
//!     .build()?;
//! let state = block_on(agent.execute(AgentState::new().with_user_message("Move the house.")));
//! assert_eq!(state.text(), "Done.");
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```
//!
//! That the planner only plans is what it is told, not what it is kept to: give it read-only tools with
//! [`UsePlanningSubagent::planner_tools`] where that matters.

mod capability;
mod prompt;
mod tool;
#[cfg(test)]
mod tests;

pub use self::{
    capability::UsePlanningSubagent,
    tool::{PlanArgs, PlanWithSubagent},
};
