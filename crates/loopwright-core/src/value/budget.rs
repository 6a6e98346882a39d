//! The budget of an execution.

use std::{ops::AddAssign, time::Duration};

use loopwright_messages::{Cost, Usage};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    clock::Timestamp,
    stop::{StopReason, StopSignal},
};

/// The limits of an execution; `None` means no limit.
///
/// The loop enforces the budget of a state in full: before each step, and by reserving before each
/// model call.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_core::{AgentState, Budget, messages::Cost};
///
/// let budget = Budget::unlimited()
///     .with_steps(10)
///     .with_time(Duration::from_secs(60))
///     .with_cost(Cost::from_dollars(0.5));
/// let state = AgentState::new().with_budget(budget);
/// assert_eq!(state.budget().steps, Some(10));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// The limit of steps, including failed ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// The token limit, for input and output, including those of sub-agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The limit of active time, by the monotonic clock. Time in which the execution waits for a
    /// person does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// The cost limit, including that of sub-agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The time after which no step starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// Used tokens and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spend {
    /// Tokens.
    pub usage: Usage,
    /// The cost, as far as prices are known.
    pub cost: Cost,
}

impl Spend {
    /// Returns `true` if no tokens and no money were spent.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Spend {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.cost += other.cost;
    }
}

/// The budget usage of an execution so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BudgetUsage {
    /// Steps.
    pub steps: u32,
    /// Tokens.
    pub tokens: u64,
    /// Active time.
    pub time: Duration,
    /// Cost.
    pub cost: Cost,
}

impl Budget {
    /// Creates a budget without limits.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Returns limits that suit most work: 50 steps, 1,000,000 tokens and 15 minutes.
    ///
    /// ```
    /// use loopwright_core::Budget;
    ///
    /// assert_eq!(Budget::standard().steps, Some(50));
    /// assert_eq!(Budget::standard().with_steps(5).tokens, Some(1_000_000));
    /// ```
    pub const fn standard() -> Self {
        Self {
            steps: Some(50),
            tokens: Some(1_000_000),
            time: Some(Duration::from_mins(15)),
            cost: None,
            deadline: None,
        }
    }

    /// Sets the step limit.
    #[must_use]
    pub const fn with_steps(mut self, steps: u32) -> Self {
        self.steps = Some(steps);
        self
    }

    /// Sets the token limit.
    #[must_use]
    pub const fn with_tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the limit of active time.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Sets the cost limit.
    #[must_use]
    pub const fn with_cost(mut self, cost: Cost) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets the time after which no step starts.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Timestamp) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Returns `true` if no limit is set.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the remaining budget. The deadline does not change.
    ///
    /// ```
    /// use loopwright_core::{Budget, BudgetUsage};
    ///
    /// let used = BudgetUsage { steps: 3, tokens: 400, ..BudgetUsage::default() };
    /// let left = Budget::unlimited().with_steps(10).remaining(used);
    /// assert_eq!(left, Budget::unlimited().with_steps(7));
    /// ```
    #[must_use]
    pub fn remaining(&self, used: BudgetUsage) -> Self {
        Self {
            steps: self.steps.map(|it| it.saturating_sub(used.steps)),
            tokens: self.tokens.map(|it| it.saturating_sub(used.tokens)),
            time: self.time.map(|it| it.saturating_sub(used.time)),
            cost: self.cost.map(|it| it.saturating_sub(used.cost)),
            deadline: self.deadline,
        }
    }

    /// Returns the stricter limit of both budgets, limit by limit.
    ///
    /// ```
    /// use loopwright_core::Budget;
    ///
    /// let parent = Budget::unlimited().with_steps(10);
    /// let child = Budget::unlimited().with_steps(30).with_tokens(1_000);
    /// assert_eq!(child.capped_by(&parent), Budget::unlimited().with_steps(10).with_tokens(1_000));
    /// ```
    #[must_use]
    pub fn capped_by(&self, other: &Self) -> Self {
        Self {
            steps: least(self.steps, other.steps),
            tokens: least(self.tokens, other.tokens),
            time: least(self.time, other.time),
            cost: least(self.cost, other.cost),
            deadline: least(self.deadline, other.deadline),
        }
    }

    /// Returns `true` if a limit of the budget is zero or the deadline has passed.
    pub fn is_exhausted(&self, now: Timestamp) -> bool {
        self.exhausted_by(BudgetUsage::default(), now).is_some()
    }

    /// Returns the strongest signal for a limit that was reached.
    ///
    /// ```
    /// use loopwright_core::{Budget, BudgetUsage, StopReason, Timestamp};
    ///
    /// let used = BudgetUsage { steps: 2, ..BudgetUsage::default() };
    /// let signal = Budget::unlimited().with_steps(2).exhausted_by(used, Timestamp::from_millis(0));
    /// assert_eq!(signal.map(|signal| signal.reason), Some(StopReason::StepsLimitReached));
    /// ```
    pub fn exhausted_by(&self, used: BudgetUsage, now: Timestamp) -> Option<StopSignal> {
        if let Some(max) = self.steps.filter(|max| used.steps >= *max) {
            let signal = signal(
                StopReason::StepsLimitReached,
                format!("the step limit of {max} was reached"),
            );
            return Some(signal.with("current_steps", used.steps).with("max_steps", max));
        }
        if let Some(max) = self.tokens.filter(|max| used.tokens >= *max) {
            let text = format!("{} of {max} tokens used", used.tokens);
            let signal = signal(StopReason::TokenLimitReached, text);
            return Some(signal.with("total_tokens", used.tokens).with("max_tokens", max));
        }
        self.late_by(used, now).or_else(|| self.too_dear(used))
    }

    /// Returns the signal for a reached time limit or a passed deadline.
    pub(crate) fn late_by(&self, used: BudgetUsage, now: Timestamp) -> Option<StopSignal> {
        if let Some(max) = self.time.filter(|max| used.time >= *max) {
            let (elapsed, max) = (used.time.as_secs_f64(), max.as_secs_f64());
            let text = format!("the time limit of {max} seconds was reached");
            let signal = signal(StopReason::TimeLimitReached, text).with("limit", "seconds");
            return Some(signal.with("elapsed_seconds", elapsed).with("max_seconds", max));
        }
        let deadline = self.deadline.filter(|deadline| now >= *deadline)?;
        let signal = signal(
            StopReason::TimeLimitReached,
            format!(
                "the deadline {deadline} has \
            passed"
            ),
        );
        Some(signal.with("limit", "deadline").with("deadline", json!(deadline)))
    }

    fn too_dear(&self, used: BudgetUsage) -> Option<StopSignal> {
        let max = self.cost.filter(|max| used.cost >= *max)?;
        let text = format!("{} of {max} used", used.cost);
        let signal = signal(StopReason::CostLimitReached, text);
        Some(signal.with("cost", used.cost.dollars()).with("max_cost", max.dollars()))
    }
}

fn signal(reason: StopReason, message: String) -> StopSignal {
    StopSignal::new(reason, "budget", message)
}

fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
