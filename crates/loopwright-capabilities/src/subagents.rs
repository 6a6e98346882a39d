//! Sub-agents, to which an agent delegates work.
//!
//! With `spawn_subagent`, the model selects an agent from the definitions and gives it a task. The
//! sub-agent works in its own conversation, and only its answer is returned.
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
//! [`child`](crate::child) describes how a sub-agent is bound to its parent.

mod background;
mod capability;
mod policy;
mod queue;
mod research;
mod spawn;
#[cfg(test)]
mod tests;

pub use self::{
    background::{BackgroundError, SubagentRead, SubagentReadArgs, SubagentStop, SubagentStopArgs},
    capability::UseSubagents,
    policy::SubagentPolicy,
    research::{ResearchArgs, ResearchSubagent},
    spawn::{SpawnError, SpawnSubagent},
};
