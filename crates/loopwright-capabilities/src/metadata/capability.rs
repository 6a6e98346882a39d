//! The capability for the scratchpad.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};

use crate::metadata::{ListMetadata, MetadataPolicy, ReadMetadata, StoreMetadata};

/// Adds the tools `store_metadata`, `read_metadata` and `list_metadata`.
///
/// The values are the metadata of the session, which users and programs can see, too. Capabilities
/// store their own values elsewhere, where no key of the model leads.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct UseMetadataTools(Arc<MetadataPolicy>);

impl UseMetadataTools {
    /// Creates it with a policy.
    pub fn new(policy: MetadataPolicy) -> Self {
        Self(Arc::new(policy))
    }
}

impl Capability for UseMetadataTools {
    fn name(&self) -> Cow<'static, str> {
        "use_metadata_tools".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.tools.add(StoreMetadata(Arc::clone(&self.0)));
        agent.tools.add(ReadMetadata);
        agent.tools.add(ListMetadata);
        Ok(())
    }
}
