//! The agents of stored sessions, for programs that run the sessions of others.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::LoopFactory;
use loopwright_core::{BoxError, Hook};
use loopwright_sessions::{
    AgentSession, SessionHeader, SessionRepository, SessionStore, snapshot_owner,
};
use loopwright_worker::AgentResolver;

use crate::agent::Setup;
use crate::args::session::SessionArgs;
use crate::args::{AgentArgs, Cli};
use crate::chosen_rules;
use crate::conversation::noting_files;
use crate::loops::FixedLoop;
use crate::session::SessionsError;
use crate::session_folder::{KeepFolder, SessionFolder};
use crate::startup::{NoopListener, Startup};
use crate::worker_roots::WorkerRoots;

/// The agent of each session, in its directory.
#[derive(Clone)]
pub(crate) struct SessionAgents {
    pub(crate) cli: Cli,
    pub(crate) agent: AgentArgs,
    pub(crate) typed: SessionArgs,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) roots: WorkerRoots,
}

#[async_trait]
impl AgentResolver for SessionAgents {
    async fn of(&self, header: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError> {
        let session = SessionRepository::new(Arc::clone(&self.store)).load(&header.id).await?;
        let setup = Box::pin(self.setup(&session)).await?;
        self.agent(&setup, header, NoopListener)
    }

    async fn of_session(&self, session: &AgentSession) -> Result<Arc<dyn LoopFactory>, BoxError> {
        let setup = Box::pin(self.setup(session)).await?;
        let folder = self.folder(session, setup.workdir.path()).await?;
        self.agent(&setup, session.header(), KeepFolder::new(folder, session.state()))
    }
}

impl SessionAgents {
    /// Prepares the agent of a session.
    async fn setup(&self, session: &AgentSession) -> Result<Setup, BoxError> {
        let header = session.header();
        // Before anything of the folder is read. A session without one works where the worker was started.
        if let Some(folder) = header.workdir.as_deref() {
            self.roots.check(header, Path::new(folder))?;
        }
        let opening = Startup::of_session(&self.cli, &self.agent, &self.typed, session);
        let opening = opening.map_err(|refusal| refusal.error)?;
        let setup = opening.setup(&self.agent).await.map_err(|refusal| refusal.error)?;
        setup.permissions.use_chosen(chosen_rules::of(session.state()))?;
        self.roots.check(header, setup.workdir.path())?;
        // What was put in the place of its directory is not what somebody left work for.
        let (real, path) = (setup.workdir.path(), header.workdir.as_deref().map(Path::new));
        if let Some(path) = path.filter(|it| *it != real) {
            let (id, path, real) = (header.id.clone(), path.to_owned(), real.to_owned());
            return Err(SessionsError::Moved { id, path, real }.into());
        }
        // A session keeps its own instructions.
        Ok(Setup { system_prompt: None, ..setup })
    }

    /// Checks that no other folder has taken the place of the one in which a session worked, and returns it. `None` means that
    /// the folder is restored from snapshots, so that it is a new one each time.
    async fn folder(
        &self,
        session: &AgentSession,
        path: &Path,
    ) -> Result<Option<SessionFolder>, BoxError> {
        if snapshot_owner(&*self.store, session.header()).await?.is_some() {
            return Ok(None);
        }
        let folder = SessionFolder::of(path);
        if let Some(folder) = &folder {
            folder.check(session, false)?;
        }
        Ok(folder)
    }

    fn agent(
        &self,
        setup: &Setup,
        session: &SessionHeader,
        listener: impl Hook + 'static,
    ) -> Result<Arc<dyn LoopFactory>, BoxError> {
        let agent = noting_files(setup, &self.store, &session.id).build(listener)?;
        Ok(Arc::new(FixedLoop(agent)))
    }
}
