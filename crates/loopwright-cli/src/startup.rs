//! From the command line to a conversation.

mod own;
mod refusal;
mod resumed;
mod switch;
mod workdir;

use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::sync::Arc;

use loopwright_agent::{AgentDefinition, NameList};
use loopwright_core::{
    Budget, Hook, HookPoints, LlmConfig,
    messages::{Cost, InferenceOptions},
};
use loopwright_models::Providers;
use loopwright_sessions::{AgentSession, MemoryStore, SessionHeader, SessionStore};

pub use self::refusal::StartError;
use self::resumed::ResumedSession;

use crate::agent::Setup;
use crate::answer_checks::AnswerChecks;
use crate::args::session::SessionArgs;
use crate::args::{AgentArgs, Cli};
use crate::capability_settings;
use crate::check::Check;
use crate::chosen_rules::{self, TypedPermissions};
use crate::commands::Commands;
use crate::config::{
    Config, ConfigError, ConfigSources, Dollars, Limits, Loaded, ModelRef, Origin, STEPS, Setting,
    SettingValue as _, TIME, TOKENS, Warning,
};
use crate::console;
use crate::conversation::{Command, Conversation};
use crate::definitions::Defined;
use crate::display::RunDisplay;
use crate::exit::ExitCode;
use crate::granted::{Granted, Grants, withheld};
use crate::input::is_watched;
use crate::known_warnings::warn_once;
use crate::load_config;
use crate::loaded::LoadedParts;
use crate::loops::maintenance_runtime;
use crate::mcp_servers::{ConfiguredServers, McpServers};
use crate::model;
use crate::permissions::{self, RunPermissions};
use crate::project_settings::ProjectSettings;
use crate::remote_agents;
use crate::render::quoted;
use crate::restate::scheduled;
use crate::selected_agent::{AGENT, AgentError, SelectedAgent};
use crate::session::SessionsError;
use crate::session_budget::SessionBudget;
use crate::store::StoreLocation;
use crate::tools;
use crate::untrusted::{REVIEW, REVIEW_IN_CHAT};
use crate::web_search;

/// What was typed and what is configured.
#[derive(Debug)]
pub struct Startup {
    /// Where the configuration was looked for.
    pub sources: ConfigSources,
    /// What is in effect.
    pub config: Config,
    /// How runs are shown.
    pub stage: RunDisplay,
    /// What the agent is defined by.
    applied: Option<SelectedAgent>,
    /// What reviews the settings of a project, in warnings.
    review: &'static str,
    /// Lists of tools, each of which limits those of the agent; `None` means the list that was typed.
    tools: Option<Vec<NameList>>,
}

/// Hears nothing, where an agent is only looked at.
pub(crate) struct NoopListener;

impl Hook for NoopListener {
    fn points(&self) -> HookPoints {
        HookPoints::from_points([])
    }
}

/// What a conversation is put together from.
struct Started {
    /// The agent of a new session; `None` for a session that exists.
    new: Option<Setup>,
    store: Arc<dyn SessionStore>,
    /// The command that resumes it; empty if nothing does.
    name: &'static str,
}

impl Startup {
    /// Reads the configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be used.
    pub fn load(cli: &Cli, agent: &AgentArgs, session: &SessionArgs) -> Result<Self, StartError> {
        let (sources, loaded) = load(cli, agent, session, None)?;
        Ok(Self::of(agent, sources, loaded))
    }

    /// Loads it in the colours that were typed, and says what stands in the way if something does.
    pub(crate) fn begin(
        cli: &Cli,
        agent: &AgentArgs,
        session: &SessionArgs,
    ) -> Result<Self, ExitCode> {
        let surroundings = &agent.surroundings;
        console::set_color(surroundings.color);
        let typed = surroundings.output_format().unwrap_or_default();
        let stage = RunDisplay::new(typed, surroundings.quiet);
        Self::load(cli, agent, session).map_err(|refusal| refusal.tell(stage))
    }

    fn of(agent: &AgentArgs, sources: ConfigSources, loaded: Loaded) -> Self {
        let (known, others): (Vec<_>, Vec<_>) =
            loaded.warnings.iter().partition(|it| matches!(it, Warning::UnknownKey { .. }));
        for warning in others {
            console::warn(warning);
        }
        warn_once(&sources, known);
        let config = loaded.config;
        let stage = RunDisplay::new(config.output_format.value, agent.surroundings.quiet);
        Self { sources, config, stage, applied: None, review: REVIEW, tools: None }
    }

    /// Reads the configuration of a session's directory, without warnings, and takes the session's agent and model.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be used, or the directory is gone.
    pub(crate) fn of_session(
        cli: &Cli,
        agent: &AgentArgs,
        typed: &SessionArgs,
        session: &AgentSession,
    ) -> Result<Self, StartError> {
        let workdir = session.header().workdir.as_deref().map(Path::new);
        let (sources, Loaded { config, .. }) = load(cli, agent, typed, workdir)?;
        let stage = RunDisplay::new(config.output_format.value, true);
        let mut opening =
            Self { sources, config, stage, applied: None, review: REVIEW, tools: None };
        opening.define(None, Some(session.definition()))?;
        keep_model(&mut opening.config, session.state().llm());
        // The options of a worker are for all of its sessions, so they loosen none.
        let kept = chosen_rules::of(session.state()).tools;
        opening.tools = Some(agent.tools.clone().into_iter().chain(kept).collect());
        Ok(opening)
    }

    /// Finds the model that is asked, and puts together what an agent is made of.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no model.
    pub async fn setup(&self, agent: &AgentArgs) -> Result<Setup, StartError> {
        let config = &self.config;
        let mut chosen = model::choose(config, &self.sources, &agent.transport()).await?;
        if let Some(applied) = &self.applied {
            chosen.llm.options = applied.settings(chosen.llm.options);
        }
        if agent.effort.is_some() {
            chosen.llm.options.reasoning_effort = agent.effort;
        }
        let grants = self.grants();
        limit_options(&mut chosen.llm.options, &grants);
        let project = Arc::new(ProjectSettings::find(config, &self.sources)?);
        let permissions = RunPermissions::of_project(config, &self.sources, Arc::clone(&project));
        let workdir = self.workdir(&permissions)?;
        let commands = Commands::of(config, &self.sources).with_folders_of(&workdir);
        let commands = commands.with_hook_files(permissions.hook_files());
        let setup = Setup {
            models: Arc::new(Granted::new(chosen.models, grants)),
            llm: chosen.llm,
            context_window: chosen.context_window,
            capabilities: chosen.capabilities,
            workdir,
            folders: self.folder_instructions(agent, &permissions),
            project: self.project(agent, &permissions),
            mcp: self.mcp(&project, &commands.clone().denying(&permissions.policy())),
            commands,
            permissions,
            on_ask: agent.on_ask.into(),
            answer_within: agent.answer_within,
            asks_about_cost: false,
            system_prompt: self.system_prompt(),
            applied: self.applied.clone(),
            own: self.own(&project)?,
            session_budget: SessionBudget::of(&config.limits.session),
            tools: self.tools.clone().unwrap_or_else(|| agent.tools.clone().into_iter().collect()),
            remote_agents: remote_agents::capability(config, &self.sources),
            web: capability_settings::web_fetch(&config.capabilities)
                .map_err(AgentError::Capability)?,
            search: web_search::tool(config, &self.sources),
            checks: AnswerChecks::default(),
            loaded: LoadedParts::default(),
        };
        let loaded = self.loaded(&setup, &project);
        let setup = Setup { loaded, ..setup };
        // Settings are checked before anything begins.
        setup.check_capabilities(&config.capabilities).map_err(AgentError::Capability)?;
        if setup.own.is_some() && !setup.tools.is_empty() {
            setup.build(NoopListener).map_err(AgentError::Tools)?;
        } else if setup.own.is_some() && !config.capabilities.is_empty() {
            setup.build(NoopListener).map_err(AgentError::Capability)?;
        }
        // The content of a definition is checked before anything begins.
        if let Some(applied) = &self.applied {
            setup.build(NoopListener).map_err(|source| AgentError::Build {
                agent: applied.definition.name.clone(),
                source,
            })?;
        }
        Ok(setup)
    }

    /// Prepares the servers that may be started.
    fn mcp(&self, project: &ProjectSettings, commands: &Commands) -> McpServers {
        let found = ConfiguredServers::find(&self.config, &self.sources, project);
        found.tell_warnings();
        let agent = self.applied.as_ref().map(|it| &*it.definition);
        McpServers::of(&found, agent, &self.config, &self.sources, commands)
    }

    fn grants(&self) -> Grants {
        Grants::of(self.applied.as_ref().map(|it| &it.defined))
    }

    /// Takes the definition that was typed, and puts together what its agent is made of.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such definition, it cannot be used, or there is no model.
    pub async fn setup_of_new(&mut self, agent: &AgentArgs) -> Result<Setup, StartError> {
        self.define(agent.definition.as_deref(), None)?;
        self.tell_refused();
        let setup = self.setup(agent).await?;
        setup.tell_permission_warnings(self.review);
        setup.tell_absent_tools();
        setup.tell_unused_mode();
        setup.tell_git();
        setup.tell_broad();
        Ok(setup)
    }

    /// Says which files of agents in the project are refused.
    fn tell_refused(&self) {
        match &self.applied {
            Some(applied) => applied.defined.tell_refused(),
            None => {
                if let Some(defined) = Defined::of(&self.config, &self.sources) {
                    defined.tell_refused();
                }
            }
        }
    }

    /// Returns the instructions of the definition, and those that the user adds.
    fn system_prompt(&self) -> Option<String> {
        let own = self.applied.as_ref().map(|it| it.definition.system_prompt.as_str());
        let added = self.config.system_prompt.as_ref().map(|it| it.value.as_str());
        let parts: Vec<&str> = own.into_iter().chain(added).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// Takes the definition that was typed, or the one that a session was begun with.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such definition, or it cannot be used.
    pub fn define(
        &mut self,
        typed: Option<&str>,
        kept: Option<&AgentDefinition>,
    ) -> Result<(), StartError> {
        if typed.is_none() && kept.is_none_or(|it| it.name == AGENT) {
            return Ok(());
        }
        let providers = Arc::new(model::providers(&self.config, &self.sources)?);
        let defined = Defined::find(&self.config, &self.sources, &providers)
            .with_settings(&self.config, &self.sources);
        self.applied = match (typed, kept) {
            (_, Some(kept)) => SelectedAgent::kept(kept, defined),
            (Some(name), None) => {
                let applied = SelectedAgent::find(name, defined, &self.sources)?;
                self.check(&applied, &providers)?;
                let (policy, _) = permissions::policy(&self.config, &self.sources)?;
                applied.check_skills(&policy)?;
                applied.choose(&mut self.config, &providers)?;
                Some(applied)
            }
            (None, None) => None,
        };
        Ok(())
    }

    /// Refuses a definition that `agents validate` refuses. What a directory lacks is found out later.
    fn check(&self, applied: &SelectedAgent, providers: &Arc<Providers>) -> Result<(), AgentError> {
        let Ok(workdir) = tools::workdir(&self.config.workdir) else { return Ok(()) };
        let (defined, config) = (&applied.defined, &self.config);
        let check = Check { defined, workdir: &workdir, config, providers };
        let problems = check.problems(&applied.definition);
        if problems.is_empty() {
            return Ok(());
        }
        let agent = applied.definition.name.clone();
        Err(AgentError::Invalid { agent, problems: problems.join("; ") })
    }

    /// Returns what a run may use up.
    pub fn budget(&self) -> Budget {
        let own = self.applied.as_ref().map(|it| it.budget(lowered)).unwrap_or_default();
        budget(&self.config.limits, &own)
    }

    /// Opens the store, finds the session that was asked for, and puts the agent together. A session
    /// that is new is not kept before something is said.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such session, no model or no store.
    pub async fn conversation(
        &mut self,
        cli: &Cli,
        agent: &AgentArgs,
        typed: &SessionArgs,
        name: &'static str,
    ) -> Result<Conversation, StartError> {
        if name == "chat" && is_watched() {
            self.review = REVIEW_IN_CHAT;
        }
        // Nothing is made where nothing can begin.
        let new = if typed.origin.goes_on() { None } else { Some(self.setup_of_new(agent).await?) };
        let is_kept = !typed.origin.no_session;
        let store: Arc<dyn SessionStore> = if is_kept {
            let store = StoreLocation::of(&self.config, &self.sources)?.open().await?;
            scheduled(store, &self.config.restate)?
        } else {
            Arc::new(MemoryStore::new())
        };
        let name = if is_kept { name } else { "" };
        self.converse(cli, agent, typed, Started { new, store, name }).await
    }

    /// Puts a conversation together in a store that is open.
    async fn converse(
        &mut self,
        cli: &Cli,
        agent: &AgentArgs,
        typed: &SessionArgs,
        started: Started,
    ) -> Result<Conversation, StartError> {
        let Started { new, store, name } = started;
        let found = self.found(&store, typed).await?;
        let permissions = TypedPermissions::of(&self.config, agent);
        let kept = found.as_ref().map(|it| chosen_rules::of(it.session.state()));
        let kept = kept.unwrap_or_default().with_typed(&permissions);
        let mut setup = match (&found, new) {
            (Some(found), _) => {
                self.go_to(cli, agent, typed, found.session.header())?;
                self.define(None, Some(found.session.definition()))?;
                self.tell_refused();
                keep_model(&mut self.config, found.session.state().llm());
                self.tools = Some(kept.tools.iter().cloned().collect());
                let setup = self.setup(agent).await?;
                setup.tell_permission_warnings(self.review);
                setup.tell_git();
                setup.tell_broad();
                setup
            }
            (None, Some(new)) => new,
            (None, None) => self.setup_of_new(agent).await?,
        };
        setup.commands = setup.commands.lasting();
        let own_system: Option<Arc<str>> = setup.system_prompt.take().map(Arc::from);
        let mut system = own_system.clone();
        let (mut session, mut options) = (None, options(agent, typed));
        if let Some(found) = &found {
            // A session works in its own directory unless another one is typed each time.
            let own = found.session.header().workdir.as_deref().map(Path::new);
            let typed = Some(&*self.config.workdir).filter(|it| own.is_some_and(|own| own != *it));
            options.extend(typed.map(|it| format!("-C {}", quoted(&it.to_string_lossy()))));
            setup.tell_unseen_of(found.session.state());
            let chosen = setup.permissions.use_chosen(kept);
            chosen.map_err(|error| SessionsError::Settings(error.into()))?;
        }
        if let Some(ResumedSession { session: old, fork: from }) = found {
            if let Some(llm) = old.state().llm() {
                self.keep_options(&mut setup, agent, llm);
            }
            // What is written in a file is for sessions that begin.
            let is_typed =
                self.config.system_prompt.as_ref().is_some_and(|it| it.origin.is_typed());
            system = system.filter(|_| is_typed);
            session = Some(match from {
                Some(from) => {
                    let runtime = maintenance_runtime(&store);
                    let into = typed.session_id.clone();
                    let forked = Box::pin(runtime.fork(old.id(), from.step, into)).await;
                    forked.map_err(SessionsError::from)?.id
                }
                None => old.id().clone(),
            });
        }
        let command = Command { name, options };
        Ok(Conversation {
            system,
            own_system,
            interrupted: typed.interrupted(),
            session,
            new_id: typed.session_id.clone(),
            notifies: self.config.chat.notifies(),
            names_folder: agent.surroundings.workdir.is_some(),
            typed: permissions,
            command,
            ..Conversation::new(store, setup, self.budget())
        })
    }

    /// Keeps the options that a session sends to its model, except those that are typed.
    fn keep_options(&self, setup: &mut Setup, agent: &AgentArgs, llm: &LlmConfig) {
        let stream = setup.llm.options.stream;
        setup.llm.options = llm.options.clone();
        setup.llm.options.stream = stream;
        if agent.effort.is_some() {
            setup.llm.options.reasoning_effort = agent.effort;
        }
        limit_options(&mut setup.llm.options, &self.grants());
    }

    /// Works in the directory of the session, unless another one is given.
    fn go_to(
        &mut self,
        cli: &Cli,
        agent: &AgentArgs,
        typed: &SessionArgs,
        header: &SessionHeader,
    ) -> Result<(), StartError> {
        let Some(workdir) = header.workdir.as_deref().map(Path::new) else { return Ok(()) };
        if agent.surroundings.workdir.is_some() || workdir == self.config.workdir {
            return Ok(());
        }
        let (sources, loaded) = match load(cli, agent, typed, Some(workdir)) {
            Ok(loaded) => loaded,
            Err(ConfigError::Workdir { path, source }) => {
                return Err(SessionsError::Workdir { id: header.id.clone(), path, source }.into());
            }
            Err(error) => return Err(error.into()),
        };
        *self = Self { review: self.review, ..Self::of(agent, sources, loaded) };
        Ok(())
    }
}

fn load(
    cli: &Cli,
    agent: &AgentArgs,
    session: &SessionArgs,
    workdir: Option<&Path>,
) -> Result<(ConfigSources, Loaded), ConfigError> {
    let mut flags = agent.flags(cli.config.as_deref());
    flags.store.clone_from(&session.store);
    flags.mcp_servers.clone_from(&session.servers.mcp_config);
    flags.only_named_servers = session.servers.strict_mcp_config;
    if let Some(workdir) = workdir {
        flags.workdir = workdir.to_path_buf();
    }
    load_config::load(flags)
}

/// Takes out of settings what only the user's own agents may set, and says so.
fn limit_options(options: &mut InferenceOptions, grants: &Grants) {
    let keys = grants.limit(options);
    if !keys.is_empty() {
        console::warn(&withheld(&keys, "the session's agent"));
    }
}

/// Keeps the model of the session, unless another one was typed.
fn keep_model(config: &mut Config, llm: Option<&LlmConfig>) {
    if config.model.as_ref().is_some_and(|it| it.origin.is_typed()) {
        return;
    }
    let name = llm.and_then(|it| Some(format!("{}/{}", it.provider.as_ref()?, it.model.as_ref()?)));
    let Some(model) = name.and_then(|it| ModelRef::from_text(&it)) else { return };
    if config.model.as_ref().is_none_or(|it| it.value != model) {
        config.model = Some(Setting::new(model, Origin::Session));
    }
}

/// Returns the options that have to be typed again to resume the session: the session keeps what restricts it, and nothing that
/// grants more.
fn options(agent: &AgentArgs, session: &SessionArgs) -> Vec<String> {
    let option = |name: &str, value: &str| format!("{name} {}", quoted(value));
    let store = session.store.as_ref().map(|it| option("--store", &it.to_string()));
    let url = agent.base_url.as_ref().map(|it| option("--base-url", it.as_str()));
    let allowed = agent.permissions.allow.iter().map(|it| option("--allow", it));
    let folders = agent.permissions.add_dir.iter();
    let folders = folders.map(|it| option("--add-dir", &it.to_string_lossy()));
    let servers = session.servers.mcp_config.iter().map(|it| {
        // The object itself can hold keys.
        let shown = if it.is_inline() { "{…}".into() } else { it.source.to_string_lossy() };
        option("--mcp-config", &shown)
    });
    let alone = session.servers.strict_mcp_config.then(|| "--strict-mcp-config".to_owned());
    let grants = allowed.chain(folders).chain(servers).chain(alone);
    store.into_iter().chain(url).chain(grants).collect()
}

/// Keeps a definition that is not the user's own from widening what holds by default.
fn lowered(own: Budget) -> Budget {
    Budget {
        steps: own.steps.map(|it| it.min(STEPS.get())),
        tokens: own.tokens.map(|it| it.min(TOKENS.get())),
        time: own.time.map(|it| it.min(TIME)),
        ..own
    }
}

/// Returns what a run may use up: what was typed, or else the smaller of what is configured and what the
/// definition asks for. By default, there is a limit all the same.
fn budget(limits: &Limits, own: &Budget) -> Budget {
    let cost = |it: Dollars| Cost::from_dollars(it.amount());
    Budget {
        steps: limit(limits.steps.as_ref(), NonZeroU32::get, own.steps).or(Some(STEPS.get())),
        tokens: limit(limits.tokens.as_ref(), NonZeroU64::get, own.tokens).or(Some(TOKENS.get())),
        time: limit(limits.seconds.as_ref(), |it| it, own.time).or(Some(TIME)),
        cost: limit(limits.cost.as_ref(), cost, own.cost),
        deadline: own.deadline,
    }
}

fn limit<S: Copy, T: Ord>(
    set: Option<&Setting<S>>,
    value: impl Fn(S) -> T,
    own: Option<T>,
) -> Option<T> {
    let Some(set) = set else { return own };
    let (value, own) = (value(set.value), own.filter(|_| !set.origin.is_typed()));
    Some(match own {
        Some(own) => own.min(value),
        None => value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_limits_has_some() {
        let own = Budget { steps: Some(200), ..Budget::default() };
        assert_eq!(budget(&Limits::default(), &own).steps, Some(200));
        let budget = budget(&Limits::default(), &Budget::default());
        assert_eq!(
            (budget.steps, budget.tokens, budget.time),
            (Some(STEPS.get()), Some(TOKENS.get()), Some(TIME))
        );
        assert_eq!(budget.cost, None);
    }

    #[test]
    fn a_definition_of_a_project_may_only_lower_limits() {
        let of = |steps| lowered(Budget { steps: Some(steps), ..Budget::default() }).steps;
        assert_eq!((of(200), of(2)), (Some(STEPS.get()), Some(2)));
        assert_eq!(lowered(Budget::default()), Budget::default());
    }
}
