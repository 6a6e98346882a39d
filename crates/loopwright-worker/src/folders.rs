//! Working directories of sessions that follow their sessions from machine to machine.

mod hook;
mod marker;
mod record;

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, lock::Mutex};
use loopwright_core::Clock;
use loopwright_sessions::{SessionHeader, SessionId, SessionStore, StoreError};
use loopwright_workspaces::{
    Snapshot, SnapshotError, Snapshots, object_store::path::Path as ObjectPath,
};

use self::{
    marker::Marker,
    record::{FolderContent, FolderHead},
};

pub(crate) use self::hook::SavedLoops;

/// How often a folder is sent to a storage that does not respond, before a run continues without.
const ATTEMPTS: u32 = 4;

/// The time before the second attempt; each later one waits twice as long as the one before.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a worker competes for a folder with one that lost the job and does not know it yet.
const CLAIMS: usize = 4;

/// The age at which a snapshot that is no longer the current one can be deleted.
const OUTDATED: Duration = Duration::from_hours(24);

/// Keeps the working directories of sessions in object storage, so that any worker can continue any session.
///
/// This holds for sessions whose directory is `ROOT/ID`, as servers create them with their own directory for each session;
/// others are used as they are. The path of the root must be the same on all machines.
///
/// The worker that claims a job restores the last snapshot, unless it already has that content. While the job runs, the
/// directory is saved after each tool call, *before the result of the call is recorded*: a recorded result always comes with
/// its files, and what an interrupted call left is discarded. The snapshots of a session form a chain in its
/// [`SessionLog::Folder`](loopwright_sessions::SessionLog::Folder), which only one process can extend at a time. A worker that
/// lost its job, even without knowing it, cannot replace what a later one saved.
///
/// Tool calls that report [no file change](loopwright_core::FilesChanged::None) are saved with the step.
///
/// If the storage does not respond, the run continues, and the session remembers that the last content is on this machine.
/// Other machines then refuse the session with an error that names this one.
#[derive(Clone, Debug)]
pub struct SessionFolders {
    snapshots: Snapshots,
    root: Arc<Path>,
    machine: Arc<str>,
}

/// A working directory that cannot be restored or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The last content exists only on another machine.
    #[error(
        "the last files of session {session} were not saved, and are on machine `{machine}`; start a worker there while the \
         storage is available"
    )]
    OnAnotherMachine {
        /// The session.
        session: SessionId,
        /// The name of the machine.
        machine: Arc<str>,
    },
    /// Another worker has saved the directory since.
    #[error("another worker has continued session {0}")]
    Lost(SessionId),
    /// The directory could not be restored or saved.
    #[error("cannot restore or save the working directory of a session")]
    Snapshot(#[from] SnapshotError),
    /// The directory or its marker cannot be accessed.
    #[error("cannot access `{}`", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The store of the session failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry of the log of snapshots that this version does not know.
    #[error("session {session} has an unknown entry in its log of snapshots; update this program")]
    UnknownRecord {
        /// The session.
        session: SessionId,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl FolderError {
    /// Returns `true` if another attempt can succeed without a change by the user.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Snapshot(error) => {
                matches!(error, SnapshotError::Storage(_) | SnapshotError::Busy(_))
            }
            Self::Store(error) => matches!(error, StoreError::Unavailable(_)),
            _ => false,
        }
    }
}

impl SessionFolders {
    /// Keeps the directories of sessions below `root` in this storage.
    pub fn new(snapshots: Snapshots, root: impl AsRef<Path>) -> Self {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { snapshots, root: root.as_ref().into(), machine: name.into() }
    }

    /// Sets the name of this machine, which must differ from those of all others. The default is its host name.
    #[must_use]
    pub fn with_machine(self, name: impl Into<Arc<str>>) -> Self {
        Self { machine: name.into(), ..self }
    }

    /// Returns the directory of a session if it is kept in the storage.
    pub fn folder_of(&self, session: &SessionHeader) -> Option<PathBuf> {
        let folder = self.root.join(session.id.as_str());
        (session.workdir.as_deref().map(Path::new) == Some(&*folder)).then_some(folder)
    }

    /// Makes a copy of a folder the first content of a session's directory, which a worker then restores. The session must be
    /// new.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory of the session is not below the root or already has a content, or if the folder
    /// cannot be saved.
    pub async fn upload(
        &self,
        store: &dyn SessionStore,
        session: &SessionHeader,
        folder: &Path,
    ) -> Result<(), FolderError> {
        let head = FolderHead::read(store, &session.id).await?;
        if self.folder_of(session).is_none() || head.content.is_some() {
            return Err(FolderError::Lost(session.id.clone()));
        }
        let saved = self.snapshots_of(&session.id).save(folder, None).boxed().await?;
        let content = FolderContent::Saved(saved.snapshot.id());
        match head.extend(store, &session.id, content).await? {
            Some(_) => Ok(()),
            None => Err(FolderError::Lost(session.id.clone())),
        }
    }

    /// Writes the last content of a session's directory to a folder, and replaces everything in it. Returns `false` if the
    /// directory was never saved.
    ///
    /// # Errors
    ///
    /// Returns an error if the last content is only on another machine, or cannot be restored.
    pub async fn download(
        &self,
        store: &dyn SessionStore,
        session: &SessionId,
        folder: &Path,
    ) -> Result<bool, FolderError> {
        match FolderHead::read(store, session).await?.content {
            None => Ok(false),
            Some(FolderContent::Saved(id)) => {
                self.snapshots_of(session).restore(&id, folder).boxed().await?;
                Ok(true)
            }
            Some(FolderContent::Unsaved { machine }) => {
                Err(FolderError::OnAnotherMachine { session: session.clone(), machine })
            }
        }
    }

    fn snapshots_of(&self, session: &SessionId) -> Snapshots {
        let prefix = ObjectPath::from_iter(["sessions", session.as_str()]);
        self.snapshots.clone().with_prefix(&prefix)
    }

    /// Prepares the directory of a session for a job. `None` means that it is not kept in the storage.
    pub(crate) async fn open(
        &self,
        store: &Arc<dyn SessionStore>,
        clock: &Arc<dyn Clock>,
        session: &SessionHeader,
    ) -> Result<Option<Arc<OpenFolder>>, FolderError> {
        let Some(path) = self.folder_of(session) else { return Ok(None) };
        let id = session.id.clone();
        let folder = OpenFolder {
            snapshots: self.snapshots_of(&id),
            marker: Marker::beside(&path),
            path,
            id,
            machine: Arc::clone(&self.machine),
            store: Arc::clone(store),
            clock: Arc::clone(clock),
            state: Mutex::default(),
        };
        folder.claim().await?;
        Ok(Some(Arc::new(folder)))
    }
}

/// The directory of a session that this process may change.
pub(crate) struct OpenFolder {
    snapshots: Snapshots,
    path: PathBuf,
    marker: Marker,
    id: SessionId,
    machine: Arc<str>,
    store: Arc<dyn SessionStore>,
    clock: Arc<dyn Clock>,
    state: Mutex<FolderState>,
}

/// What the session has on record of its directory.
#[derive(Debug, Default)]
struct FolderState {
    head: FolderHead,
    /// The last snapshot, with what is known of the files. `None` means that it is not known which files it has.
    snapshot: Option<Snapshot>,
    /// Whether another process has extended the chain.
    is_lost: bool,
}

impl OpenFolder {
    /// Restores the last content, and takes the end of the chain.
    async fn claim(&self) -> Result<(), FolderError> {
        for _ in 0..CLAIMS {
            let head = FolderHead::read(&*self.store, &self.id).await?;
            let (content, snapshot) = self.restore(&head).await?;
            let mut state = self.state.lock().await;
            *state = FolderState { head, snapshot, is_lost: false };
            match self.record(&mut state, content).await {
                Err(FolderError::Lost(_)) => {}
                done => return done,
            }
        }
        Err(FolderError::Lost(self.id.clone()))
    }

    /// Makes the directory have its last content, and returns what that is.
    async fn restore(
        &self,
        head: &FolderHead,
    ) -> Result<(FolderContent, Option<Snapshot>), FolderError> {
        match &head.content {
            Some(FolderContent::Unsaved { machine }) if *machine != self.machine => {
                let (session, machine) = (self.id.clone(), Arc::clone(machine));
                Err(FolderError::OnAnotherMachine { session, machine })
            }
            Some(FolderContent::Saved(id)) => {
                let is_present = self.marker.take(id)?;
                let snapshot = match is_present {
                    true => None,
                    false => Some(self.snapshots.restore(id, &self.path).boxed().await?),
                };
                Ok((FolderContent::Saved(*id), snapshot))
            }
            // The first content, or what could not be sent from here.
            Some(FolderContent::Unsaved { .. }) | None => {
                self.create()?;
                let saved = self.snapshots.save(&self.path, None).boxed().await?.snapshot;
                Ok((FolderContent::Saved(saved.id()), Some(saved)))
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
    /// Returns an error if another process has continued the session, or the session cannot be written. A storage that does
    /// not respond is no error: the session then has on record that the content is on this machine.
    pub(crate) async fn save(&self) -> Result<(), FolderError> {
        let mut state = self.state.lock().await;
        if state.is_lost {
            return Err(FolderError::Lost(self.id.clone()));
        }
        let (content, snapshot) = match self.send(state.snapshot.as_ref()).await {
            Ok(snapshot) => (FolderContent::Saved(snapshot.id()), Some(snapshot)),
            Err(error) => {
                tracing::warn!(session = %self.id, %error, "the working directory was not saved");
                (FolderContent::Unsaved { machine: Arc::clone(&self.machine) }, None)
            }
        };
        if snapshot.is_some() {
            state.snapshot = snapshot;
        }
        if state.head.content.as_ref() == Some(&content) {
            return Ok(());
        }
        self.record(&mut state, content).await
    }

    /// Sends what changed since the last snapshot, again if the storage does not respond.
    async fn send(&self, previous: Option<&Snapshot>) -> Result<Snapshot, SnapshotError> {
        let (mut attempts, mut pause) = (1, PAUSE);
        loop {
            match self.snapshots.save(&self.path, previous).boxed().await {
                Err(SnapshotError::Storage(_) | SnapshotError::Changing { .. })
                    if attempts < ATTEMPTS =>
                {
                    self.clock.sleep(pause).await;
                    (attempts, pause) = (attempts + 1, pause * 2);
                }
                done => return Ok(done?.snapshot),
            }
        }
    }

    /// Extends the chain.
    async fn record(
        &self,
        state: &mut FolderState,
        content: FolderContent,
    ) -> Result<(), FolderError> {
        match state.head.extend(&*self.store, &self.id, content).await? {
            Some(head) => {
                state.head = head;
                Ok(())
            }
            None => {
                state.is_lost = true;
                Err(FolderError::Lost(self.id.clone()))
            }
        }
    }

    /// Saves what changed since the last save, and notes that the directory has the content on record. Without that, it is
    /// restored before the next job.
    pub(crate) async fn close(&self) -> Result<(), FolderError> {
        self.save().await?;
        let state = self.state.lock().await;
        if let Some(FolderContent::Saved(id)) = &state.head.content {
            self.marker.leave(id)?;
            if let Err(error) = self.snapshots.remove_unused(&[*id], OUTDATED).boxed().await {
                tracing::debug!(session = %self.id, %error, "outdated snapshots were not deleted");
            }
        }
        Ok(())
    }
}
