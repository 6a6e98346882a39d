//! A state in few words, for user interfaces and caches.

mod config;
mod messages;
mod restore;

use loopwright_broadcast::Redactor;
use loopwright_core::{
    AgentState, Execution, Step, StepKind, StopReason, Timestamp,
    messages::{AgentId, Message, Usage},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::{
    config::SlimSerializationConfig,
    messages::{SlimCall, SlimMessage, SlimMetadata},
    restore::SlimError,
};

/// A state in few words.
///
/// It is made for showing and for caches, not for going on: what it leaves out is lost. A session keeps
/// everything. Values whose names speak of secrets are blackened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimState {
    /// The agent.
    pub agent_id: Option<AgentId>,
    /// The agent that it works for.
    pub parent_agent_id: Option<AgentId>,
    /// Where the execution stands.
    pub status: String,
    /// How many steps it has taken, those that are left out included.
    pub step_count: u32,
    /// What it consumed.
    pub usage: Usage,
    /// When it ran.
    pub execution: SlimExecution,
    /// The end of the conversation, a call and its results always together.
    pub messages: Vec<SlimMessage>,
    /// The last steps.
    pub steps: Vec<SlimStep>,
    /// What was decided after the last step.
    pub last_continuation: Option<SlimContinuation>,
    /// What models and users keep.
    pub metadata: Map<String, Value>,
}

/// When an execution ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimExecution {
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When the state changed last.
    pub updated_at: Option<Timestamp>,
    /// How long was worked, over all executions.
    pub cumulative_seconds: f64,
}

/// A step in few words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimStep {
    /// Counted from one among those that are kept.
    pub step_number: u32,
    /// What it amounts to.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// Whether the model asked for tools.
    pub has_tool_calls: bool,
    /// Why the model stopped writing.
    pub finish_reason: Option<String>,
    /// How much went wrong.
    pub errors: usize,
    /// What it consumed.
    pub usage: SlimUsage,
    /// What the model asked for.
    pub tool_calls: Vec<SlimCall>,
}

/// What a step consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlimUsage {
    /// Tokens, each counted once.
    pub total: u64,
}

/// What was decided about another step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlimContinuation {
    /// Whether another one is taken.
    pub should_continue: bool,
    /// Why not.
    pub stop_reason: Option<StopReason>,
    /// Who decided.
    pub resolved_by: String,
}

impl SlimState {
    /// Says in few words what a state is.
    pub fn from_state(state: &AgentState, config: &SlimSerializationConfig) -> Self {
        let execution = state.execution();
        let metadata = state.metadata().iter();
        let metadata = metadata
            .map(|(name, value)| (name.to_owned(), Redactor::default().value(name, value.clone())));
        Self {
            agent_id: state.id().cloned(),
            parent_agent_id: state.parent().cloned(),
            status: state.status().as_str().to_owned(),
            step_count: state.step_count(),
            usage: state.usage(),
            execution: SlimExecution {
                started_at: execution.map(Execution::started_at),
                updated_at: state.updated_at(),
                cumulative_seconds: state.cumulative_time().as_secs_f64(),
            },
            messages: messages::of(state.transcript(), config),
            steps: steps(state, config),
            last_continuation: execution
                .filter(|it| config.include_continuation_trace && it.step_count() > 0)
                .map(Execution::continuation)
                .map(|it| SlimContinuation {
                    should_continue: it.should_continue,
                    stop_reason: it.stop_reason,
                    resolved_by: it.resolved_by.to_string(),
                }),
            metadata: metadata.collect(),
        }
    }
}

fn steps(state: &AgentState, config: &SlimSerializationConfig) -> Vec<SlimStep> {
    let most = if config.include_steps { config.max_steps } else { 0 };
    let mut kept: Vec<&Step> = state.steps().rev().take(most).collect();
    kept.reverse();
    (1..).zip(kept).map(|(number, step)| slim_step(number, step)).collect()
}

fn slim_step(step_number: u32, step: &Step) -> SlimStep {
    let calls = step.message().into_iter().flat_map(Message::tool_calls);
    SlimStep {
        step_number,
        kind: step.kind(),
        has_tool_calls: step.has_tool_calls(),
        finish_reason: step.finish_reason().map(|it| it.as_str().to_owned()),
        errors: step.errors().count(),
        usage: SlimUsage { total: step.usage().total() },
        tool_calls: calls.map(SlimCall::without_arguments).collect(),
    }
}

#[cfg(test)]
mod tests;
