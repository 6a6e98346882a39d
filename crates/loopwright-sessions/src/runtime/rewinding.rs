//! Forks and rewinds of sessions.

#[cfg(all(feature = "files", target_os = "linux"))]
use std::collections::BTreeMap;

#[cfg(all(feature = "files", target_os = "linux"))]
use loopwright_capabilities::files::{OriginalFile, UndoOutcome, WorkspaceRoot};
use loopwright_core::{ChangeRecord, Seq};

use crate::{
    error::SessionError,
    event::{SessionEvent, SessionSnapshot},
    header::SessionHeader,
    id::SessionId,
    repository::fork,
    runtime::SessionRuntime,
    session::AgentSession,
    steps::{RewindPoint, last_turn, step_end},
    store::LoadedSession,
    undo,
};
#[cfg(all(feature = "files", target_os = "linux"))]
use crate::{repository::refuse_snapshots, store::StoreError};

impl SessionRuntime {
    /// Creates a session that starts with the changes of this one, up to its end or to the end of a
    /// step as [`rewind`](SessionRuntime::rewind) counts them. Copies nothing, and this session can
    /// be in use. Without an ID, the new session gets a unique one. Active sub-agents continue in
    /// the fork: their sessions are forked, too.
    ///
    /// # Errors
    ///
    /// Returns an error if the session or step does not exist, the ID is taken, or the directory of the session is stored as
    /// [snapshots](crate::snapshot_owner).
    pub async fn fork(
        &self,
        id: &SessionId,
        step: Option<u64>,
        into: Option<SessionId>,
    ) -> Result<SessionHeader, SessionError> {
        let (source, definition, at) = match step {
            None => {
                let (source, definition) = self.repository.outline(id).await?;
                let at = source.length;
                (source, definition, at)
            }
            Some(step) => {
                let LoadedSession { header, definition, changes } =
                    self.repository.loaded(id).await?;
                let at = end_of(id, &changes, step)?;
                (header, definition, at)
            }
        };
        let now = self.env.clock.now();
        let header = fork(&**self.store(), &source, &definition, into, at, now).await?;
        self.tell(|| SessionEvent::Saved(SessionSnapshot::of(&header)));
        Ok(header)
    }

    /// Goes back to the end of a step, counted from one over all executions, or before the last
    /// turn; the end of step 0 is the state before the first execution. Deletes nothing, and leaves files as they are:
    /// a later [`rewind_files`](SessionRuntime::rewind_files) or [`undo_files`](SessionRuntime::undo_files) can undo
    /// their changes.
    ///
    /// # Errors
    ///
    /// Returns an error if the step does not exist, or the session is in use.
    pub async fn rewind(
        &self,
        id: &SessionId,
        to: impl Into<RewindPoint>,
    ) -> Result<AgentSession, SessionError> {
        let (session, ()) = self.rewind_after(id, to.into(), async |_| Ok(())).await?;
        Ok(session)
    }

    /// Goes back as [`rewind`](SessionRuntime::rewind) does, and undoes later file changes: those
    /// of file tools in a root, and those of commands wherever they ran, as far as
    /// [`SessionFiles`](crate::SessionFiles) recorded them. A file that has changed since then is
    /// kept, and reported as [`UndoOutcome::Conflict`]; a later call tries to undo its change again. So does one after another folder
    /// was at the path of the root ([`UndoOutcome::OtherFolder`]).
    ///
    /// # Errors
    ///
    /// As for `rewind`. Also returns an error if the directory of the session is stored as
    /// [snapshots](crate::snapshot_owner). A file that cannot be read or written is kept, like one that has changed.
    #[cfg(all(feature = "files", target_os = "linux"))]
    pub async fn rewind_files(
        &self,
        id: &SessionId,
        to: impl Into<RewindPoint>,
        root: &WorkspaceRoot,
    ) -> Result<(AgentSession, Vec<(String, UndoOutcome)>), SessionError> {
        self.refuse_snapshots(id).await?;
        let undo = async |at| undo::undo(&**self.store(), id, root, at).await;
        self.rewind_after(id, to.into(), undo).await
    }

    /// Undoes the file changes that [`rewind_files`](SessionRuntime::rewind_files) undoes, and leaves the session as it
    /// is. Like there, changes are undone once, and a later call tries those of conflicts again.
    ///
    /// # Errors
    ///
    /// As for `rewind_files`.
    #[cfg(all(feature = "files", target_os = "linux"))]
    pub async fn undo_files(
        &self,
        id: &SessionId,
        to: impl Into<RewindPoint>,
        root: &WorkspaceRoot,
    ) -> Result<Vec<(String, UndoOutcome)>, SessionError> {
        self.refuse_snapshots(id).await?;
        let to = to.into();
        let lease = self.lease(id).await?;
        let undone = async {
            let (_, at) = self.loaded_at(id, to).await?;
            undo::undo(&**self.store(), id, root, at).await
        };
        let undone = undone.await;
        let _ended = self.store().release(&lease).await;
        undone
    }

    /// Returns the paths whose changes after a step [`rewind_files`](SessionRuntime::rewind_files) undoes, oldest
    /// change first.
    ///
    /// # Errors
    ///
    /// Returns an error if the session or step does not exist, or the store fails.
    #[cfg(all(feature = "files", target_os = "linux"))]
    pub async fn recorded_files(
        &self,
        id: &SessionId,
        to: impl Into<RewindPoint>,
    ) -> Result<Vec<String>, SessionError> {
        let (_, at) = self.loaded_at(id, to.into()).await?;
        Ok(undo::recorded(&**self.store(), id, at).await?)
    }

    /// Returns the content of each path before tools and commands first changed it after a step, as
    /// far as [`SessionFiles`](crate::SessionFiles) recorded it. Changes by commands are known only
    /// on the machine where the commands ran. Files of more than `largest` bytes are
    /// [`Unknown`](OriginalFile::Unknown).
    ///
    /// # Errors
    ///
    /// Returns an error if the session or step does not exist, or the store fails.
    #[cfg(all(feature = "files", target_os = "linux"))]
    pub async fn original_files(
        &self,
        id: &SessionId,
        to: impl Into<RewindPoint>,
        largest: u64,
    ) -> Result<BTreeMap<String, OriginalFile>, SessionError> {
        let (_, at) = self.loaded_at(id, to.into()).await?;
        Ok(undo::originals(&**self.store(), id, at, largest).await?)
    }

    /// Returns the files that calls after a step have changed and
    /// [`rewind_files`](SessionRuntime::rewind_files) cannot restore, because this session does not
    /// have their earlier content: the changes were made before a fork or an import. Calls report
    /// these files ([`ToolOutput::files`](loopwright_core::ToolOutput::files)).
    ///
    /// # Errors
    ///
    /// Returns an error if the session or step does not exist, or the store fails.
    #[cfg(all(feature = "files", target_os = "linux"))]
    pub async fn unrecorded_files(
        &self,
        id: &SessionId,
        to: impl Into<RewindPoint>,
    ) -> Result<Vec<undo::FileCall>, SessionError> {
        let (loaded, at) = self.loaded_at(id, to.into()).await?;
        Ok(undo::unrecorded(&**self.store(), id, &loaded.changes, at).await?)
    }

    /// Returns the calls after a step that may have changed any file, such as commands in the background, whose changes
    /// [`rewind_files`](SessionRuntime::rewind_files) cannot undo. Calls report that
    /// ([`ToolOutput::files`](loopwright_core::ToolOutput::files)).
    ///
    /// # Errors
    ///
    /// Returns an error if the session or step does not exist, or the store fails.
    #[cfg(all(feature = "files", target_os = "linux"))]
    pub async fn unknown_changes(
        &self,
        id: &SessionId,
        to: impl Into<RewindPoint>,
    ) -> Result<Vec<undo::UnknownChanges>, SessionError> {
        let (loaded, at) = self.loaded_at(id, to.into()).await?;
        Ok(undo::unknown(&loaded.changes, at))
    }

    /// Loads a session with the place to go back to.
    async fn loaded_at(
        &self,
        id: &SessionId,
        to: RewindPoint,
    ) -> Result<(LoadedSession, Seq), SessionError> {
        let loaded = self.repository.loaded(id).await?;
        let at = point_of(id, &loaded.changes, to)?;
        Ok((loaded, at))
    }

    /// Returns an error if the directory in which a session works is stored as snapshots.
    #[cfg(all(feature = "files", target_os = "linux"))]
    async fn refuse_snapshots(&self, id: &SessionId) -> Result<(), SessionError> {
        let header = self.store().header(id).await?;
        let header = header.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        refuse_snapshots(&**self.store(), &header).await
    }

    /// Does something and goes back, holding the lease.
    async fn rewind_after<T>(
        &self,
        id: &SessionId,
        to: RewindPoint,
        before: impl AsyncFnOnce(Seq) -> Result<T, SessionError>,
    ) -> Result<(AgentSession, T), SessionError> {
        let lease = self.lease(id).await?;
        let rewound = async {
            let (loaded, at) = self.loaded_at(id, to).await?;
            let done = before(at).await?;
            undo::note_rewind(&**self.store(), id, at).await?;
            let now = self.env.clock.now();
            self.store().rewind(id, loaded.header.version, at, Some(&lease), now).await?;
            Ok::<_, SessionError>(done)
        };
        let rewound = rewound.await;
        let _ended = self.store().release(&lease).await;
        let done = rewound?;
        Ok((self.load(id).await?, done))
    }
}

fn end_of(id: &SessionId, changes: &[ChangeRecord], step: u64) -> Result<Seq, SessionError> {
    step_end(changes, step).map_err(|steps| SessionError::NoStep { id: id.clone(), step, steps })
}

fn point_of(
    id: &SessionId,
    changes: &[ChangeRecord],
    to: RewindPoint,
) -> Result<Seq, SessionError> {
    match to {
        RewindPoint::Step(step) => end_of(id, changes, step),
        RewindPoint::LastTurn => Ok(last_turn(changes)),
        RewindPoint::TurnOf(change) => {
            let until = usize::try_from(change).map_or(usize::MAX, |it| it.saturating_add(1));
            Ok(last_turn(&changes[..until.min(changes.len())]))
        }
    }
}
