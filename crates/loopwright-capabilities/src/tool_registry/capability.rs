//! A registry of tools as a capability.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{HookPoint, HookPoints, Priority, ToolOptions, ToolRegistry, Visibility};

use crate::tool_registry::{hook::Offering, tool::ToolsTool};

/// Adds the tool `tools`, with which a model lists, searches and reads about the tools of a registry,
/// and asks for those that it wants to call.
///
/// Until then requests leave them out. What the model has asked for stays for the session. Each tool
/// that is added breaks the prefix of requests once; the event says
/// [`ToolAdded`](loopwright_core::messages::PrefixBreak::ToolAdded).
#[derive(Clone, Debug)]
#[must_use]
pub struct UseToolRegistry {
    registry: Arc<ToolRegistry>,
    offer: Offer,
}

/// What a model may do with the tools of a registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// Ask for them and call them.
    #[default]
    OnDemand,
    /// Read about them.
    Described,
}

impl UseToolRegistry {
    /// Offers the tools of a registry.
    pub fn new(registry: ToolRegistry) -> Self {
        Self { registry: Arc::new(registry), offer: Offer::default() }
    }

    /// Sets what the model may do with them. Tools that are only described are made when the model asks
    /// about them, and others when the agent is built.
    pub fn offering(mut self, offer: Offer) -> Self {
        self.offer = offer;
        self
    }
}

impl Capability for UseToolRegistry {
    fn name(&self) -> Cow<'static, str> {
        "use_tool_registry".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(ToolsTool::new(Arc::clone(&self.registry), self.offer));
        if self.offer == Offer::Described {
            return Ok(());
        }
        for tool in self.registry.all().iter() {
            let options =
                ToolOptions { visibility: Visibility::OnDemand, ..tool.options().clone() };
            agent.tools.add(tool.with_options(options));
        }
        let hook = Arc::new(Offering::default());
        let points = HookPoints::of([HookPoint::BeforeExecution, HookPoint::BeforeInference]);
        agent.hooks.register("tool_registry".into(), Priority::CONTEXT, points, hook);
        Ok(())
    }
}
