//! Where a job is done: the agent of its session, and the session's working directory.

use std::sync::{Arc, OnceLock};

use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{AgentLoop, BoxError};
use loopwright_sessions::{
    ActionCx, AgentSession, SessionError, SessionHeader, SessionId, snapshot_owner,
};

use crate::agents::AgentResolver;
#[cfg(all(feature = "workspaces", target_os = "linux"))]
use crate::folders::{OpenFolder, SavedJournal, SessionFolders};

/// The agent of a job, which is found only once the job has the lease on its session: it can depend on the working
/// directory.
#[derive(Clone, Default)]
pub(crate) struct JobAgent(Arc<OnceLock<Arc<dyn LoopFactory>>>);

impl LoopFactory for JobAgent {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        match self.0.get() {
            Some(loops) => loops.instantiate(definition),
            None => Err(BuildError::capability("job", "its agent is still unknown")),
        }
    }
}

/// This worker cannot run the agent of a session.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AgentRefused(#[source] pub(crate) BoxError);

/// The directory of a session is stored as snapshots, and this worker does not restore them. Another one may.
#[derive(Debug, thiserror::Error)]
#[error(
    "the directory of session {0} is stored as snapshots; start a worker with the same `--session-dirs` and `--snapshots`"
)]
pub(crate) struct SnapshotsElsewhere(SessionId);

/// A sub-agent works in the directory of another session, which is stored as snapshots. Only jobs of that session restore it.
#[derive(Debug, thiserror::Error)]
#[error(
    "session {session} is a sub-agent of session {owner}, whose directory is stored as snapshots; submit a job to session {owner}"
)]
struct SnapshotsOfParent {
    session: SessionId,
    owner: SessionId,
}

/// Where a job is done. A place is used once.
pub(crate) struct JobPlace<'a> {
    agents: &'a dyn AgentResolver,
    agent: JobAgent,
    #[cfg(all(feature = "workspaces", target_os = "linux"))]
    folders: Option<&'a SessionFolders>,
    #[cfg(all(feature = "workspaces", target_os = "linux"))]
    folder: OnceLock<Arc<OpenFolder>>,
}

impl<'a> JobPlace<'a> {
    pub(crate) fn new(agents: &'a dyn AgentResolver) -> Self {
        Self {
            agents,
            agent: JobAgent::default(),
            #[cfg(all(feature = "workspaces", target_os = "linux"))]
            folders: None,
            #[cfg(all(feature = "workspaces", target_os = "linux"))]
            folder: OnceLock::new(),
        }
    }

    #[cfg(all(feature = "workspaces", target_os = "linux"))]
    pub(crate) fn with_folders(self, folders: Option<&'a SessionFolders>) -> Self {
        Self { folders, ..self }
    }

    pub(crate) fn agent(&self) -> &JobAgent {
        &self.agent
    }

    /// Prepares the working directory, and then finds the agent. Call it with the lease on the session.
    pub(crate) async fn open(
        &self,
        session: &AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<(), SessionError> {
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        if let Some(folders) = self.folders {
            let opened = folders.open(session, cx).await;
            let opened = opened.map_err(|error| SessionError::Action(error.into()))?;
            if let Some(folder) = opened {
                let _first = self.folder.set(folder);
                return self.find_agent(session).await;
            }
        }
        refuse_snapshots(session.header(), cx).await?;
        self.find_agent(session).await
    }

    async fn find_agent(&self, session: &AgentSession) -> Result<(), SessionError> {
        let refused = |error| SessionError::Action(AgentRefused(error).into());
        let loops = self.agents.of_session(session).await.map_err(refused)?;
        let _first = self.agent.0.set(loops);
        Ok(())
    }

    /// Returns the context for the run, whose results are recorded after the files that they come with.
    pub(crate) fn run_cx<'b>(&self, cx: &'b ActionCx<'_>) -> ActionCx<'b> {
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        if let Some(folder) = self.folder.get() {
            let (folder, journal) = (Arc::clone(folder), Arc::clone(&cx.journal));
            return cx.with_journal(Arc::new(SavedJournal { folder, journal }));
        }
        cx.with_journal(Arc::clone(&cx.journal))
    }

    /// Saves the working directory a last time.
    ///
    /// # Errors
    ///
    /// Returns an error if a change of the session was not recorded, such as because its files could not be.
    pub(crate) async fn close(
        &self,
        delivered: Result<AgentSession, SessionError>,
    ) -> Result<AgentSession, SessionError> {
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        if let Some(folder) = self.folder.get() {
            let session = delivered?;
            folder.close(&session).await?;
            return Ok(session);
        }
        delivered
    }

    /// Deletes outdated snapshots. Call it when the session was saved.
    pub(crate) async fn clean(&self) {
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        if let Some(folder) = self.folder.get()
            && let Err(error) = folder.delete_outdated().await
        {
            tracing::debug!(%error, "outdated snapshots were not deleted");
        }
    }
}

/// Refuses a session whose last files this worker does not restore. The sub-agents of a session work in its directory.
async fn refuse_snapshots(session: &SessionHeader, cx: &ActionCx<'_>) -> Result<(), SessionError> {
    if session.workdir.is_none() {
        return Ok(());
    }
    let Some(owner) = snapshot_owner(&**cx.store, session).await? else { return Ok(()) };
    let refused = if owner == session.id {
        SnapshotsElsewhere(owner).into()
    } else {
        SnapshotsOfParent { session: session.id.clone(), owner }.into()
    };
    Err(SessionError::Action(refused))
}
