//! `spawn_subagent`.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use loopwright_agent::{
    AgentDefinition, BuildError, CapabilityRegistry, DefinitionError, DefinitionRegistry,
    Definitions, StateFactory,
};
use loopwright_core::{
    AnyTool, IntoTool, SideEffects, StartedAgent, ToolCx, ToolError, ToolHandler, ToolOptions,
    ToolOutput, messages::ToolSpec,
};
use serde_json::{Value, json};

#[cfg(all(feature = "skills", target_os = "linux"))]
use crate::skills::SkillLibrary;
use crate::{
    child::{ChildError, DefinedAgents, DefinedError, IsolateAgents},
    subagents::{
        background::{BackgroundAgents, BackgroundError},
        policy::SubagentPolicy,
        queue::Queue,
    },
};

/// Delegates work to an agent from a definition.
///
/// The choices of the model are read from the definitions when the tool is created; the selected
/// definition is looked up when the tool is called.
#[derive(Clone, Debug)]
#[must_use]
pub struct SpawnSubagent {
    agents: DefinedAgents,
    policy: SubagentPolicy,
    pub(super) queue: Arc<Queue>,
    pub(super) background: BackgroundAgents,
}

/// An error of `spawn_subagent`, for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The sub-agent is unknown.
    #[error(transparent)]
    Unknown(#[from] DefinitionError),
    /// There are no sub-agents.
    #[error("no sub-agents are available; do the task yourself")]
    None,
    /// The task is empty.
    #[error(
        "`prompt` is empty; describe the task and include everything the sub-agent needs to know"
    )]
    Nothing,
    /// The definition cannot be used, or the sub-agent failed.
    #[error(transparent)]
    Defined(#[from] DefinedError),
    /// The run was cancelled before the sub-agent started.
    #[error("`{0}` did not start: the run is being cancelled")]
    Cancelled(String),
    /// The sub-agent returned no answer.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The sub-agent cannot work in the background.
    #[error(transparent)]
    Background(#[from] BackgroundError),
}

impl From<BuildError> for SpawnError {
    fn from(error: BuildError) -> Self {
        Self::Defined(error.into())
    }
}

impl SpawnSubagent {
    /// Creates it with these definitions.
    pub fn new(definitions: impl Definitions + 'static) -> Self {
        Self::from_arc(Arc::new(definitions))
    }

    /// Creates it with shared definitions.
    pub fn from_arc(definitions: Arc<dyn Definitions>) -> Self {
        let agents = DefinedAgents::from_arc(definitions);
        let (policy, background) = (SubagentPolicy::default(), BackgroundAgents::default());
        Self { agents, policy, queue: Arc::default(), background }
    }

    /// Sets the registry of the capabilities that definitions name.
    pub fn with_capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.agents = self.agents.with_capabilities(capabilities);
        self
    }

    /// Sets the factory of the sub-agents' initial states. The budget is capped in any case.
    pub fn with_states(mut self, states: Arc<dyn StateFactory>) -> Self {
        self.agents = self.agents.with_states(states);
        self
    }

    /// Sets what gives sub-agents their own places.
    pub fn with_isolation(mut self, isolation: Arc<dyn IsolateAgents>) -> Self {
        self.agents = self.agents.with_isolation(isolation);
        self
    }

    #[cfg(all(feature = "skills", target_os = "linux"))]
    /// Sets the library of the skills that definitions name. Their texts become part of the
    /// instructions; a sub-agent whose definition names an unknown skill does not start.
    pub fn with_skills(mut self, skills: SkillLibrary) -> Self {
        self.agents = self.agents.with_skills(skills);
        self
    }

    /// Sets the policy of sub-agents.
    pub fn with_policy(mut self, policy: SubagentPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Looks an agent up.
    fn find(&self, name: &str) -> Result<Arc<AgentDefinition>, SpawnError> {
        if self.agents.definitions().count() == 0 {
            return Err(SpawnError::None);
        }
        Ok(self.agents.find(name)?)
    }

    async fn spawn(
        &self,
        definition: &Arc<AgentDefinition>,
        prompt: &str,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, SpawnError> {
        let child = self.agents.child(definition, definition.name.as_str(), cx)?;
        let child = child.with_max_depth(self.policy.max_depth);
        let ended = self.agents.run(definition, child, prompt, |state| state).await?;
        let answer = ended.answer()?;
        Ok(ended.to_output(self.policy.show(&definition.name, &answer.to_text())))
    }

    /// Begins a sub-agent in the background.
    async fn start(
        &self,
        definition: &Arc<AgentDefinition>,
        prompt: &str,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, SpawnError> {
        let stop = self.background.check(definition, cx)?;
        let child = self.agents.child(definition, definition.name.as_str(), cx)?;
        let child = child.with_max_depth(self.policy.max_depth);
        let child = self.agents.detach(definition, child, prompt, stop.clone()).await?;
        let id = self.background.keep(child, definition, prompt, &self.policy, stop, cx)?;
        Ok(ToolOutput::text(format!(
            "Sub-agent {id} ({}) runs in the background. A message will report when it ends; `subagent_read` returns its answer.",
            definition.name
        )))
    }

    /// Returns `true` if an agent works in the background.
    pub(super) fn has_background(&self) -> bool {
        self.agents.definitions().all().iter().any(|it| it.background)
    }

    fn spec(&self) -> ToolSpec {
        let definitions = self.agents.definitions().all();
        let mut subagent = json!({ "type": "string", "description": "Name of the sub-agent to \
            run." });
        if !definitions.is_empty() {
            subagent["enum"] = definitions.iter().map(|it| it.name.as_str()).collect();
        }
        let prompt = json!({
            "type": "string",
            "description": "The task, with everything the sub-agent needs to know: it sees \
                nothing of this conversation.",
        });
        ToolSpec {
            name: "spawn_subagent".into(),
            description: describe(&definitions).into(),
            parameters: Arc::new(json!({
                "type": "object",
                "properties": { "subagent": subagent, "prompt": prompt },
                "required": ["subagent", "prompt"],
                "additionalProperties": false,
            })),
        }
    }
}

fn describe(definitions: &[Arc<AgentDefinition>]) -> String {
    let mut text = "Gives a task to a sub-agent, which works on it in its own conversation, and \
        returns its answer. To run several sub-agents at the same time, make several calls in \
        one response."
        .to_owned();
    if definitions.is_empty() {
        text.push_str("\n\nNo sub-agents are registered.");
        return text;
    }
    text.push_str("\n\nAvailable sub-agents:");
    for it in definitions {
        let tools = match &it.tools {
            None => "all your tools".to_owned(),
            Some(tools) if tools.is_empty() => "no tools".to_owned(),
            Some(tools) => tools.iter().collect::<Vec<_>>().join(", "),
        };
        let but = it.tools_deny.iter().collect::<Vec<_>>().join(", ");
        let but = if but.is_empty() { but } else { format!("; not {but}") };
        let place = match (it.background, it.isolation.is_some()) {
            (false, false) => "",
            (true, false) => "; in the background",
            (false, true) => "; in its own copy of the files",
            (true, true) => "; in the background, in its own copy of the files",
        };
        // Writing to a string does not fail.
        let _written =
            write!(text, "\n- {}: {} (tools: {tools}{but}{place})", it.name, it.description);
    }
    text
}

impl IntoTool for SpawnSubagent {
    fn into_tool(self) -> AnyTool {
        let options = ToolOptions {
            side_effects: SideEffects::Resumable,
            namespace: Some("subagents".into()),
            ..ToolOptions::default()
        };
        let spec = self.spec();
        AnyTool::dynamic(spec, options, Arc::new(Handler(self)))
    }
}

struct Handler(SpawnSubagent);

#[async_trait]
impl ToolHandler for Handler {
    async fn starts(&self, arguments: &Value) -> Option<StartedAgent> {
        let name = arguments["subagent"].as_str()?.trim();
        Some(DefinedAgents::started(&*self.0.agents.find(name).ok()?))
    }

    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().trim();
        let told = async {
            let definition = self.0.find(text("subagent"))?;
            if text("prompt").is_empty() {
                return Err(SpawnError::Nothing);
            }
            if definition.background {
                return self.0.start(&definition, text("prompt"), cx).await;
            }
            let most = self.0.policy.max_concurrent;
            let Some(_place) = self.0.queue.place(most, cx).await else {
                return Err(SpawnError::Cancelled(definition.name.clone()));
            };
            self.0.spawn(&definition, text("prompt"), cx).await
        };
        told.await.map_err(|error| match error {
            SpawnError::Child(error) | SpawnError::Defined(DefinedError::Child(error)) => {
                error.into_tool_error()
            }
            error => ToolError::Failed(error.into()),
        })
    }
}

impl Default for SpawnSubagent {
    /// Creates it without sub-agents.
    fn default() -> Self {
        Self::new(DefinitionRegistry::new())
    }
}
