//! The time of the next attempt after a failure.

use crate::summarization::SummarizationFailed;
use loopwright_core::{AgentState, BoxError, Key, StateEdit};
use serde::{Deserialize, Serialize};

/// How often summaries failed in a row, and when the next one is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Backoff {
    failures: u32,
    /// The number of steps, over all executions, before which it is not tried again.
    until: u64,
}

/// The longest wait is this power of two, in steps.
const MAX_DELAY: u32 = 6;

impl Backoff {
    /// Returns `true` if it may be tried now.
    pub(crate) fn allows(key: &Key<Self>, state: &AgentState) -> bool {
        state.get(key).is_none_or(|it| state.total_steps() >= it.until)
    }

    /// Notes a failure, and returns what there is to tell.
    pub(crate) fn failed(
        key: &Key<Self>,
        state: &mut StateEdit<'_>,
        error: String,
    ) -> Result<SummarizationFailed, BoxError> {
        let (failures, wait) = Self::wait(key, state)?;
        Ok(SummarizationFailed::new(error, failures, wait))
    }

    /// Notes that it was of no use; returns how often in a row, and how many steps it is not tried again.
    pub(crate) fn wait(key: &Key<Self>, state: &mut StateEdit<'_>) -> Result<(u32, u64), BoxError> {
        let failures = state.get(key).map_or(0, |it| it.failures).saturating_add(1);
        let wait = 1 << failures.min(MAX_DELAY);
        state.set(key, &Self { failures, until: state.total_steps() + wait })?;
        Ok((failures, wait))
    }

    /// Notes that it worked.
    pub(crate) fn worked(key: &Key<Self>, state: &mut StateEdit<'_>) {
        if state.get(key).is_some() {
            state.remove(key);
        }
    }
}
