//! The capability.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{
    BuildError, CALL_RULES, CallRules, Capability, CapabilityRegistry, Configurator,
};
use loopwright_core::Priority;
use serde::Deserialize as _;

use super::hook::{Rules, ShownTools};
use super::restriction::Restriction;
use super::shared::Permissions;

/// Returns `true` for the names of tools whose effects are confined.
pub(super) type IsConfined = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What happens with a call that the rules ask about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAsk {
    /// The run pauses until the call is decided about.
    #[default]
    Pause,
    /// The call is denied; the model is told.
    Deny,
    /// The run stops, and so do the runs of the agents above it.
    Fail,
}

/// Applies permission rules to the calls of an agent and of its sub-agents.
///
/// Calls that a rule denies fail with the rule as the reason, which the model reads. Rules are asked before hooks with
/// a lower priority than guards, and again about arguments that a hook or the user has changed. A call that the user
/// approved runs unless a rule denies it.
#[derive(Clone)]
#[must_use]
pub struct UsePermissions {
    permissions: Permissions,
    on_ask: OnAsk,
    is_confined: IsConfined,
    restriction: Option<Restriction>,
}

impl UsePermissions {
    /// Applies the rules of a policy, which may be exchanged while the agent runs.
    pub fn new(permissions: Permissions) -> Self {
        Self {
            permissions,
            on_ask: OnAsk::default(),
            is_confined: Arc::new(|_| false),
            restriction: None,
        }
    }

    /// Sets what happens with calls that the rules ask about.
    pub fn with_on_ask(mut self, on_ask: OnAsk) -> Self {
        self.on_ask = on_ask;
        self
    }

    /// Sets what returns `true` for the names of tools whose effects are confined: they change nothing outside of the
    /// folders of the policy, and reach no network. In mode `plan`, those that run commands must not change the folders
    /// either. By default, no tool is confined.
    pub fn with_confined(
        mut self,
        is_confined: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_confined = Arc::new(is_confined);
        self
    }
}

impl UsePermissions {
    /// Applies the rules with further restrictions, as the definition of an agent has them. The mode of a definition
    /// counts if it is stricter.
    ///
    /// # Errors
    ///
    /// If a rule or the mode is malformed.
    pub fn restricted_by(mut self, rules: &CallRules) -> Result<Self, BuildError> {
        self.restriction = Some(Restriction::new(rules, &self.permissions.policy())?);
        Ok(self)
    }

    /// Lets the definitions of agents have rules for calls: registers what applies them under [`CALL_RULES`].
    pub fn register(self, capabilities: &mut CapabilityRegistry) {
        capabilities.register_with_config(CALL_RULES, move |config| {
            let rules = CallRules::deserialize(config)
                .map_err(|error| BuildError::capability(CALL_RULES, error.to_string()))?;
            self.clone().restricted_by(&rules)
        });
    }
}

impl Capability for UsePermissions {
    fn name(&self) -> Cow<'static, str> {
        "use_permissions".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let Self { permissions, on_ask, is_confined, restriction } = self.clone();
        agent.hooks.add_at(
            Priority::GUARD,
            Rules { permissions, on_ask, is_confined, restriction, shown: ShownTools::default() },
        );
        Ok(())
    }
}

impl fmt::Debug for UsePermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsePermissions")
            .field("permissions", &self.permissions)
            .field("on_ask", &self.on_ask)
            .finish_non_exhaustive()
    }
}
