//! The capability for cancellation.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use loopwright_agent::{BuildError, Capability, Configurator};
use loopwright_core::Priority;

use crate::cancellation::{hook::Asking, source::CancellationSource};

/// Ends runs on request of a source: before the first step, between steps, and at any time if the
/// source keeps the handles of runs, as [`Cancellation`](crate::cancellation::Cancellation) does.
///
/// Completed work stays; a model call is abandoned, and tools have the grace period of the run.
#[derive(Clone)]
#[must_use]
pub struct UseCooperativeCancellation(Arc<dyn CancellationSource>);

impl UseCooperativeCancellation {
    /// Creates the capability with a source.
    pub fn new(source: impl CancellationSource + 'static) -> Self {
        Self(Arc::new(source))
    }
}

impl Capability for UseCooperativeCancellation {
    fn name(&self) -> Cow<'static, str> {
        "use_cooperative_cancellation".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        agent.hooks.add_at(Priority::CANCELLATION, Asking(Arc::clone(&self.0)));
        Ok(())
    }
}

impl fmt::Debug for UseCooperativeCancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UseCooperativeCancellation")
    }
}
