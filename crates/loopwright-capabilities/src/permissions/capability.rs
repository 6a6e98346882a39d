//! The capability.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{
    BuildError, CALL_RULES, CallRules, Capability, CapabilityRegistry, Configurator,
};
use loopwright_core::{AgentState, OnAsk, Priority};
use loopwright_permissions::{Mode, Policy, Source};
use serde::Deserialize as _;

use super::hook::{Rules, ShownTools};
use super::restriction::Restriction;
use super::shared::Permissions;

/// Returns `true` for the names of tools whose effects are confined.
pub(super) type IsConfined = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Returns the rules that allow calls while an agent is in a state.
pub(super) type Grants = Arc<dyn Fn(&AgentState) -> Vec<Source> + Send + Sync>;

/// Applies permission rules to the calls of an agent and its sub-agents.
///
/// A denied call fails with the rule as the reason, which the model reads. Rules are applied before
/// hooks with a lower priority than guards, and again to arguments that a hook or the user has
/// changed. A call that the user approved runs unless a rule denies it.
#[derive(Clone)]
#[must_use]
pub struct UsePermissions {
    permissions: Permissions,
    on_ask: OnAsk,
    is_confined: IsConfined,
    restriction: Option<Restriction>,
    grants: Option<Grants>,
}

impl UsePermissions {
    /// Applies the rules of a policy, which can be replaced while the agent runs.
    pub fn new(permissions: Permissions) -> Self {
        Self {
            permissions,
            on_ask: OnAsk::default(),
            is_confined: Arc::new(|_| false),
            restriction: None,
            grants: None,
        }
    }

    /// Sets a function that returns further rules for calls of an agent in a state, such as those of active skills
    /// ([`SkillGrants`](crate::skills::SkillGrants)). The calls that they allow need no approval, unless other rules deny them or
    /// ask about them.
    pub fn with_grants(
        mut self,
        grants: impl Fn(&AgentState) -> Vec<Source> + Send + Sync + 'static,
    ) -> Self {
        self.grants = Some(Arc::new(grants));
        self
    }

    /// Sets the policy for calls that need approval by a rule. With [`OnAsk::Fail`], the runs of the agents above a
    /// sub-agent stop, too. For all other requests, see [`RunOptions::on_ask`](loopwright_core::RunOptions::on_ask).
    pub fn with_on_ask(mut self, on_ask: OnAsk) -> Self {
        self.on_ask = on_ask;
        self
    }

    /// Sets a function that returns `true` for the names of confined tools, which change nothing
    /// outside the folders of the policy and have no network. In mode `plan`, confined tools that
    /// run commands must not change the folders either. By default, no tool is confined.
    pub fn with_confined(
        mut self,
        is_confined: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_confined = Arc::new(is_confined);
        self
    }
}

impl UsePermissions {
    /// Returns the permissions that it applies.
    pub fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Adds the restrictions of an agent definition. The mode of the definition applies if it is
    /// stricter.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule or the mode is malformed.
    pub fn with_restriction(mut self, rules: &CallRules) -> Result<Self, BuildError> {
        self.restriction = Some(Restriction::new(rules, &self.permissions.policy())?);
        Ok(self)
    }

    /// Returns a policy with the restrictions of an agent definition, as the agent's calls are decided.
    ///
    /// # Errors
    ///
    /// Returns an error if a rule or the mode is malformed.
    pub fn restricted(policy: Policy, rules: &CallRules) -> Result<Policy, BuildError> {
        Ok(Restriction::new(rules, &policy)?.apply(policy))
    }

    /// Supports call rules in agent definitions: registers the capability that applies them as
    /// [`CALL_RULES`].
    pub fn register(self, capabilities: &mut CapabilityRegistry) {
        capabilities.register_with_config(CALL_RULES, move |config| {
            let rules = CallRules::deserialize(config)
                .map_err(|error| BuildError::capability(CALL_RULES, error.to_string()))?;
            self.clone().with_restriction(&rules)
        });
    }
}

impl Capability for UsePermissions {
    fn name(&self) -> Cow<'static, str> {
        "use_permissions".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let Self { permissions, on_ask, is_confined, restriction, grants } = self.clone();
        let (policies, restricted) = (permissions.clone(), restriction.clone());
        agent.sinks.add_mode_label(move || told_mode(&policies, restricted.as_ref()));
        agent.hooks.add_at(
            Priority::GUARD,
            Rules {
                permissions,
                on_ask,
                is_confined,
                restriction,
                grants,
                shown: ShownTools::default(),
            },
        );
        Ok(())
    }
}

/// Returns the mode in force if every event has to name it.
fn told_mode(permissions: &Permissions, restriction: Option<&Restriction>) -> Option<&'static str> {
    let is_unconfined = permissions.mode() == Mode::Unconfined
        && restriction.is_none_or(|it| it.apply(permissions.policy()).mode() == Mode::Unconfined);
    is_unconfined.then(|| Mode::Unconfined.name())
}

impl fmt::Debug for UsePermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsePermissions")
            .field("permissions", &self.permissions)
            .field("on_ask", &self.on_ask)
            .finish_non_exhaustive()
    }
}
