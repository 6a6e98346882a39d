//! A capability for an agent that cannot call every tool.

use std::{borrow::Cow, fmt, sync::Arc};

use loopwright_core::AnyTool;

use crate::{BuildError, Capability, Configurator};

/// Configures another capability for an agent that cannot call every tool.
///
/// If the agent can call none of the tools of the capability, its instructions and its compiler are
/// left out, so that the model never reads about missing tools. Its hooks stay, because they may
/// restrict the agent.
///
/// The tools themselves are not filtered here: the program that builds the agent does that.
#[derive(Clone)]
pub struct UseIfCallable {
    capability: Arc<dyn Capability>,
    may_call: Arc<dyn Fn(&AnyTool) -> bool + Send + Sync>,
}

impl UseIfCallable {
    /// Wraps a capability. `may_call` returns `true` for the tools that the agent can call.
    pub fn new(
        capability: Arc<dyn Capability>,
        may_call: Arc<dyn Fn(&AnyTool) -> bool + Send + Sync>,
    ) -> Self {
        Self { capability, may_call }
    }
}

impl Capability for UseIfCallable {
    fn name(&self) -> Cow<'static, str> {
        self.capability.name()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.configure_for(&*self.capability, &self.may_call)
    }
}

impl fmt::Debug for UseIfCallable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UseIfCallable").field("capability", &self.name()).finish_non_exhaustive()
    }
}
