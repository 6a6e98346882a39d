//! What a tool needs that lets another agent work.

use std::{sync::Arc, time::Duration};

use crate::{
    budget::Spend,
    clock::RunEnv,
    event::{SubagentCompleted, SubagentSpawning},
    state::AgentState,
    tool::ToolCx,
};

/// Sub-agents.
impl ToolCx<'_> {
    /// Adds to what the call consumed. This is for sub-agents, which charge the account themselves:
    /// it is what the state of this agent, and so whoever goes on with it, knows of their spending.
    pub fn add_spend(&self, spend: Spend) {
        self.inference.add_spend(spend);
    }

    /// Returns surroundings for the sub-agent of this call: the same time, and ids that no other
    /// sub-agent has. The same call gets the same ones.
    pub fn child_env(&self) -> RunEnv {
        self.env.child(&self.key.to_string())
    }

    /// Tells that a sub-agent is about to begin: its name, the beginning of what it is asked, how deep
    /// it is and how deep it may be.
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

    /// Tells that a sub-agent is done, and how it ended.
    pub fn emit_subagent_completed(
        &self,
        subagent: &Arc<str>,
        state: &AgentState,
        duration: Duration,
    ) {
        self.events.emit(|| SubagentCompleted {
            subagent: Arc::clone(subagent),
            subagent_id: state.id().cloned(),
            status: state.status().as_str().into(),
            steps: state.step_count(),
            usage: state.usage(),
            duration,
        });
    }
}
