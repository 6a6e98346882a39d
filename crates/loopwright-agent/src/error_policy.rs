//! The policy for errors.

use std::borrow::Cow;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, ErrorDecision, Failure, FailureKind, Flow, Hook, HookCx, HookPoint,
    HookPoints, RunEnv, StateEdit, Step, StopReason, StopSignal, ToolOutcome,
};
use serde::{Deserialize, Serialize};

/// The action for each class of errors, and the limit of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorPolicy {
    /// Tools that failed, were blocked or did not run.
    pub tool: ErrorAction,
    /// Models that did not respond.
    pub model: ErrorAction,
    /// Arguments and answers that do not have the required form.
    pub validation: ErrorAction,
    /// Rate limits of providers.
    pub rate_limit: ErrorAction,
    /// Timeouts.
    pub timeout: ErrorAction,
    /// All other errors.
    pub unknown: ErrorAction,
    /// The number of consecutive failed steps that ends the run if the action is
    /// [`ErrorAction::Retry`].
    pub max_retries: u32,
}

/// The action for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorAction {
    /// The run ends.
    Stop,
    /// Another step is taken, unless too many consecutive steps have failed.
    Retry,
    /// No action: the model handles a tool's error, and a step without a response fails the run.
    Ignore,
}

/// A class of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// A tool failed, was blocked or did not run.
    Tool,
    /// A model did not respond.
    Model,
    /// Arguments or an answer do not have the required form.
    Validation,
    /// A provider limits the rate of requests.
    RateLimit,
    /// An operation exceeded its timeout.
    Timeout,
    /// Any other error.
    Unknown,
}

impl From<FailureKind> for ErrorClass {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Model
            | FailureKind::ContextLength
            | FailureKind::Network
            | FailureKind::NoModel => Self::Model,
            FailureKind::RateLimit => Self::RateLimit,
            FailureKind::Timeout => Self::Timeout,
            FailureKind::Tool | FailureKind::UnknownTool => Self::Tool,
            FailureKind::InvalidArguments | FailureKind::Validation => Self::Validation,
            _ => Self::Unknown,
        }
    }
}

impl Default for ErrorPolicy {
    /// Returns a policy that leaves tool errors to the model, as the loop does without any policy.
    fn default() -> Self {
        Self::ignore_tool_errors()
    }
}

impl ErrorPolicy {
    /// Ends the run at the first error of any kind, including those of tools.
    pub fn stop_on_any_error() -> Self {
        Self::all(ErrorAction::Stop, 0)
    }

    /// Retries after tool errors, invalid arguments, rate limits and timeouts.
    pub fn retry_tool_errors(max_retries: u32) -> Self {
        Self {
            model: ErrorAction::Stop,
            unknown: ErrorAction::Stop,
            ..Self::all(ErrorAction::Retry, max_retries)
        }
    }

    /// Leaves tool errors to the model. The loop does so without any policy.
    pub fn ignore_tool_errors() -> Self {
        Self { model: ErrorAction::Stop, ..Self::all(ErrorAction::Ignore, 0) }
    }

    /// Retries after every error.
    pub fn retry_all(max_retries: u32) -> Self {
        Self::all(ErrorAction::Retry, max_retries)
    }

    /// Leaves tool errors to the model, and retries after rate limits and timeouts.
    pub fn retry_transient(max_retries: u32) -> Self {
        Self {
            rate_limit: ErrorAction::Retry,
            timeout: ErrorAction::Retry,
            max_retries,
            ..Self::ignore_tool_errors()
        }
    }

    fn all(handling: ErrorAction, max_retries: u32) -> Self {
        Self {
            tool: handling,
            model: handling,
            validation: handling,
            rate_limit: handling,
            timeout: handling,
            unknown: handling,
            max_retries,
        }
    }

    /// Returns the action for a class of errors after `failed_in_a_row` consecutive failed steps.
    /// Retries end at the limit.
    pub fn handling(&self, class: ErrorClass, failed_in_a_row: u32) -> ErrorAction {
        let handling = match class {
            ErrorClass::Tool => self.tool,
            ErrorClass::Model => self.model,
            ErrorClass::Validation => self.validation,
            ErrorClass::RateLimit => self.rate_limit,
            ErrorClass::Timeout => self.timeout,
            ErrorClass::Unknown => self.unknown,
        };
        match handling {
            ErrorAction::Retry if failed_in_a_row >= self.max_retries => ErrorAction::Stop,
            handling => handling,
        }
    }

    /// Returns the class of the error in a step; `None` without an error.
    pub fn classify(step: &Step) -> Option<ErrorClass> {
        if let Some(failure) = step.failure() {
            return Some(failure.kind.into());
        }
        step.tool_executions().find_map(|(_, outcome)| match outcome {
            ToolOutcome::Returned(_) => None,
            ToolOutcome::Failed(failure) => Some(match failure.kind.into() {
                ErrorClass::Unknown => ErrorClass::Tool,
                class => class,
            }),
            _ => Some(ErrorClass::Tool),
        })
    }

    /// Returns the signal that ends the run because of an error in its newest step.
    pub fn stop_signal(&self, state: &AgentState) -> Option<StopSignal> {
        let class = Self::classify(state.last_step()?)?;
        let failed = state.execution()?.failed_in_a_row();
        (self.handling(class, failed) == ErrorAction::Stop).then(|| {
            let text = format!("the error policy stops the run (failed steps: {failed})");
            StopSignal::new(StopReason::ErrorForbade, "error_policy", text)
                .with("error_class", format!("{class:?}").to_lowercase())
                .with("failed_in_a_row", failed)
                .with("max_retries", self.max_retries)
        })
    }
}

/// A hook that applies an error policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorPolicyHook(pub(crate) ErrorPolicy);

impl ErrorPolicyHook {
    /// Returns the signal for a step with a response. `on_error` handles a step without one.
    fn signal(self, state: &AgentState) -> Option<StopSignal> {
        let is_answered = state.last_step().is_some_and(|step| step.failure().is_none());
        is_answered.then(|| self.0.stop_signal(state)).flatten()
    }
}

#[async_trait]
impl Hook for ErrorPolicyHook {
    fn name(&self) -> Cow<'static, str> {
        "error_policy".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::OnError | HookPoint::AfterStep
    }

    fn can_skip(&self, point: HookPoint, state: &AgentState, _env: &RunEnv) -> bool {
        point == HookPoint::AfterStep && self.signal(state).is_none()
    }

    async fn on_error(
        &self,
        failure: &Failure,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<ErrorDecision, BoxError> {
        let failed = state.execution().map_or(0, loopwright_core::Execution::failed_in_a_row);
        Ok(match self.0.handling(failure.kind.into(), failed) {
            ErrorAction::Retry => ErrorDecision::Retry,
            ErrorAction::Stop | ErrorAction::Ignore => ErrorDecision::Fail,
        })
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(self.signal(state).map_or(Flow::Continue, Flow::Stop))
    }
}
