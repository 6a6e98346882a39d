//! Sub-agents that work in a place of their own.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{AgentBuilder, AgentDefinition, BuildError, Capability, UseDriver};
use loopwright_core::{AgentLoop, BoxError, Reach, ToolCx};

use super::ChildAgent;

/// Gives sub-agents whose definition has an [isolation](AgentDefinition::isolation) the place that it names.
#[async_trait]
pub trait IsolateAgents: Send + Sync {
    /// Returns the place of the sub-agent that a call starts. If the call is repeated after an interruption, this is the same
    /// place, as the sub-agent left it.
    ///
    /// # Errors
    ///
    /// Returns an error for the model if there is no such place here.
    async fn enter(
        &self,
        definition: &AgentDefinition,
        cx: &ToolCx<'_>,
    ) -> Result<Box<dyn IsolatedPlace>, BoxError>;
}

/// The place of one sub-agent.
#[async_trait]
pub trait IsolatedPlace: Send + Sync {
    /// Returns the capabilities whose tools work there. The sub-agent gets those of their tools that its parent has, too,
    /// instead of its parent's. It loses other tools of its parent that [reach](Reach::Workspace) the working directory.
    fn capabilities(&self) -> Vec<Arc<dyn Capability>>;

    /// Returns the description of the place that precedes the task of the sub-agent.
    fn describe(&self) -> String;

    /// Is called when the sub-agent has ended or could not start, and not when it waits or was interrupted. Returns what is left of the place, for its
    /// parent; `None` means that nothing is left.
    async fn leave(self: Box<Self>) -> Option<String>;
}

impl ChildAgent<'_> {
    /// Gives the sub-agent the tools of a place.
    pub(super) fn in_place(mut self, place: &dyn IsolatedPlace) -> Result<Self, BuildError> {
        let driver = UseDriver::from_arc(self.cx.agent.driver().clone());
        let builder = AgentBuilder::base().with_capability(driver);
        let builder =
            place.capabilities().into_iter().fold(builder, AgentBuilder::with_shared_capability);
        let built: AgentLoop = builder.build()?;
        let of_place = built.tools();
        self.tools = self
            .tools
            .iter()
            .filter_map(|tool| match of_place.get(tool.name()) {
                None if tool.options().reach == Reach::Workspace => None,
                own => Some(own.unwrap_or(tool).clone()),
            })
            .collect();
        self.of_place = Some(built);
        Ok(self)
    }
}
