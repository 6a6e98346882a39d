//! The journal, which stores changes before the loop acts on them.

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

/// The key of an effect that happens at most once: the model call of a step, or one of its tool
/// calls. It stays the same over attempts, crashes and machines.
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

/// Stores the changes of one session.
///
/// Changes that [`append`](Journal::append) has acknowledged survive any crash. The loop starts an
/// effect, or emits a change, only after the changes that lead to it are acknowledged.
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
    /// Appends changes after the existing ones: all of them or none. `first` is the number of the
    /// first one.
    ///
    /// A batch that was not acknowledged is sent again, byte for byte, before new changes. If the
    /// same writer sends the same batch at the same position, the journal acknowledges it again and
    /// stores it once.
    ///
    /// A run never abandons an append, even when it is cancelled. A journal that cannot reach its
    /// store therefore returns [`Unavailable`](JournalError::Unavailable) after a timeout that it
    /// chooses.
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError>;

    /// Checks whether an effect is already durable, just before it starts. Hosts that replay whole
    /// runs return it from their own history.
    async fn lookup(&self, _effect: &IdempotencyKey) -> Result<EffectRecord, JournalError> {
        Ok(EffectRecord::NotRecorded)
    }

    /// Returns the durable changes, from the first one. When the call of a sub-agent resumes, the
    /// loop rebuilds the state of the sub-agent from them. A journal that cannot read returns none.
    async fn load_changes(&self) -> Result<Vec<ChangeRecord>, JournalError> {
        Ok(Vec::new())
    }

    /// Returns the journal of a sub-agent that a call runs. The same call always gets the same
    /// journal.
    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal>;
}

/// The record of an effect.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EffectRecord {
    /// The effect is not recorded, so it starts.
    NotRecorded,
    /// The model call is recorded.
    Response(Arc<StepResponse>),
    /// The tool call is recorded.
    Outcome(Arc<ToolOutcome>),
}

/// A failed append.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another writer appended to this session.
    #[error("another writer changed the session; load it again and reapply your changes")]
    Conflict,
    /// Changes existed, and they are permanently lost.
    #[error("the history was deleted, so its content is unknown")]
    Lost,
    /// Another process uses the session of a sub-agent.
    #[error(
        "the sub-agent's session is in use: {0}; wait until it is free, and then resume the run"
    )]
    InUse(#[source] BoxError),
    /// The lease was lost.
    #[error("the session lease was lost; load the session again before you continue")]
    LeaseLost,
    /// The store cannot be reached or is full. No stored change is lost.
    #[error("the session store is unavailable: the run stopped before its next side effect")]
    Unavailable(#[source] BoxError),
}

/// Awaits a journal. A panic becomes [`Unavailable`](JournalError::Unavailable).
pub(crate) async fn contained<T>(
    call: impl Future<Output = Result<T, JournalError>>,
) -> Result<T, JournalError> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|payload| {
        Err(JournalError::Unavailable(Panicked(panic_message(&*payload)).into()))
    })
}

impl AgentState {
    /// Appends the unacknowledged changes to the journal. A run does this automatically; call it
    /// for edits outside a run.
    ///
    /// # Errors
    ///
    /// Returns an error if the journal rejects the changes. The state keeps them, and sends them
    /// again unchanged.
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
