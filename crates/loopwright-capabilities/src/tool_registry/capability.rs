//! The capability for a tool registry.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{
    BuildError, Capability, Configurator, DeferredToolCx, DeferredTools, NameList,
};
use loopwright_core::{
    AnyTool, HookPoint, HookPoints, Priority, ToolOptions, ToolRegistry, ToolSet, ToolVisibility,
};
use serde::{Deserialize, Serialize};

use crate::tool_registry::{hook::OfferActivatedTools, tool::ToolsTool};

/// Adds the tool `tools`, with which a model lists, searches and reads about the tools of a
/// registry, and activates those that it wants to call.
///
/// Until then, requests omit them. Activated tools stay for the session. Each activation breaks the
/// prefix of requests once; the cause in the event is
/// [`ToolAdded`](loopwright_core::messages::CacheBreak::ToolAdded).
#[derive(Clone, Debug)]
#[must_use]
pub struct UseToolRegistry {
    source: Source,
    offer: ToolExposure,
}

/// Where the tools are from.
#[derive(Clone, Debug)]
enum Source {
    Registry(Arc<ToolRegistry>),
    /// Other capabilities of the agent bring them.
    Agent(NameList),
}

/// The access of a model to the tools of a registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolExposure {
    /// The model can activate and call them.
    #[default]
    Callable,
    /// The model can only read about them.
    DescribeOnly,
}

impl UseToolRegistry {
    /// Creates the capability with the tools of a registry.
    pub fn new(registry: ToolRegistry) -> Self {
        Self { source: Source::Registry(Arc::new(registry)), offer: ToolExposure::default() }
    }

    /// Also includes tools of other capabilities of the agent, by name. Names that the agent does
    /// not have are ignored.
    pub fn of_agent<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { source: Source::Agent(names), offer: ToolExposure::default() }
    }

    /// Sets the model's access to the tools. Tools that are only described are created when the
    /// model asks about them, others when the agent is built.
    pub fn with_exposure(mut self, offer: ToolExposure) -> Self {
        self.offer = offer;
        self
    }
}

impl Capability for UseToolRegistry {
    fn name(&self) -> Cow<'static, str> {
        "use_tool_registry".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        match &self.source {
            Source::Registry(registry) => agent.tools.merge(&tools_of(registry, self.offer)),
            Source::Agent(names) => {
                let (names, offer) = (names.clone(), self.offer);
                agent.tools.defer(Arc::new(OfAgent { names, offer }));
            }
        }
        if self.offer == ToolExposure::DescribeOnly {
            return Ok(());
        }
        let hook = Arc::new(OfferActivatedTools::default());
        let points =
            HookPoints::from_points([HookPoint::BeforeExecution, HookPoint::BeforeInference]);
        agent.hooks.register("tool_registry".into(), Priority::CONTEXT, points, hook);
        Ok(())
    }
}

/// Makes the tool `tools`, and those that it offers.
fn tools_of(registry: &Arc<ToolRegistry>, offer: ToolExposure) -> ToolSet {
    let mut tools = ToolSet::new();
    tools.add(ToolsTool::new(Arc::clone(registry), offer));
    if offer == ToolExposure::Callable {
        for tool in registry.all().iter() {
            let options =
                ToolOptions { visibility: ToolVisibility::Deferred, ..tool.options().clone() };
            tools.add(tool.with_options(options));
        }
    }
    tools
}

/// Makes a registry of the agent's own tools, once they are known.
struct OfAgent {
    names: NameList,
    offer: ToolExposure,
}

impl DeferredTools for OfAgent {
    fn provide(&self, cx: &DeferredToolCx<'_>) -> Result<Vec<AnyTool>, BuildError> {
        let mut registry = ToolRegistry::new();
        for tool in self.names.iter().filter_map(|name| cx.tools.get(name)) {
            registry.register(tool.clone());
        }
        Ok(tools_of(&Arc::new(registry), self.offer).iter().cloned().collect())
    }
}
