//! Factories of agents and states from definitions.

use std::{fmt, sync::Arc};

use loopwright_core::{AgentLoop, AgentState, AnyTool, ToolRegistry, ToolSet};

use crate::{
    builder::AgentBuilder,
    capabilities::UseIfCallable,
    capability::BuildError,
    definition::{AgentDefinition, AgentIsolation},
    names::NameList,
    registry::CapabilityRegistry,
};

/// Creates loops from definitions.
pub trait LoopFactory: Send + Sync {
    /// Creates the loop that runs states of this definition.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition contains unknown names, or its capabilities cannot be
    /// used.
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError>;
}

impl<F: LoopFactory + ?Sized> LoopFactory for Arc<F> {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        (**self).instantiate(definition)
    }
}

/// Runs every definition with the same agent. A definition can restrict its tools. A definition
/// that names capabilities, or tools that the agent lacks, is an error.
impl LoopFactory for AgentLoop {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        if let Some(name) = definition.capabilities.iter().next() {
            let text =
                "an `AgentLoop` runs definitions without capabilities; use `DefinitionLoopFactory`";
            return Err(BuildError::capability(name.to_owned(), text));
        }
        definition.restrictions(&CapabilityRegistry::new())?;
        not_isolated(definition)?;
        // A source may list what is unknown now.
        let unknown = |name: &&str| self.sources().is_empty() && self.tools().get(name).is_none();
        if let Some(name) = definition.tools.iter().flat_map(NameList::iter).find(unknown) {
            let known = self.tools().names().join(", ");
            return Err(BuildError::Unknown { kind: "tool", name: name.to_owned(), known });
        }
        let rules = definition.tool_rules();
        Ok(self.with(|parts| {
            parts.tools = parts.tools.filter(|tool| definition.allows_tool(tool.name()));
            parts.sources = parts.sources.filter(move |tool| rules.allows_tool(tool.name()));
            if parts.profile.name.is_empty() {
                parts.profile.name = definition.name.as_str().into();
                parts.profile.description = definition.description.as_str().into();
            }
        }))
    }
}

/// Refuses a definition whose agent would work in the folder of the program, and not in one of its own.
fn not_isolated(definition: &AgentDefinition) -> Result<(), BuildError> {
    match definition.isolation {
        None => Ok(()),
        Some(AgentIsolation::Worktree) => Err(BuildError::capability(
            "isolation",
            "`worktree` requires another agent that delegates to this one; alternatively, remove `isolation` and run the agent with `-C` in a worktree that you create",
        )),
    }
}

/// Creates states from definitions.
pub trait StateFactory: Send + Sync {
    /// Creates the initial state of an agent with this definition.
    fn instantiate(&self, definition: &AgentDefinition, seed: AgentState) -> AgentState;
}

impl<F: StateFactory + ?Sized> StateFactory for Arc<F> {
    fn instantiate(&self, definition: &AgentDefinition, seed: AgentState) -> AgentState {
        (**self).instantiate(definition, seed)
    }
}

/// Creates loops from a shared base and the additions of a definition.
#[derive(Clone)]
pub struct DefinitionLoopFactory {
    base: AgentBuilder,
    capabilities: Arc<CapabilityRegistry>,
    tools: ToolRegistry,
}

impl DefinitionLoopFactory {
    /// Creates a factory with a base builder for every agent, which contains the driver.
    pub fn new(base: AgentBuilder) -> Self {
        Self { base, capabilities: Arc::default(), tools: ToolRegistry::new() }
    }

    /// Sets the registry of the capabilities that definitions name.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Arc<CapabilityRegistry>) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Sets the registry of tools that definitions name and no capability adds.
    #[must_use]
    pub fn with_tools(mut self, tools: ToolRegistry) -> Self {
        self.tools = tools;
        self
    }

    /// Returns the tools that the definition allows, and adds named tools from the registry.
    fn tools_of(
        &self,
        definition: &AgentDefinition,
        built: &ToolSet,
        has_sources: bool,
    ) -> Result<ToolSet, BuildError> {
        let mut tools = built.clone();
        for name in definition.tools.iter().flat_map(NameList::iter) {
            if tools.get(name).is_none() {
                match self.tools.get(name) {
                    Ok(tool) => tools.add(tool),
                    // A source may list it later.
                    Err(_) if has_sources => {}
                    Err(_) => return Err(self.unknown_tool(name, built)),
                }
            }
        }
        Ok(tools.filter(|tool| definition.allows_tool(tool.name())))
    }

    fn unknown_tool(&self, name: &str, built: &ToolSet) -> BuildError {
        let built = built.names().iter().map(|it| &**it);
        let known: NameList = built.chain(self.tools.names()).collect();
        let known = known.iter().collect::<Vec<_>>().join(", ");
        BuildError::Unknown { kind: "tool", name: name.to_owned(), known }
    }
}

impl LoopFactory for DefinitionLoopFactory {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        not_isolated(definition)?;
        let mut builder = self.base.clone();
        let rules = definition.tool_rules();
        let may_call: Arc<dyn Fn(&AnyTool) -> bool + Send + Sync> =
            Arc::new(move |tool| rules.allows_tool(tool.name()));
        for name in definition.capabilities.iter() {
            let capability = self.capabilities.configured(name, definition.config_of(name))?;
            builder = builder.with_capability(UseIfCallable::new(capability, may_call.clone()));
        }
        for restriction in definition.restrictions(&self.capabilities)? {
            builder = builder.with_shared_capability(restriction);
        }
        let agent = builder.build()?;
        let tools = self.tools_of(definition, agent.tools(), !agent.sources().is_empty())?;
        let rules = definition.tool_rules();
        Ok(agent.with(|parts| {
            parts.tools = tools;
            parts.sources = parts.sources.filter(move |tool| rules.allows_tool(tool.name()));
            parts.profile.name = definition.name.as_str().into();
            parts.profile.description = definition.description.as_str().into();
        }))
    }
}

impl fmt::Debug for DefinitionLoopFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefinitionLoopFactory")
            .field("base", &self.base)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// Creates states with the data of a definition: prompt, model, budget, metadata.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefinitionStateFactory;

impl StateFactory for DefinitionStateFactory {
    fn instantiate(&self, definition: &AgentDefinition, seed: AgentState) -> AgentState {
        let budget = definition.budget.unwrap_or_default().capped_by(seed.budget());
        let mut state = seed.with_budget(budget);
        if !definition.system_prompt.trim().is_empty() {
            state = state.with_system_prompt(definition.system_prompt.as_str());
        }
        if let Some(llm) = &definition.llm {
            state = state.with_llm(llm.clone());
        }
        let metadata = definition.metadata.iter();
        metadata.fold(state, |state, (key, value)| state.with_metadata(key.as_str(), value.clone()))
    }
}
