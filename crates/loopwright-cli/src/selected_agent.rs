//! The definition of the selected agent.

use std::sync::Arc;

use loopwright_agent::{AgentDefinition, BuildError, DefinitionError, Definitions as _};
use loopwright_core::{Budget, messages::InferenceOptions};
use loopwright_models::Providers;
use loopwright_permissions::Policy;
use loopwright_templates::{DefinitionFileError, DefinitionScope};

use crate::config::{
    Config, ConfigSources, ModelRef, Origin, Setting, SettingValue as _, misspelt,
};
use crate::console;
use crate::definitions::{Defined, completed};
use crate::exit::ExitCode;
use crate::render::single_line;

/// The name of the program's agent.
pub const AGENT: &str = "loopwright";

/// A definition, and what else is defined.
#[derive(Clone, Debug)]
pub struct SelectedAgent {
    /// The definition. Its prompt holds the skills that it begins with.
    pub definition: Arc<AgentDefinition>,
    /// What capabilities may look for.
    pub defined: Defined,
    /// Whether a session kept it, so that it is not what a file says today.
    pub is_kept: bool,
}

/// Why an agent cannot be made by a definition.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is no such definition.
    #[error("{unknown}\n  create one: loopwright agents new {}", .unknown.name)]
    Unknown {
        /// What is known.
        unknown: DefinitionError,
    },
    /// Its file is wrong.
    #[error("agent `{name}` cannot be used; check it with `loopwright agents validate`")]
    File {
        /// The name.
        name: String,
        /// What is wrong.
        #[source]
        source: DefinitionFileError,
    },
    /// Its name is the one of the agent that is there without a definition.
    #[error("agent name `{AGENT}` is reserved; rename the definition")]
    Own,
    /// It begins with a skill that does not exist.
    #[error(
        "agent `{agent}` requires unknown skill `{skill}`; list skills with `loopwright skills list`"
    )]
    Skill {
        /// The agent.
        agent: String,
        /// The skill.
        skill: String,
    },
    /// A rule denies a skill that it begins with.
    #[error(
        "agent `{agent}` starts with the skill `{skill}`, which rule `{rule}` denies; remove the skill from the agent's file, or change the rule"
    )]
    DeniedSkill {
        /// The agent.
        agent: String,
        /// The skill.
        skill: String,
        /// The rule, with its place.
        rule: String,
    },
    /// It names what does not exist.
    #[error(
        "agent `{agent}` cannot be used: {problems}; check it with `loopwright agents validate`"
    )]
    Invalid {
        /// The agent.
        agent: String,
        /// What is wrong.
        problems: String,
    },
    /// It asks for a model that is not whole.
    #[error(
        "agent `{agent}` requests {asked}, which is not a model name; write `llm: provider/model` into the agent's file, or pass `-m provider/model`"
    )]
    Model {
        /// The agent.
        agent: String,
        /// What it asks for.
        asked: String,
    },
    /// What is configured of the capabilities of the program's own agent cannot be used.
    #[error("the table `[capabilities]` of the configuration is invalid")]
    Capability(#[source] BuildError),
    /// `--tools` cannot be used.
    #[error("`--tools` cannot be used")]
    Tools(#[source] BuildError),
    /// It names something that does not exist.
    #[error("agent `{agent}` cannot be built; check its file with `loopwright agents validate`")]
    Build {
        /// The agent.
        agent: String,
        /// Why.
        #[source]
        source: BuildError,
    },
}

impl AgentError {
    /// Returns the exit status.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Unknown { .. } | Self::Own | Self::Tools(_) => ExitCode::Usage,
            Self::File { .. }
            | Self::Skill { .. }
            | Self::DeniedSkill { .. }
            | Self::Build { .. }
            | Self::Invalid { .. }
            | Self::Capability(_) => ExitCode::Config,
            Self::Model { .. } => ExitCode::NoModel,
        }
    }

    /// Returns the word for it in results.
    pub fn stop_reason(&self) -> &'static str {
        match self.exit_code() {
            ExitCode::Usage => "usage",
            ExitCode::NoModel => "no_model",
            _ => "configuration",
        }
    }
}

impl SelectedAgent {
    /// Takes a definition by its name, and says what is odd about its file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none, its file is wrong, or it names a skill that does not exist.
    pub fn find(name: &str, defined: Defined, sources: &ConfigSources) -> Result<Self, AgentError> {
        if name == AGENT {
            return Err(AgentError::Own);
        }
        // A definition of a place that counts less does not stand for one that is refused.
        if let Some(source) = defined.agents.refused(name) {
            return Err(AgentError::File { name: name.to_owned(), source });
        }
        let definition = defined.agents.get(name).map_err(|error| {
            // A file that is wrong may be the one that is meant.
            let meant = defined
                .agents
                .errors()
                .into_iter()
                .find(|(path, _)| path.file_stem().is_some_and(|it| it == name));
            match meant {
                Some((_, source)) => AgentError::File { name: name.to_owned(), source },
                None => AgentError::Unknown { unknown: error },
            }
        })?;
        defined.tell_new_warnings(name, sources);
        let mut definition = completed(&definition);
        let mut prompt = vec![std::mem::take(&mut definition.system_prompt)];
        for name in definition.skills.iter() {
            let skill = defined.skills.get(name).ok_or_else(|| AgentError::Skill {
                agent: definition.name.clone(),
                skill: name.to_owned(),
            })?;
            // The definition does not name the task.
            prompt.push(skill.render(Some("")));
        }
        definition.system_prompt = prompt.join("\n\n");
        Ok(Self { definition: Arc::new(definition), defined, is_kept: false })
    }

    /// Checks the rules about the skills that are part of the agent's instructions. The user has chosen the agent, so a rule
    /// that asks about them is satisfied.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule denies one of them.
    pub(crate) fn check_skills(&self, policy: &Policy) -> Result<(), AgentError> {
        let agent = &self.definition;
        let denied = |skill: &str| {
            let rule = policy.denies_skill(skill)?;
            Some((skill.to_owned(), format!("{}` of `{}", rule.text, rule.place())))
        };
        match agent.skills.iter().find_map(denied) {
            Some((skill, rule)) => {
                Err(AgentError::DeniedSkill { agent: agent.name.clone(), skill, rule })
            }
            None => Ok(()),
        }
    }

    /// Takes the definition that a session was begun with. Returns `None` if it was the program's
    /// own agent.
    pub fn kept(definition: &AgentDefinition, defined: Defined) -> Option<Self> {
        (definition.name != AGENT).then(|| Self {
            definition: Arc::new(definition.clone()),
            defined,
            is_kept: true,
        })
    }

    /// Returns the first message of a new session: the initial prompt of the definition, followed by the user's prompt.
    pub(crate) fn first_message(&self, prompt: Option<String>) -> Option<String> {
        let first = self.definition.initial_prompt.clone().filter(|_| !self.is_kept);
        match (first, prompt) {
            (Some(first), Some(prompt)) => Some(format!("{first}\n\n{prompt}")),
            (first, prompt) => first.or(prompt),
        }
    }

    /// Asks for the definition's model, unless another one was typed.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition names only half of a model, and no process knows the other half.
    pub fn choose(&self, config: &mut Config, providers: &Providers) -> Result<(), AgentError> {
        let Some(llm) = &self.definition.llm else { return Ok(()) };
        if (llm.provider.is_none() && llm.model.is_none())
            || config.model.as_ref().is_some_and(|it| it.origin.is_typed())
        {
            return Ok(());
        }
        if let (None, Some(name)) = (&llm.provider, &llm.model)
            && let Some(meant) = misspelt(name, config.aliases.keys())
        {
            let (agent, name) = (&self.definition.name, single_line(name, 64));
            console::warn(&format!(
                "agent `{agent}` uses the model `{name}`, which is unknown; did you mean `{meant}`?"
            ));
        }
        let configured = config.model.as_ref().map(|it| it.value.provider().to_owned());
        let provider = llm.provider.as_deref().map(str::to_owned).or(configured);
        let of_provider = || {
            let known = providers.provider(provider.as_deref()?).ok()?;
            known.model.as_deref().map(str::to_owned)
        };
        let model = llm.model.as_deref().map(str::to_owned).or_else(of_provider);
        let name = provider.zip(model).map(|(provider, model)| format!("{provider}/{model}"));
        let model = name.as_deref().and_then(ModelRef::from_text).ok_or_else(|| {
            let parts = [&llm.provider, &llm.model].map(|it| it.as_deref().unwrap_or_default());
            AgentError::Model {
                agent: self.definition.name.clone(),
                asked: format!("`{}`", parts.join("/")),
            }
        })?;
        config.model = Some(Setting::new(model, self.origin()));
        Ok(())
    }

    /// Returns what a run may use up, as far as the definition says: what the user's own file says, or else what
    /// `lowered` makes of it. A session may be from somewhere else, whatever its agent is called, so that what it
    /// keeps raises nothing beyond what the user's file of that name says.
    pub fn budget(&self, lowered: impl Fn(Budget) -> Budget) -> Budget {
        let own = self.definition.budget.unwrap_or_default();
        if !matches!(self.origin(), Origin::User(_)) {
            return lowered(own);
        }
        if !self.is_kept {
            return own;
        }
        let today = self.defined.agents.get(&self.definition.name).ok().and_then(|it| it.budget);
        let (low, today) = (lowered(own), today.unwrap_or_default());
        Budget {
            steps: raised(low.steps, own.steps, today.steps),
            tokens: raised(low.tokens, own.tokens, today.tokens),
            time: raised(low.time, own.time, today.time),
            ..low
        }
    }

    /// A project's file is not the user's promise.
    fn origin(&self) -> Origin {
        let source = self.defined.agents.source(&self.definition.name);
        let path = source.as_ref().and_then(|it| it.path.as_deref()).map(Arc::from);
        match (path, source.and_then(|it| it.scope)) {
            (Some(path), Some(DefinitionScope::Project)) => Origin::Project(path),
            (Some(path), _) => Origin::User(path),
            (None, _) => Origin::Session,
        }
    }

    /// Lays the definition's settings over those of the model.
    pub fn settings(&self, options: InferenceOptions) -> InferenceOptions {
        let Some(llm) = &self.definition.llm else { return options };
        let stream = options.stream;
        let mut settings = llm.options.clone();
        settings.stream = stream;
        settings
    }
}

/// Returns the wider of two limits: what holds without a file of the user's, and what that allows of what is kept.
fn raised<T: Ord>(low: Option<T>, own: Option<T>, today: Option<T>) -> Option<T> {
    low.max(own.zip(today).map(|(own, today)| own.min(today)))
}

#[cfg(test)]
mod tests {
    use loopwright_capabilities::skills::SkillLibrary;
    use loopwright_templates::{AgentDefinitionRegistry, DefinitionPaths};

    use super::*;

    const LOW: u32 = 50;

    fn lowered(own: Budget) -> Budget {
        Budget { steps: own.steps.map(|it| it.min(LOW)), ..own }
    }

    /// What an agent that asks for so many steps gets.
    fn steps(users: Option<u32>, is_kept: bool, asked: u32) -> Option<u32> {
        let home = tempfile::tempdir().unwrap();
        let agents = AgentDefinitionRegistry::new();
        if let Some(steps) = users {
            let file = format!("---\nname: a\ndescription: D.\nmaxTurns: {steps}\n---\nGo.\n");
            std::fs::write(home.path().join("a.md"), file).unwrap();
            agents.auto_discover(&DefinitionPaths::new().with_user_dir(home.path()));
        }
        let budget = Budget { steps: Some(asked), ..Budget::default() };
        let definition =
            AgentDefinition { budget: Some(budget), ..AgentDefinition::new("a", "D.", "Go.") };
        let defined = Defined {
            root: home.path().into(),
            agents,
            skills: SkillLibrary::default(),
            settings: Arc::default(),
            servers: Arc::default(),
            hooks: Arc::default(),
        };
        SelectedAgent { definition: Arc::new(definition), defined, is_kept }.budget(lowered).steps
    }

    #[test]
    fn a_session_raises_no_limit_beyond_what_the_users_file_of_its_agents_name_says() {
        // The user's own file says what it likes.
        assert_eq!(steps(Some(200), false, 200), Some(200));
        let kept = |users, asked| steps(users, true, asked);
        let told = [
            kept(None, 1000),
            kept(Some(200), 1000),
            kept(Some(200), 100),
            kept(Some(2), 1000),
            kept(Some(200), 7),
        ];
        assert_eq!(told, [Some(LOW), Some(200), Some(100), Some(LOW), Some(7)]);
    }
}
