//! Where agents and skills are defined: in the project that is worked on, and by the user.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_agent::{AgentBuilder, AgentDefinition, CapabilityRegistry, NameList, UseLlmConfig};
use loopwright_capabilities::files::Root;
use loopwright_capabilities::inventory;
use loopwright_capabilities::skills::{SkillLibrary, SkillScope, UseSkills};
use loopwright_capabilities::subagents::UseSubagents;
use loopwright_models::Providers;
use loopwright_sandbox::DriverChoice;
use loopwright_templates::{
    AgentDefinitionRegistry, DefinitionLoader, DefinitionPlaces, DefinitionValidator,
    UseAgentDefinitions,
};

use crate::args::Cli;
use crate::config::{Config, ConfigError, Sources};
use crate::configured::configured;
use crate::console;
use crate::model::{self, ChoiceError};
use crate::tools;

/// Where skills are in a project, those that count first.
const PROJECT_SKILLS: [&str; 3] = [".loopwright/skills", ".agents/skills", ".claude/skills"];

/// Where they are in the user's home directory, besides those of the configuration.
const USER_SKILLS: [&str; 2] = [".agents/skills", ".claude/skills"];

/// The agents and skills that are defined.
#[derive(Clone, Debug)]
pub struct Defined {
    /// The root of the project.
    pub root: PathBuf,
    /// The agents.
    pub agents: AgentDefinitionRegistry,
    /// The skills.
    pub skills: SkillLibrary,
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
    pub fn find(workdir: &Path, sources: &Sources, providers: &Providers) -> Self {
        let root = project_root(workdir);
        let loader = DefinitionLoader::new().with_providers(providers.names());
        let agents = AgentDefinitionRegistry::with_loader(loader);
        let mut places = DefinitionPlaces::new().project(&root);
        let mut skills = SkillLibrary::default();
        for directory in PROJECT_SKILLS {
            skills = skills.and(SkillScope::Project, root.join(directory));
        }
        if let Some(home) = &sources.home {
            places = places.user(home.join(".claude/agents"));
        }
        if let Some(own) = sources.own_directory() {
            places = places.user(own.join("agents"));
            skills = skills.and(SkillScope::User, own.join("skills"));
        }
        for directory in USER_SKILLS {
            let home = sources.home.iter();
            skills = home.fold(skills, |it, home| it.and(SkillScope::User, home.join(directory)));
        }
        agents.auto_discover(&places);
        Self { root, agents, skills }
    }

    /// Says what is odd about the file of an agent.
    pub(crate) fn tell_warnings(&self, agent: &str) {
        let path = self.agents.source(agent).and_then(|it| it.path);
        for warning in self.agents.warnings().iter().filter(|it| Some(&it.path) == path.as_ref()) {
            console::warn(warning);
        }
    }

    /// Returns the capabilities that definitions may name, for an agent that works in a directory. Those
    /// that are spawned may name them too, and spawn others that name all of them but `use_subagents`.
    pub fn capabilities(&self, workdir: &Root, driver: DriverChoice) -> CapabilityRegistry {
        let with_subagents = |of_children: CapabilityRegistry| {
            let mut registry = self.without_subagents(workdir, driver);
            let subagents = UseSubagents::of(self.agents.clone());
            registry.register("use_subagents", subagents.capabilities(Arc::new(of_children)));
            registry
        };
        with_subagents(with_subagents(self.without_subagents(workdir, driver)))
    }

    fn without_subagents(&self, workdir: &Root, driver: DriverChoice) -> CapabilityRegistry {
        let mut registry = inventory::registry();
        // Every agent of the program has these tools, so that naming them must not change what they may
        // reach.
        for name in ["use_bash", "use_coding_tools", "use_file_tools"] {
            registry.register(name, tools::tools(workdir, driver));
        }
        registry.register("use_skills", UseSkills::new(self.skills.clone()));
        registry.register("use_agent_definitions", UseAgentDefinitions::new(self.agents.clone()));
        registry
    }

    /// Returns what checks definitions for agents that work in a directory.
    pub fn validator(&self, workdir: &Root, providers: Arc<Providers>) -> DefinitionValidator {
        let driver = DriverChoice::default();
        let base = AgentBuilder::base()
            .with_capability(tools::tools(workdir, driver))
            .with_capability(UseLlmConfig::of(providers))
            .build();
        let tools: NameList = match base {
            Ok(agent) => agent.tools().names().iter().map(|it| &**it).collect(),
            Err(_) => NameList::default(),
        };
        DefinitionValidator::new()
            .with_capabilities(Arc::new(self.capabilities(workdir, driver)))
            .with_tools(tools)
            .with_skills(self.skills.clone())
    }
}

/// Reads the configuration and everything that is defined, for a directory.
pub(crate) fn find(
    cli: &Cli,
    workdir: &Path,
) -> Result<(Sources, Config, Providers, Defined), DefinedError> {
    let (sources, config) = configured(cli, workdir, None)?;
    let providers = model::providers(&config, &sources)?;
    let defined = Defined::find(&config.workdir, &sources, &providers);
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

/// Tools that a definition may name without the capability that brings them, as files of other programs
/// do.
const BROUGHT: [(&str, &str); 2] =
    [("spawn_subagent", "use_subagents"), ("todo_write", "use_task_planning")];

/// Adds the capabilities that bring the tools which a definition names.
pub(crate) fn completed(definition: &AgentDefinition) -> AgentDefinition {
    let is_named = |tool: &str| definition.tools.as_ref().is_some_and(|it| it.contains(tool));
    let brought =
        BROUGHT.iter().filter(|(tool, _)| is_named(tool)).map(|(_, capability)| *capability);
    let capabilities = definition.capabilities.iter().chain(brought).collect();
    AgentDefinition { capabilities, ..definition.clone() }
}

/// Returns the root of the project that a directory is in: the nearest directory with definitions of
/// its own, and not beyond a repository. Outside of repositories it is the directory itself.
pub(crate) fn project_root(workdir: &Path) -> PathBuf {
    let Some(repository) = workdir.ancestors().find(|it| it.join(".git").exists()) else {
        return workdir.to_owned();
    };
    let within = workdir.ancestors().take_while(|it| it.starts_with(repository));
    let has_own = |directory: &&Path| {
        let mut places = DefinitionPlaces::PROJECT.iter().chain(&PROJECT_SKILLS);
        places.any(|it| directory.join(it).is_dir())
    };
    within.into_iter().find(has_own).unwrap_or(repository).to_owned()
}

/// Writes a path on one line: what would end the line, or move what is shown, is written as `\n` and the
/// like.
pub(crate) fn plain(path: &Path) -> String {
    let path = path.display().to_string();
    path.chars().fold(String::new(), |text, c| {
        if c.is_control() {
            text + &c.escape_default().to_string()
        } else {
            text + c.encode_utf8(&mut [0; 4])
        }
    })
}

/// Writes a path as people know it: from the project, or from the home directory.
pub(crate) fn shown(path: &Path, root: &Path, home: Option<&Path>) -> String {
    if let Ok(below) = path.strip_prefix(root) {
        return below.display().to_string();
    }
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
