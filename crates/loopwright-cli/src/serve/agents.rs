//! The agents that the server offers, and the directories that their sessions work in.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use loopwright_agent::{Definitions as _, LoopFactory};
use loopwright_core::{BoxError, PendingApproval};
use loopwright_permissions::Decision;
use loopwright_server::{AgentInfo, AgentsError, KeptRules, Principal, ServedAgents};
use loopwright_sessions::{AgentSession, SessionHeader, SessionId, SessionQuery};
use loopwright_worker::AgentResolver as _;

use crate::approval::lasting_rules;
use crate::chosen_rules::{ChosenRule, with_added};
use crate::config::{Config, ConfigSources, Flags};
use crate::conversation::{ABOUT, Conversation};
use crate::definitions::Defined;
use crate::load_config::load;
use crate::model;
use crate::permissions::RunPermissions;
use crate::selected_agent::AGENT;
use crate::session_agents::SessionAgents;
use crate::startup::Startup;

/// The agents that the server offers: that of the program, and those that are defined where sessions work.
pub(super) struct OfferedAgents {
    sessions: SessionAgents,
    /// The directory of the directories of sessions, if each has one of its own.
    folders: Option<PathBuf>,
    /// Where agents are looked for.
    base: PathBuf,
    /// The agents that were found last, and when.
    found: Mutex<Option<(Instant, Arc<[AgentInfo]>)>>,
}

/// How long agents are not looked for again: it means to read all their files and the configuration.
const SAME_AGENTS: Duration = Duration::from_secs(1);

/// Sessions of other principals need directories of their own.
#[derive(Debug, thiserror::Error)]
#[error("sessions of other principals need their own directories; pass `--session-dirs DIR`")]
struct Shared;

impl OfferedAgents {
    pub(super) fn new(sessions: SessionAgents, folders: Option<PathBuf>, base: PathBuf) -> Self {
        Self { sessions, folders, base, found: Mutex::default() }
    }

    /// Returns the agents as they were a moment ago at most.
    fn recent(&self) -> Result<Arc<[AgentInfo]>, BoxError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, agents)) = &*found
            && at.elapsed() < SAME_AGENTS
        {
            return Ok(Arc::clone(agents));
        }
        let agents: Arc<[AgentInfo]> = self.offered()?.into();
        *found = Some((Instant::now(), Arc::clone(&agents)));
        Ok(agents)
    }

    /// Returns `true` if there is such an agent. One that was just added is found, too.
    fn offers(&self, agent: &str) -> Result<bool, BoxError> {
        let is_there = |agents: &[AgentInfo]| agents.iter().any(|it| it.name == agent);
        Ok(is_there(&self.recent()?) || is_there(&self.offered()?))
    }

    /// Looks for all agents. Blocks while it reads.
    fn offered(&self) -> Result<Vec<AgentInfo>, BoxError> {
        let own = AgentInfo { name: AGENT.to_owned(), description: ABOUT.to_owned() };
        let agent = self.args(None, &self.base);
        let Startup { config, sources, .. } =
            Startup::load(&self.sessions.cli, &agent, &self.sessions.typed)
                .map_err(|refusal| refusal.error)?;
        let providers = Arc::new(model::providers(&config, &sources)?);
        let defined = Defined::find(&config, &sources, &providers);
        let info = |name: &str, description: &str| AgentInfo {
            name: name.to_owned(),
            description: description.to_owned(),
        };
        let all = defined.agents.all();
        let defined = all.iter().map(|it| info(&it.name, &it.description));
        Ok(match &self.sessions.agent.definition {
            // Only this one is offered.
            Some(only) => defined.filter(|it| it.name == *only).collect(),
            None => [own].into_iter().chain(defined.filter(|it| it.name != AGENT)).collect(),
        })
    }

    /// Returns what was typed, for another agent in another directory.
    fn args(&self, agent: Option<&str>, workdir: &Path) -> crate::args::AgentArgs {
        let mut args = self.sessions.agent.clone();
        args.definition = agent.filter(|it| *it != AGENT).map(str::to_owned);
        args.surroundings.workdir = Some(workdir.to_path_buf());
        args.surroundings.quiet = true;
        args
    }

    /// Makes the directory of a session, or takes the one that all share.
    fn workdir(&self, id: &SessionId, principal: &Principal) -> Result<PathBuf, BoxError> {
        let Some(folders) = &self.folders else {
            return if principal.is_local() { Ok(self.base.clone()) } else { Err(Shared.into()) };
        };
        let folder = folders.join(id.as_str());
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Ok(folder),
        }
    }

    /// Reads the configuration for the directory of a session.
    fn configuration(&self, session: &SessionHeader) -> Result<(Config, ConfigSources), BoxError> {
        let workdir = session.workdir.as_deref().map_or(self.base.as_path(), Path::new);
        // Before anything of the folder is read.
        self.sessions.roots.check(session, workdir)?;
        let config = self.sessions.cli.config.clone();
        let flags = Flags { workdir: workdir.into(), config, ..Flags::default() };
        let (sources, loaded) = load(flags)?;
        Ok((loaded.config, sources))
    }

    /// Returns the directory of a session that is its own.
    fn own_folder(&self, session: &SessionHeader) -> Option<PathBuf> {
        let (folders, workdir) = (self.folders.as_ref()?, session.workdir.as_deref()?);
        let workdir = Path::new(workdir);
        (workdir.parent() == Some(folders)).then(|| workdir.to_path_buf())
    }
}

#[async_trait]
impl ServedAgents for OfferedAgents {
    async fn list(&self) -> Result<Vec<AgentInfo>, BoxError> {
        Ok(self.recent()?.to_vec())
    }

    async fn begin(
        &self,
        agent: &str,
        id: SessionId,
        principal: &Principal,
    ) -> Result<AgentSession, AgentsError> {
        if !self.offers(agent).map_err(AgentsError::Unusable)? {
            return Err(AgentsError::Unknown);
        }
        let folder = self.workdir(&id, principal).map_err(AgentsError::Unusable)?;
        let args = self.args(Some(agent), &folder);
        let sessions = &self.sessions;
        let unusable = |refusal: crate::startup::StartError| AgentsError::Unusable(refusal.error);
        let mut startup = Startup::load(&sessions.cli, &args, &sessions.typed).map_err(unusable)?;
        let mut setup = Box::pin(startup.setup_of_new(&args)).await.map_err(unusable)?;
        let system = setup.system_prompt.take().map(Arc::from);
        let conversation = Conversation {
            system,
            interrupted: sessions.typed.interrupted(),
            ..Conversation::new(Arc::clone(&sessions.store), setup, startup.budget())
        };
        Ok(conversation.session(&id, None))
    }

    async fn of(&self, session: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError> {
        self.sessions.of(session).await
    }

    async fn suggested_rules(
        &self,
        session: &AgentSession,
        call: &PendingApproval<'_>,
    ) -> Result<Vec<String>, BoxError> {
        let (config, sources) = self.configuration(session.header())?;
        Ok(lasting_rules(&config, &sources, session.state(), call)?.1)
    }

    fn with_session_rules(
        &self,
        session: AgentSession,
        kept: &KeptRules,
    ) -> Result<AgentSession, BoxError> {
        let rules = ChosenRule::list(decision(kept), &kept.rules);
        Ok(with_added(session, &rules)?)
    }

    async fn keep_rules(&self, session: &SessionHeader, kept: &KeptRules) -> Result<(), BoxError> {
        let (config, sources) = self.configuration(session)?;
        RunPermissions::of(&config, &sources)?.decide_always(decision(kept), &kept.rules)?;
        Ok(())
    }

    fn folder(&self, session: &SessionHeader) -> Option<PathBuf> {
        // All sessions without a tag are the user's own, as is every directory that they work in.
        let of_user = || session.workdir.as_deref().filter(|_| session.id.tag().is_none());
        self.own_folder(session).or_else(|| of_user().map(PathBuf::from))
    }

    async fn removed(&self, session: &SessionHeader) {
        let Some(folder) = self.own_folder(session) else { return };
        // A fork works in the directory of its source.
        let query = SessionQuery { workdir: session.workdir.clone(), ..SessionQuery::first(1) };
        let is_used = match self.sessions.store.list(&query).await {
            Ok(page) => !page.is_empty(),
            Err(_) => true,
        };
        if !is_used && let Err(error) = fs::remove_dir_all(&folder) {
            crate::console::warn(&format!("cannot remove {}: {error}", folder.display()));
        }
    }
}

/// Returns the decision of rules that the user chose.
fn decision(kept: &KeptRules) -> Decision {
    if kept.allows { Decision::Allow } else { Decision::Deny }
}
