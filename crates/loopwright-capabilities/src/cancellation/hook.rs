//! Checks whether a run should end.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::{BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, StateEdit};

use crate::cancellation::source::CancellationSource;

pub(super) struct Asking(pub(super) Arc<dyn CancellationSource>);

impl Asking {
    fn ask(&self, state: &StateEdit<'_>, cx: &HookCx<'_>) -> Flow {
        self.0.watch(cx.run());
        if state.stop_signal().is_some() {
            return Flow::Continue;
        }
        self.0.signal(state).map_or(Flow::Continue, Flow::Stop)
    }
}

#[async_trait]
impl Hook for Asking {
    fn name(&self) -> Cow<'static, str> {
        "guard:cooperative_cancellation".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::BeforeExecution | HookPoint::BeforeStep
    }

    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(self.ask(state, cx))
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(self.ask(state, cx))
    }
}
