//! Who an agent is.

use std::sync::Arc;

use crate::capabilities::capability;

/// Says who the agent is, for those who look at it. The model is not told.
#[derive(Clone, Debug)]
#[must_use]
pub struct UseIdentity {
    name: Arc<str>,
    description: Arc<str>,
}

impl UseIdentity {
    /// Names the agent, and says when to use it.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), description: description.into() }
    }
}

capability!(UseIdentity, "use_identity", |it, agent| {
    agent.profile.name = Arc::clone(&it.name);
    agent.profile.description = Arc::clone(&it.description);
});
