//! Limits.

use std::time::Duration;

use loopwright_core::{Budget, HookStack, Priority, messages::FinishReason};

use crate::{
    capabilities::capability,
    guards::{
        CostLimit, CumulativeTimeLimit, Deadline, FinishReasons, StepsLimit, TimeLimit, TokenLimit,
    },
};

/// Ends runs at limits: 20 steps, 32,768 tokens and 300 seconds by default.
///
/// The limits are a [`Budget`]. Guards check it between steps, for each state that the agent runs.
/// The budget of a state also limits a step in progress.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_agent::UseGuards;
/// use loopwright_core::Budget;
///
/// let guards = UseGuards::new(Budget::standard().with_steps(10));
/// let guards = guards.with_cumulative_time(Duration::from_hours(1));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct UseGuards {
    limits: Budget,
    cumulative: Option<Duration>,
    finish_reasons: Vec<FinishReason>,
}

impl Default for UseGuards {
    fn default() -> Self {
        let limits = Budget::unlimited().with_steps(20).with_tokens(32_768);
        Self::new(limits.with_time(Duration::from_mins(5)))
    }
}

impl UseGuards {
    /// Sets these limits and no others.
    pub fn new(limits: Budget) -> Self {
        Self { limits, cumulative: None, finish_reasons: Vec::new() }
    }

    /// Creates guards without limits.
    pub fn none() -> Self {
        Self::new(Budget::unlimited())
    }

    /// Sets the limit of active time over all executions of a state. Pauses do not count.
    pub fn with_cumulative_time(mut self, time: Duration) -> Self {
        self.cumulative = Some(time);
        self
    }

    /// Ends runs when the model stops writing for one of these reasons.
    pub fn with_finish_reasons(mut self, reasons: impl IntoIterator<Item = FinishReason>) -> Self {
        self.finish_reasons = reasons.into_iter().collect();
        self
    }

    fn install(&self, hooks: &mut HookStack) {
        let at = Priority::GUARD;
        if let Some(max) = self.limits.steps {
            hooks.add_at(at, StepsLimit(max));
        }
        if let Some(max) = self.limits.tokens {
            hooks.add_at(at, TokenLimit(max));
        }
        if let Some(max) = self.limits.time {
            hooks.add_at(at, TimeLimit(max));
        }
        if let Some(max) = self.cumulative {
            hooks.add_at(at, CumulativeTimeLimit(max));
        }
        if let Some(max) = self.limits.cost {
            hooks.add_at(at, CostLimit(max));
        }
        if let Some(deadline) = self.limits.deadline {
            hooks.add_at(at, Deadline(deadline));
        }
        if !self.finish_reasons.is_empty() {
            hooks.add_at(Priority::FINISH, FinishReasons(self.finish_reasons.clone()));
        }
    }
}

capability!(UseGuards, "use_guards", |it, agent| {
    it.install(&mut agent.hooks);
});
