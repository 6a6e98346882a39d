//! The identity of an agent.

use std::sync::Arc;

use crate::capabilities::capability;

/// Sets the name and the description of the agent for its listings. The model does not see them.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseIdentity {
    name: Arc<str>,
    description: Arc<str>,
}

impl UseIdentity {
    /// Creates the capability with a name and a description of when to use the agent.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), description: description.into() }
    }
}

capability!(UseIdentity, "use_identity", |it, agent| {
    agent.profile.name = Arc::clone(&it.name);
    agent.profile.description = Arc::clone(&it.description);
});
