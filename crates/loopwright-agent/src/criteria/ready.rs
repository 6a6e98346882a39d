//! Ready-made criteria. Limits forbid and never request; the others never forbid.

use std::{borrow::Cow, fmt, time::Duration};

use loopwright_core::{
    AgentState, ContinuationDecision, Execution, StopReason, Timestamp, messages::FinishReason,
};

use crate::{
    criteria::{ContinuationCriterion, Opinion},
    error_policy::ErrorPolicy,
    guards::used,
};

/// A closure with a name.
pub struct Closure<F> {
    name: Cow<'static, str>,
    decide: F,
}

impl<F: Fn(&AgentState, Timestamp) -> Opinion + Send + Sync> Closure<F> {
    /// Makes a criterion of a closure that sees the state and the time.
    pub fn new(name: impl Into<Cow<'static, str>>, decide: F) -> Self {
        Self { name: name.into(), decide }
    }
}

impl<F: Fn(&AgentState, Timestamp) -> Opinion + Send + Sync> ContinuationCriterion for Closure<F> {
    fn name(&self) -> Cow<'static, str> {
        self.name.clone()
    }

    fn evaluate(&self, state: &AgentState, now: Timestamp) -> Opinion {
        (self.decide)(state, now)
    }
}

impl<F> fmt::Debug for Closure<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Closure").field(&self.name).finish()
    }
}

/// Forbids when something that is used has reached what is allowed.
fn limit<T: PartialOrd + fmt::Debug + Copy + Send + Sync + 'static>(
    name: &'static str,
    reason: StopReason,
    max: T,
    used: impl Fn(&AgentState, Timestamp) -> T + Send + Sync + 'static,
) -> impl ContinuationCriterion {
    Closure::new(name, move |state: &AgentState, now| {
        let used = used(state, now);
        let text = format!("{used:?} of {max:?} are used");
        if used >= max { Opinion::forbid(reason, text) } else { Opinion::allow(text) }
    })
}

/// Forbids after so many steps.
pub fn steps_limit(max: u32) -> impl ContinuationCriterion {
    limit("steps_limit", StopReason::StepsLimitReached, max, |state, _| used(state).steps)
}

/// Forbids after so many tokens.
pub fn token_usage_limit(max: u64) -> impl ContinuationCriterion {
    limit("token_usage_limit", StopReason::TokenLimitReached, max, |state, _| used(state).tokens)
}

/// Forbids when the execution was worked on for so long. Time in which it waits for a person does not count.
pub fn execution_time_limit(max: Duration) -> impl ContinuationCriterion {
    limit("execution_time_limit", StopReason::TimeLimitReached, max, |state, _| used(state).time)
}

/// Forbids when the steps of all executions were worked on for so long.
pub fn cumulative_execution_time_limit(max: Duration) -> impl ContinuationCriterion {
    limit("cumulative_execution_time_limit", StopReason::TimeLimitReached, max, |state, _| {
        state.cumulative_time()
    })
}

/// Forbids after so many failed steps in a row.
pub fn retry_limit(max: u32) -> impl ContinuationCriterion {
    limit("retry_limit", StopReason::RetryLimitReached, max, |state, _| {
        state.execution().map_or(0, Execution::failed_in_a_row)
    })
}

/// Forbids when an error policy does not go on.
pub fn error_policy(policy: ErrorPolicy) -> impl ContinuationCriterion {
    Closure::new("error_policy", move |state: &AgentState, _| match policy.verdict(state) {
        Some(signal) => Opinion::forbid(signal.reason, signal.message),
        None => Opinion::allow("the error policy has nothing against it"),
    })
}

/// Forbids when anything went wrong in the newest step.
pub fn error_presence() -> impl ContinuationCriterion {
    Closure::new("error_presence", |state: &AgentState, _| {
        if state.last_step().is_some_and(loopwright_core::Step::has_errors) {
            Opinion::forbid(StopReason::ErrorForbade, "the last step has errors")
        } else {
            Opinion::allow("the last step has no errors")
        }
    })
}

/// Forbids when the model stopped writing for one of these reasons.
pub fn finish_reason(
    reasons: impl IntoIterator<Item = FinishReason>,
) -> impl ContinuationCriterion {
    let reasons: Vec<FinishReason> = reasons.into_iter().collect();
    Closure::new("finish_reason", move |state: &AgentState, _| {
        let finish = state.last_step().and_then(|step| step.finish_reason());
        match finish.filter(|it| reasons.contains(it)) {
            Some(finish) => {
                let text = format!("the model stopped with `{}`", finish.as_str());
                Opinion::forbid(StopReason::FinishReasonReceived, text)
            }
            None => Opinion::allow("the model did not stop for such a reason"),
        }
    })
}

/// Requests another step until the model's words pass a test.
pub fn response_content(
    is_enough: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> impl ContinuationCriterion {
    Closure::new("response_content", move |state: &AgentState, _| {
        match state.current_response().map(loopwright_core::messages::Message::text) {
            None => Opinion::allow("there is no answer yet"),
            Some(text) if is_enough(&text) => Opinion::stop("the answer is enough"),
            Some(_) => Opinion::request("the answer is not enough"),
        }
    })
}

/// Requests another step when the model asked for tools. The loop has this rule built in.
pub fn tool_call_presence() -> impl ContinuationCriterion {
    Closure::new("tool_call_presence", |state: &AgentState, _| match state.last_step() {
        None => Opinion::request("there has been no step"),
        Some(step) if step.has_tool_calls() => Opinion::request("the model asked for tools"),
        Some(_) => Opinion::stop("the model asked for no tools"),
    })
}

/// Always says the same.
pub fn always(decision: ContinuationDecision) -> impl ContinuationCriterion {
    Closure::new("always", move |_: &AgentState, _| Opinion::new(decision, "it always says so"))
}
