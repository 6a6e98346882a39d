//! Agents as data.

use std::{collections::BTreeMap, sync::Arc};

use loopwright_core::{Budget, LlmConfig};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::capability::{BuildError, Capability};
use crate::names::NameList;
use crate::registry::CapabilityRegistry;

/// An agent as data, from a file, a database or another agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentDefinition {
    /// The name, unique among definitions.
    pub name: String,
    /// When to use this agent, for models and people who select one.
    pub description: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The system prompt.
    pub system_prompt: String,
    /// Provider, model and settings; `None` means those of the program that runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmConfig>,
    /// The names of its capabilities in a capability registry.
    #[serde(skip_serializing_if = "NameList::is_empty")]
    pub capabilities: NameList,
    /// The configuration of capabilities, by name. All others have their defaults.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub capability_config: Map<String, Value>,
    /// The tools that it can call. Absent: all available tools; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<NameList>,
    /// Tools that it cannot call, with precedence over all other settings.
    #[serde(skip_serializing_if = "NameList::is_empty")]
    pub tools_deny: NameList,
    /// Rules for calls that depend on the arguments.
    #[serde(skip_serializing_if = "CallRules::is_empty")]
    pub call_rules: CallRules,
    /// Skills that are loaded at the start.
    #[serde(skip_serializing_if = "NameList::is_empty")]
    pub skills: NameList,
    /// The servers of the Model Context Protocol that it uses, by name: `null` for one that the
    /// program knows, and the configuration of one that the definition brings. Absent: all servers
    /// that the program knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Map<String, Value>>,
    /// Commands that run on events, by the name of the event, as under `hooks` in the settings of
    /// Claude Code. They run only where the program registers a capability for them: see [`HOOKS`].
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub hooks: Map<String, Value>,
    /// The first message of a conversation with this agent. `None` means that the user writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    /// Whether it works in the background where an agent delegates to it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Its isolation when an agent delegates to it. `None` means that it works where its parent works. It takes effect
    /// only for sub-agents, and only where the program supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<AgentIsolation>,
    /// Where it keeps notes for later sessions. `None` means that it keeps none. It takes effect only where the program
    /// registers a capability for it: see [`MEMORY`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<AgentMemory>,
    /// The budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Additional data.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The registry name of the capability that applies [`CallRules`], which are its configuration.
/// Without it, an agent whose definition has such rules cannot be built.
pub const CALL_RULES: &str = "use_permissions";

/// The registry name of the capability that runs the [`hooks`](AgentDefinition::hooks) of a
/// definition. Its configuration is `{ "agent": NAME, "hooks": … }`. Without it, an agent whose
/// definition has hooks cannot be built, because hooks can refuse calls.
pub const HOOKS: &str = "use_command_hooks";

/// The registry name of the capability for the [`memory`](AgentDefinition::memory) of a definition. Its configuration is
/// `{ "agent": NAME, "memory": … }`. Without it, an agent whose definition has a memory cannot be built.
pub const MEMORY: &str = "use_agent_memory";

/// The tool of that capability. An agent with a memory can call it even if its list of tools does not name it.
pub const MEMORY_TOOL: &str = "agent_memory";

/// The place of an agent's notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMemory {
    /// A folder of the user, for all projects.
    User,
    /// A folder of the project, shared with others.
    Project,
    /// A folder of the project that is not shared.
    Local,
}

/// The isolation of a sub-agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentIsolation {
    /// A working tree of the git repository.
    Worktree,
}

/// Rules for calls of an agent that depend on the arguments. They can only restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallRules {
    /// The agent, for messages.
    pub agent: String,
    /// Permission rules such as `Bash(git *)`, one of which must match each call. Absent: every
    /// call is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<NameList>,
    /// Permission rules that deny calls.
    #[serde(skip_serializing_if = "NameList::is_empty")]
    pub deny: NameList,
    /// The name of a permission mode, which applies if it is stricter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl CallRules {
    /// Returns `true` if no rule restricts a call.
    pub fn is_empty(&self) -> bool {
        self.only.is_none() && self.deny.is_empty() && self.mode.is_none()
    }
}

impl AgentDefinition {
    /// Creates a definition from its required parts.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        system_prompt: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            system_prompt: system_prompt.into(),
            ..Self::default()
        }
    }

    /// Creates the capabilities that apply the call rules, run the hooks and keep the memory, as far as there are any.
    ///
    /// # Errors
    ///
    /// Returns an error if the registry has no such capability, or rules or hooks are malformed.
    pub fn restrictions(
        &self,
        capabilities: &CapabilityRegistry,
    ) -> Result<Vec<Arc<dyn Capability>>, BuildError> {
        let mut restrictions = Vec::new();
        if !self.call_rules.is_empty() {
            let rules = CallRules { agent: self.name.clone(), ..self.call_rules.clone() };
            let config = serde_json::to_value(rules)
                .map_err(|error| BuildError::capability(CALL_RULES, error.to_string()))?;
            restrictions.push(capabilities.configured(CALL_RULES, &config)?);
        }
        if !self.hooks.is_empty() {
            let config = json!({ "agent": self.name, "hooks": self.hooks });
            restrictions.push(capabilities.configured(HOOKS, &config)?);
        }
        if let Some(memory) = self.memory {
            let config = json!({ "agent": self.name, "memory": memory });
            restrictions.push(capabilities.configured(MEMORY, &config)?);
        }
        Ok(restrictions)
    }

    /// Returns the label, or else the name.
    pub fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(&self.name)
    }

    /// Returns the configuration of a capability; `null` without one.
    pub fn config_of(&self, capability: &str) -> &Value {
        self.capability_config.get(capability).unwrap_or(&Value::Null)
    }

    /// Returns a definition with only the tool rules of this one.
    pub(crate) fn tool_rules(&self) -> Self {
        let (tools, tools_deny) = (self.tools.clone(), self.tools_deny.clone());
        Self { tools, tools_deny, memory: self.memory, ..Self::default() }
    }

    /// Returns `true` if the agent can call this tool. `mcp__SERVER` in a list stands for all tools of a server, and
    /// `*` in names such as `mcp__SERVER__get_*` for any characters.
    pub fn allows_tool(&self, name: &str) -> bool {
        let is_listed = self.tools.as_ref().is_none_or(|tools| tools.names_tool(name));
        (is_listed || self.has_along(name)) && !self.denies_tool(name)
    }

    /// Returns `true` if a tool belongs to another one that is listed, or to the memory.
    fn has_along(&self, name: &str) -> bool {
        let lists = |name| self.tools.as_ref().is_some_and(|it| it.names_tool(name));
        match name {
            MEMORY_TOOL => self.memory.is_some(),
            "subagent_read" | "subagent_stop" => lists("spawn_subagent"),
            _ => false,
        }
    }

    /// Returns `true` if the agent can never call this tool, from whatever source.
    pub fn denies_tool(&self, name: &str) -> bool {
        self.tools_deny.names_tool(name)
    }
}

/// Finds definitions by name.
pub trait Definitions: Send + Sync {
    /// Returns a definition.
    ///
    /// # Errors
    ///
    /// Returns an error that lists the known names if the name is unknown.
    fn get(&self, name: &str) -> Result<Arc<AgentDefinition>, DefinitionError>;

    /// Returns the names, sorted.
    fn names(&self) -> Vec<String>;

    /// Returns all definitions, sorted by name.
    fn all(&self) -> Vec<Arc<AgentDefinition>> {
        self.names().iter().filter_map(|name| self.get(name).ok()).collect()
    }

    /// Returns the number of definitions.
    fn count(&self) -> usize {
        self.names().len()
    }
}

/// An unknown definition name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{name}`; available: {known}")]
pub struct DefinitionError {
    /// The name.
    pub name: String,
    /// The known names.
    pub known: String,
}

/// Definitions in memory.
#[derive(Clone, Debug, Default)]
pub struct DefinitionRegistry(BTreeMap<String, Arc<AgentDefinition>>);

impl DefinitionRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a definition, or replaces the one with the same name.
    pub fn register(&mut self, definition: AgentDefinition) {
        self.0.insert(definition.name.clone(), Arc::new(definition));
    }
}

impl Definitions for DefinitionRegistry {
    fn get(&self, name: &str) -> Result<Arc<AgentDefinition>, DefinitionError> {
        self.0.get(name).cloned().ok_or_else(|| DefinitionError {
            name: name.to_owned(),
            known: self.names().join(", "),
        })
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}
