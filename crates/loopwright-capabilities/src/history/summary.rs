//! What an execution came to.

use std::sync::Arc;

use loopwright_core::{
    AgentState, ExecutionStatus, StopReason, Timestamp,
    messages::{ExecutionId, Usage},
};
use serde::{Deserialize, Serialize};

/// What an execution came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSummary {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its number in the session, counted from one.
    pub execution_number: u32,
    /// How it ended: `completed`, `stopped` or `failed`.
    pub status: Arc<str>,
    /// Steps that it took, failed ones included.
    pub step_count: u32,
    /// Tokens that it used.
    pub usage: Usage,
    /// Seconds from its beginning to its end.
    pub duration: f64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// Why it was stopped, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_message: Option<String>,
    /// What went wrong on the way; an execution may complete in spite of it.
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
