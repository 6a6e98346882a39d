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

/// What one voice says about another step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContinuationDecision {
    /// No further step, whatever others say.
    ForbidContinuation,
    /// A further step, unless somebody forbids it.
    RequestContinuation,
    /// No further step, unless somebody requests it.
    AllowStop,
    /// Nothing against a further step, and no wish for one.
    AllowContinuation,
}

/// One voice, what it said and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The criterion, guard, hook, or rule of the loop.
    pub criterion: Arc<str>,
    /// What it said.
    pub decision: ContinuationDecision,
    /// For people.
    pub reason: String,
    /// Why the execution ends, if this voice decides that it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
}

/// What all voices together amount to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContinuationOutcome {
    /// Whether another step is taken.
    pub should_continue: bool,
    /// The voice that decided.
    pub resolved_by: Arc<str>,
    /// Why the execution ends, if it does.
    pub stop_reason: Option<StopReason>,
    /// Every voice.
    pub evaluations: Vec<Evaluation>,
}

/// What criteria say about the step after the newest one, for the next [`ContinuationOutcome`]. The hook
/// that evaluates criteria sets it. The value does not outlive the step that follows: the next step that is
/// recorded removes it.
pub const CRITERIA_RESULTS: Key<Vec<Evaluation>> = Key::execution("continuation", "evaluations");

/// The name under which an execution keeps [`CRITERIA_RESULTS`].
pub(crate) const EVALUATIONS_NAME: &str = "continuation.evaluations";

/// The loop's own rule: a model that asks for tools wants to hear from them.
const TOOL_CALLS: &str = "tool_calls";

impl ContinuationOutcome {
    /// Resolves voices, in whatever order they spoke: forbid wins over request, request over stop,
    /// stop over allow. Nobody saying anything is a stop.
    pub fn resolve(evaluations: Vec<Evaluation>) -> Self {
        let by = decisive(&evaluations);
        let should_continue = by.is_some_and(|it| {
            use ContinuationDecision::{AllowContinuation, RequestContinuation};
            matches!(it.decision, RequestContinuation | AllowContinuation)
        });
        let stop_reason = by.map_or(StopReason::Completed, Evaluation::reason_to_stop);
        Self {
            should_continue,
            resolved_by: by.map_or_else(|| "nobody".into(), |it| Arc::clone(&it.criterion)),
            stop_reason: (!should_continue).then_some(stop_reason),
            evaluations,
        }
    }

    /// Returns the evaluation that decided; `None` if there is none. Several criteria may have its name.
    pub fn decisive(&self) -> Option<&Evaluation> {
        decisive(&self.evaluations)
    }

    /// Says in a sentence what was decided and who said what.
    pub fn explain(&self) -> String {
        let verdict = if self.should_continue { "CONTINUE" } else { "STOP" };
        let voices: Vec<String> = self.evaluations.iter().map(ToString::to_string).collect();
        format!("{verdict}, decided by {}: {}", self.resolved_by, voices.join("; "))
    }
}

/// Returns the evaluation that decides: the strongest that forbids, or else the first that requests, the
/// strongest that sees no need, the first that allows.
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
    /// Returns why the execution ends if this voice decides that it does, whether it said so or not.
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
    /// Returns whether another step is due after the newest one, and every voice on it.
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

    /// Returns `true` if another step is due and nobody but the model has anything to say about it.
    pub(crate) fn plainly_goes_on(&self) -> bool {
        let is_asked = self.last_step().is_some_and(|it| it.kind != StepKind::FinalResponse);
        let is_quiet = self.signals.is_empty() && self.continuation.is_none();
        is_asked && is_quiet && self.values.is_empty()
    }

    /// Returns `true` if the signals raised so far keep the next step from beginning.
    pub fn blocks_next_step(&self) -> bool {
        self.checkpoint().is_some_and(|it| !it.should_continue)
    }

    /// Returns what the signals and what overrules them amount to before a step begins; `None` if there
    /// is no signal. What the model wants does not count. What criteria said counts for the first step
    /// only: about later ones it has been decided.
    pub(crate) fn checkpoint(&self) -> Option<ContinuationOutcome> {
        if self.signals.is_empty() {
            return None;
        }
        let is_first = self.steps.is_empty();
        let voices = if is_first { self.voices() } else { self.standing_voices() };
        Some(ContinuationOutcome::resolve(voices))
    }

    /// Returns what holds until it is withdrawn or answered: signals, and a request to go on.
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

    /// Returns everybody who has something to say about the step after the newest one, but for the
    /// loop's own rule.
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
                (ContinuationDecision::RequestContinuation, "the model asked for tools")
            }
            StepKind::FinalResponse => {
                (ContinuationDecision::AllowStop, "the model asked for no tools")
            }
            StepKind::Error => {
                (ContinuationDecision::RequestContinuation, "the step is to be tried again")
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
    /// Says in a sentence where the agent stands, and if it stopped, why.
    ///
    /// ```
    /// use loopwright_core::AgentState;
    ///
    /// assert_eq!(AgentState::new().explain_stop(), "it has not run yet");
    /// ```
    pub fn explain_stop(&self) -> String {
        let Some(execution) = &self.execution else { return "it has not run yet".to_owned() };
        let after = match execution.step_count() {
            1 => "after 1 step".to_owned(),
            steps => format!("after {steps} steps"),
        };
        match &execution.status {
            ExecutionStatus::Pending => "it has not run yet".to_owned(),
            ExecutionStatus::Paused => {
                format!("it waits {after} for a decision about {} calls", self.pending().len())
            }
            ExecutionStatus::Failed(failure) => format!("it failed {after}: {failure}"),
            ExecutionStatus::InProgress => {
                format!("it is under way {after}: {}", execution.continuation().explain())
            }
            ExecutionStatus::Stopped(signal) => {
                let by = signal.source.as_deref().unwrap_or("unknown");
                format!("it was stopped {after} by {by}: {signal}")
            }
            ExecutionStatus::Completed => match execution.strongest_signal() {
                Some(signal) => format!("it completed {after}: {signal}"),
                None => format!("it completed {after}: the model asked for no tools"),
            },
        }
    }
}
