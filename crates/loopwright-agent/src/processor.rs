//! Wrappers around whole steps.

use std::{
    any::Any,
    borrow::Cow,
    fmt,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use loopwright_core::{
    AgentState, BoxError, Execution, Flow, Hook, HookCx, HookPoint, HookPoints, HookStack, Key,
    Priority, StateEdit,
};

/// A wrapper around whole steps, with one method before the step and one after it.
///
/// Processors nest: the first added is outermost, so it runs first before a step and last after it.
/// All hooks are outside of them: processors run last before a step and first after it.
///
/// Each opened processor is closed exactly once. A processor is open if its `before` returned
/// [`Flow::Continue`], or if its stop was overruled. A processor whose `before` stops the run,
/// fails or panics is not open, nor are those inside it.
#[async_trait]
pub trait StateProcessor: Send + Sync {
    /// Called before a step starts, unless a hook has prevented the step.
    async fn before(&self, _state: &mut StateEdit<'_>, _cx: &HookCx<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called after the step, including failed ones. If a processor inside this one prevents the
    /// step, or the run ends before the step has ended, the state does not contain the step.
    async fn after(&self, _state: &mut StateEdit<'_>, _cx: &HookCx<'_>) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }
}

/// The number of the step for which processors were opened last.
const OPENED: Key<u32> = Key::execution("state_processors", "opened");

const NAME: &str = "state_processors";

/// All processors of an agent as one hook, which keeps them nested.
#[derive(Clone, Default)]
pub(crate) struct Processors(pub(crate) Vec<Arc<dyn StateProcessor>>);

/// The failure of a processor.
enum Fault {
    Error(BoxError),
    Panic(Box<dyn Any + Send>),
}

impl Fault {
    /// Returns the fault as an error.
    fn raise(self) -> BoxError {
        match self {
            Self::Error(error) => error,
            Self::Panic(payload) => resume_unwind(payload),
        }
    }
}

/// Awaits a processor and contains its panic, so that others can be closed.
async fn contained(call: impl Future<Output = Result<Flow, BoxError>>) -> Result<Flow, Fault> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(result) => result.map_err(Fault::Error),
        Err(payload) => Err(Fault::Panic(payload)),
    }
}

impl Processors {
    /// Adds the processors inside of all other hooks: where no hook can fail between them and the step.
    pub(crate) fn register(self, hooks: &mut HookStack) {
        let hook = Arc::new(self);
        let (last, first) = (Priority(i16::MIN), Priority(i16::MAX));
        let after = HookPoint::AfterStep | HookPoint::AfterExecution;
        hooks.register(NAME.into(), last, HookPoint::BeforeStep.into(), Arc::clone(&hook) as _);
        hooks.register(NAME.into(), first, after, hook);
    }

    /// Closes the first `opened` processors, the innermost first, even if one of them fails or stops
    /// the run.
    async fn close(
        &self,
        opened: usize,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        let mut fault = None;
        for processor in self.0.iter().take(opened).rev() {
            match contained(processor.after(state, cx)).await {
                Ok(Flow::Continue) => (),
                Ok(Flow::Stop(signal)) => state.signal(signal),
                Err(other) => fault = fault.or(Some(other)),
            }
        }
        fault.map_or(Ok(()), |fault| Err(fault.raise()))
    }
}

/// Returns `true` if processors were opened for this step and none has been closed.
fn is_open_for(state: &AgentState, step: u32) -> bool {
    state.get(&OPENED) == Some(step)
}

fn next_step(state: &AgentState) -> u32 {
    state.step_count() + 1
}

fn is_kept_from_stepping(state: &AgentState) -> bool {
    state.execution().is_some_and(Execution::blocks_next_step)
}

#[async_trait]
impl Hook for Processors {
    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }

    fn points(&self) -> HookPoints {
        HookPoints::from_points([
            HookPoint::BeforeStep,
            HookPoint::AfterStep,
            HookPoint::AfterExecution,
        ])
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        if is_kept_from_stepping(state) || is_open_for(state, next_step(state)) {
            return Ok(Flow::Continue);
        }
        for (opened, processor) in self.0.iter().enumerate() {
            match contained(processor.before(state, cx)).await {
                Ok(Flow::Continue) => (),
                Ok(Flow::Stop(signal)) => {
                    state.signal(signal);
                    if is_kept_from_stepping(state) {
                        self.close(opened, state, cx).await?;
                        return Ok(Flow::Continue);
                    }
                }
                Err(fault) => {
                    let closed = self.close(opened, state, cx);
                    let _also_failed = AssertUnwindSafe(closed).catch_unwind().await;
                    return Err(fault.raise());
                }
            }
        }
        let step = next_step(state);
        state.set(&OPENED, &step)?;
        Ok(Flow::Continue)
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        // Of a step that failed before it began, no processor is open.
        if is_open_for(state, state.step_count()) {
            self.close(self.0.len(), state, cx).await?;
        }
        Ok(Flow::Continue)
    }

    async fn after_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        if is_open_for(state, next_step(state)) {
            state.remove(&OPENED);
            self.close(self.0.len(), state, cx).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Processors({})", self.0.len())
    }
}
