//! `load_skill`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{DefinitionError, Definitions};
use loopwright_core::{BoxError, Effects, Reach, Tool, ToolCx, ToolOptions, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::child::ChildError;
use crate::files::{FileError, ReadFile, ReadFileArgs};
use crate::skills::active::{self, ACTIVE, ActiveSkill, LOAD_SKILL};
use crate::skills::fork::fork;
use crate::skills::library::{SkillAudience, SkillLibrary};
use crate::skills::policy::SkillPolicy;
use crate::skills::shell::SkillShell;
use crate::skills::skill::{Skill, SkillContext};
use crate::skills::substitute::substitute;

/// Loads a skill, lists those there are, and shows the files that belong to one.
#[derive(Clone)]
#[must_use]
pub struct LoadSkill {
    library: SkillLibrary,
    policy: SkillPolicy,
    shell: Option<SkillShell>,
    agents: Option<Arc<dyn Definitions>>,
}

/// What the model passes to `load_skill`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSkillArgs {
    /// The skill to load.
    #[serde(default)]
    pub skill_name: Option<String>,
    /// Lists the skills there are, and loads none.
    #[serde(default)]
    pub list_skills: Option<bool>,
    /// What the skill is to work on, as its list entry says.
    #[serde(default)]
    pub arguments: Option<String>,
    /// A file of the skill to show, as the skill names it; the skill is not loaded again.
    #[serde(default)]
    pub resource: Option<String>,
    /// Ends the skill that is active, and what it restricts.
    #[serde(default)]
    pub done: Option<bool>,
}

/// Why no skill was loaded; the model is told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// There is none of that name. What was active stays so.
    #[error("there is no skill named `{name}`; known are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// It has no files.
    #[error("the skill `{0}` has no files")]
    NoFiles(String),
    /// The file cannot be shown.
    #[error(transparent)]
    File(#[from] FileError),
    /// The agent that is to carry it out is not known.
    #[error(transparent)]
    Agent(#[from] DefinitionError),
    /// It was carried out by itself, and did not come to an answer.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// What is to be remembered cannot be written.
    #[error("the skill cannot be remembered")]
    State(#[source] serde_json::Error),
    /// The files could not be looked at.
    #[error("the skills could not be read")]
    Lost,
}

const DESCRIPTION: &str = "Loads a skill: instructions for one kind of work, to be followed from \
    then on. Pass `skill_name`, with `arguments` if the skill takes any; without a name it lists the \
    skills there are. With `resource` it shows a file that a skill mentions. What a skill restricts \
    holds until another skill is loaded, or this is called with `done`.";

impl LoadSkill {
    /// Loads from a library.
    pub fn from(library: SkillLibrary) -> Self {
        Self { library, policy: SkillPolicy::default(), shell: None, agents: None }
    }

    /// Sets what skills may do.
    pub fn policy(mut self, policy: SkillPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Runs the commands in skills; without it they stay text.
    pub fn shell(mut self, shell: SkillShell) -> Self {
        self.shell = Some(shell);
        self
    }

    /// Sets the agents that skills may name to be carried out by; without it they are carried out by a
    /// plain one.
    pub fn agents(mut self, agents: Arc<dyn Definitions>) -> Self {
        self.agents = Some(agents);
        self
    }

    /// Returns the library.
    pub fn library(&self) -> &SkillLibrary {
        &self.library
    }

    async fn run(&self, args: LoadSkillArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, SkillError> {
        if args.done == Some(true) {
            return Ok(done(cx));
        }
        let name = args.skill_name.as_deref().map(str::trim).filter(|it| !it.is_empty());
        let name = name.filter(|_| args.list_skills != Some(true));
        let library = self.library.clone();
        let Some(name) = name else {
            let text = away(move || library.to_text(SkillAudience::Models)).await?;
            return Ok(ToolOutput::text(text));
        };
        let skill = self.find(name).await?;
        if let Some(resource) = args.resource.filter(|it| !it.trim().is_empty()) {
            return show(&skill, resource, cx).await;
        }
        let arguments = args.arguments.as_deref();
        let body = match &self.shell {
            Some(shell) => shell.fill(skill.content(), arguments, cx.cancel).await.into(),
            None => Cow::from(substitute(skill.content(), arguments)),
        };
        if skill.info.context == SkillContext::Fork {
            return fork(&skill, &body, &self.policy, self.agents.as_ref(), cx).await;
        }
        let active = ActiveSkill::of(&skill, self.policy.model(&skill.info));
        let value = json!({ "skill": skill.name(), "resources": skill.resources });
        let output =
            ToolOutput { value: Some(value.into()), ..ToolOutput::text(skill.wrap(&body)) };
        active::begin(output, &active, cx.agent.tools()).map_err(SkillError::State)
    }

    async fn find(&self, name: &str) -> Result<Arc<Skill>, SkillError> {
        let (library, name) = (self.library.clone(), name.to_owned());
        away(move || {
            library.get(&name).ok_or_else(|| SkillError::Unknown {
                known: library.names(SkillAudience::Models).join(", "),
                name,
            })
        })
        .await?
    }
}

fn done(cx: &ToolCx<'_>) -> ToolOutput {
    let text = match cx.state.get(&ACTIVE) {
        Some(skill) => format!("The skill `{}` is no longer active.", skill.name),
        None => "No skill is active.".to_owned(),
    };
    active::end(ToolOutput::text(text), cx.state)
}

/// Shows a file below a skill's directory, which nothing leads out of.
async fn show(skill: &Skill, path: String, cx: &ToolCx<'_>) -> Result<ToolOutput, SkillError> {
    let Some(directory) = skill.directory.clone() else {
        return Err(SkillError::NoFiles(skill.name().to_owned()));
    };
    let stop = cx.cancel.clone();
    let read = move || {
        let file = ReadFile::in_dir(directory).lines(u64::MAX).bytes(512 << 10);
        file.read(&ReadFileArgs { path, ..ReadFileArgs::default() }, &stop)
    };
    Ok(away(read).await??)
}

/// Runs work that blocks, away from the threads that answer.
async fn away<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SkillError> {
    let Ok(runtime) = Handle::try_current() else { return Ok(work()) };
    runtime.spawn_blocking(work).await.map_err(|_| SkillError::Lost)
}

impl Tool for LoadSkill {
    type Args = LoadSkillArgs;
    type Output = ToolOutput;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        LOAD_SKILL
    }

    fn description(&self) -> &'static str {
        DESCRIPTION
    }

    fn options(&self) -> ToolOptions {
        // A skill that works by itself goes on where it was; loading one again does no harm.
        ToolOptions {
            effects: Effects::Resumable,
            // The shell runs commands, which not every agent may.
            reach: if self.shell.is_some() { Reach::World } else { Reach::Agent },
            namespace: Some("skills".into()),
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: LoadSkillArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        Ok(self.run(args, cx).await?)
    }
}

impl fmt::Debug for LoadSkill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadSkill")
            .field("library", &self.library)
            .field("shell", &self.shell)
            .finish_non_exhaustive()
    }
}
