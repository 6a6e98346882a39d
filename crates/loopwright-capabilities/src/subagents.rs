//! Agents that an agent hands work to.
//!
//! `spawn_subagent` lets the model choose one of the agents that there are by definition and say what it
//! is to do. The sub-agent works in a conversation of its own and only its answer comes back.
//!
//! ```
//! use loopwright_agent::{
//!     AgentBuilder, AgentDefinition, DefinitionRegistry, UseLlmConfig,
//! };
//! use loopwright_capabilities::subagents::UseSubagents;
//! use loopwright_core::AgentState;
//! use loopwright_testing::{FakeModel, ScenarioStep, block_on};
//! use serde_json::json;
//!
//! let mut agents = DefinitionRegistry::new();
//! agents.register(AgentDefinition::new("critic", "Finds mistakes.", "You find mistakes."));
//!
//! # let ask = json!({ "subagent": "critic", "prompt": "Is it right?" });
//! # let steps = [ScenarioStep::tool_call("spawn_subagent", ask), "It is.".into(), "Yes.".into()];
//! # let model = FakeModel::script(steps);
//! let agent = AgentBuilder::base()
//!     .with(UseLlmConfig::model(model))
//!     .with(UseSubagents::new(agents))
//!     .build()?;
//! let state = block_on(agent.execute(AgentState::new().with_user_message("Is it right?")));
//! assert_eq!(state.text(), "Yes.");
//! # Ok::<_, loopwright_agent::BuildError>(())
//! ```
//!
//! How a sub-agent is bound to its parent is what [`child`](crate::child) says.

mod capability;
mod policy;
mod queue;
mod research;
mod spawn;
#[cfg(test)]
mod tests;

pub use self::{
    capability::UseSubagents,
    policy::SubagentPolicy,
    research::{ResearchArgs, ResearchSubagent},
    spawn::{SpawnError, SpawnSubagent},
};
