//! Limits.

use std::time::Duration;

use loopwright_core::{
    Budget, HookStack, Priority, Timestamp,
    messages::{Cost, FinishReason},
};

use crate::{
    capabilities::capability,
    guards::{
        CostLimit, CumulativeTimeLimit, Deadline, FinishReasons, StepsLimit, TimeLimit, TokenLimit,
    },
};

/// Ends runs at limits: 20 steps, 32,768 tokens and 300 seconds by default.
///
/// Guards look between steps; the budget of a state also bounds a step that is under way.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct UseGuards {
    steps: Option<u32>,
    tokens: Option<u64>,
    time: Option<Duration>,
    cumulative: Option<Duration>,
    cost: Option<Cost>,
    deadline: Option<Timestamp>,
    finish_reasons: Vec<FinishReason>,
}

impl Default for UseGuards {
    fn default() -> Self {
        Self {
            steps: Some(20),
            tokens: Some(32_768),
            time: Some(Duration::from_mins(5)),
            ..Self::none()
        }
    }
}

impl UseGuards {
    /// Sets no limit.
    pub fn none() -> Self {
        Self {
            steps: None,
            tokens: None,
            time: None,
            cumulative: None,
            cost: None,
            deadline: None,
            finish_reasons: Vec::new(),
        }
    }

    /// Takes the limits of a budget and no others.
    pub fn of_budget(budget: &Budget) -> Self {
        Self {
            steps: budget.steps,
            tokens: budget.tokens,
            time: budget.time,
            cost: budget.cost,
            deadline: budget.deadline,
            ..Self::none()
        }
    }

    /// Sets or lifts the limit of steps.
    pub fn max_steps(mut self, steps: impl Into<Option<u32>>) -> Self {
        self.steps = steps.into();
        self
    }

    /// Sets or lifts the limit of tokens.
    pub fn max_tokens(mut self, tokens: impl Into<Option<u64>>) -> Self {
        self.tokens = tokens.into();
        self
    }

    /// Sets or lifts the limit of time that an execution is worked on, in seconds. Time in which it waits
    /// for a person does not count.
    ///
    /// # Panics
    ///
    /// If the number is negative or not a number.
    pub fn max_seconds(mut self, seconds: impl Into<Option<f64>>) -> Self {
        self.time = seconds.into().map(Duration::from_secs_f64);
        self
    }

    /// Sets or lifts the limit of time that steps are worked on, in seconds, over all executions of a
    /// state; pauses do not count.
    ///
    /// # Panics
    ///
    /// If the number is negative or not a number.
    pub fn cumulative_seconds(mut self, seconds: impl Into<Option<f64>>) -> Self {
        self.cumulative = seconds.into().map(Duration::from_secs_f64);
        self
    }

    /// Sets or lifts the limit of money.
    pub fn max_cost(mut self, cost: impl Into<Option<Cost>>) -> Self {
        self.cost = cost.into();
        self
    }

    /// Sets or lifts the moment after which no step begins.
    pub fn deadline(mut self, deadline: impl Into<Option<Timestamp>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Ends runs when the model stops writing for one of these reasons.
    pub fn finish_reasons(mut self, reasons: impl IntoIterator<Item = FinishReason>) -> Self {
        self.finish_reasons = reasons.into_iter().collect();
        self
    }

    fn install(&self, hooks: &mut HookStack) {
        let at = Priority::GUARD;
        if let Some(max) = self.steps {
            hooks.add_at(at, StepsLimit(max));
        }
        if let Some(max) = self.tokens {
            hooks.add_at(at, TokenLimit(max));
        }
        if let Some(max) = self.time {
            hooks.add_at(at, TimeLimit(max));
        }
        if let Some(max) = self.cumulative {
            hooks.add_at(at, CumulativeTimeLimit(max));
        }
        if let Some(max) = self.cost {
            hooks.add_at(at, CostLimit(max));
        }
        if let Some(deadline) = self.deadline {
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
