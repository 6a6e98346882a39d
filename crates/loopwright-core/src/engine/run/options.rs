//! What a run is given besides its state.

use std::{fmt, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{clock::RunEnv, event_bus::EventSinks, journal::Journal, meter::BudgetAccount};

/// What a run is given besides its state. The default keeps no journal and draws from the state's own
/// budget.
#[derive(Clone)]
pub struct RunOptions {
    /// Time and ids.
    pub env: RunEnv,
    /// Where changes are kept; nowhere if there is none.
    pub journal: Option<Arc<dyn Journal>>,
    /// The account that model calls draw from; one of the state's budget if there is none.
    pub meter: Option<BudgetAccount>,
    /// Who listens to this run, besides those who listen to the loop.
    pub sinks: EventSinks,
    /// Cancels the run.
    pub cancel: CancellationToken,
    /// How long running tools have to come to an end when the run is stopped or cancelled.
    pub grace: Duration,
    /// How often a step that was interrupted may begin again.
    pub max_attempts: u32,
    /// What is done about a call that was interrupted and must not happen twice.
    pub on_interrupted: OnInterrupted,
}

/// What is done about a call that was interrupted and must not happen twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnInterrupted {
    /// The model is told that the outcome is unknown.
    #[default]
    ReportUnknown,
    /// The run pauses until somebody has decided.
    RequireApproval,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            env: RunEnv::system(),
            journal: None,
            meter: None,
            sinks: EventSinks::default(),
            cancel: CancellationToken::new(),
            grace: Duration::from_secs(1),
            max_attempts: 5,
            on_interrupted: OnInterrupted::default(),
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
