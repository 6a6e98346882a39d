//! Limits of a session across all its turns, beside those of each turn.

use std::borrow::Cow;
use std::num::{NonZeroU32, NonZeroU64};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, BoxError, Budget, BudgetUsage, Edit, Flow, Hook, HookCx, HookPoint, HookPoints,
    Key, RunEnv, StateEdit, StopReason, StopSignal, messages::Cost,
};

use crate::config::{Dollars, SessionLimits, Setting};

/// The source of signals of these limits.
pub const SOURCE: &str = "session_budget";

/// Limits that were typed; they hold for all later turns of the session.
const TYPED: Key<Budget> = Key::session("cli", "session_budget");

/// What the user has added to the cost limit of a session.
const RAISED: Key<Cost> = Key::session("cli", "session_budget_raised");

/// Returns the edits that forget the limits which were typed for a session, and what was added to them.
pub(crate) fn forget(state: &AgentState) -> impl Iterator<Item = Edit> + use<> {
    let typed = state.get(&TYPED).map(|_| Edit::Set(TYPED.slot(), None));
    let raised = state.get(&RAISED).map(|_| Edit::Set(RAISED.slot(), None));
    typed.into_iter().chain(raised)
}

/// Keeps a session within what it may use across all its turns: a turn is given what is left, and no step begins once
/// nothing is, or less than a step takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionBudget {
    /// Typed now. The session keeps it.
    typed: Budget,
    /// Configured. It holds where nothing was typed.
    configured: Budget,
}

impl SessionBudget {
    /// Takes limits from the command line and the configuration.
    pub fn of(limits: &SessionLimits) -> Self {
        Self { typed: budget(limits, true), configured: budget(limits, false) }
    }

    /// Raises the cost limit of a session, if it has one.
    pub(crate) fn raise(&self, state: AgentState, by: Cost) -> AgentState {
        if self.limits(&state).cost.is_none() {
            return state;
        }
        let raised = state.get(&RAISED).unwrap_or(Cost::ZERO) + by;
        match serde_json::to_value(raised) {
            Ok(value) => state.edit(Edit::Set(RAISED.slot(), Some(value))),
            Err(_) => state,
        }
    }

    /// Keeps the limits that were typed in the session. A cost limit that was not typed before replaces what was added to the
    /// earlier one.
    #[must_use]
    pub fn keep(&self, state: AgentState) -> AgentState {
        if self.typed.is_unlimited() {
            return state;
        }
        let before = state.get(&TYPED).unwrap_or_default();
        let kept = over(&self.typed, &before);
        let is_raised = kept.cost != before.cost && state.get(&RAISED).is_some();
        let state = if is_raised { state.edit(Edit::Set(RAISED.slot(), None)) } else { state };
        match serde_json::to_value(kept) {
            Ok(value) => state.edit(Edit::Set(TYPED.slot(), Some(value))),
            Err(_) => state,
        }
    }

    /// Returns the limits of a turn that also keep it within what the session has left, while a step is in progress
    /// too. Where the session has nothing left, the hook stops the turn before its first step.
    pub fn bound(&self, turn: Budget, state: &AgentState) -> Budget {
        let left = self.limits(state).remaining(used(state));
        let is_over = left.steps == Some(0)
            || left.tokens == Some(0)
            || left.time.is_some_and(|it| it.is_zero())
            || left.cost == Some(Cost::ZERO);
        if is_over { turn } else { turn.capped_by(&left) }
    }

    fn limits(&self, state: &AgentState) -> Budget {
        let typed = over(&state.get(&TYPED).unwrap_or_default(), &self.typed);
        let limits = over(&typed, &self.configured);
        let raised = state.get(&RAISED).unwrap_or(Cost::ZERO);
        Budget { cost: limits.cost.map(|it| it + raised), ..limits }
    }

    fn signal(&self, state: &AgentState, env: &RunEnv) -> Option<StopSignal> {
        let budget = self.limits(state);
        if budget.is_unlimited() {
            return None;
        }
        let used = used(state);
        let signal = budget.exhausted_by(used, env.clock.now());
        let mut signal = signal.or_else(|| lacking(&budget.remaining(used), state))?;
        signal.message = format!("session limit: {}", signal.message);
        signal.source = Some(SOURCE.into());
        Some(signal)
    }
}

/// Returns what the session has used across all its turns.
fn used(state: &AgentState) -> BudgetUsage {
    let spent = state.total_spent();
    BudgetUsage {
        steps: u32::try_from(state.total_steps()).unwrap_or(u32::MAX),
        tokens: spent.usage.total(),
        time: state.cumulative_time(),
        cost: spent.cost,
    }
}

/// Returns a signal if what is left is less than what a step takes.
fn lacking(left: &Budget, state: &AgentState) -> Option<StopSignal> {
    let (cost, tokens) = typical(state);
    let signal = |reason, left: String, takes: String| {
        let text = format!("{left} left, and a step takes about {takes}");
        Some(StopSignal::new(reason, SOURCE, text))
    };
    if let Some(left) = left.cost.filter(|left| *left < cost) {
        return signal(StopReason::CostLimitReached, left.to_string(), cost.to_string());
    }
    let left = left.tokens.filter(|left| *left < tokens)?;
    signal(StopReason::TokenLimitReached, format!("{left} tokens"), tokens.to_string())
}

/// Guesses what the next step takes: what the last one of the turn took, or a step of the session on
/// average.
fn typical(state: &AgentState) -> (Cost, u64) {
    if let Some(last) = state.last_step() {
        return (last.spend().cost, last.spend().usage.total());
    }
    let (spent, steps) = (state.total_spent(), state.total_steps().max(1));
    let cost = Cost::from_picodollars(spent.cost.picodollars() / steps);
    (cost, spent.usage.total() / steps)
}

/// Returns the limits of one budget, and where it has none those of the other.
fn over(strong: &Budget, weak: &Budget) -> Budget {
    Budget {
        steps: strong.steps.or(weak.steps),
        tokens: strong.tokens.or(weak.tokens),
        time: strong.time.or(weak.time),
        cost: strong.cost.or(weak.cost),
        deadline: strong.deadline.or(weak.deadline),
    }
}

fn budget(limits: &SessionLimits, is_typed: bool) -> Budget {
    fn of<T: Copy>(set: Option<&Setting<T>>, is_typed: bool) -> Option<T> {
        set.filter(|it| it.origin.is_typed() == is_typed).map(|it| it.value)
    }
    let cost = |it: Dollars| Cost::from_dollars(it.amount());
    Budget {
        steps: of(limits.steps.as_ref(), is_typed).map(NonZeroU32::get),
        tokens: of(limits.tokens.as_ref(), is_typed).map(NonZeroU64::get),
        time: of(limits.seconds.as_ref(), is_typed),
        cost: of(limits.cost.as_ref(), is_typed).map(cost),
        deadline: None,
    }
}

#[async_trait]
impl Hook for SessionBudget {
    fn name(&self) -> Cow<'static, str> {
        SOURCE.into()
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
