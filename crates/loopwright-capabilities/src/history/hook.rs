//! The hook that summarizes executions when they end.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{AgentState, BoxError, Hook, HookCx, HookPoint, HookPoints, Key, StateEdit};

use crate::history::{ExecutionSummary, HistoryStore};

/// The summaries that the state itself keeps, oldest first.
const KEPT: Key<Vec<ExecutionSummary>> = Key::session("execution_history", "summaries");

/// Where summaries go.
#[derive(Clone)]
pub(super) enum Place {
    Store(Arc<dyn HistoryStore>),
    /// The state, with this number of summaries.
    State(usize),
}

pub(super) struct Recording(pub(super) Place);

/// Returns the summaries in a state, oldest first; see
/// [`UseExecutionHistory::in_state`](crate::history::UseExecutionHistory::in_state).
pub fn history_of(state: &AgentState) -> Vec<ExecutionSummary> {
    state.get(&KEPT).unwrap_or_default()
}

#[async_trait]
impl Hook for Recording {
    fn name(&self) -> Cow<'static, str> {
        "execution_history".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::AfterExecution.into()
    }

    async fn after_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        let now = cx.env.clock.now();
        let summary = cx.final_status.and_then(|ending| ExecutionSummary::of(state, ending, now));
        let (Some(summary), Some(agent)) = (summary, state.id().cloned()) else { return Ok(()) };
        match &self.0 {
            Place::Store(store) => {
                // What was done and paid for does not fail because nobody wrote it down.
                let _lost = store.record(&agent, &summary).await.is_err();
            }
            Place::State(most) => {
                let mut kept = history_of(state);
                kept.push(summary);
                kept.drain(..kept.len().saturating_sub(*most));
                state.set(&KEPT, &kept)?;
            }
        }
        Ok(())
    }
}
