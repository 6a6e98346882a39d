//! The `tracing` spans and events of the engine. Without the feature `tracing`, none of this is
//! compiled.
//!
//! Spans and events contain names and counts. They never contain text of users, models or tools.

#[cfg(not(feature = "tracing"))]
pub(crate) use self::off::{Span, model_call, run, step, tool_call};
#[cfg(feature = "tracing")]
pub(crate) use self::on::{Span, model_call, run, step, tool_call};

#[cfg(feature = "tracing")]
mod on {
    use std::time::Duration;

    use loopwright_messages::{InferenceResponse, ToolCall};
    use tracing::{Instrument as _, debug, debug_span, field::Empty, info, info_span, warn};

    use crate::{failure::Failure, outcome::ToolOutcome, state::AgentState, step_error::StepError};

    const RUN: &str = "loopwright::run";
    const STEP: &str = "loopwright::step";
    const MODEL: &str = "loopwright::model";
    const TOOL: &str = "loopwright::tool";

    /// A span of `tracing`.
    #[derive(Clone, Debug)]
    pub(crate) struct Span(tracing::Span);

    /// Opens the span of a run, below the span of the tool call that started it, if any.
    pub(crate) fn run(agent: &str, state: &AgentState, is_resumed: bool) -> Span {
        let id = state.id().map(tracing::field::display);
        let execution = state.execution().map(|it| tracing::field::display(it.id()));
        Span(info_span!(
            target: RUN, "run", agent, agent_id = id, execution_id = execution, resumed = is_resumed
        ))
    }

    /// Opens the span of a step.
    pub(crate) fn step(run: &Span, number: u32, attempt: u32) -> Span {
        Span(debug_span!(target: STEP, parent: &run.0, "step", step = number, attempt))
    }

    /// Opens the span of a model call, below the current one.
    pub(crate) fn model_call(model: Option<&str>, is_auxiliary: bool) -> Span {
        Span(debug_span!(
            target: MODEL, "model_call", model, auxiliary = is_auxiliary, input_tokens = Empty,
            output_tokens = Empty, finish_reason = Empty
        ))
    }

    /// Opens the span of a tool call.
    pub(crate) fn tool_call(step: &Span, call: &ToolCall, index: u16) -> Span {
        Span(debug_span!(
            target: TOOL, parent: &step.0, "tool_call", tool = &*call.name, call = index,
            outcome = Empty
        ))
    }

    impl Span {
        pub(crate) fn none() -> Self {
            Self(tracing::Span::none())
        }

        /// Enters the span whenever the future is polled.
        pub(crate) fn around<F: Future>(
            &self,
            future: F,
        ) -> impl Future<Output = F::Output> + use<F> {
            future.instrument(self.0.clone())
        }

        pub(crate) fn run_ended(&self, state: &AgentState) {
            let (status, steps) = (state.status().as_str(), state.step_count());
            let tokens = state.usage().total();
            self.0.in_scope(|| info!(target: RUN, status, steps, tokens, "run ended"));
        }

        pub(crate) fn step_completed(&self, duration: Duration) {
            self.0.in_scope(|| debug!(target: STEP, ?duration, "step completed"));
        }

        pub(crate) fn step_failed(&self, failure: &Failure) {
            self.0.in_scope(|| warn!(target: STEP, kind = ?failure.kind, "step failed"));
        }

        pub(crate) fn model_answered(&self, answer: &Result<InferenceResponse, StepError>) {
            match answer {
                Ok(response) => {
                    self.0.record("input_tokens", response.usage.input);
                    self.0.record("output_tokens", response.usage.output);
                    self.0.record("finish_reason", response.finish_reason.as_str());
                    self.0.in_scope(|| debug!(target: MODEL, "model responded"));
                }
                Err(StepError::Cancelled | StepError::Stopped(_)) => {
                    self.0.in_scope(|| debug!(target: MODEL, "model call stopped"));
                }
                Err(error) => {
                    let kind = error.to_failure().kind;
                    self.0.in_scope(|| warn!(target: MODEL, ?kind, "model call failed"));
                }
            }
        }

        pub(crate) fn tool_answered(&self, outcome: &ToolOutcome) {
            let outcome = match outcome {
                ToolOutcome::Returned(_) => "returned",
                ToolOutcome::Failed(_) => "failed",
                ToolOutcome::Blocked { .. } => "blocked",
                ToolOutcome::Skipped { .. } => "skipped",
                ToolOutcome::Cancelled { .. } => "cancelled",
                ToolOutcome::Unknown => "unknown",
            };
            self.0.record("outcome", outcome);
            self.0.in_scope(|| debug!(target: TOOL, outcome, "tool call ended"));
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use std::time::Duration;

    use loopwright_messages::{InferenceResponse, ToolCall};

    use crate::{failure::Failure, outcome::ToolOutcome, state::AgentState, step_error::StepError};

    /// An empty span.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Span;

    pub(crate) fn run(_: &str, _: &AgentState, _: bool) -> Span {
        Span
    }

    pub(crate) fn step(_: &Span, _: u32, _: u32) -> Span {
        Span
    }

    pub(crate) fn model_call(_: Option<&str>, _: bool) -> Span {
        Span
    }

    pub(crate) fn tool_call(_: &Span, _: &ToolCall, _: u16) -> Span {
        Span
    }

    #[expect(clippy::unused_self, reason = "the same with the feature")]
    impl Span {
        pub(crate) fn none() -> Self {
            Self
        }

        pub(crate) fn around<F: Future>(self, future: F) -> F {
            future
        }

        pub(crate) fn run_ended(self, _: &AgentState) {}

        pub(crate) fn step_completed(self, _: Duration) {}

        pub(crate) fn step_failed(self, _: &Failure) {}

        pub(crate) fn model_answered(self, _: &Result<InferenceResponse, StepError>) {}

        pub(crate) fn tool_answered(self, _: &ToolOutcome) {}
    }
}
