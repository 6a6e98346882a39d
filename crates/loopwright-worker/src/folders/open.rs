//! The directory of a session while a job works in it.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, lock::Mutex};
use loopwright_core::{CallState, Clock, ExecutionStatus, Failure, FailureKind, JournalError};
use loopwright_sessions::{ActionCx, AgentSession, SessionError, SessionId, SessionStore};
use loopwright_workspaces::{Snapshot, SnapshotError, Snapshots};
use uuid::Uuid;

use super::{
    FolderContent, FolderError, FolderFact, FolderHead, FolderWriter, SessionFolders,
    machine::machine_id, marker::Marker,
};

/// How often a directory is sent to a storage that does not respond, before a run continues without.
const ATTEMPTS: u32 = 4;

/// The time before the second attempt; each later one waits twice as long as the one before.
const PAUSE: Duration = Duration::from_secs(1);

/// The age at which a snapshot that is no longer the current one can be deleted, and how often that is done for a session.
const OUTDATED: Duration = Duration::from_hours(24);

/// How much the clock of the storage may differ.
const SKEW: Duration = Duration::from_hours(1);

/// The directory of a session that this process may change.
pub(crate) struct OpenFolder {
    snapshots: Snapshots,
    path: PathBuf,
    marker: Marker,
    id: SessionId,
    machine: Arc<str>,
    host: Arc<str>,
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    writer: FolderWriter,
    /// When this process put on record that it has the directory.
    claimed: Instant,
    state: Mutex<FolderState>,
}

/// What the session has on record of its directory.
#[derive(Debug)]
struct FolderState {
    head: FolderHead,
    /// The last snapshot, with what is known of the files. `None` means that it is not known which files it has.
    snapshot: Option<Snapshot>,
    /// Whether a snapshot could not be recorded, such as because another process has extended the chain. Then nothing more is
    /// recorded.
    has_failed: bool,
    is_lost: bool,
}

impl SessionFolders {
    /// Prepares the directory of a session for a job. `None` means that it is not kept in the storage.
    pub(crate) async fn open(
        &self,
        session: &AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<Option<Arc<OpenFolder>>, FolderError> {
        let Some(path) = self.folder_of(session.header()) else { return Ok(None) };
        let (id, machine) = (session.id().clone(), machine_id(&self.root)?);
        let head = FolderHead::read(&**cx.store, &id).await?;
        match &head.fact.content {
            None if session.state().execution_count() > 0 => {
                return Err(FolderError::NeverSaved(id));
            }
            Some(FolderContent::Unsaved { machine: other, host, reason }) if *other != machine => {
                let (host, reason) = (Arc::clone(host), Arc::clone(reason));
                return Err(FolderError::OnAnotherMachine { session: id, host, reason });
            }
            Some(FolderContent::Unsaved { .. }) if !path.is_dir() => {
                return Err(FolderError::Missing { session: id, path });
            }
            _ => {}
        }
        let writer = FolderWriter {
            lease: cx.lease().map_or(0, |lease| lease.number),
            id: Uuid::new_v4().to_string().into(),
        };
        let claimed = Instant::now();
        let content = head.fact.content.clone();
        let state = FolderState { head, snapshot: None, has_failed: false, is_lost: false };
        let folder = OpenFolder {
            snapshots: self.snapshots_of(&id),
            marker: Marker::beside(&path),
            path,
            id,
            machine,
            host: Arc::clone(&self.host),
            store: Arc::clone(cx.store),
            clock: Arc::clone(&cx.env.clock),
            writer,
            claimed,
            state: Mutex::new(state),
        };
        // From here on no other process can extend the chain.
        {
            let mut state = folder.state.lock().await;
            folder.record(&mut state, content).await?;
        }
        folder.prepare().await?;
        Ok(Some(Arc::new(folder)))
    }
}

impl OpenFolder {
    /// Makes the directory have its last content.
    async fn prepare(&self) -> Result<(), FolderError> {
        let marker = self.marker.take()?;
        let content = self.state.lock().await.head.fact.content.clone();
        match content {
            Some(FolderContent::Saved(id)) if self.marker.says(marker.as_deref(), &id) => Ok(()),
            Some(FolderContent::Saved(id)) => {
                let snapshot = self.snapshots.restore(&id, &self.path).boxed().await?;
                self.state.lock().await.snapshot = Some(snapshot);
                Ok(())
            }
            Some(FolderContent::Unsaved { .. }) => self.save().await,
            // The first content.
            None => {
                self.create()?;
                self.save().await
            }
        }
    }

    fn create(&self) -> Result<(), FolderError> {
        match DirBuilder::new().mode(0o700).recursive(true).create(&self.path) {
            Err(source) => Err(FolderError::Io { path: self.path.clone(), source }),
            Ok(()) => Ok(()),
        }
    }

    /// Saves the directory, and puts the snapshot on record. Does nothing if nothing changed.
    ///
    /// # Errors
    ///
    /// Returns an error if another process has continued the session, or the session cannot be written. A directory that
    /// cannot be saved is no error: the session then has on record that the content is on this machine.
    pub(crate) async fn save(&self) -> Result<(), FolderError> {
        let mut state = self.state.lock().await;
        if state.is_lost {
            return Err(FolderError::Lost(self.id.clone()));
        }
        let is_away = matches!(state.head.fact.content, Some(FolderContent::Unsaved { .. }));
        let max_attempts = if is_away { 1 } else { ATTEMPTS };
        let content = match self.send(state.snapshot.as_ref(), max_attempts).await {
            Ok(snapshot) => {
                let id = snapshot.id();
                state.snapshot = Some(snapshot);
                FolderContent::Saved(id)
            }
            Err(error) => {
                let reason: Arc<str> =
                    Failure::from_error(FailureKind::Other, &error).to_string().into();
                tracing::warn!(session = %self.id, %reason, "the working directory was not saved");
                let (machine, host) = (Arc::clone(&self.machine), Arc::clone(&self.host));
                FolderContent::Unsaved { machine, host, reason }
            }
        };
        if state.head.fact.content.as_ref() == Some(&content) {
            return Ok(());
        }
        let recorded = self.record(&mut state, Some(content)).await;
        state.has_failed = recorded.is_err();
        recorded
    }

    /// Sends what changed since the last snapshot, again if the storage does not respond.
    async fn send(
        &self,
        previous: Option<&Snapshot>,
        max_attempts: u32,
    ) -> Result<Snapshot, SnapshotError> {
        let (mut attempt, mut pause) = (1, PAUSE);
        loop {
            match self.snapshots.save(&self.path, previous).boxed().await {
                Err(SnapshotError::Storage(_) | SnapshotError::Changing { .. })
                    if attempt < max_attempts =>
                {
                    self.clock.sleep(pause).await;
                    (attempt, pause) = (attempt + 1, pause * 2);
                }
                done => return Ok(done?.snapshot),
            }
        }
    }

    /// Extends the chain.
    async fn record(
        &self,
        state: &mut FolderState,
        content: Option<FolderContent>,
    ) -> Result<(), FolderError> {
        let fact = FolderFact { content, cleaned: state.head.fact.cleaned };
        self.extend(state, &fact).await
    }

    async fn extend(&self, state: &mut FolderState, fact: &FolderFact) -> Result<(), FolderError> {
        let extended = state.head.extend(&*self.store, &self.id, &self.writer, fact).await?;
        let Some(head) = extended else {
            state.is_lost = true;
            return Err(FolderError::Lost(self.id.clone()));
        };
        state.head = head;
        Ok(())
    }

    /// Saves what changed since the last save, and notes that the directory has the content on record. Does nothing if
    /// the session lacks the result of a call that began. Then, and if this fails, the content on record is restored before
    /// the next job.
    ///
    /// # Errors
    ///
    /// Returns an error if a change of the session could not be recorded. What the state of the session has in memory must
    /// not be saved then, because its files were not.
    pub(crate) async fn close(&self, session: &AgentSession) -> Result<(), SessionError> {
        let state = session.state();
        if let ExecutionStatus::Failed(failure) = state.status()
            && failure.kind == FailureKind::Journal
        {
            return Err(JournalError::Unavailable(failure.to_string().into()).into());
        }
        if self.state.lock().await.has_failed {
            let reason = "the snapshot of the directory could not be recorded";
            return Err(JournalError::Unavailable(reason.into()).into());
        }
        let step = state.execution().and_then(|it| it.open_step());
        let mut calls = step.into_iter().flat_map(loopwright_core::OpenStep::calls);
        let is_open =
            calls.any(|it| matches!(it, CallState::Started { .. } | CallState::AwaitingAnswer));
        if !is_open && let Err(error) = self.mark().await {
            tracing::warn!(session = %self.id, %error, "the working directory was not saved");
        }
        Ok(())
    }

    async fn mark(&self) -> Result<(), FolderError> {
        self.save().await?;
        match &self.state.lock().await.head.fact.content {
            Some(FolderContent::Saved(id)) => self.marker.leave(id),
            Some(FolderContent::Unsaved { .. }) | None => Ok(()),
        }
    }

    /// Deletes outdated snapshots, once a day at most. Call it when the session was saved.
    ///
    /// A process that lost the directory deletes nothing: it learns that from its entry in the chain. What a later process
    /// saves is younger than the entry with which this one took the directory, and stays.
    pub(crate) async fn delete_outdated(&self) -> Result<(), FolderError> {
        let mut state = self.state.lock().await;
        let (fact, now) = (state.head.fact.clone(), self.clock.now());
        let is_due = fact.cleaned.is_none_or(|it| now.since(it) >= OUTDATED);
        let Some(FolderContent::Saved(id)) = fact.content else { return Ok(()) };
        if state.is_lost || state.has_failed || !is_due {
            return Ok(());
        }
        self.extend(&mut state, &FolderFact { cleaned: Some(now), ..fact }).await?;
        let age = OUTDATED.max(self.claimed.elapsed() + SKEW);
        self.snapshots.remove_unused(&[id], age).boxed().await?;
        Ok(())
    }
}
