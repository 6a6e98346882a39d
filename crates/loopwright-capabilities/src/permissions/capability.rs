//! The capability.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::Priority;

use super::hook::Rules;
use super::shared::Permissions;

/// What happens with a call that the rules ask about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAsk {
    /// The run pauses until the call is decided about.
    #[default]
    Pause,
    /// The call is denied; the model is told.
    Deny,
    /// The run stops.
    Fail,
}

/// Applies permission rules to the calls of an agent and of its sub-agents.
///
/// Calls that a rule denies fail with the rule as the reason, which the model reads. Rules are asked before hooks with
/// a lower priority than guards, and again about arguments that a hook or the user has changed. A call that the user
/// approved runs unless a rule denies it.
#[derive(Clone, Debug)]
#[must_use]
pub struct UsePermissions {
    permissions: Permissions,
    on_ask: OnAsk,
    confined: Arc<[Arc<str>]>,
}

impl UsePermissions {
    /// Applies the rules of a policy, which may be exchanged while the agent runs.
    pub fn new(permissions: Permissions) -> Self {
        Self { permissions, on_ask: OnAsk::default(), confined: Arc::default() }
    }

    /// Sets what happens with calls that the rules ask about.
    pub fn with_on_ask(mut self, on_ask: OnAsk) -> Self {
        self.on_ask = on_ask;
        self
    }

    /// Names tools whose effects the sandbox confines: they change nothing outside of the folders of the policy, and
    /// reach no network. In mode `plan`, they must not change the folders either.
    pub fn with_confined_tools<T: Into<Arc<str>>>(
        mut self,
        names: impl IntoIterator<Item = T>,
    ) -> Self {
        self.confined = names.into_iter().map(Into::into).collect();
        self
    }
}

impl Capability for UsePermissions {
    fn name(&self) -> Cow<'static, str> {
        "use_permissions".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let Self { permissions, on_ask, confined } = self.clone();
        agent.hooks.add_at(Priority::GUARD, Rules { permissions, on_ask, confined });
        Ok(())
    }
}
