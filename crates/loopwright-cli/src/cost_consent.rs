//! A cost limit as consent: at four fifths of it, an attended turn stops and asks the user.

use std::borrow::Cow;

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, Edit, Execution, Flow, Hook, HookCx, HookPoint, HookPoints, Key, RunEnv,
    StateEdit, StopReason, StopSignal, Timestamp, messages::Cost,
};
use loopwright_sessions::{AgentSession, SessionError, SessionId, SessionRuntime, action_fn};
use serde::{Deserialize, Serialize};

use crate::session_budget::SessionBudget;

/// The source of the signal.
pub(crate) const SOURCE: &str = "cost_consent";

/// The limit that the user has agreed to use up.
const AGREED: Key<Cost> = Key::session("cli", "cost_agreed");

/// What the user has decided so far.
const DECISIONS: Key<Vec<CostDecision>> = Key::session("cli", "cost_decisions");

/// A decision of the user about a cost limit, as it is on record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CostDecision {
    at: Timestamp,
    used: Cost,
    limit: Cost,
    decision: CostAnswer,
}

/// What a user decides about a cost limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CostAnswer {
    /// Continue up to the limit.
    Continue,
    /// Continue with as much again.
    More,
    /// End the turn here.
    Stop,
}

/// Stops a turn before the step at which four fifths of its cost limit are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskAboutCost;

/// Returns what a turn has used and its limit, if four fifths of the limit are used and the user has not agreed to it.
pub(crate) fn asked(state: &AgentState) -> Option<(Cost, Cost)> {
    let limit = state.budget().cost?;
    let used = state.execution().map(spent).unwrap_or_default();
    let (part, whole) = (used.picodollars(), limit.picodollars());
    let is_near = part.saturating_mul(5) >= whole.saturating_mul(4) && part < whole;
    (is_near && state.get(&AGREED) != Some(limit)).then_some((used, limit))
}

fn spent(execution: &Execution) -> Cost {
    execution.budget_usage(std::time::Duration::ZERO).cost
}

/// Returns what the user is asked about, if that is why the last turn stopped.
pub(crate) fn question(state: &AgentState) -> Option<(Cost, Cost)> {
    let signal = state.stop_signal().filter(|it| it.source.as_deref() == Some(SOURCE))?;
    let cost =
        |name| signal.context.get(name).and_then(serde_json::Value::as_f64).map(Cost::from_dollars);
    Some((cost("cost")?, cost("max_cost")?))
}

/// Records a decision, and returns the cost limit of the turn that continues.
pub(crate) async fn record(
    runtime: &SessionRuntime,
    id: &SessionId,
    (used, limit): (Cost, Cost),
    decision: CostAnswer,
    session_budget: SessionBudget,
    at: Timestamp,
) -> Result<Option<Cost>, SessionError> {
    let left = limit.saturating_sub(used);
    let action = action_fn("decide_cost", move |session: AgentSession| async move {
        let mut state = session.state().clone();
        let mut decisions = state.get(&DECISIONS).unwrap_or_default();
        decisions.push(CostDecision { at, used, limit, decision });
        state = set(state, &DECISIONS, &decisions);
        match decision {
            CostAnswer::Continue => state = set(state, &AGREED, &left),
            CostAnswer::More => state = session_budget.raise(state, limit),
            CostAnswer::Stop => {}
        }
        Ok(session.with_state(state))
    });
    runtime.execute(id, &action).await?;
    Ok((decision == CostAnswer::Continue).then_some(left))
}

fn set<T: Serialize>(state: AgentState, key: &Key<T>, value: &T) -> AgentState {
    match serde_json::to_value(value) {
        Ok(value) => state.edit(Edit::Set(key.slot(), Some(value))),
        Err(_) => state,
    }
}

#[async_trait]
impl Hook for AskAboutCost {
    fn name(&self) -> Cow<'static, str> {
        SOURCE.into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::BeforeStep.into()
    }

    fn can_skip(&self, _point: HookPoint, state: &AgentState, _env: &RunEnv) -> bool {
        asked(state).is_none()
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(asked(state).map_or(Flow::Continue, |(used, limit)| {
            let text = format!("{used} of the {limit} cost limit used");
            let signal = StopSignal::new(StopReason::CostLimitReached, SOURCE, text);
            Flow::Stop(signal.with("cost", used.dollars()).with("max_cost", limit.dollars()))
        }))
    }
}
