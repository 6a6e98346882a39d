//! The options of a run.

use std::{fmt, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    clock::RunEnv, event_bus::EventSinks, handle::CancelReason, interrupted::OnInterrupted,
    journal::Journal, meter::BudgetAccount, on_ask::OnAsk,
};

/// The options of a run. The default has no journal and uses the state's own budget.
#[derive(Clone)]
pub struct RunOptions {
    /// Time and IDs.
    pub env: RunEnv,
    /// The journal; `None` stores no changes.
    pub journal: Option<Arc<dyn Journal>>,
    /// The account for model calls; `None` uses an account of the state's budget.
    pub meter: Option<BudgetAccount>,
    /// Listeners to this run, in addition to those of the loop.
    pub sinks: EventSinks,
    /// Whether the run is not part of another one. Its events then name no parent, even if the
    /// agent was the sub-agent of an earlier run.
    pub is_top_level: bool,
    /// Cancels the run.
    pub cancel: CancellationToken,
    /// The reason why `cancel` fires. If it is not set by then, the reason is the user's request.
    pub cancel_reason: CancelReason,
    /// The grace period of running tools when the run is stopped or cancelled.
    pub grace: Duration,
    /// The maximum number of attempts of an interrupted step.
    pub max_attempts: u32,
    /// The policy for an interrupted call that must not happen twice.
    pub on_interrupted: OnInterrupted,
    /// The policy for calls that need an approval, an answer or a result, also those of interrupted calls and of
    /// sub-agents.
    pub on_ask: OnAsk,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            env: RunEnv::system(),
            journal: None,
            meter: None,
            sinks: EventSinks::default(),
            is_top_level: false,
            cancel: CancellationToken::new(),
            cancel_reason: CancelReason::default(),
            grace: Duration::from_secs(1),
            max_attempts: 5,
            on_interrupted: OnInterrupted::default(),
            on_ask: OnAsk::default(),
        }
    }
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("env", &self.env)
            .field("has_journal", &self.journal.is_some())
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
