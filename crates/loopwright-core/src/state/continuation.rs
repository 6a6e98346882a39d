//! Whether the loop takes another step, and why.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    execution::{Execution, ExecutionStatus},
    key::Key,
    state::AgentState,
    step::StepKind,
    stop::{StopReason, StopSignal, Strength},
};

/// The decision of a criterion about another step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContinuationDecision {
    /// No further step, whatever the other criteria decide.
    ForbidContinuation,
    /// A further step, unless a criterion forbids it.
    RequestContinuation,
    /// No further step, unless a criterion requests it.
    AllowStop,
    /// No objection to a further step, and no request for one.
    AllowContinuation,
}

/// A criterion with its decision and reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The criterion, guard, hook, or rule of the loop.
    pub criterion: Arc<str>,
    /// The decision.
    pub decision: ContinuationDecision,
    /// The reason, for people.
    pub reason: String,
    /// The reason why the execution ends, if this criterion ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

/// The joint decision of all criteria.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContinuationOutcome {
    /// Whether another step is taken.
    pub should_continue: bool,
    /// The criterion that decided.
    pub resolved_by: Arc<str>,
    /// The reason why the execution ends, if it does.
    pub stop_reason: Option<StopReason>,
    /// All criteria.
    pub evaluations: Vec<Evaluation>,
}

/// Evaluations of the step after the newest one, for the next [`ContinuationOutcome`]. The hook
/// that evaluates criteria sets this value. The next recorded step removes it.
pub const CRITERIA_RESULTS: Key<Vec<Evaluation>> = Key::execution("continuation", "evaluations");

/// The name of [`CRITERIA_RESULTS`] in an execution.
pub(crate) const EVALUATIONS_NAME: &str = "continuation.evaluations";

/// The loop's own rule: after tool calls, the model receives the results.
const TOOL_CALLS: &str = "tool_calls";

impl ContinuationOutcome {
    /// Resolves evaluations, in any order: forbid wins over request, request over stop, stop over
    /// allow. Without any evaluation, the decision is to stop.
    pub fn resolve(evaluations: Vec<Evaluation>) -> Self {
        let by = decisive(&evaluations);
        let should_continue = by.is_some_and(|it| {
            use ContinuationDecision::{AllowContinuation, RequestContinuation};
            matches!(it.decision, RequestContinuation | AllowContinuation)
        });
        let stop_reason = by.map_or(StopReason::Completed, Evaluation::reason_to_stop);
        Self {
            should_continue,
            resolved_by: by.map_or_else(|| "default".into(), |it| Arc::clone(&it.criterion)),
            stop_reason: (!should_continue).then_some(stop_reason),
            evaluations,
        }
    }

    /// Returns the evaluation that decided, or `None` if there is none. Several criteria can have
    /// its name.
    pub fn decisive(&self) -> Option<&Evaluation> {
        decisive(&self.evaluations)
    }

    /// Describes the decision and all evaluations in a sentence.
    pub fn explain(&self) -> String {
        let verdict = if self.should_continue { "CONTINUE" } else { "STOP" };
        let voices: Vec<String> = self.evaluations.iter().map(ToString::to_string).collect();
        format!("{verdict}, decided by {}: {}", self.resolved_by, voices.join("; "))
    }
}

/// Returns the evaluation that decides: the strongest that forbids, or else the first that
/// requests, the strongest that allows a stop, the first that allows continuation.
pub(crate) fn decisive(evaluations: &[Evaluation]) -> Option<&Evaluation> {
    use ContinuationDecision::{
        AllowContinuation, AllowStop, ForbidContinuation, RequestContinuation,
    };
    let all = |decision| evaluations.iter().filter(move |it| it.decision == decision);
    let strongest = |decision| all(decision).min_by_key(|it| it.reason_to_stop());
    strongest(ForbidContinuation)
        .or_else(|| all(RequestContinuation).next())
        .or_else(|| strongest(AllowStop))
        .or_else(|| all(AllowContinuation).next())
}

impl Evaluation {
    /// Returns why the execution ends if this evaluation ends it, even if it gives no reason.
    fn reason_to_stop(&self) -> StopReason {
        self.stop_reason.unwrap_or(match self.decision {
            ContinuationDecision::ForbidContinuation => StopReason::StopRequested,
            _ => StopReason::Completed,
        })
    }
}

impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let says = match self.decision {
            ContinuationDecision::ForbidContinuation => "forbids another step",
            ContinuationDecision::RequestContinuation => "requests another step",
            ContinuationDecision::AllowStop => "sees no need for another step",
            ContinuationDecision::AllowContinuation => "allows another step",
        };
        write!(f, "{} {says} ({})", self.criterion, self.reason)
    }
}

impl From<&StopSignal> for Evaluation {
    fn from(signal: &StopSignal) -> Self {
        let decision = match signal.strength() {
            Strength::Hard => ContinuationDecision::ForbidContinuation,
            Strength::Soft => ContinuationDecision::AllowStop,
        };
        Self {
            criterion: signal.source.clone().unwrap_or_else(|| "unknown".into()),
            decision,
            reason: signal.to_string(),
            stop_reason: Some(signal.reason),
        }
    }
}

impl Execution {
    /// Returns whether another step is due after the newest one, with all evaluations.
    pub fn continuation(&self) -> ContinuationOutcome {
        let mut voices = self.voices();
        voices.extend(self.rule());
        // A soft signal outweighs the model's own wish to hear from its tools.
        let is_stopped = !self.signals.is_empty() && self.continuation.is_none();
        if is_stopped {
            voices.retain(|it| &*it.criterion != TOOL_CALLS);
        }
        ContinuationOutcome::resolve(voices)
    }

    /// Returns `true` if another step is due and only the model has requested it.
    pub(crate) fn plainly_goes_on(&self) -> bool {
        let is_asked = self.last_step().is_some_and(|it| it.kind != StepKind::FinalResponse);
        let is_quiet = self.signals.is_empty() && self.continuation.is_none();
        is_asked && is_quiet && self.values.is_empty()
    }

    /// Returns `true` if the signals raised so far prevent the next step.
    pub fn blocks_next_step(&self) -> bool {
        self.checkpoint().is_some_and(|it| !it.should_continue)
    }

    /// Returns the joint decision of the signals and their overrulings before a step starts; `None`
    /// without a signal. Requests of the model do not count. Criteria count for the first step
    /// only, because later ones are already decided.
    pub(crate) fn checkpoint(&self) -> Option<ContinuationOutcome> {
        if self.signals.is_empty() {
            return None;
        }
        let is_first = self.steps.is_empty();
        let voices = if is_first { self.voices() } else { self.standing_voices() };
        Some(ContinuationOutcome::resolve(voices))
    }

    /// Returns the evaluations that hold until they are withdrawn or answered: signals, and a
    /// request to continue.
    fn standing_voices(&self) -> Vec<Evaluation> {
        let mut voices: Vec<Evaluation> = self.signals.iter().map(Evaluation::from).collect();
        if let Some(by) = &self.continuation {
            voices.push(Evaluation {
                criterion: Arc::clone(by),
                decision: ContinuationDecision::RequestContinuation,
                reason: "continuation was requested".to_owned(),
                stop_reason: None,
            });
        }
        voices
    }

    /// Returns all evaluations of the step after the newest one, except the loop's own rule.
    fn voices(&self) -> Vec<Evaluation> {
        let mut voices = self.standing_voices();
        if self.open.is_some() {
            // A step that has begun was decided about.
            return voices;
        }
        let said = self.values.typed::<Vec<Evaluation>>(EVALUATIONS_NAME);
        // A criterion that forbids has raised a signal, and one that requests may have requested.
        let mut raised: Vec<_> =
            voices.iter().map(|it| (Arc::clone(&it.criterion), it.decision)).collect();
        voices.extend(said.into_iter().flatten().filter(|it| {
            let same = raised
                .iter()
                .position(|(by, decision)| *by == it.criterion && *decision == it.decision);
            same.map(|at| raised.swap_remove(at)).is_none()
        }));
        voices
    }

    fn rule(&self) -> Option<Evaluation> {
        let step = self.last_step()?;
        let (decision, reason) = match step.kind {
            StepKind::ToolExecution => {
                (ContinuationDecision::RequestContinuation, "the model called tools")
            }
            StepKind::FinalResponse => {
                (ContinuationDecision::AllowStop, "the model called no tools")
            }
            StepKind::Error => {
                (ContinuationDecision::RequestContinuation, "the step will be retried")
            }
        };
        let stop_reason = (step.kind == StepKind::FinalResponse).then_some(StopReason::Completed);
        Some(Evaluation {
            criterion: TOOL_CALLS.into(),
            decision,
            reason: reason.to_owned(),
            stop_reason,
        })
    }
}

impl AgentState {
    /// Describes the status of the agent in a sentence, and why it stopped.
    ///
    /// ```
    /// use loopwright_core::AgentState;
    ///
    /// assert_eq!(AgentState::new().explain_stop(), "not run yet");
    /// ```
    pub fn explain_stop(&self) -> String {
        let Some(execution) = &self.execution else { return "not run yet".to_owned() };
        let after = match execution.step_count() {
            1 => "after 1 step".to_owned(),
            steps => format!("after {steps} steps"),
        };
        match &execution.status {
            ExecutionStatus::Pending => "not run yet".to_owned(),
            ExecutionStatus::Paused => {
                format!("paused {after}; calls waiting for a decision: {}", self.pending().len())
            }
            ExecutionStatus::Failed(failure) => format!("failed {after}: {failure}"),
            ExecutionStatus::InProgress => {
                format!("in progress {after}: {}", execution.continuation().explain())
            }
            ExecutionStatus::Stopped(signal) => {
                let by = signal.source.as_deref().unwrap_or("unknown");
                format!("stopped {after} by {by}: {signal}")
            }
            ExecutionStatus::Completed => match execution.strongest_signal() {
                Some(signal) => format!("completed {after}: {signal}"),
                None => format!("completed {after}: the model called no tools"),
            },
        }
    }
}
