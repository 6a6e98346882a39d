//! Support for tools that run another agent.

use std::{sync::Arc, time::Duration};

use crate::{
    budget::Spend,
    clock::RunEnv,
    event::{SubagentCompleted, SubagentSpawning},
    state::AgentState,
    tool::ToolCx,
};

/// An agent that a call starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedAgent {
    /// The name of its definition, or the name of its kind.
    pub name: Arc<str>,
    /// The skills that are part of its instructions from the start.
    pub skills: Vec<Arc<str>>,
}

impl StartedAgent {
    /// Creates the value for an agent without skills.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), skills: Vec::new() }
    }

    /// Adds skills that are part of its instructions from the start.
    #[must_use]
    pub fn with_skills<T: Into<Arc<str>>>(mut self, skills: impl IntoIterator<Item = T>) -> Self {
        self.skills.extend(skills.into_iter().map(Into::into));
        self
    }
}

/// Sub-agents.
impl ToolCx<'_> {
    /// Adds to the spend of the call. For sub-agents that charge the account themselves: the state
    /// of this agent, and so any later run of it, knows their spending only from here.
    pub fn add_spend(&self, spend: Spend) {
        self.inference.add_spend(spend);
    }

    /// Returns the environment for the sub-agent of this call: the same clock, and IDs that no
    /// other sub-agent has. The same call always gets the same IDs.
    pub fn child_env(&self) -> RunEnv {
        self.env.child(&self.key.to_string())
    }

    /// Reports that a sub-agent is about to start: its name, the beginning of its prompt, its depth
    /// and the maximum depth.
    pub fn emit_subagent_started(
        &self,
        subagent: &Arc<str>,
        prompt: String,
        depth: u32,
        max_depth: u32,
    ) {
        let subagent = Arc::clone(subagent);
        self.events.emit(|| SubagentSpawning { subagent, prompt, depth, max_depth });
    }

    /// Reports that a sub-agent ended, with its status.
    pub fn emit_subagent_completed(
        &self,
        subagent: &Arc<str>,
        state: &AgentState,
        duration: Duration,
    ) {
        self.events.emit(|| SubagentCompleted::from_state(subagent, state, duration));
    }
}

impl SubagentCompleted {
    /// Creates the event from the last state of a sub-agent.
    pub fn from_state(subagent: &Arc<str>, state: &AgentState, duration: Duration) -> Self {
        Self {
            subagent: Arc::clone(subagent),
            subagent_id: state.id().cloned(),
            status: state.status().as_str().into(),
            steps: state.step_count(),
            usage: state.usage(),
            duration,
        }
    }
}
