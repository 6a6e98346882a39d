//! `load_skill`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{CapabilityRegistry, DefinitionError, Definitions};
use loopwright_core::{BoxError, Reach, SideEffects, Tool, ToolCx, ToolOptions, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::child::{ChildError, DefinedAgents, DefinedError};
use crate::earlier_calls;
use crate::files::{FileError, ReadFile, ReadFileArgs};
use crate::skills::active::{self, ACTIVE, ActiveSkill, LOAD_SKILL};
use crate::skills::fork::fork;
use crate::skills::library::{SkillAudience, SkillLibrary};
use crate::skills::loaded::{self, LOADED};
use crate::skills::model::over;
use crate::skills::policy::SkillPolicy;
use crate::skills::shell::SkillShell;
use crate::skills::skill::{Skill, SkillContext};
use crate::skills::substitute::substitute;

/// Loads a skill, lists the available skills, and shows the files of a skill.
#[derive(Clone)]
#[must_use]
pub struct LoadSkill {
    library: SkillLibrary,
    policy: SkillPolicy,
    shell: Option<SkillShell>,
    agents: Option<Arc<dyn Definitions>>,
    capabilities: Arc<CapabilityRegistry>,
}

/// The arguments of the tool `load_skill`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSkillArgs {
    /// The skill to load.
    #[serde(default)]
    pub skill_name: Option<String>,
    /// Lists the available skills and loads none.
    #[serde(default)]
    pub list_skills: Option<bool>,
    /// Arguments of the skill, as described in its list entry.
    #[serde(default)]
    pub arguments: Option<String>,
    /// A file of the skill to show, as the skill names it; the skill is not loaded again.
    #[serde(default)]
    pub resource: Option<String>,
    /// Ends a skill and its restrictions: the named skill, or the active one.
    #[serde(default)]
    pub done: Option<bool>,
}

/// An error of `load_skill`, for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The skill is unknown. The active skill stays active.
    #[error("unknown skill `{name}`; available: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The skill has no files.
    #[error("the skill `{0}` has no files")]
    NoFiles(String),
    /// The file cannot be shown.
    #[error(transparent)]
    File(#[from] FileError),
    /// The agent that should run the skill is unknown.
    #[error(transparent)]
    Agent(#[from] DefinitionError),
    /// The skill ran in its own conversation, and returned no answer.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The agent that should run the skill cannot be used, or returned no answer.
    #[error(transparent)]
    Defined(#[from] DefinedError),
    /// The skill cannot be recorded in the state.
    #[error("the skill cannot be recorded")]
    State(#[source] serde_json::Error),
    /// The files could not be read.
    #[error("the skills could not be read")]
    Lost,
}

const DESCRIPTION: &str = "Loads a skill: instructions for one kind of work, which you follow \
    from then on. Pass `skill_name`, and `arguments` if the skill takes any; without a name, the \
    available skills are listed. With `resource`, a file that the skill mentions is shown. The \
    restrictions of a skill apply until another skill is loaded or you call this tool with \
    `done`.";

impl LoadSkill {
    /// Creates the tool with a library.
    pub fn from(library: SkillLibrary) -> Self {
        let (policy, capabilities) = (SkillPolicy::default(), Arc::default());
        Self { library, policy, shell: None, agents: None, capabilities }
    }

    /// Sets the policy of skills.
    pub fn with_policy(mut self, policy: SkillPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Runs the commands in skills; otherwise they stay text.
    pub fn with_shell(mut self, shell: SkillShell) -> Self {
        self.shell = Some(shell);
        self
    }

    /// Sets the agents that skills can name for their execution; otherwise a plain agent runs them.
    pub fn with_agents(mut self, agents: Arc<dyn Definitions>) -> Self {
        self.agents = Some(agents);
        self
    }

    /// Sets the registry of the capabilities that the definitions of these agents name.
    pub fn with_capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Returns the library.
    pub fn library(&self) -> &SkillLibrary {
        &self.library
    }

    async fn run(&self, args: LoadSkillArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, SkillError> {
        if args.done == Some(true) {
            return done(args.skill_name.as_deref().map(str::trim), cx);
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
            Some(shell) => shell.expand(skill.content(), arguments, cx.cancel).await.into(),
            None => Cow::from(substitute(skill.content(), arguments)),
        };
        if skill.info.context == SkillContext::Fork {
            return fork(&skill, &body, &self.policy, self.defined_agents().as_ref(), cx).await;
        }
        let (model, note) = self.model(&skill, cx);
        let active = ActiveSkill::of(&skill, model);
        let value = json!({ "skill": skill.name(), "resources": skill.resources });
        let text = skill.wrap(&body);
        let shown = text.clone() + &note.map(|it| format!("\n\n{it}")).unwrap_or_default();
        let output = ToolOutput { value: Some(value.into()), ..ToolOutput::text(shown) };
        let mut texts = self.earlier(cx).await;
        texts.push((skill.name().to_owned(), text));
        let output = active::begin(output, &active, cx.agent.tools());
        let output = output.and_then(|it| it.with_value(&LOADED, &loaded::with(texts, cx)));
        output.map_err(SkillError::State)
    }

    /// Returns the agents that may carry skills out, if agents are known at all.
    fn defined_agents(&self) -> Option<DefinedAgents> {
        let agents = DefinedAgents::from_arc(Arc::clone(self.agents.as_ref()?));
        let capabilities = Arc::clone(&self.capabilities);
        Some(agents.with_capabilities(capabilities).with_skills(self.library.clone()))
    }

    /// Returns the model that a skill asks for, or a note for the model that loads it if there is no such
    /// model: a request to it would end the run.
    fn model(&self, skill: &Skill, cx: &ToolCx<'_>) -> (Option<String>, Option<String>) {
        let Some(model) = self.policy.model(&skill.info) else { return (None, None) };
        let models = cx.agent.driver().models();
        let llm = over(cx.state.llm(), &model);
        match models.map(|it| it.resolve(Some(&llm)).map(drop)) {
            Some(Err(error)) => {
                let note = format!("[The model `{model}` of the skill is not available: {error}.]");
                (None, Some(note))
            }
            _ => (Some(model), None),
        }
    }

    /// Returns the names and texts of skills that earlier calls of the same step load.
    async fn earlier(&self, cx: &ToolCx<'_>) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        for args in earlier_calls::earlier::<LoadSkillArgs>(cx) {
            let loads = args.done != Some(true)
                && args.list_skills != Some(true)
                && args.resource.is_none_or(|it| it.trim().is_empty());
            let Some(name) = args.skill_name.filter(|_| loads) else { continue };
            let Ok(skill) = self.find(name.trim()).await else { continue };
            if skill.info.context == SkillContext::Inline {
                texts.push((skill.name().to_owned(), skill.render(args.arguments.as_deref())));
            }
        }
        texts
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

/// Ends a skill: the one that is named, or the active one, or the one that was loaded last.
fn done(name: Option<&str>, cx: &ToolCx<'_>) -> Result<ToolOutput, SkillError> {
    let active = cx.state.get(&ACTIVE).map(|it| it.name);
    let name = name.filter(|it| !it.is_empty()).map(str::to_owned);
    let Some(name) = name.or_else(|| active.clone()).or_else(|| loaded::newest(cx.state)) else {
        return Ok(ToolOutput::text("No skill is active."));
    };
    let output = ToolOutput::text(format!("The skill `{name}` is no longer active."));
    let output = if active.is_some_and(|it| it == name) { active::end(output) } else { output };
    let left = loaded::without(&name, cx.state);
    output.with_value(&LOADED, &left).map_err(SkillError::State)
}

/// Shows a file below a skill's directory, which nothing leads out of.
async fn show(skill: &Skill, path: String, cx: &ToolCx<'_>) -> Result<ToolOutput, SkillError> {
    let Some(directory) = skill.directory.clone() else {
        return Err(SkillError::NoFiles(skill.name().to_owned()));
    };
    let stop = cx.cancel.clone();
    let read = move || {
        let file = ReadFile::in_dir(directory).with_lines(u64::MAX).with_bytes(512 << 10);
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
        // A skill that works by itself continues where it was; loading one again does no harm.
        ToolOptions {
            side_effects: SideEffects::Resumable,
            // The shell runs commands, which not every agent may.
            reach: if self.shell.is_some() { Reach::World } else { Reach::Agent },
            namespace: Some("skills".into()),
            ..ToolOptions::default()
        }
    }

    async fn call(&self, args: LoadSkillArgs, cx: &ToolCx<'_>) -> Result<ToolOutput, BoxError> {
        self.run(args, cx).await.map_err(|error| match error {
            SkillError::Child(error) | SkillError::Defined(DefinedError::Child(error)) => {
                error.into_tool_error().into()
            }
            error => error.into(),
        })
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
