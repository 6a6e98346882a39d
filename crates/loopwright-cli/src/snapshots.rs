//! Working directories of sessions in object storage, for workers on several machines.

use std::path::{Path, PathBuf};

use loopwright_sessions::{SessionHeader, SessionId, SessionStore, snapshot_owner};
use loopwright_worker::Worker;

use crate::args::snapshots::SnapshotArgs;
use crate::session::SessionsError;

/// How many entries that were left out of a copy are named.
#[cfg(all(feature = "snapshots", target_os = "linux"))]
const LEFT_OUT: usize = 20;

/// Refuses a turn of a session whose directory workers store as snapshots: its last files may be on another machine, and a
/// change here would be replaced.
pub(crate) async fn refuse_snapshots(
    store: &dyn SessionStore,
    session: &SessionHeader,
) -> Result<(), SessionsError> {
    match snapshot_owner(store, session).await? {
        Some(owner) => Err(SessionsError::HasSnapshots(owner)),
        None => Ok(()),
    }
}

/// Refuses the turns of a session in a store, if the session exists, before the user types one.
pub(crate) async fn refuse_snapshots_of(
    store: &dyn SessionStore,
    session: &SessionId,
) -> Result<(), SessionsError> {
    match store.header(session).await? {
        Some(header) => refuse_snapshots(store, &header).await,
        None => Ok(()),
    }
}

/// The storage, and the place of the directories of sessions.
pub(crate) struct SessionSnapshots {
    #[cfg(all(feature = "snapshots", target_os = "linux"))]
    folders: loopwright_worker::SessionFolders,
    dirs: PathBuf,
}

#[cfg(all(feature = "snapshots", target_os = "linux"))]
impl SessionSnapshots {
    /// Opens the storage. `None` means that the options name none. `dirs` has no links.
    pub(crate) fn open(
        args: &SnapshotArgs,
        dirs: Option<&Path>,
    ) -> Result<Option<Self>, SessionsError> {
        let (Some(url), Some(dirs)) = (&args.snapshots, dirs) else { return Ok(None) };
        Ok(Some(Self { folders: folders(url, dirs)?, dirs: dirs.to_owned() }))
    }

    /// Lets a worker restore and save the directories.
    pub(crate) fn used_by(self, worker: Worker) -> Worker {
        worker.with_folders(self.folders)
    }

    /// Makes a copy of a directory the first content of the directory of a new session, and says what was left out.
    pub(crate) async fn upload(
        &self,
        store: &dyn SessionStore,
        session: &SessionHeader,
        folder: &Path,
    ) -> Result<(), SessionsError> {
        let done = self.folders.upload(store, session, folder).await;
        let done = done.map_err(|error| SessionsError::Usage(crate::display::chain(&error)))?;
        let left_out = done.unwrap_or_default();
        let names = left_out.iter().take(LEFT_OUT).map(|it| it.path.display().to_string());
        let names = names.collect::<Vec<_>>().join(", ");
        if !left_out.is_empty() {
            let more = if left_out.len() > LEFT_OUT { ", …" } else { "" };
            let names = crate::render::sanitize_terminal(&names);
            crate::console::tell(&format!("left out of the copy: {names}{more}"));
        }
        Ok(())
    }

    /// Writes the last content of the directory of a session in a storage to a folder. Returns `false` if there is none.
    pub(crate) async fn download(
        url: &str,
        store: &dyn SessionStore,
        session: &SessionId,
        folder: &Path,
    ) -> Result<bool, SessionsError> {
        let done = folders(url, folder)?.download(store, session, folder).await;
        done.map_err(|error| SessionsError::Usage(crate::display::chain(&error)))
    }
}

#[cfg(all(feature = "snapshots", target_os = "linux"))]
fn folders(url: &str, dirs: &Path) -> Result<loopwright_worker::SessionFolders, SessionsError> {
    let snapshots = loopwright_workspaces::Snapshots::open(url)
        .map_err(|error| SessionsError::Usage(crate::display::chain(&error)))?;
    Ok(loopwright_worker::SessionFolders::new(snapshots, dirs))
}

#[cfg(not(all(feature = "snapshots", target_os = "linux")))]
#[expect(clippy::unused_async, reason = "as with the feature")]
impl SessionSnapshots {
    pub(crate) fn open(
        args: &SnapshotArgs,
        _dirs: Option<&Path>,
    ) -> Result<Option<Self>, SessionsError> {
        match args.snapshots {
            None => Ok(None),
            Some(_) => Err(unsupported()),
        }
    }

    pub(crate) fn used_by(self, worker: Worker) -> Worker {
        worker
    }

    pub(crate) async fn upload(
        &self,
        _store: &dyn SessionStore,
        _session: &SessionHeader,
        _folder: &Path,
    ) -> Result<(), SessionsError> {
        Ok(())
    }

    pub(crate) async fn download(
        _url: &str,
        _store: &dyn SessionStore,
        _session: &SessionId,
        _folder: &Path,
    ) -> Result<bool, SessionsError> {
        Err(unsupported())
    }
}

#[cfg(not(all(feature = "snapshots", target_os = "linux")))]
fn unsupported() -> SessionsError {
    SessionsError::Usage(
        "this program was built without snapshots; build it on Linux with the feature `snapshots`, or `s3` for object storage"
            .to_owned(),
    )
}

impl SessionSnapshots {
    /// Lets a worker restore and save the directories if they have a storage.
    pub(crate) fn kept_by(snapshots: Option<Self>, worker: Worker) -> Worker {
        match snapshots {
            Some(snapshots) => snapshots.used_by(worker),
            None => worker,
        }
    }

    /// Returns the directory of a session, which is the same on all machines.
    pub(crate) fn dir_of(&self, session: &SessionId) -> String {
        self.dirs.join(session.as_str()).to_string_lossy().into_owned()
    }
}
