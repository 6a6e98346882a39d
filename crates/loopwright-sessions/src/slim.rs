//! A compact form of a state, for user interfaces and caches.

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

/// A compact form of a state.
///
/// It is for display and caches, not for resuming: omitted data is lost. A session keeps
/// everything. Values whose names suggest secrets are redacted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimState {
    /// The agent.
    pub agent_id: Option<AgentId>,
    /// The agent that it works for.
    pub parent_agent_id: Option<AgentId>,
    /// The status of the execution.
    pub status: String,
    /// The number of steps, including omitted ones.
    pub step_count: u32,
    /// The usage.
    pub usage: Usage,
    /// The times of the execution.
    pub execution: SlimExecution,
    /// The end of the conversation; a call and its results are kept together.
    pub messages: Vec<SlimMessage>,
    /// The latest steps.
    pub steps: Vec<SlimStep>,
    /// The decision after the last step.
    pub last_continuation: Option<SlimContinuation>,
    /// The metadata that models and users write.
    pub metadata: Map<String, Value>,
}

/// The times of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimExecution {
    /// The start time.
    pub started_at: Option<Timestamp>,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
    /// The active time of all executions.
    pub cumulative_seconds: f64,
}

/// A compact form of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlimStep {
    /// The number among the kept steps, counted from one.
    pub step_number: u32,
    /// The kind of the step.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// Whether the model called tools.
    pub has_tool_calls: bool,
    /// The reason why the model stopped.
    pub finish_reason: Option<String>,
    /// The number of errors.
    pub errors: usize,
    /// The usage.
    pub usage: SlimUsage,
    /// The calls of the model.
    pub tool_calls: Vec<SlimCall>,
}

/// The usage of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlimUsage {
    /// Tokens, each counted once.
    pub total: u64,
}

/// The decision about another step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlimContinuation {
    /// Whether another step is taken.
    pub should_continue: bool,
    /// The reason for stopping.
    pub stop_reason: Option<StopReason>,
    /// The criterion that decided.
    pub resolved_by: String,
}

impl SlimState {
    /// Converts a state to its compact form.
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
