//! Working directories of sessions that follow their sessions from machine to machine.

mod error;
mod journal;
mod machine;
mod marker;
mod open;
mod record;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::FutureExt as _;
use loopwright_sessions::{SessionHeader, SessionId, SessionStore};
use loopwright_workspaces::{LeftOut, Snapshots, object_store::path::Path as ObjectPath};
use uuid::Uuid;

use self::record::{FolderContent, FolderFact, FolderHead, FolderWriter};

pub use self::error::FolderError;
pub(crate) use self::{journal::SavedJournal, open::OpenFolder};

/// Keeps the working directories of sessions in a storage of snapshots, so that any worker can continue any session.
///
/// This holds for sessions whose directory is `ROOT/ID`, as servers create them with their own directory for each session;
/// others are used as they are. The path of the root must be the same on all machines.
///
/// # Rules
///
/// - The worker that has the lease on a session first puts on record that it has the directory now, and then restores the last
///   snapshot, unless its machine already has that content. From the record on, no other worker can replace the content, even
///   if it lost its lease without noticing.
/// - While the job runs, the directory is saved *before the result of a tool call is recorded*, and before the end of a step or
///   an execution is. So a recorded result always comes with its files. If the snapshot cannot be recorded, the result is not
///   recorded either, and the job is tried again.
/// - What an interrupted call left is discarded, on the same machine as well. A call that runs at the same time as a recorded
///   one can have written half of a file by then. If the process ends after a snapshot is recorded but before the result is
///   recorded, the file changes made by the call remain, without its result.
/// - If the storage does not respond, or the directory cannot be saved for another reason, the run continues, and the session
///   records that the last content is on this machine, and why. Workers on other machines then leave its jobs to this one.
/// - The first content is the directory as the first worker finds it, or a copy that was [uploaded](Self::upload). A session
///   that has already run without snapshots is refused.
///
/// The snapshots form a chain in the [`SessionLog::Folder`](loopwright_sessions::SessionLog::Folder) of the session. A machine
/// is known by a random ID in `ROOT/.loopwright-machine`.
#[derive(Clone, Debug)]
pub struct SessionFolders {
    snapshots: Snapshots,
    root: Arc<Path>,
    host: Arc<str>,
}

impl SessionFolders {
    /// Keeps the directories of sessions below `root` in this storage.
    pub fn new(snapshots: Snapshots, root: impl AsRef<Path>) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { snapshots, root: root.as_ref().into(), host: host.into() }
    }

    /// Sets the name of this machine in messages. The default is its host name.
    #[must_use]
    pub fn with_host(self, host: impl Into<Arc<str>>) -> Self {
        Self { host: host.into(), ..self }
    }

    /// Returns the directory of a session if it is kept in the storage.
    pub fn folder_of(&self, session: &SessionHeader) -> Option<PathBuf> {
        let folder = self.root.join(session.id.as_str());
        (session.workdir.as_deref().map(Path::new) == Some(&*folder)).then_some(folder)
    }

    /// Makes a copy of a directory the first content of a session's directory, which a worker then restores. Returns
    /// the entries that were left out of the copy. Returns `None`, and changes nothing, if the session already has a first
    /// content and no worker has continued it.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory of the session is not below the root, if a worker has continued the session, or if
    /// the directory cannot be saved.
    pub async fn upload(
        &self,
        store: &dyn SessionStore,
        session: &SessionHeader,
        folder: &Path,
    ) -> Result<Option<Vec<LeftOut>>, FolderError> {
        if self.folder_of(session).is_none() {
            return Err(FolderError::NotKept(session.id.clone()));
        }
        let head = FolderHead::read(store, &session.id).await?;
        if !head.is_untouched() {
            return Err(FolderError::Lost(session.id.clone()));
        }
        if head.fact.content.is_some() {
            return Ok(None);
        }
        let saved = self.snapshots_of(&session.id).save(folder, None).boxed().await?;
        let content = Some(FolderContent::Saved(saved.snapshot.id()));
        let writer = FolderWriter { lease: 0, id: Uuid::new_v4().to_string().into() };
        let fact = FolderFact { content, cleaned: None };
        match head.extend(store, &session.id, &writer, &fact).await? {
            Some(_) => Ok(Some(saved.left_out)),
            None => Err(FolderError::Lost(session.id.clone())),
        }
    }

    /// Writes the last content of a session's directory to a directory, and replaces everything in it. Returns `false` if the
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
        match FolderHead::read(store, session).await?.fact.content {
            None => Ok(false),
            Some(FolderContent::Saved(id)) => {
                self.snapshots_of(session).restore(&id, folder).boxed().await?;
                Ok(true)
            }
            Some(FolderContent::Unsaved { host, reason, .. }) => {
                Err(FolderError::OnAnotherMachine { session: session.clone(), host, reason })
            }
        }
    }

    fn snapshots_of(&self, session: &SessionId) -> Snapshots {
        let prefix = ObjectPath::from_iter(["sessions", session.as_str()]);
        self.snapshots.clone().with_prefix(&prefix)
    }
}
