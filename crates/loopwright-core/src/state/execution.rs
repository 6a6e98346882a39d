//! One run of the loop over a state, from the first step to the end.

use std::{sync::Arc, time::Duration};

use imbl::Vector;
use loopwright_messages::{Cost, ExecutionId};
use serde::{Deserialize, Serialize};

use crate::{
    budget::{BudgetUsage, Spend},
    clock::Timestamp,
    failure::Failure,
    key::Metadata,
    step::{OpenStep, Step},
    stop::StopSignal,
};

/// The status of an execution. Each ending has its cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// The execution has not started.
    #[default]
    Pending,
    /// The execution takes steps, or did when it was interrupted.
    InProgress,
    /// Calls of the open step need a decision.
    Paused,
    /// The model gave its final answer.
    Completed,
    /// A guard, hook, tool or user stopped it.
    Stopped(StopSignal),
    /// The execution failed.
    Failed(Failure),
}

impl ExecutionStatus {
    /// Returns `true` if the execution has ended.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Stopped(_) | Self::Failed(_))
    }

    /// Returns the name of the status in events.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Stopped(_) => "stopped",
            Self::Failed(_) => "failed",
        }
    }
}

/// One run of the loop over a state. Clones share the parts that grow; its totals are running sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub(crate) id: ExecutionId,
    pub(crate) status: ExecutionStatus,
    pub(crate) started_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) steps: Vector<Arc<Step>>,
    pub(crate) open: Option<OpenStep>,
    pub(crate) signals: Vec<StopSignal>,
    pub(crate) continuation: Option<Arc<str>>,
    pub(crate) spent: Spend,
    pub(crate) active_time: Duration,
    pub(crate) tool_errors: u32,
    pub(crate) failed_steps: u32,
    /// Failed steps at the end, without an answer between them.
    pub(crate) consecutive_failures: u32,
    pub(crate) values: Metadata,
    /// The usage when the budget was last renewed.
    #[serde(default, skip_serializing_if = "Baseline::is_zero")]
    pub(crate) renewed: Baseline,
    /// Whether the execution stopped or failed before an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_unanswered: bool,
    /// The number of steps before the message that resumed the execution; 0 if none did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) steps_before_message: u32,
    /// Whether no record shows that hooks were called about the newest step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) awaits_hooks: bool,
}

/// The usage of an execution when its budget was renewed; the budget counts from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Baseline {
    pub(crate) steps: u32,
    pub(crate) tokens: u64,
    pub(crate) cost: Cost,
    pub(crate) time: Duration,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Baseline {
    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl Execution {
    pub(crate) fn new(id: ExecutionId, started_at: Timestamp) -> Self {
        Self {
            id,
            status: ExecutionStatus::InProgress,
            started_at,
            ended_at: None,
            steps: Vector::new(),
            open: None,
            signals: Vec::new(),
            continuation: None,
            spent: Spend::default(),
            active_time: Duration::ZERO,
            tool_errors: 0,
            failed_steps: 0,
            consecutive_failures: 0,
            values: Metadata::default(),
            renewed: Baseline::default(),
            is_unanswered: false,
            steps_before_message: 0,
            awaits_hooks: false,
        }
    }

    /// Returns the execution's ID.
    pub fn id(&self) -> &ExecutionId {
        &self.id
    }

    /// Returns the status of the execution.
    pub fn status(&self) -> &ExecutionStatus {
        &self.status
    }

    /// Returns the completed steps, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> + ExactSizeIterator {
        self.steps.iter().map(Arc::as_ref)
    }

    /// Returns the completed steps for the last message of the user, oldest first: all of them, unless a message resumed the
    /// execution after it was stopped or failed.
    pub fn steps_for_message(&self) -> impl DoubleEndedIterator<Item = &Step> + ExactSizeIterator {
        self.steps().skip(self.steps_before_message as usize)
    }

    /// Returns the number of completed steps, including failed ones.
    #[expect(clippy::cast_possible_truncation, reason = "steps are numbered by u32")]
    pub fn step_count(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Returns a step by its position.
    pub fn step_at(&self, index: usize) -> Option<&Step> {
        self.steps.get(index).map(Arc::as_ref)
    }

    /// Returns the newest completed step.
    pub fn last_step(&self) -> Option<&Step> {
        self.steps.last().map(Arc::as_ref)
    }

    /// Returns the open step: started, but not ended.
    pub fn open_step(&self) -> Option<&OpenStep> {
        self.open.as_ref()
    }

    /// Returns the signals that were raised and not withdrawn, oldest first.
    pub fn signals(&self) -> &[StopSignal] {
        &self.signals
    }

    /// Returns the strongest signal; the first of equally strong ones.
    pub fn strongest_signal(&self) -> Option<&StopSignal> {
        StopSignal::strongest(&self.signals)
    }

    /// Returns the source of the request for another step since the last decision.
    pub fn continuation_requested_by(&self) -> Option<&str> {
        self.continuation.as_deref()
    }

    /// Returns when the execution started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Returns when the execution ended.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.ended_at
    }

    /// Returns the time from the start to the end, or to `now`; pauses count.
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.ended_at.unwrap_or(now).since(self.started_at)
    }

    /// Returns the recorded active time of steps, and of hooks between them. Pauses do not count.
    pub fn worked(&self) -> Duration {
        self.active_time
    }

    /// Returns the spend, including failed model calls and those of tools.
    pub fn spent(&self) -> Spend {
        self.spent
    }

    /// Returns the usage that counts against a budget, given the active time since the last step or
    /// pause. It counts from the start of the execution, or from when its budget was
    /// [renewed](crate::Edit::RenewBudget).
    pub fn budget_usage(&self, working: Duration) -> BudgetUsage {
        let renewed = &self.renewed;
        BudgetUsage {
            steps: self.step_count().saturating_sub(renewed.steps),
            tokens: self.spent.usage.total().saturating_sub(renewed.tokens),
            time: (self.active_time + working).saturating_sub(renewed.time),
            cost: self.spent.cost.saturating_sub(renewed.cost),
        }
    }

    /// Returns the number of failed steps at the end, without a response between them.
    pub fn failed_in_a_row(&self) -> u32 {
        self.consecutive_failures
    }
}
