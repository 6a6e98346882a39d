//! Self-description as a capability.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::self_description::DescribeSelf;

/// Adds the tool `describe_self`, which tells the model what the agent is made of:
/// [`AgentProfile`](loopwright_agent::AgentProfile), which holds no secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct UseSelfDescription;

impl Capability for UseSelfDescription {
    fn name(&self) -> Cow<'static, str> {
        "use_self_description".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(DescribeSelf);
        Ok(())
    }
}
