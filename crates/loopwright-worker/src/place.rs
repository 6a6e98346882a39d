//! Where a job is done: the agent of its session, and the session's working directory.

use std::sync::{Arc, OnceLock};

use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{AgentLoop, BoxError};
use loopwright_sessions::{AgentSession, SessionError};

#[cfg(all(feature = "workspaces", target_os = "linux"))]
use crate::folders::{OpenFolder, SavedLoops};
use crate::worker::Worker;

/// The agent of a job, which is found only once the job has the lease on its session: it can depend on the working
/// directory.
#[derive(Clone, Default)]
pub(crate) struct JobAgent(Arc<OnceLock<Arc<dyn LoopFactory>>>);

impl LoopFactory for JobAgent {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        match self.0.get() {
            Some(loops) => loops.instantiate(definition),
            None => Err(BuildError::capability("job", "its agent is not known yet")),
        }
    }
}

/// This worker cannot run the agent of a session.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AgentRefused(#[source] pub(crate) BoxError);

/// Where a job is done.
#[derive(Clone, Copy)]
pub(crate) struct JobPlace<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) agent: &'a JobAgent,
}

/// A place that is ready for a job.
pub(crate) struct OpenPlace {
    #[cfg(all(feature = "workspaces", target_os = "linux"))]
    folder: Option<Arc<OpenFolder>>,
}

impl JobPlace<'_> {
    /// Prepares the working directory, and then finds the agent. Call it with the lease on the session.
    pub(crate) async fn open(&self, session: &AgentSession) -> Result<OpenPlace, SessionError> {
        let agents = &self.worker.agents;
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        let folder = match &self.worker.folders {
            Some(folders) => {
                let Worker { store, env, .. } = self.worker;
                let opened = folders.open(store, &env.clock, session.header()).await;
                opened.map_err(|error| SessionError::Action(error.into()))?
            }
            None => None,
        };
        let refused = |error| SessionError::Action(AgentRefused(error).into());
        let loops = agents.of_session(session).await.map_err(refused)?;
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        let loops = match &folder {
            Some(folder) => Arc::new(SavedLoops { loops, folder: Arc::clone(folder) }),
            None => loops,
        };
        // A job is delivered once by each runner.
        let _first = self.agent.0.set(loops);
        Ok(OpenPlace {
            #[cfg(all(feature = "workspaces", target_os = "linux"))]
            folder,
        })
    }
}

impl OpenPlace {
    /// Saves the working directory a last time. If that fails, the next job restores the content that is on record.
    pub(crate) async fn close(self) {
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        if let Some(folder) = self.folder
            && let Err(error) = folder.close().await
        {
            tracing::warn!(%error, "the working directory of a session was not saved");
        }
    }
}
