//! The capability for retrospection.

use std::{borrow::Cow, sync::Arc};

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::{AgentState, Priority};

use crate::retrospective::{
    checkpoint::RewindRequest, compiler::Marking, hook::Rewinding, policy::RetrospectivePolicy,
    tool::Retrospective,
};

/// Lets the model return to a checkpoint; see the [module](crate::retrospective).
///
/// ```
/// use loopwright_capabilities::retrospective::{RetrospectivePolicy, UseExecutionRetrospective};
///
/// let policy = RetrospectivePolicy { max_rewinds: 5, ..RetrospectivePolicy::default() };
/// let retrospective = UseExecutionRetrospective::new(policy).on_rewind(|rewind, state| {
///     assert!(rewind.checkpoint < state.step_count());
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseExecutionRetrospective {
    policy: RetrospectivePolicy,
    rewinding: Rewinding,
}

impl UseExecutionRetrospective {
    /// Creates the capability with a policy.
    pub fn new(policy: RetrospectivePolicy) -> Self {
        Self { policy, rewinding: Rewinding::default() }
    }

    /// Calls a listener after each rewind, with the new state. The listener must not block. After
    /// an interruption, it may be called again for the same rewind.
    pub fn on_rewind(
        mut self,
        tell: impl Fn(&RewindRequest, &AgentState) + Send + Sync + 'static,
    ) -> Self {
        self.rewinding.on_rewind = Some(Arc::new(tell));
        self
    }
}

/// The place of the instructions among those of capabilities.
const PLACE: i16 = 70;

impl Capability for UseExecutionRetrospective {
    fn name(&self) -> Cow<'static, str> {
        "use_execution_retrospective".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let max_rewinds = self.policy.max_rewinds;
        agent.tools.add(Retrospective { max_rewinds });
        agent.hooks.add_at(Priority::CONTEXT, self.rewinding.clone());
        agent.compiler.wrap(move |inner| Arc::new(Marking { inner, max_rewinds }));
        let instructions = self.policy.instructions.trim();
        if !instructions.is_empty() {
            agent.prompt.add(PLACE, "execution_retrospective", instructions);
        }
        Ok(())
    }
}
