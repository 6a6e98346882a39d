//! Wrappers around whole steps.

use std::{borrow::Cow, fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_core::{BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, StateEdit, StopSignal};

/// Wraps whole steps: what it does before the step and after it belongs together.
///
/// Processors nest: the one that was added first is outermost, so it is the first before a step and
/// the last after it.
#[async_trait]
pub trait StateProcessor: Send + Sync {
    /// Called before a step begins.
    async fn before(&self, _state: &mut StateEdit<'_>, _cx: &HookCx<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Go)
    }

    /// Called after the step, failed ones included.
    async fn after(&self, _state: &mut StateEdit<'_>, _cx: &HookCx<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Go)
    }
}

/// All processors of an agent as one hook, which keeps them nested.
#[derive(Clone, Default)]
pub(crate) struct Processors(pub(crate) Vec<Arc<dyn StateProcessor>>);

#[async_trait]
impl Hook for Processors {
    fn name(&self) -> Cow<'static, str> {
        "state_processors".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::BeforeStep | HookPoint::AfterStep
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        for processor in &self.0 {
            let flow = processor.before(state, cx).await?;
            if flow != Flow::Go {
                return Ok(flow);
            }
        }
        Ok(Flow::Go)
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let (mut stops, mut failed) = (Vec::new(), None);
        // Every wrapper that was opened is closed, even if an inner one fails or stops the run.
        for processor in self.0.iter().rev() {
            match processor.after(state, cx).await {
                Ok(Flow::Go) => (),
                Ok(Flow::Stop(signal)) => stops.push(signal),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(StopSignal::strongest(&stops).cloned().map_or(Flow::Go, Flow::Stop))
    }
}

impl fmt::Debug for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Processors({})", self.0.len())
    }
}
