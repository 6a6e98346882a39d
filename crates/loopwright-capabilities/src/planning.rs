//! A plan that a sub-agent makes before the work starts.
//!
//! `plan_with_subagent` passes a specification to a sub-agent, which investigates and returns a
//! plan. The instructions tell the agent to start complex work with it.
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
//! Only the planner's instructions keep it from doing the work. To enforce it, give the planner
//! read-only tools with [`UsePlanningSubagent::with_planner_tools`].

mod capability;
mod prompt;
mod tool;
#[cfg(test)]
mod tests;

pub use self::{
    capability::UsePlanningSubagent,
    tool::{PlanArgs, PlanWithSubagent},
};
