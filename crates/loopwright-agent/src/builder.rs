//! The builder of agents.

use std::{fmt, sync::Arc};

use loopwright_core::{
    AgentLoop, AgentParts, AnyTool, Budget, EventEnvelope, EventSink, EventSinks, EventType,
    HAS_SCHEMA_VALIDATOR, Interceptor, Priority, ToolSet,
};

use crate::{
    capabilities::UseGuards,
    capability::{BuildError, Capability},
    compilers::AllSections,
    configurator::Configurator,
    criteria::CriteriaHook,
};

/// Composes an agent from capabilities.
///
/// A builder is a value: [`with`](AgentBuilder::with) returns it with one more capability.
/// [`build`](AgentBuilder::build) does all the work and can be called repeatedly.
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct AgentBuilder {
    capabilities: Vec<Arc<dyn Capability>>,
    sinks: EventSinks,
}

impl AgentBuilder {
    /// Creates an empty builder: no tools, no limits, no driver.
    pub fn base() -> Self {
        Self::default()
    }

    /// Starts with the limits of [`Budget::standard`], which are those of the program `loopwright`.
    pub fn standard() -> Self {
        Self::base().with(UseGuards::new(Budget::standard()))
    }

    /// Adds a capability.
    pub fn with(self, capability: impl Capability + 'static) -> Self {
        self.with_shared_capability(Arc::new(capability))
    }

    /// Adds a capability: the long name of [`with`](AgentBuilder::with).
    pub fn with_capability(self, capability: impl Capability + 'static) -> Self {
        self.with_shared_capability(Arc::new(capability))
    }

    /// Adds a capability that is shared with other owners.
    pub fn with_shared_capability(mut self, capability: Arc<dyn Capability>) -> Self {
        self.capabilities.push(capability);
        self
    }

    /// Adds a listener to all events. The position in the chain of calls does not matter.
    pub fn wiretap(mut self, listen: impl Fn(&EventEnvelope) + Send + Sync + 'static) -> Self {
        self.sinks.wiretap(listen);
        self
    }

    /// Adds a listener to one event type. The position in the chain of calls does not matter.
    pub fn on_event<T: EventType + 'static>(
        mut self,
        listen: impl Fn(&T, &EventEnvelope) + Send + Sync + 'static,
    ) -> Self {
        self.sinks.on_event(listen);
        self
    }

    /// Adds a listener that is shared with other owners. The position in the chain of calls does
    /// not matter.
    pub fn with_event_sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.add(sink);
        self
    }

    /// Returns the names of the capabilities, in order.
    pub fn capability_names(&self) -> Vec<String> {
        self.capabilities.iter().map(|it| it.name().into_owned()).collect()
    }

    /// Builds the agent. The result does not depend on the order of capabilities.
    ///
    /// # Errors
    ///
    /// Returns an error with a remedy if a part is missing or invalid.
    pub fn build(&self) -> Result<AgentLoop, BuildError> {
        // 1. Start from nothing.
        let mut agent = Configurator { sinks: self.sinks.clone(), ..Configurator::default() };
        // 2. Every capability adds what it is made of.
        for capability in &self.capabilities {
            agent.profile.capabilities.push(capability.name().into());
            capability.configure(&mut agent)?;
        }
        // 3. The compiler: what was set, or the default, with its wrappers.
        let default_compiler = || Some(Arc::new(AllSections) as Arc<_>);
        let compiler = agent.compiler.resolve(default_compiler).ok_or(BuildError::NoDriver)?;
        // 4. The driver with its wrappers. It is bound to nothing: the loop hands it all it needs.
        let driver = agent.driver.resolve(|| None).ok_or(BuildError::NoDriver)?;
        // 5. The tools: first the direct ones, then those that want to see the driver.
        let tools = agent.tools.resolve(&driver, &compiler, &agent.sinks)?;
        if !HAS_SCHEMA_VALIDATOR {
            refuse_unchecked(&tools)?;
        }
        // 6. The interceptor: an explicit one, or else the hooks.
        if !agent.processors.0.is_empty() {
            agent.processors.register(&mut agent.hooks);
        }
        if !agent.criteria.is_empty() {
            agent.hooks.add_at(Priority::FINISH, CriteriaHook(agent.criteria));
        }
        let hooks = agent.hooks.into_interceptor();
        let interceptor = match agent.interceptor {
            Some(explicit) => replacing(explicit, &hooks)?,
            None => hooks,
        };
        // 7. What runs the calls is the default of `AgentParts`.
        // 8. The loop.
        let mut parts = AgentParts::new(driver, compiler);
        (parts.instructions, parts.preamble, parts.response_format) = agent.prompt.resolve();
        (parts.tools, parts.sources) = (tools, agent.sources);
        (parts.interceptor, parts.event_sinks) = (interceptor, agent.sinks);
        (parts.layers, parts.profile) = (agent.layers, agent.profile);
        Ok(AgentLoop::new(parts))
    }
}

/// Refuses tools whose arguments cannot be checked without a validator for all of JSON Schema.
fn refuse_unchecked(tools: &ToolSet) -> Result<(), BuildError> {
    let unchecked = |tool: &AnyTool| {
        let keyword = tool.keyword_for_validator()?.to_owned();
        Some(BuildError::UncheckedSchema { tool: Arc::clone(tool.name()), keyword })
    };
    tools.iter().find_map(unchecked).map_or(Ok(()), Err)
}

/// Returns an explicit interceptor. It must not silently disable the limits and policies of other capabilities.
fn replacing(explicit: Interceptor, hooks: &Interceptor) -> Result<Interceptor, BuildError> {
    if hooks.hooks().is_empty() {
        return Ok(explicit);
    }
    let mut names: Vec<_> = hooks.hooks().iter().map(|it| format!("`{}`", it.name())).collect();
    names.dedup();
    let reason = format!(
        "an interceptor replaces all hooks, but the agent has {}; remove those hooks, or add \
            your own hooks with `UseHook`",
        names.join(", ")
    );
    Err(BuildError::capability("use_interceptor", reason))
}

impl fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("capabilities", &self.capability_names())
            .field("sinks", &self.sinks)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use loopwright_testing::MockTool;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_with_a_keyword_that_is_not_checked_is_refused_with_the_feature_that_checks_it() {
        let tool = |name, schema| MockTool::returning(name, "", "called").with_schema(schema);
        let named =
            json!({ "properties": { "name": { "type": "string", "pattern": "^[a-z]+$" } } });
        let tools = ToolSet::new()
            .with(tool("plain", json!({ "properties": { "name": { "type": "string" } } })));
        assert!(refuse_unchecked(&tools).is_ok());
        let error = refuse_unchecked(&tools.with(tool("named", named))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the schema of tool `named` has the keyword `pattern`, which this build does not check; enable the feature \
             `json-schema` of `loopwright`"
        );
    }
}
