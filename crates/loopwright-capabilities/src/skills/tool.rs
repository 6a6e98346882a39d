//! `load_skill`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwright_agent::{CapabilityRegistry, DefinitionError, Definitions};
use loopwright_core::{
    BoxError, Reach, SideEffects, StartedAgent, Tool, ToolCx, ToolOptions, ToolOutput,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Handle;

use crate::child::{ChildError, DefinedAgents, DefinedError, IsolateAgents};
use crate::earlier_calls;
use crate::files::{FileAccess, FileError, ReadFile, ReadFileArgs, WorkspaceRoot};
use crate::skills::active::{self, ACTIVE, ActiveSkill, LOAD_SKILL};
use crate::skills::fork::{fork, started};
use crate::skills::library::{SkillAudience, SkillLibrary, text_of};
use crate::skills::loaded::{self, LOADED};
use crate::skills::model::over;
use crate::skills::policy::SkillPolicy;
use crate::skills::shell::SkillShell;
use crate::skills::skill::{Skill, SkillContext};
use crate::skills::substitute::Values;

/// Loads a skill, lists the available skills, and shows the files of a skill.
#[derive(Clone)]
#[must_use]
pub struct LoadSkill {
    library: SkillLibrary,
    policy: SkillPolicy,
    shell: Option<SkillShell>,
    agents: Option<Arc<dyn Definitions>>,
    isolation: Option<Arc<dyn IsolateAgents>>,
    capabilities: Arc<CapabilityRegistry>,
    is_listed: IsListed,
    access: Option<Arc<dyn FileAccess>>,
    /// The agents that skills start, as the calls that load them last declared.
    declared: Arc<Mutex<BTreeMap<String, Option<StartedAgent>>>>,
}

/// Returns `true` for the names of skills that models see in lists.
type IsListed = Arc<dyn Fn(&str) -> bool + Send + Sync>;

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
    /// Ends a skill: the named skill, or the active one.
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
    /// The skill starts another agent than the one that was decided about.
    #[error("the skill `{0}` changed while the call waited for a decision; load it again")]
    Changed(String),
    /// The skill cannot be recorded in the state.
    #[error("the skill cannot be recorded")]
    State(#[source] serde_json::Error),
    /// The files could not be read.
    #[error("the skills could not be read")]
    Lost,
}

const DESCRIPTION: &str = "Loads a skill: instructions for one kind of work, which you follow \
    from then on. Pass `skill_name`, and `arguments` if the skill takes any; without a name, the \
    available skills are listed. With `resource`, a file that the skill mentions is shown. \
    A skill is active until another skill is loaded or you call this tool with `done`.";

impl LoadSkill {
    /// Creates the tool with a library.
    pub fn from(library: SkillLibrary) -> Self {
        let (policy, capabilities) = (SkillPolicy::default(), Arc::default());
        Self {
            library,
            policy,
            shell: None,
            agents: None,
            isolation: None,
            capabilities,
            is_listed: Arc::new(|_| true),
            access: None,
            declared: Arc::default(),
        }
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

    /// Sets what gives these agents their own places, whose definition has an isolation.
    pub fn with_isolation(mut self, isolation: Arc<dyn IsolateAgents>) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// Sets the registry of the capabilities that the definitions of these agents name.
    pub fn with_capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Lists only skills to models for whose names the function returns `true`, such as those that no permission rule
    /// denies. By default, all are listed.
    pub fn with_listed(mut self, is_listed: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.is_listed = Arc::new(is_listed);
        self
    }

    /// Sets rules for the files of skills: denied files are not shown.
    pub fn with_access(mut self, access: Arc<dyn FileAccess>) -> Self {
        self.access = Some(access);
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
        let Some(name) = args.name() else {
            let tool = self.clone();
            return Ok(ToolOutput::text(away(move || text_of(&tool.listed())).await?));
        };
        let skill = self.find(name).await?;
        if let Some(resource) = args.resource.filter(|it| !it.trim().is_empty()) {
            return self.show(&skill, resource, cx).await;
        }
        let arguments = args.arguments.as_deref();
        let agent = self.agent_of(&skill);
        if self.lock_declared().get(skill.name()).is_some_and(|it| *it != agent) {
            return Err(SkillError::Changed(skill.name().to_owned()));
        }
        let body = match &self.shell {
            Some(shell) => {
                let directory = skill.place();
                let values = Values { arguments, directory: directory.as_deref() };
                shell.fill(skill.content(), values, cx.cancel).await
            }
            None => skill.filled(arguments),
        };
        if agent.is_some() {
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
        let output = active::begin(output, &active);
        let output = output.and_then(|it| it.with_value(&LOADED, &loaded::with(texts, cx)));
        output.map_err(SkillError::State)
    }

    /// Returns the agent that carries a skill out, and remembers it for the call. Blocks while it reads.
    fn declare(&self, name: &str) -> Option<StartedAgent> {
        let skill = self.library.get(name)?;
        let agent = self.agent_of(&skill);
        self.lock_declared().insert(skill.name().to_owned(), agent.clone());
        agent
    }

    /// Returns the agent that a skill starts; `None` if it is loaded into the conversation.
    fn agent_of(&self, skill: &Skill) -> Option<StartedAgent> {
        let forks = skill.info.context == SkillContext::Fork;
        forks.then(|| started(skill, self.agents.as_deref()))
    }

    fn lock_declared(&self) -> MutexGuard<'_, BTreeMap<String, Option<StartedAgent>>> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the agents that may carry skills out, if agents are known at all.
    fn defined_agents(&self) -> Option<DefinedAgents> {
        let agents = DefinedAgents::from_arc(Arc::clone(self.agents.as_ref()?));
        let capabilities = Arc::clone(&self.capabilities);
        let agents = match &self.isolation {
            Some(isolation) => agents.with_isolation(Arc::clone(isolation)),
            None => agents,
        };
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
            let Some(name) = args.loaded() else { continue };
            let Ok(skill) = self.find(name).await else { continue };
            if skill.info.context == SkillContext::Inline {
                texts.push((skill.name().to_owned(), skill.render(args.arguments.as_deref())));
            }
        }
        texts
    }

    async fn find(&self, name: &str) -> Result<Arc<Skill>, SkillError> {
        let (tool, name) = (self.clone(), name.to_owned());
        away(move || {
            tool.library.get(&name).ok_or_else(|| {
                let known: Vec<String> =
                    tool.listed().iter().map(|it| it.name().to_owned()).collect();
                SkillError::Unknown { known: known.join(", "), name }
            })
        })
        .await?
    }

    /// Shows a file below a skill's directory, which nothing leads out of.
    async fn show(
        &self,
        skill: &Skill,
        path: String,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, SkillError> {
        let Some(directory) = skill.directory.clone() else {
            return Err(SkillError::NoFiles(skill.name().to_owned()));
        };
        let root = WorkspaceRoot::new(directory);
        let root = match &self.access {
            Some(access) => root.with_access(Arc::clone(access)),
            None => root,
        };
        let stop = cx.cancel.clone();
        let read = move || {
            let file = ReadFile::in_dir(root).with_lines(u64::MAX).with_bytes(512 << 10);
            file.read(&ReadFileArgs { path, ..ReadFileArgs::default() }, &stop)
        };
        Ok(away(read).await??)
    }

    /// Returns the skills that models see in lists. Blocks while it reads.
    pub(super) fn listed(&self) -> Vec<Arc<Skill>> {
        let mut skills = self.library.list(SkillAudience::Models);
        skills.retain(|it| (self.is_listed)(it.name()));
        skills
    }
}

impl LoadSkillArgs {
    /// Returns the name of the skill, unless all skills are to be listed.
    fn name(&self) -> Option<&str> {
        let name = self.skill_name.as_deref().map(str::trim).filter(|it| !it.is_empty());
        name.filter(|_| self.list_skills != Some(true))
    }

    /// Returns the name of the skill if it is loaded: not ended, and not only a file of it shown.
    fn loaded(&self) -> Option<&str> {
        let shows = self.resource.as_ref().is_some_and(|it| !it.trim().is_empty());
        self.name().filter(|_| self.done != Some(true) && !shows)
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

    /// Returns the agent that carries the skill out. The call then starts no other.
    async fn starts(&self, args: LoadSkillArgs) -> Option<StartedAgent> {
        let (name, tool) = (args.loaded()?.to_owned(), self.clone());
        // A call whose skill cannot be read fails.
        away(move || tool.declare(&name)).await.ok()?
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
