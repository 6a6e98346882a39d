//! Where changes are kept before anybody relies on them.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use loopwright_messages::ExecutionId;

use crate::{
    BoxError,
    change::{ChangeRecord, Seq},
    clock::Clock,
    failure::{Panicked, panic_message},
    outcome::ToolOutcome,
    state::AgentState,
    step::StepResponse,
};

/// Names something that is done to the world at most once: the model call of a step, or one of its
/// tool calls. It stays the same over attempts, crashes and machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    /// The execution.
    pub execution: ExecutionId,
    /// The step, counted from one.
    pub step: u32,
    /// The call's position in the step; `None` for the model call.
    pub call: Option<u16>,
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.execution, self.step)?;
        self.call.map_or(Ok(()), |call| write!(f, "/{call}"))
    }
}

/// Keeps the changes of one session, and nothing else.
///
/// What [`append`](Journal::append) has acknowledged survives whatever happens next. The loop never
/// lets an effect begin, and never tells anybody of a change, before the changes that lead to it are
/// acknowledged.
///
/// ```
/// use loopwright_core::{AgentState, RunOptions};
/// use loopwright_testing::{FakeDriver, MemoryJournal, block_on, test_loop};
///
/// let journal = MemoryJournal::new();
/// let options = RunOptions { journal: Some(std::sync::Arc::new(journal.clone())), ..RunOptions::default() };
/// let state = block_on(test_loop(FakeDriver::responses(["Hi."])).start(AgentState::new(), options).finish());
/// let again = AgentState::new().replay(journal.changes())?;
/// assert_eq!((again.text(), again.seq()), (state.text(), state.seq()));
/// # Ok::<(), loopwright_core::ReplayError>(())
/// ```
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends changes: all of them or none, after those that are there. `first` is the number of the
    /// first one.
    ///
    /// A batch that was not acknowledged is sent again, byte for byte, before anything new: the same
    /// batch at the same place by the same writer is acknowledged again and kept once.
    ///
    /// A run never gives an append up, not even when it is cancelled. So a journal that cannot reach
    /// its store says [`Unavailable`](JournalError::Unavailable) after a time of its own choosing.
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError>;

    /// Asks whether an effect is on record already, just before it would begin. Hosts that replay
    /// whole runs answer from their own history.
    async fn lookup(&self, _effect: &IdempotencyKey) -> Result<EffectRecord, JournalError> {
        Ok(EffectRecord::NotRecorded)
    }

    /// Returns the changes that are on record, from the first one. The state of a sub-agent is made of
    /// them when the call that runs it is entered again. A journal that cannot read has none.
    async fn load_changes(&self) -> Result<Vec<ChangeRecord>, JournalError> {
        Ok(Vec::new())
    }

    /// Returns the journal of a sub-agent that a call runs. The same call gets the same journal.
    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal>;
}

/// Whether an effect is to begin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EffectRecord {
    /// It is.
    NotRecorded,
    /// The model call is on record.
    Response(Arc<StepResponse>),
    /// The tool call is on record.
    Outcome(Arc<ToolOutcome>),
}

/// Why changes were not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Somebody else appended to this session.
    #[error("another writer changed the session; load it again and repeat the missing changes")]
    Conflict,
    /// There were changes, and they are gone for good.
    #[error("the history was deleted, and what it held is not known")]
    Lost,
    /// Another process uses the session of a sub-agent.
    #[error("the session of the sub-agent is in use: {0}; wait until it is free, then resume")]
    InUse(#[source] BoxError),
    /// The right to write was lost.
    #[error("the session lease was lost; load the session again before you continue")]
    LeaseLost,
    /// The store cannot be reached or is full. Nothing that was kept is lost.
    #[error("the session store is unavailable: the run stopped before its next effect")]
    Unavailable(#[source] BoxError),
}

/// Awaits a journal; one that panics is not available.
pub(crate) async fn contained<T>(
    call: impl Future<Output = Result<T, JournalError>>,
) -> Result<T, JournalError> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|payload| {
        Err(JournalError::Unavailable(Panicked(panic_message(&*payload)).into()))
    })
}

impl AgentState {
    /// Has the changes acknowledged that no journal has yet. A run does this by itself; this is for what
    /// was changed without one.
    ///
    /// # Errors
    ///
    /// If the journal does not take them. The state keeps them, and sends them again as they were.
    pub async fn save(
        &mut self,
        journal: &dyn Journal,
        clock: &dyn Clock,
    ) -> Result<(), JournalError> {
        self.stamp(clock.now());
        while !self.outbox.is_empty() {
            let first = self.seq - self.outbox.len() as u64;
            let batch = self.outbox.batch();
            contained(async { journal.append(first, &batch).await }).await?;
            self.outbox.acknowledge();
        }
        Ok(())
    }
}
