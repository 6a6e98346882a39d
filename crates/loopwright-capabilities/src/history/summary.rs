//! The summary of an execution.

use std::sync::Arc;

use loopwright_core::{
    AgentState, ExecutionStatus, StopReason, Timestamp,
    messages::{ExecutionId, Usage},
};
use serde::{Deserialize, Serialize};

/// The summary of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSummary {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The number of the execution in the session, counted from one.
    pub execution_number: u32,
    /// The status: `completed`, `stopped` or `failed`.
    pub status: Arc<str>,
    /// The number of steps, including failed ones.
    pub step_count: u32,
    /// The number of tokens.
    pub usage: Usage,
    /// The seconds from start to end.
    pub duration: f64,
    /// The start time.
    pub started_at: Timestamp,
    /// The end time.
    pub completed_at: Timestamp,
    /// The reason for the stop, if it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The message of the stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_message: Option<String>,
    /// Errors during the execution, which may nevertheless complete.
    pub error_count: usize,
}

impl ExecutionSummary {
    /// Sums up the execution of a state that is about to end so.
    pub(super) fn of(state: &AgentState, ending: &ExecutionStatus, now: Timestamp) -> Option<Self> {
        let execution = state.execution()?;
        let signal = match ending {
            ExecutionStatus::Stopped(signal) => Some(signal),
            _ => None,
        };
        Some(Self {
            execution_id: execution.id().clone(),
            execution_number: state.execution_count(),
            status: ending.as_str().into(),
            step_count: execution.step_count(),
            usage: state.usage(),
            duration: execution.duration(now).as_secs_f64(),
            started_at: execution.started_at(),
            completed_at: now,
            stop_reason: signal.map(|it| it.reason),
            stop_message: signal.map(|it| it.message.clone()),
            error_count: state.errors().count(),
        })
    }
}
