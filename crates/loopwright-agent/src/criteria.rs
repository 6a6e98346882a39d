//! Criteria for another step.

pub(crate) mod builtin;

use std::{borrow::Cow, fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, CRITERIA_RESULTS, ContinuationDecision, ContinuationOutcome, Evaluation,
    Flow, Hook, HookCx, HookPoint, HookPoints, RunEnv, StateEdit, StopReason, StopSignal,
    Timestamp,
};

/// A criterion that decides whether another step is taken. It must have no side effects.
pub trait ContinuationCriterion: Send + Sync {
    /// Returns the name of the criterion in explanations.
    fn name(&self) -> Cow<'static, str>;

    /// Evaluates whether to take another step.
    fn evaluate(&self, state: &AgentState, now: Timestamp) -> CriterionResult;
}

/// The decision of a criterion, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct CriterionResult {
    /// The decision.
    pub decision: ContinuationDecision,
    /// The reason, for people.
    pub reason: String,
    /// The reason why the execution ends, if this criterion ends it.
    pub stop_reason: Option<StopReason>,
}

impl CriterionResult {
    /// Creates a result.
    pub fn new(decision: ContinuationDecision, reason: impl Into<String>) -> Self {
        Self { decision, reason: reason.into(), stop_reason: None }
    }

    /// Forbids another step.
    pub fn forbid(stop_reason: StopReason, reason: impl Into<String>) -> Self {
        let stop_reason = Some(stop_reason);
        Self { stop_reason, ..Self::new(ContinuationDecision::ForbidContinuation, reason) }
    }

    /// Requests another step.
    pub fn request(reason: impl Into<String>) -> Self {
        Self::new(ContinuationDecision::RequestContinuation, reason)
    }

    /// Allows the execution to stop.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::new(ContinuationDecision::AllowStop, reason)
    }

    /// Does not object to another step.
    pub fn allow(reason: impl Into<String>) -> Self {
        Self::new(ContinuationDecision::AllowContinuation, reason)
    }
}

/// Several criteria as one.
///
/// ```
/// use loopwright_agent::{ContinuationCriteria, continuation::steps_limit};
/// use loopwright_core::{AgentState, ContinuationDecision, Timestamp};
///
/// let criteria = ContinuationCriteria::new()
///     .with(steps_limit(20))
///     .when("until_long_enough", |state| match state.text().len() {
///         0..100 => ContinuationDecision::RequestContinuation,
///         _ => ContinuationDecision::AllowStop,
///     });
/// let outcome = criteria.evaluate(&AgentState::new(), Timestamp::from_millis(0));
/// assert!(outcome.should_continue);
/// ```
#[derive(Clone, Default)]
pub struct ContinuationCriteria(Vec<Arc<dyn ContinuationCriterion>>);

impl ContinuationCriteria {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a criterion.
    #[must_use]
    pub fn with(mut self, criterion: impl ContinuationCriterion + 'static) -> Self {
        self.0.push(Arc::new(criterion));
        self
    }

    /// Adds a closure as a criterion.
    #[must_use]
    pub fn when(
        self,
        name: impl Into<Cow<'static, str>>,
        decide: impl Fn(&AgentState) -> ContinuationDecision + Send + Sync + 'static,
    ) -> Self {
        let decide =
            move |state: &AgentState, _| CriterionResult::new(decide(state), "the closure decided");
        self.with(builtin::FnCriterion::new(name, decide))
    }

    /// Adds all criteria of another list after these.
    pub fn merge(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Returns `true` if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates every criterion.
    pub fn evaluations(&self, state: &AgentState, now: Timestamp) -> Vec<Evaluation> {
        let evaluate = |it: &Arc<dyn ContinuationCriterion>| {
            let CriterionResult { decision, reason, stop_reason } = it.evaluate(state, now);
            Evaluation { criterion: it.name().into(), decision, reason, stop_reason }
        };
        self.0.iter().map(evaluate).collect()
    }

    /// Evaluates every criterion and resolves the results, as the loop would without other sources.
    pub fn evaluate(&self, state: &AgentState, now: Timestamp) -> ContinuationOutcome {
        ContinuationOutcome::resolve(self.evaluations(state, now))
    }
}

impl fmt::Debug for ContinuationCriteria {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| it.name())).finish()
    }
}

/// A hook that evaluates criteria before the first step and after each step.
#[derive(Clone, Debug)]
pub(crate) struct CriteriaHook(pub(crate) ContinuationCriteria);

impl CriteriaHook {
    fn ask(&self, state: &mut StateEdit<'_>, env: &RunEnv) -> Result<Flow, BoxError> {
        let evaluations = self.0.evaluations(state, env.clock.now());
        let outcome = ContinuationOutcome::resolve(evaluations);
        state.set(&CRITERIA_RESULTS, &outcome.evaluations)?;
        match outcome.decisive().map(|it| (it.decision, it)) {
            Some((ContinuationDecision::ForbidContinuation, by)) => {
                let reason = by.stop_reason.unwrap_or(StopReason::StopRequested);
                let signal = StopSignal::new(reason, Arc::clone(&by.criterion), by.reason.clone());
                Ok(Flow::Stop(signal.into_final()))
            }
            // A request for the first step is no request for the one after it.
            Some((ContinuationDecision::RequestContinuation, _)) if state.step_count() > 0 => {
                state.request_continuation();
                Ok(Flow::Continue)
            }
            _ => Ok(Flow::Continue),
        }
    }
}

#[async_trait]
impl Hook for CriteriaHook {
    fn name(&self) -> Cow<'static, str> {
        "continuation".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::BeforeStep | HookPoint::AfterStep
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        match state.step_count() {
            0 => self.ask(state, cx.env),
            _ => Ok(Flow::Continue),
        }
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.ask(state, cx.env)
    }
}
