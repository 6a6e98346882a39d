//! Hooks that end a run when a limit is reached.
//!
//! Each guard checks before a step starts, so that a limit of N gives exactly N steps. It raises a
//! signal with the usage and the limit.

use std::{borrow::Cow, time::Duration};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, BudgetUsage, Flow, Hook, HookCx, HookPoint, HookPoints, RunEnv,
    StateEdit, StopReason, StopSignal, Timestamp,
    messages::{Cost, FinishReason},
};
use serde_json::json;

macro_rules! before_step_guard {
    ($type:ident, $name:literal, |$self:ident, $state:ident, $env:ident| $signal:expr) => {
        impl $type {
            fn signal(&self, state: &AgentState, env: &RunEnv) -> Option<StopSignal> {
                let ($self, $state, $env) = (self, state, env);
                $signal
            }
        }

        #[async_trait]
        impl Hook for $type {
            fn name(&self) -> Cow<'static, str> {
                $name.into()
            }

            fn points(&self) -> HookPoints {
                HookPoint::BeforeStep.into()
            }

            fn can_skip(&self, _point: HookPoint, state: &AgentState, env: &RunEnv) -> bool {
                self.signal(state, env).is_none()
            }

            async fn before_step(
                &self,
                state: &mut StateEdit<'_>,
                cx: &HookCx<'_>,
            ) -> Result<Flow, BoxError> {
                Ok(self.signal(state, cx.env).map_or(Flow::Continue, Flow::Stop))
            }
        }
    };
}

/// Ends a run after this number of steps, including failed ones.
#[derive(Clone, Copy, Debug)]
pub struct StepsLimit(pub u32);

before_step_guard!(StepsLimit, "guard:steps_limit", |it, state, _env| {
    let (steps, max) = (used(state).steps, it.0);
    (steps >= max).then(|| {
        let text = format!("the step limit of {max} was reached");
        StopSignal::new(StopReason::StepsLimitReached, "guard:steps_limit", text)
            .with("current_steps", steps)
            .with("max_steps", max)
    })
});

/// Ends a run after this number of tokens, input and output.
#[derive(Clone, Copy, Debug)]
pub struct TokenLimit(pub u64);

before_step_guard!(TokenLimit, "guard:token_limit", |it, state, _env| {
    let (tokens, max) = (used(state).tokens, it.0);
    (tokens >= max).then(|| {
        let text = format!("{tokens} of {max} tokens used");
        StopSignal::new(StopReason::TokenLimitReached, "guard:token_limit", text)
            .with("total_tokens", tokens)
            .with("max_tokens", max)
    })
});

/// Ends a run after this active time of its execution. Time in which it waits for a person does not
/// count.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit(pub Duration);

before_step_guard!(TimeLimit, "guard:time_limit", |it, state, _env| {
    let worked = used(state).time;
    (worked >= it.0).then(|| time_signal("guard:time_limit", "seconds", worked, it.0))
});

/// Ends a run after this active time of all executions; pauses do not count.
#[derive(Clone, Copy, Debug)]
pub struct CumulativeTimeLimit(pub Duration);

before_step_guard!(CumulativeTimeLimit, "guard:cumulative_time_limit", |it, state, _env| {
    let worked = state.cumulative_time();
    (worked >= it.0)
        .then(|| time_signal("guard:cumulative_time_limit", "cumulative_seconds", worked, it.0))
});

/// Ends a run at this time.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(pub Timestamp);

before_step_guard!(Deadline, "guard:deadline", |it, _state, env| {
    (env.clock.now() >= it.0).then(|| {
        let text = format!("the deadline {} has passed", it.0);
        StopSignal::new(StopReason::TimeLimitReached, "guard:deadline", text)
            .with("limit", "deadline")
            .with("deadline", json!(it.0))
    })
});

/// Ends a run at this cost, as far as prices are known.
#[derive(Clone, Copy, Debug)]
pub struct CostLimit(pub Cost);

before_step_guard!(CostLimit, "guard:cost_limit", |it, state, _env| {
    let (cost, max) = (used(state).cost, it.0);
    (cost >= max).then(|| {
        let text = format!("{cost} of {max} used");
        StopSignal::new(StopReason::CostLimitReached, "guard:cost_limit", text)
            .with("cost", cost.dollars())
            .with("max_cost", max.dollars())
    })
});

/// Returns the usage that counts against the limits of an execution.
pub(crate) fn used(state: &AgentState) -> BudgetUsage {
    state.execution().map(|it| it.budget_usage(Duration::ZERO)).unwrap_or_default()
}

fn time_signal(source: &str, limit: &'static str, used: Duration, max: Duration) -> StopSignal {
    let (elapsed, max) = (used.as_secs_f64(), max.as_secs_f64());
    StopSignal::new(
        StopReason::TimeLimitReached,
        source,
        format!(
            "the time limit of {max} \
        seconds was reached"
        ),
    )
    .with("limit", limit)
    .with("elapsed_seconds", elapsed)
    .with("max_seconds", max)
}

/// Ends a run when the model stops writing for one of these reasons.
#[derive(Clone, Debug)]
pub struct FinishReasons(pub Vec<FinishReason>);

impl FinishReasons {
    /// Returns the finish reason of the model if it is one of these.
    fn met<'a>(&self, state: &'a AgentState) -> Option<&'a FinishReason> {
        state.last_step()?.finish_reason().filter(|it| self.0.contains(it))
    }
}

#[async_trait]
impl Hook for FinishReasons {
    fn name(&self) -> Cow<'static, str> {
        "guard:finish_reason".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::AfterStep.into()
    }

    fn can_skip(&self, _point: HookPoint, state: &AgentState, _env: &RunEnv) -> bool {
        self.met(state).is_none()
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let Some(finish) = self.met(state) else { return Ok(Flow::Continue) };
        let reasons: Vec<&str> = self.0.iter().map(FinishReason::as_str).collect();
        let text = format!("the model stopped with `{}`", finish.as_str());
        let signal = StopSignal::new(StopReason::FinishReasonReceived, "guard:finish_reason", text);
        let signal = signal.with("finish_reason", finish.as_str()).with("stop_reasons", reasons);
        Ok(Flow::Stop(signal))
    }
}
