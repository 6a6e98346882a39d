//! The locations of agent and skill definitions: the project, and the user's folder.

mod named_tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::{
    AgentBuilder, AgentDefinition, BuildError, CapabilityRegistry, DefinitionError, Definitions,
    HOOKS, MEMORY, NameList, UseGuards, UseLlmConfig,
};
use loopwright_capabilities::compaction::{CompactionPolicy, UseCompaction};
use loopwright_capabilities::files::WorkspaceRoot;
use loopwright_capabilities::history::UseExecutionHistory;
use loopwright_capabilities::inventory;
use loopwright_capabilities::permissions::UsePermissions;
use loopwright_capabilities::skills::{SkillAudience, SkillLibrary, SkillPolicy, UseSkills};
use loopwright_capabilities::subagents::{SubagentPolicy, UseSubagents};
use loopwright_models::Providers;
use loopwright_templates::{
    AgentDefinitionRegistry, DefinitionLoader, DefinitionPaths, DefinitionScope,
    DefinitionValidator, DefinitionWarning, DiagnosticKind, UseAgentDefinitions,
};
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) use self::named_tools::{OF_RULES, completed};
use self::named_tools::{absent_tools, limited, without};
use crate::agent_memory::MemoryPlaces;
use crate::args::Cli;
use crate::capability_settings::{EXTERNAL, WEB, external_tools};
use crate::command_hooks::{AgentHooks, HookEvent, HookSetup, UseCommandHooks};
use crate::commands::Commands;
use crate::config::{
    CapabilitySetting, CapabilitySettings, Config, ConfigError, ConfigSources, Discovery,
};
use crate::console;
use crate::known_warnings::warn_once;
use crate::load_config::configured;
use crate::mcp_servers::{ConfiguredServers, KnownServer, user_agents};
use crate::model::{self, ChoiceError};
use crate::permissions::RunPermissions;
use crate::project::{leads_out, plain, project_root};
use crate::project_settings::ProjectSettings;
use crate::skill_folders::{Places, skills};
use crate::tools;
use crate::worktrees::Worktrees;

/// Capabilities of the inventory that a definition cannot configure, because files of a project could then
/// choose the model or write outside of the working directory; and what to do instead.
const ELSEWHERE: [(&str, &str); 5] = [
    ("use_broadcasting", "a definition cannot name files; use `--output-format stream-json`"),
    ("use_context_config", "write the prompt under `systemPrompt`"),
    ("use_llm", "specify the model under `llm`"),
    ("use_recording", "a definition cannot name files; use `--record FILE`"),
    ("use_replay", "a definition cannot name files; use `--replay FILE`"),
];

/// Unsupported keys that change nothing about what an agent does: only `agents validate` mentions them.
const WITHOUT_EFFECT: [&str; 2] = ["color", "version"];

/// The agents and skills that are defined.
#[derive(Clone, Debug)]
pub struct Defined {
    /// The root of the project.
    pub root: PathBuf,
    /// The agents.
    pub agents: AgentDefinitionRegistry,
    /// The skills.
    pub skills: SkillLibrary,
    /// What the configuration says of capabilities.
    pub(crate) settings: Arc<CapabilitySettings>,
    /// The MCP servers that are configured, or that definitions bring.
    pub(crate) servers: Arc<[KnownServer]>,
    /// The hooks of agent files.
    pub(crate) hooks: Arc<AgentHooks>,
}

/// What a definition may say of sub-agents.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SubagentsConfig {
    policy: SubagentPolicy,
    research: bool,
}

/// What a definition may say of skills.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SkillsConfig {
    policy: SkillPolicy,
}

/// What a definition may say of the record of executions.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HistoryConfig {
    most: usize,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self { most: 50 }
    }
}

/// What a definition may say of compaction.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct CompactionConfig {
    window: u64,
    at_tokens: Option<u64>,
    /// Whether long outputs go to files in the working directory.
    spill: bool,
    policy: CompactionPolicy,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        let policy = CompactionPolicy::default();
        Self { window: 128_000, at_tokens: None, spill: false, policy }
    }
}

/// Makes the capability that keeps conversations short in a directory.
pub(crate) fn compaction(
    config: &Value,
    workdir: &WorkspaceRoot,
) -> Result<UseCompaction, BuildError> {
    let config: CompactionConfig = inventory::read(config, "use_compaction")?;
    Ok(config.in_dir(workdir))
}

impl CompactionConfig {
    fn in_dir(self, workdir: &WorkspaceRoot) -> UseCompaction {
        let compaction = match self.at_tokens {
            Some(tokens) => UseCompaction::at_tokens(tokens),
            None => UseCompaction::for_context_window(self.window),
        };
        let compaction = compaction.with_policy(self.policy);
        if self.spill { compaction.with_spill_dir(workdir.clone()) } else { compaction }
    }
}

/// Why it is not known what is defined.
#[derive(Debug, thiserror::Error)]
pub enum DefinedError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The providers cannot be used.
    #[error(transparent)]
    Providers(#[from] ChoiceError),
}

impl Defined {
    /// Looks at all places. Blocks while it reads.
    pub fn find(config: &Config, sources: &ConfigSources, providers: &Providers) -> Self {
        let names = model::aliases(config, providers);
        Self::in_dir(&config.workdir, sources, providers, names)
    }

    /// Looks at all places. Returns `None` if the providers of the configuration cannot be used. Blocks while it reads.
    pub(crate) fn of(config: &Config, sources: &ConfigSources) -> Option<Self> {
        let providers = model::providers(config, sources).ok()?;
        Some(Self::find(config, sources, &providers))
    }

    /// Looks at all places for a directory, with names of models and what they stand for. Blocks while it reads.
    pub fn in_dir(
        workdir: &Path,
        sources: &ConfigSources,
        providers: &Providers,
        models: BTreeMap<String, String>,
    ) -> Self {
        let root = project_root(workdir);
        let loader = DefinitionLoader::new().with_providers(providers.names());
        let loader = loader.with_hooks(HookEvent::of_agents()).with_memory().with_worktrees();
        let loader =
            models.into_iter().fold(loader, |loader, (name, model)| loader.with_model(name, model));
        let agents = AgentDefinitionRegistry::with_loader(loader);
        let skills = match sources.discovery {
            Discovery::Files => skills(&root, sources, Places::All),
            Discovery::Nothing => SkillLibrary::default().with_boundary(&root),
        };
        if sources.discovery == Discovery::Files {
            agents.auto_discover(&agent_folders(&root, sources));
        }
        let (settings, servers, hooks) = (Arc::default(), Arc::default(), Arc::default());
        Self { root, agents, skills, settings, servers, hooks }
    }

    /// Gives capabilities the settings of a configuration, and knows its servers and hooks.
    #[must_use]
    pub(crate) fn with_settings(self, config: &Config, sources: &ConfigSources) -> Self {
        // What is wrong with decisions about folders is told where servers are prepared.
        let project = ProjectSettings::find(config, sources).ok();
        self.with_settings_of(config, sources, project.as_ref())
    }

    /// Does the same with the settings of the project; `None` if they are unknown.
    #[must_use]
    pub(crate) fn with_settings_of(
        self,
        config: &Config,
        sources: &ConfigSources,
        project: Option<&ProjectSettings>,
    ) -> Self {
        let servers = project.map(|it| ConfiguredServers::find(config, sources, it).known());
        let hooks = project.map(|it| AgentHooks::find(sources, it));
        Self {
            settings: Arc::new(config.capabilities.clone()),
            servers: servers.unwrap_or_default().into(),
            hooks: Arc::new(hooks.unwrap_or_default()),
            ..self
        }
    }

    /// Leaves out the skills of the project, which its author wrote.
    #[must_use]
    pub(crate) fn without_project_skills(self, sources: &ConfigSources) -> Self {
        match sources.discovery {
            Discovery::Files => Self { skills: skills(&self.root, sources, Places::User), ..self },
            Discovery::Nothing => self,
        }
    }

    /// Returns a definition in which capabilities without settings have those of the configuration.
    pub(crate) fn configured(
        &self,
        definition: &AgentDefinition,
        offers: impl Fn(&str) -> bool,
    ) -> AgentDefinition {
        let absent = absent_tools(definition, &self.servers, offers);
        let definition = without(definition.clone(), &absent);
        with_settings(limited(definition, &self.servers), &self.settings)
    }

    /// Returns the capabilities of the program's own agent with their settings, for a model with a
    /// context window of this size. The configuration adds others and switches these off.
    pub(crate) fn own_capabilities(&self, context_window: u64) -> Vec<(String, Value)> {
        let has_agents = !self.agents.all().is_empty();
        let has_skills = !self.skills.list(SkillAudience::Models).is_empty();
        let defaults = [
            (true, "use_compaction"),
            (true, "use_questions"),
            (has_skills, "use_skills"),
            (has_agents, "use_subagents"),
            (true, "use_task_planning"),
        ];
        let defaults = defaults.into_iter().filter(|(is_on, _)| *is_on);
        let mut all: BTreeMap<String, Value> =
            defaults.map(|(_, name)| (name.to_owned(), Value::Null)).collect();
        for (name, setting) in self.settings.iter().filter(|it| it.0 != WEB) {
            match &setting.value {
                CapabilitySetting::Off => drop(all.remove(name)),
                CapabilitySetting::On(settings) => drop(all.insert(name.clone(), settings.clone())),
            }
        }
        if let Some(settings) = all.get_mut("use_compaction") {
            *settings = compaction_for(settings.take(), context_window);
        }
        if let Some(settings) = all.get_mut("use_task_planning") {
            // Most tasks are short: the list is the model's choice, of which its tool tells it.
            if settings.is_null() {
                *settings = json!({});
            }
            if let Value::Object(settings) = settings {
                settings.entry("reminder_every_steps").or_insert(0.into());
            }
        }
        all.into_iter().collect()
    }

    /// Says which agents of the project are refused, but for one of which an error tells.
    pub(crate) fn tell_refused(&self) {
        let errors = self.agents.errors();
        for (_, error) in errors.iter().filter(|(path, _)| path.starts_with(&self.root)) {
            console::warn(&format!("{error}; agents cannot use this definition"));
        }
    }

    /// Says what is odd about the file of an agent.
    pub(crate) fn tell_warnings(&self, agent: &str) {
        self.warnings(agent).iter().for_each(|warning| console::warn(warning));
        self.hooks.warnings(agent).iter().for_each(|warning| console::warn(warning));
    }

    /// Says what is odd about the file of an agent, unless an earlier run said so. What stands behind another file, and
    /// hooks, are reported each time.
    pub(crate) fn tell_new_warnings(&self, agent: &str, sources: &ConfigSources) {
        let (shadowed, others): (Vec<_>, Vec<_>) = self
            .warnings(agent)
            .into_iter()
            .partition(|it| matches!(it.problem.kind, DiagnosticKind::Shadowed { .. }));
        for warning in &shadowed {
            console::warn(warning);
        }
        warn_once(sources, others);
        self.hooks.warnings(agent).iter().for_each(|warning| console::warn(warning));
    }

    /// Returns the warnings about the file of an agent.
    fn warnings(&self, agent: &str) -> Vec<DefinitionWarning> {
        let path = self.agents.source(agent).and_then(|it| it.path);
        let is_about = |it: &DefinitionWarning| {
            let shadowed = match &it.problem.kind {
                DiagnosticKind::Shadowed { by } => Some(by) == path.as_ref(),
                _ => false,
            };
            shadowed || Some(&it.path) == path.as_ref()
        };
        let has_effect = |it: &DefinitionWarning| {
            !it.problem.key.as_deref().is_some_and(|key| WITHOUT_EFFECT.contains(&key))
        };
        let all = self.agents.warnings().into_iter();
        all.filter(|it| is_about(it) && has_effect(it)).collect()
    }

    /// Returns the names of the tools that agents declare and that run elsewhere.
    pub(crate) fn external_tools(&self) -> BTreeSet<String> {
        let all = self.agents.all();
        let settings = all.iter().filter_map(|it| it.capability_config.get(EXTERNAL));
        settings.flat_map(external_tools).collect()
    }

    /// Returns the capabilities that definitions may name, for an agent that works in a directory. Those
    /// that are spawned may name them too, and spawn others that name all of them but `use_subagents`.
    pub fn capabilities(
        &self,
        workdir: &WorkspaceRoot,
        commands: &Commands,
        rules: &UsePermissions,
    ) -> CapabilityRegistry {
        let with_subagents = |of_children: CapabilityRegistry| {
            let of_children = Arc::new(of_children);
            let mut registry = self.without_subagents(workdir, commands, rules);
            let (agents, skills) = (self.completed(), self.skills.clone());
            let known = Arc::clone(&of_children);
            let tasks = commands.tasks.clone();
            let worktrees = Arc::new(Worktrees::new(workdir, commands, rules.permissions()));
            let isolation = Arc::clone(&worktrees);
            registry.register_with_config("use_subagents", move |config| {
                let config: SubagentsConfig = inventory::read(config, "use_subagents")?;
                let subagents = UseSubagents::new(agents.clone()).with_skills(skills.clone());
                let subagents = subagents.with_background_tasks(tasks.clone());
                let subagents = subagents.with_isolation(Arc::clone(&isolation) as _);
                let subagents =
                    subagents.with_capabilities(Arc::clone(&known)).with_policy(config.policy);
                Ok(if config.research { subagents.with_research() } else { subagents })
            });
            self.offer_skills(&mut registry, of_children, rules, Some(worktrees));
            registry
        };
        with_subagents(with_subagents(self.without_subagents(workdir, commands, rules)))
    }

    fn completed(&self) -> Completed {
        let (settings, servers) = (Arc::clone(&self.settings), Arc::clone(&self.servers));
        Completed { agents: self.agents.clone(), settings, servers }
    }

    fn offer_skills(
        &self,
        registry: &mut CapabilityRegistry,
        of_agents: Arc<CapabilityRegistry>,
        rules: &UsePermissions,
        worktrees: Option<Arc<Worktrees>>,
    ) {
        let (agents, skills) = (self.completed(), self.skills.clone());
        let permissions = rules.permissions().clone();
        registry.register_with_config("use_skills", move |config| {
            let config: SkillsConfig = inventory::read(config, "use_skills")?;
            let (permissions, access) = (permissions.clone(), Arc::new(permissions.clone()));
            let is_listed = move |name: &str| permissions.policy().denies_skill(name).is_none();
            let skills = UseSkills::new(skills.clone()).with_policy(config.policy);
            let skills = skills.with_listed(is_listed).with_access(access);
            let skills = match &worktrees {
                Some(worktrees) => skills.with_isolation(Arc::clone(worktrees) as _),
                None => skills,
            };
            Ok(skills.with_agents(agents.clone()).with_capabilities(Arc::clone(&of_agents)))
        });
    }

    fn without_subagents(
        &self,
        workdir: &WorkspaceRoot,
        commands: &Commands,
        rules: &UsePermissions,
    ) -> CapabilityRegistry {
        let mut registry = inventory::registry();
        rules.clone().register(&mut registry);
        let (hooks, project) = (Arc::clone(&self.hooks), self.root.clone());
        let (root, of_hooks) = (workdir.clone(), commands.clone());
        let permissions = rules.permissions().clone();
        registry.register_with_config(HOOKS, move |config| {
            let (hooks, permissions) = (hooks.configured(config)?, permissions.clone());
            let setup = HookSetup::new(hooks, &of_hooks, &root, &project, permissions);
            Ok(UseCommandHooks(Some(setup)))
        });
        // Every agent of the program has these tools, so that naming them must not change what they may
        // reach.
        for name in ["use_bash", "use_coding_tools", "use_file_tools"] {
            let (root, commands) = (workdir.clone(), commands.clone());
            registry.register_with_config(name, move |config| {
                let config: tools::ToolsConfig = inventory::read(config, name)?;
                Ok(config.over(tools::tools(&root, &commands)))
            });
        }
        let memory = MemoryPlaces {
            home: commands.home.clone(),
            root: self.root.clone(),
            agents: self.agents.clone(),
            permissions: rules.permissions().clone(),
        };
        registry.register_with_config(MEMORY, move |config| memory.configured(config));
        for (name, remedy) in ELSEWHERE {
            registry.register_with_config(name, move |_| -> Result<UseGuards, BuildError> {
                Err(BuildError::capability(name, remedy))
            });
        }
        registry.register_with_config("use_execution_history", |config| {
            let config: HistoryConfig = inventory::read(config, "use_execution_history")?;
            Ok(UseExecutionHistory::in_state(config.most))
        });
        let root = workdir.clone();
        registry.register_with_config("use_compaction", move |config| compaction(config, &root));
        self.offer_skills(&mut registry, Arc::default(), rules, None);
        registry.register("use_agent_definitions", UseAgentDefinitions::new(self.agents.clone()));
        registry
    }

    /// Returns the same for agents that are only checked, so that the trust in their hooks does not matter.
    pub(crate) fn only_checked(&self) -> Self {
        Self { hooks: Arc::new(AgentHooks::only_checked()), ..self.clone() }
    }

    /// Returns what checks definitions for agents that work in a directory.
    pub fn validator(
        &self,
        workdir: &WorkspaceRoot,
        providers: Arc<Providers>,
    ) -> DefinitionValidator {
        let commands = Commands::default();
        let rules = rules(workdir);
        let base = AgentBuilder::base()
            .with_capability(tools::tools(workdir, &commands))
            .with_capability(UseLlmConfig::from_models(providers))
            .build();
        let tools: NameList = match base {
            Ok(agent) => agent.tools().names().iter().map(|it| &**it).collect(),
            Err(_) => NameList::default(),
        };
        DefinitionValidator::new()
            .with_capabilities(Arc::new(
                self.only_checked().capabilities(workdir, &commands, &rules),
            ))
            .with_tools(tools)
            .with_skills(self.skills.clone())
    }
}

/// Returns the folders of agents. Those of the project whose links lead out of it are skipped with a warning.
fn agent_folders(root: &Path, sources: &ConfigSources) -> DefinitionPaths {
    let mut places = DefinitionPaths::new();
    for directory in DefinitionPaths::PROJECT.map(|it| root.join(it)) {
        if leads_out(root, &directory) {
            let directory = plain(&directory);
            console::warn(&format!("{directory} is skipped: the link leads outside the project"));
        } else {
            places = places.with_dir(DefinitionScope::Project, directory);
        }
    }
    user_agents(sources).fold(places, DefinitionPaths::with_user_dir)
}

/// Returns what applies the rules of definitions that are checked and not run.
pub(crate) fn rules(workdir: &WorkspaceRoot) -> UsePermissions {
    UsePermissions::new(RunPermissions::without_rules(workdir).shared().clone())
}

/// Reads the configuration and everything that is defined, for a directory.
pub(crate) fn find(
    cli: &Cli,
    workdir: &Path,
) -> Result<(ConfigSources, Config, Providers, Defined), DefinedError> {
    let (sources, config) = configured(cli, workdir, None)?;
    let providers = model::providers(&config, &sources)?;
    let defined = Defined::find(&config, &sources, &providers).with_settings(&config, &sources);
    Ok((sources, config, providers, defined))
}

impl DefinedError {
    /// Returns the exit status.
    pub(crate) fn exit_code(&self) -> crate::exit::ExitCode {
        match self {
            Self::Config(ConfigError::Workdir { .. }) => crate::exit::ExitCode::Usage,
            Self::Config(_) => crate::exit::ExitCode::Config,
            Self::Providers(error) => error.exit_code(),
        }
    }
}

/// The definitions with the capabilities that bring the tools which they name, and with the settings of the configuration.
#[derive(Clone)]
struct Completed {
    agents: AgentDefinitionRegistry,
    settings: Arc<CapabilitySettings>,
    servers: Arc<[KnownServer]>,
}

impl Definitions for Completed {
    fn get(&self, name: &str) -> Result<Arc<AgentDefinition>, DefinitionError> {
        let definition = self.agents.get(name)?;
        let definition = limited(completed(&definition), &self.servers);
        Ok(Arc::new(with_settings(definition, &self.settings)))
    }

    fn names(&self) -> Vec<String> {
        self.agents.names()
    }
}

/// Gives capabilities for which a definition has no settings those of the configuration.
fn with_settings(
    mut definition: AgentDefinition,
    settings: &CapabilitySettings,
) -> AgentDefinition {
    for name in definition.capabilities.iter() {
        let setting = settings.get(name).map(|it| it.value.settings());
        if let Some(setting) = setting.filter(|it| !it.is_null()) {
            definition.capability_config.entry(name).or_insert(setting);
        }
    }
    definition
}

/// Returns the settings of compaction where the size of the model's window is known, and long outputs go to files.
fn compaction_for(settings: Value, context_window: u64) -> Value {
    let Value::Object(mut settings) = settings else {
        return json!({ "window": context_window, "spill": true });
    };
    if !settings.contains_key("at_tokens") {
        settings.entry("window").or_insert(context_window.into());
    }
    settings.entry("spill").or_insert(true.into());
    settings.into()
}
