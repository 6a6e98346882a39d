//! Built-in criteria. Limits can only forbid another step; the other criteria never forbid one.

use std::{borrow::Cow, fmt, time::Duration};

use loopwright_core::{
    AgentState, ContinuationDecision, Execution, StopReason, Timestamp, messages::FinishReason,
};

use crate::{
    criteria::{ContinuationCriterion, CriterionResult},
    error_policy::ErrorPolicy,
    guards::used,
};

/// A closure with a name.
pub struct FnCriterion<F> {
    name: Cow<'static, str>,
    decide: F,
}

impl<F: Fn(&AgentState, Timestamp) -> CriterionResult + Send + Sync> FnCriterion<F> {
    /// Creates a criterion from a closure over the state and the time.
    pub fn new(name: impl Into<Cow<'static, str>>, decide: F) -> Self {
        Self { name: name.into(), decide }
    }
}

impl<F: Fn(&AgentState, Timestamp) -> CriterionResult + Send + Sync> ContinuationCriterion
    for FnCriterion<F>
{
    fn name(&self) -> Cow<'static, str> {
        self.name.clone()
    }

    fn evaluate(&self, state: &AgentState, now: Timestamp) -> CriterionResult {
        (self.decide)(state, now)
    }
}

impl<F> fmt::Debug for FnCriterion<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FnCriterion").field(&self.name).finish()
    }
}

/// Forbids when the usage has reached the limit.
fn limit<T: PartialOrd + fmt::Debug + Copy + Send + Sync + 'static>(
    name: &'static str,
    reason: StopReason,
    max: T,
    used: impl Fn(&AgentState, Timestamp) -> T + Send + Sync + 'static,
) -> impl ContinuationCriterion {
    FnCriterion::new(name, move |state: &AgentState, now| {
        let used = used(state, now);
        let text = format!("{used:?} of {max:?} used");
        if used >= max {
            CriterionResult::forbid(reason, text)
        } else {
            CriterionResult::allow(text)
        }
    })
}

/// Forbids after `max` steps.
pub fn steps_limit(max: u32) -> impl ContinuationCriterion {
    limit("steps_limit", StopReason::StepsLimitReached, max, |state, _| used(state).steps)
}

/// Forbids after `max` tokens.
pub fn token_usage_limit(max: u64) -> impl ContinuationCriterion {
    limit("token_usage_limit", StopReason::TokenLimitReached, max, |state, _| used(state).tokens)
}

/// Forbids after the active time `max` of the execution. Time in which it waits for a person does
/// not count.
pub fn execution_time_limit(max: Duration) -> impl ContinuationCriterion {
    limit("execution_time_limit", StopReason::TimeLimitReached, max, |state, _| used(state).time)
}

/// Forbids after the active time `max` of the steps of all executions.
pub fn cumulative_execution_time_limit(max: Duration) -> impl ContinuationCriterion {
    limit("cumulative_execution_time_limit", StopReason::TimeLimitReached, max, |state, _| {
        state.cumulative_time()
    })
}

/// Forbids after `max` consecutive failed steps.
pub fn retry_limit(max: u32) -> impl ContinuationCriterion {
    limit("retry_limit", StopReason::RetryLimitReached, max, |state, _| {
        state.execution().map_or(0, Execution::failed_in_a_row)
    })
}

/// Forbids when an error policy does not continue.
pub fn error_policy(policy: ErrorPolicy) -> impl ContinuationCriterion {
    FnCriterion::new("error_policy", move |state: &AgentState, _| match policy.stop_signal(state) {
        Some(signal) => CriterionResult::forbid(signal.reason, signal.message),
        None => CriterionResult::allow("the error policy allows another step"),
    })
}

/// Forbids when the newest step has an error.
pub fn error_presence() -> impl ContinuationCriterion {
    FnCriterion::new("error_presence", |state: &AgentState, _| {
        if state.last_step().is_some_and(loopwright_core::Step::has_errors) {
            CriterionResult::forbid(StopReason::ErrorForbade, "the last step has errors")
        } else {
            CriterionResult::allow("the last step has no errors")
        }
    })
}

/// Forbids when the model stopped writing for one of these reasons.
pub fn finish_reason(
    reasons: impl IntoIterator<Item = FinishReason>,
) -> impl ContinuationCriterion {
    let reasons: Vec<FinishReason> = reasons.into_iter().collect();
    FnCriterion::new("finish_reason", move |state: &AgentState, _| {
        let finish = state.last_step().and_then(|step| step.finish_reason());
        match finish.filter(|it| reasons.contains(it)) {
            Some(finish) => {
                let text = format!("the model stopped with `{}`", finish.as_str());
                CriterionResult::forbid(StopReason::FinishReasonReceived, text)
            }
            None => CriterionResult::allow("the model stopped for another reason"),
        }
    })
}

/// Requests another step until the model's text passes a test.
pub fn response_content(
    is_enough: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> impl ContinuationCriterion {
    FnCriterion::new("response_content", move |state: &AgentState, _| {
        match state.current_response().map(loopwright_core::messages::Message::text) {
            None => CriterionResult::allow("no response yet"),
            Some(text) if is_enough(&text) => CriterionResult::stop("the response passes the test"),
            Some(_) => CriterionResult::request("the response does not pass the test"),
        }
    })
}

/// Requests another step when the model called tools. The loop has this rule built in.
pub fn tool_call_presence() -> impl ContinuationCriterion {
    FnCriterion::new("tool_call_presence", |state: &AgentState, _| match state.last_step() {
        None => CriterionResult::request("no step has run yet"),
        Some(step) if step.has_tool_calls() => CriterionResult::request("the model called tools"),
        Some(_) => CriterionResult::stop("the model called no tools"),
    })
}

/// Always returns the same decision.
pub fn always(decision: ContinuationDecision) -> impl ContinuationCriterion {
    FnCriterion::new("always", move |_: &AgentState, _| {
        CriterionResult::new(decision, "the decision is constant")
    })
}
