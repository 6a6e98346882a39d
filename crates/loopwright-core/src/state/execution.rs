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

/// Where an execution stands. Each ending carries its cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// Nothing has happened yet.
    #[default]
    Pending,
    /// Steps are being taken, or were when it was interrupted.
    InProgress,
    /// Somebody has to decide about calls of the open step.
    Paused,
    /// The model gave its final answer.
    Completed,
    /// A guard, hook, tool or user stopped it.
    Stopped(StopSignal),
    /// It cannot go on.
    Failed(Failure),
}

impl ExecutionStatus {
    /// Returns `true` if the execution is over.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Stopped(_) | Self::Failed(_))
    }

    /// Returns the status as it is written in events.
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

/// One run of the loop over a state. Its parts that grow are shared between clones; its totals are
/// running sums.
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
    /// What was used when the budget was last renewed.
    #[serde(default, skip_serializing_if = "Baseline::is_zero")]
    pub(crate) renewed: Baseline,
    /// Whether the execution was stopped or failed before there was an answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_unanswered: bool,
    /// Whether nothing on record shows that hooks were called about the newest step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) awaits_hooks: bool,
}

/// What an execution had used when its budget was renewed; the budget counts from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Baseline {
    pub(crate) steps: u32,
    pub(crate) tokens: u64,
    pub(crate) cost: Cost,
    pub(crate) time: Duration,
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
            awaits_hooks: false,
        }
    }

    /// Returns the execution's name.
    pub fn id(&self) -> &ExecutionId {
        &self.id
    }

    /// Returns where the execution stands.
    pub fn status(&self) -> &ExecutionStatus {
        &self.status
    }

    /// Returns the steps that are over, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &Step> + ExactSizeIterator {
        self.steps.iter().map(Arc::as_ref)
    }

    /// Returns the number of steps that are over, failed ones included.
    #[expect(clippy::cast_possible_truncation, reason = "steps are numbered by u32")]
    pub fn step_count(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Returns a step by its position.
    pub fn step_at(&self, index: usize) -> Option<&Step> {
        self.steps.get(index).map(Arc::as_ref)
    }

    /// Returns the newest step that is over.
    pub fn last_step(&self) -> Option<&Step> {
        self.steps.last().map(Arc::as_ref)
    }

    /// Returns the step that has begun and is not over.
    pub fn open_step(&self) -> Option<&OpenStep> {
        self.open.as_ref()
    }

    /// Returns the signals that were raised and not withdrawn, oldest first.
    pub fn signals(&self) -> &[StopSignal] {
        &self.signals
    }

    /// Returns the strongest signal; of equally strong ones the first.
    pub fn strongest_signal(&self) -> Option<&StopSignal> {
        StopSignal::strongest(&self.signals)
    }

    /// Returns who asked for another step since the last decision.
    pub fn continuation_requested_by(&self) -> Option<&str> {
        self.continuation.as_deref()
    }

    /// Returns when the execution began.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Returns when the execution ended.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.ended_at
    }

    /// Returns the time from the beginning to the end, or to now; pauses count.
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.ended_at.unwrap_or(now).since(self.started_at)
    }

    /// Returns the time that was worked on steps, and by hooks between them, as far as it is on record.
    /// Pauses do not count.
    pub fn worked(&self) -> Duration {
        self.active_time
    }

    /// Returns what was consumed, failed inferences and the tools' own included.
    pub fn spent(&self) -> Spend {
        self.spent
    }

    /// Returns what counts against a budget, given the time worked since the last step or pause: what was used
    /// since the execution began, or since its budget was [renewed](crate::Edit::RenewBudget).
    pub fn budget_usage(&self, working: Duration) -> BudgetUsage {
        let renewed = &self.renewed;
        BudgetUsage {
            steps: self.step_count().saturating_sub(renewed.steps),
            tokens: self.spent.usage.total().saturating_sub(renewed.tokens),
            time: (self.active_time + working).saturating_sub(renewed.time),
            cost: self.spent.cost.saturating_sub(renewed.cost),
        }
    }

    /// Returns how many of the newest steps failed without an answer between them.
    pub fn failed_in_a_row(&self) -> u32 {
        self.consecutive_failures
    }
}
