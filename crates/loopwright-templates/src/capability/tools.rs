//! `list_agents`, `read_agent` and `write_agent`.

use std::sync::Arc;

use loopwright_agent::{DefinitionError, Definitions as _};
use loopwright_core::{Json, NoArgs, SideEffects, Tool, ToolCx, ToolOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::registry::AgentDefinitionRegistry;
use crate::store::FileDefinitionStore;
use crate::validator::DefinitionValidator;
use crate::writing::{DefinitionFormat, without_secrets};

/// An error of a tool for definitions. Problems of a definition are returned as the result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionToolError {
    /// The definition does not exist.
    #[error(transparent)]
    Unknown(#[from] DefinitionError),
    /// The arguments are not JSON.
    #[error("the arguments are invalid")]
    Arguments(#[from] serde_json::Error),
    /// The writer ended before the file was written.
    #[error("the file was not written")]
    Broken(#[source] tokio::task::JoinError),
}

/// Lists the agents for the model.
#[derive(Clone, Debug)]
pub struct ListAgents(AgentDefinitionRegistry);

/// Shows a definition to the model as Markdown, without possible secrets.
#[derive(Clone, Debug)]
pub struct ReadAgent(AgentDefinitionRegistry);

/// The arguments of `read_agent`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadAgentArgs {
    /// The agent's name.
    pub name: String,
}

/// Writes a definition from the model.
#[derive(Clone, Debug)]
pub struct WriteAgent {
    agents: AgentDefinitionRegistry,
    validator: Arc<DefinitionValidator>,
    store: FileDefinitionStore,
}

/// The arguments of `write_agent`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WriteAgentArgs {
    /// The agent's name: lowercase letters, digits, `-` and `_`.
    pub name: String,
    /// When to use the agent.
    pub description: String,
    /// The system prompt of the agent.
    pub system_prompt: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// `provider/model`; omit it to use the model of the running program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The capabilities of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
    /// The tools that the agent can call: omit it for all tools; an empty list means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The tools that the agent cannot call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_deny: Option<Vec<String>>,
    /// The skills that are loaded at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// The limits of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WriteAgentBudget>,
    /// Additional data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The limits of an agent.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WriteAgentBudget {
    /// Steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<i64>,
    /// Tokens, input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<i64>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// The time after which no step starts, such as `2030-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
}

impl ListAgents {
    /// Creates the tool with a registry.
    pub fn new(agents: AgentDefinitionRegistry) -> Self {
        Self(agents)
    }
}

impl ReadAgent {
    /// Creates the value with a registry of definitions.
    pub fn new(agents: AgentDefinitionRegistry) -> Self {
        Self(agents)
    }
}

impl WriteAgent {
    /// Creates the tool with a store, a validator, and a registry for the written definitions.
    pub fn new(
        agents: AgentDefinitionRegistry,
        validator: DefinitionValidator,
        store: FileDefinitionStore,
    ) -> Self {
        Self { agents, validator: Arc::new(validator), store }
    }

    /// Checks, writes and adds. Blocks.
    fn write(&self, values: Map<String, Value>) -> Value {
        let definition = match self.validator.check(values) {
            Ok(definition) => definition,
            Err(problems) => return json!({ "success": false, "problems": problems }),
        };
        let failed = |error: &dyn std::error::Error| {
            let causes = std::iter::successors(error.source(), |it| (*it).source());
            let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
            json!({ "success": false, "error": text })
        };
        let saved = match self.store.save(&definition) {
            Ok(saved) => saved,
            Err(error) => return failed(&error),
        };
        match self.agents.load_from_file(&saved.path) {
            Ok(definition) => json!({
                "success": true, "name": definition.name, "path": saved.path,
                "created": !saved.replaced, "replaced": saved.replaced,
            }),
            Err(error) => failed(&error),
        }
    }
}

impl Tool for ListAgents {
    type Args = NoArgs;
    type Output = Json<Value>;
    type Error = DefinitionToolError;

    fn name(&self) -> &'static str {
        "list_agents"
    }

    fn description(&self) -> &'static str {
        "Lists the defined agents with their descriptions."
    }

    fn options(&self) -> ToolOptions {
        reading()
    }

    async fn call(&self, _: NoArgs, _: &ToolCx<'_>) -> Result<Json<Value>, DefinitionToolError> {
        let agents: Vec<Value> = self
            .0
            .all()
            .iter()
            .map(|it| json!({ "name": it.name, "description": it.description }))
            .collect();
        Ok(Json(json!({ "success": true, "count": agents.len(), "agents": agents })))
    }
}

impl Tool for ReadAgent {
    type Args = ReadAgentArgs;
    type Output = Json<Value>;
    type Error = DefinitionToolError;

    fn name(&self) -> &'static str {
        "read_agent"
    }

    fn description(&self) -> &'static str {
        "Shows the definition of an agent as Markdown with front matter. Values that may be \
            secrets are omitted."
    }

    fn options(&self) -> ToolOptions {
        reading()
    }

    async fn call(
        &self,
        args: ReadAgentArgs,
        _: &ToolCx<'_>,
    ) -> Result<Json<Value>, DefinitionToolError> {
        let definition = self.0.get(args.name.trim())?;
        let source = DefinitionFormat::Markdown.write(&without_secrets(&definition));
        Ok(Json(json!({ "success": true, "name": definition.name, "source": source })))
    }
}

impl Tool for WriteAgent {
    type Args = WriteAgentArgs;
    type Output = Json<Value>;
    type Error = DefinitionToolError;

    fn name(&self) -> &'static str {
        "write_agent"
    }

    fn description(&self) -> &'static str {
        "Defines an agent. The definition is checked first: if it is invalid, the errors for \
            each field are returned and nothing is written."
    }

    fn options(&self) -> ToolOptions {
        ToolOptions { exclusive: true, namespace: Some("agents".into()), ..ToolOptions::default() }
    }

    async fn call(
        &self,
        args: WriteAgentArgs,
        _: &ToolCx<'_>,
    ) -> Result<Json<Value>, DefinitionToolError> {
        let values = match serde_json::to_value(args)? {
            Value::Object(values) => values,
            _ => Map::new(),
        };
        let tool = self.clone();
        let written = tokio::task::spawn_blocking(move || tool.write(values)).await;
        written.map(Json).map_err(DefinitionToolError::Broken)
    }
}

fn reading() -> ToolOptions {
    ToolOptions {
        side_effects: SideEffects::ReadOnly,
        namespace: Some("agents".into()),
        ..ToolOptions::default()
    }
}
