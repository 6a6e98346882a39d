//! The capability for self-description.

use std::borrow::Cow;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::self_description::DescribeSelf;

/// Adds the tool `describe_self`, which describes the composition of the agent to the model: its
/// [`AgentProfile`](loopwright_agent::AgentProfile), which contains no secrets.
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
