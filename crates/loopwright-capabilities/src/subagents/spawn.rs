//! `spawn_subagent`.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use loopwright_agent::{
    AgentDefinition, BuildError, CapabilityRegistry, DefinitionError, DefinitionRegistry,
    Definitions, StateFactory,
};
use loopwright_core::{
    AnyTool, IntoTool, SideEffects, ToolCx, ToolError, ToolHandler, ToolOptions, ToolOutput,
    messages::ToolSpec,
};
use serde_json::{Value, json};

#[cfg(all(feature = "skills", target_os = "linux"))]
use crate::skills::SkillLibrary;
use crate::{
    child::{ChildError, DefinedAgents, DefinedError},
    subagents::{policy::SubagentPolicy, queue::Queue},
};

/// Hands work to an agent that a definition describes.
///
/// What a model can choose is read from the definitions when the tool is made; what it chose is looked
/// up when it is called.
#[derive(Clone, Debug)]
#[must_use]
pub struct SpawnSubagent {
    agents: DefinedAgents,
    policy: SubagentPolicy,
    pub(super) queue: Arc<Queue>,
}

/// Why no sub-agent answered; the model is told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is none of that name.
    #[error(transparent)]
    Unknown(#[from] DefinitionError),
    /// There is none at all.
    #[error("no sub-agents are available; do it yourself")]
    None,
    /// It is not said what there is to do.
    #[error(
        "`prompt` is empty; describe the task and include everything the sub-agent needs to know"
    )]
    Nothing,
    /// Its definition cannot be used, or it did not work.
    #[error(transparent)]
    Defined(#[from] DefinedError),
    /// The run was cancelled before it began.
    #[error("`{0}` did not start: the run is being cancelled")]
    Cancelled(String),
    /// It did not come to an answer.
    #[error(transparent)]
    Child(#[from] ChildError),
}

impl From<BuildError> for SpawnError {
    fn from(error: BuildError) -> Self {
        Self::Defined(error.into())
    }
}

impl SpawnSubagent {
    /// Offers the agents of these definitions.
    pub fn new(definitions: impl Definitions + 'static) -> Self {
        Self::from_arc(Arc::new(definitions))
    }

    /// Offers the agents of definitions that are also held elsewhere.
    pub fn from_arc(definitions: Arc<dyn Definitions>) -> Self {
        let agents = DefinedAgents::from_arc(definitions);
        Self { agents, policy: SubagentPolicy::default(), queue: Arc::default() }
    }

    /// Sets where capabilities that definitions name are found.
    pub fn capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.agents = self.agents.capabilities(capabilities);
        self
    }

    /// Sets the factory of the states that sub-agents begin with. The budget is capped whatever it says.
    pub fn states(mut self, states: Arc<dyn StateFactory>) -> Self {
        self.agents = self.agents.states(states);
        self
    }

    #[cfg(all(feature = "skills", target_os = "linux"))]
    /// Sets where skills that definitions name are found. Their texts become part of the instructions; a
    /// sub-agent whose definition names an unknown skill does not start.
    pub fn skills(mut self, skills: SkillLibrary) -> Self {
        self.agents = self.agents.skills(skills);
        self
    }

    /// Sets what sub-agents may do.
    pub fn policy(mut self, policy: SubagentPolicy) -> Self {
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
        let child = child.max_depth(self.policy.max_depth);
        let ended = self.agents.run(definition, child, prompt, |state| state).await?;
        let answer = ended.answer()?;
        Ok(ended.to_output(self.policy.show(&definition.name, &answer.to_text())))
    }

    fn spec(&self) -> ToolSpec {
        let definitions = self.agents.definitions().all();
        let mut subagent = json!({ "type": "string", "description": "Who is to do it." });
        if !definitions.is_empty() {
            subagent["enum"] = definitions.iter().map(|it| it.name.as_str()).collect();
        }
        let prompt = json!({
            "type": "string",
            "description": "What there is to do, with all that is needed to know: the sub-agent sees \
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
    let mut text = "Hands a task to a sub-agent, which works on it by itself in a conversation of its \
                    own, and returns its answer. Several can work at the same time: call this several \
                    times at once."
        .to_owned();
    if definitions.is_empty() {
        text.push_str("\n\nNo sub-agents are registered.");
        return text;
    }
    text.push_str("\n\nThere are:");
    for it in definitions {
        let tools = match &it.tools {
            None => "all tools of yours".to_owned(),
            Some(tools) if tools.is_empty() => "no tools".to_owned(),
            Some(tools) => tools.iter().collect::<Vec<_>>().join(", "),
        };
        let but = it.tools_deny.iter().collect::<Vec<_>>().join(", ");
        let but = if but.is_empty() { but } else { format!("; not {but}") };
        // Writing to a string does not fail.
        let _written = write!(text, "\n- {}: {} (tools: {tools}{but})", it.name, it.description);
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
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().trim();
        let told = async {
            let definition = self.0.find(text("subagent"))?;
            if text("prompt").is_empty() {
                return Err(SpawnError::Nothing);
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
    /// Offers nobody.
    fn default() -> Self {
        Self::new(DefinitionRegistry::new())
    }
}
