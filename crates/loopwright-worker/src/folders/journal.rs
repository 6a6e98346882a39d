//! Saves the directory before the results of a run are recorded.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{
    Change, ChangeRecord, EffectRecord, IdempotencyKey, Journal, JournalError, Seq,
};

use super::{FolderError, OpenFolder};

/// The journal of a run that works in a directory. The directory is saved, and its snapshot recorded, before the journal behind
/// it records the result of a call, or the end of a step or an execution. If the snapshot cannot be recorded, the result is
/// not recorded either.
pub(crate) struct SavedJournal {
    pub(crate) folder: Arc<OpenFolder>,
    pub(crate) journal: Arc<dyn Journal>,
}

/// Returns `true` if tools may have worked before this change, and the change relies on what they did.
fn relies_on_files(change: &Change) -> bool {
    matches!(
        change,
        Change::ToolCallCompleted { .. }
            | Change::AnswerRequested { .. }
            | Change::StepCompleted { .. }
            | Change::StepFailed { .. }
            | Change::ExecutionPaused
            | Change::ExecutionEnded(_)
            | Change::ExecutionCleared
    )
}

#[async_trait]
impl Journal for SavedJournal {
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        if changes.iter().any(|it| relies_on_files(&it.change)) {
            self.folder.save().await.map_err(|error| match error {
                FolderError::Lost(_) => JournalError::LeaseLost,
                error => JournalError::Unavailable(error.into()),
            })?;
        }
        self.journal.append(first, changes).await
    }

    async fn lookup(&self, effect: &IdempotencyKey) -> Result<EffectRecord, JournalError> {
        self.journal.lookup(effect).await
    }

    async fn load_changes(&self) -> Result<Vec<ChangeRecord>, JournalError> {
        self.journal.load_changes().await
    }

    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        let (folder, journal) = (Arc::clone(&self.folder), self.journal.child(call));
        Arc::new(Self { folder, journal })
    }
}
