//! Policies that take part in a run.

mod asynchronous;
mod callable;
mod error;
mod points;

use std::{any, borrow::Cow, fmt};

use async_trait::async_trait;
use loopwright_messages::{InferenceRequest, InferenceResponse, ToolCall};

use crate::{
    BoxError,
    agent::AgentLoop,
    clock::RunEnv,
    edit::StateEdit,
    event_bus::EventBus,
    execution::ExecutionStatus,
    failure::Failure,
    handle::RunHandle,
    host::RunHost,
    model::ChatModel,
    outcome::{ApprovalRequest, Arguments, ToolOutcome, ToolOutput},
    state::AgentState,
    step_error::StepError,
    stop::StopSignal,
};

pub use self::{
    asynchronous::AsyncHookFn,
    callable::CallableHook,
    error::HookError,
    points::{HookPoint, HookPoints},
};

/// A policy that takes part in a run.
///
/// There is one method for each point of the lifecycle, each doing nothing by default. A hook may
/// change the *subject* of its point, which is what it receives by `&mut`, and decide what its
/// return type can say. Where calls of one step run concurrently, hooks only read the state.
///
/// A hook that fails, or panics, fails the step or the execution it belongs to; it never brings down
/// the program. When a run is interrupted at a point, the point is asked again later, and the edits
/// of the interrupted round do not count; nor do those of a round in which a hook failed. Once the run
/// is cancelled, hooks that do not come to an end within the grace are given up.
///
/// ```
/// use std::borrow::Cow;
///
/// use async_trait::async_trait;
/// use loopwright_core::{BoxError, Flow, Hook, HookCx, HookPoint, HookPoints, StateEdit, StopSignal};
///
/// /// Stops a run after three failed steps in a row.
/// struct ThreeStrikes;
///
/// #[async_trait]
/// impl Hook for ThreeStrikes {
///     fn name(&self) -> Cow<'static, str> {
///         "three_strikes".into()
///     }
///
///     fn points(&self) -> HookPoints {
///         HookPoint::AfterStep.into()
///     }
///
///     async fn after_step(&self, state: &mut StateEdit<'_>, _cx: &HookCx<'_>) -> Result<Flow, BoxError> {
///         let failures = state.execution().map_or(0, |execution| execution.failed_in_a_row());
///         if failures < 3 {
///             return Ok(Flow::Continue);
///         }
///         Ok(Flow::Stop(StopSignal::requested("three_strikes", "three steps failed in a row")))
///     }
/// }
/// ```
#[async_trait]
pub trait Hook: Send + Sync {
    /// Names the hook in events and stop signals.
    fn name(&self) -> Cow<'static, str> {
        any::type_name::<Self>().into()
    }

    /// Returns the points the hook takes part in. Others are not called, and cost nothing.
    fn points(&self) -> HookPoints {
        HookPoints::ALL
    }

    /// Returns `true` if the loop can skip this hook at `point`. Must be cheap and have no side effects. A
    /// guard whose limit is far away returns `true`.
    ///
    /// The loop calls this only if no listener is attached, since listeners receive an event for each hook
    /// call. If one hook of a point cannot be skipped, all hooks of the point are called.
    fn can_skip(&self, _point: HookPoint, _state: &AgentState, _env: &RunEnv) -> bool {
        false
    }

    /// Called once, before the first step.
    async fn before_execution(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called before each step. Guards live here.
    async fn before_step(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called with the request that is about to be sent to a model.
    async fn before_inference(
        &self,
        _request: &mut InferenceRequest,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<InferenceDecision, BoxError> {
        Ok(InferenceDecision::Send)
    }

    /// Called with a model's answer, or with the answer of a hook in its place.
    async fn after_inference(
        &self,
        _response: &mut InferenceResponse,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called with each tool call before it runs. Calls of one step may be seen concurrently.
    async fn before_tool(
        &self,
        _call: &ToolCall,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        Ok(ToolDecision::Run)
    }

    /// Called with what became of each tool call that hooks were asked about, run or not. Calls that
    /// the user decided about, that were cut off or skipped, or that a crash or a cancellation ended,
    /// are not shown to hooks.
    async fn after_tool(
        &self,
        _call: &ToolCall,
        _outcome: &mut ToolOutcome,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called after each step, failed ones included, before it is decided whether another follows.
    async fn after_step(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called when the execution is about to end without having failed. `None` is a natural end.
    /// [`StopDecision::Continue`] buys another step if the reason is soft; hard ones stay.
    async fn on_stop(
        &self,
        _signal: Option<&StopSignal>,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        Ok(StopDecision::Stop)
    }

    /// Called when a step failed.
    async fn on_error(
        &self,
        _failure: &Failure,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<ErrorDecision, BoxError> {
        Ok(ErrorDecision::Fail)
    }

    /// Called once, after the last step.
    async fn after_execution(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
}

/// What every hook may use.
#[derive(Clone, Copy)]
pub struct HookCx<'a> {
    /// Where to tell what happens; hooks do not log.
    pub events: &'a EventBus,
    /// Time and ids.
    pub env: &'a RunEnv,
    /// Whether somebody has already decided about the call of this tool point.
    pub already_approved: bool,
    /// How the execution is about to end; known when it is over.
    pub final_status: Option<&'a ExecutionStatus>,
    /// Whether the model call of this inference point is beside the conversation: a hook or a tool made it, and its
    /// answer is no answer of the agent.
    pub aside: bool,
    pub(crate) inference: &'a dyn RunHost,
}

impl HookCx<'_> {
    /// Returns the agent that runs.
    pub fn agent(&self) -> &AgentLoop {
        self.inference.agent()
    }

    /// Returns a handle to cancel and steer the run with, also after the hook is done.
    pub fn run(&self) -> RunHandle {
        self.inference.handle()
    }

    /// Asks a model. The account is charged, and cancelling the run cancels the request.
    ///
    /// # Errors
    ///
    /// If the model does not respond, or the budget does not allow it.
    pub async fn infer(
        &self,
        state: &AgentState,
        model: &dyn ChatModel,
        mut request: InferenceRequest,
    ) -> Result<InferenceResponse, StepError> {
        self.inference.call_model(state, model, &mut request).await
    }
}

impl fmt::Debug for HookCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookCx").field("resolved", &self.already_approved).finish_non_exhaustive()
    }
}

/// Whether to go on.
///
/// ```
/// use loopwright_core::{AgentState, CallableHook, Flow, HookStack, StopSignal};
/// use loopwright_testing::{FakeDriver, block_on, test_loop};
///
/// let mut hooks = HookStack::default();
/// hooks.add(CallableHook::new("closed").before_step(|_state, _cx| {
///     Ok(Flow::Stop(StopSignal::requested("closed", "no service today")))
/// }));
/// let agent = test_loop(FakeDriver::default()).with_interceptor(hooks.into_interceptor());
/// let state = block_on(agent.execute(AgentState::new()));
/// assert_eq!(state.stop_signal().map(|signal| &*signal.message), Some("no service today"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Flow {
    /// On to the next hook, then to what comes next.
    Continue,
    /// Stop the run with what has been done.
    ///
    /// Later hooks of this point are called nevertheless: they may have to record what was done, and a
    /// soft stop may still be overruled. Only a hard stop before an execution or a step ends the round.
    /// Of several stops the strongest decides.
    Stop(StopSignal),
}

impl Flow {
    /// Returns the stronger of two; of equally strong stops the first.
    pub(crate) fn stronger(self, other: Self) -> Self {
        match (self, other) {
            (Self::Stop(one), Self::Stop(other)) if other.outranks(&one) => Self::Stop(other),
            (stop @ Self::Stop(_), _) => stop,
            (Self::Continue, other) => other,
        }
    }
}

/// A decision about a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InferenceDecision {
    /// Send the request as it now reads.
    Send,
    /// Use this response instead of calling the model. It costs nothing.
    Respond(InferenceResponse),
    /// Stop the run.
    Stop(StopSignal),
}

/// A decision about a tool call. The loop calls every hook, and the strongest decision wins. The
/// variants are declared from weakest to strongest.
///
/// ```
/// use loopwright_core::{AgentState, CallableHook, HookStack, ToolDecision};
/// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
///
/// let mut hooks = HookStack::default();
/// hooks.add(CallableHook::new("read_only").before_tool(|_call, _state, _cx| {
///     Ok(ToolDecision::Block { reason: "tools are off; answer without them".to_owned() })
/// }));
/// let steps = [ScenarioStep::tool("Working."), ScenarioStep::final_answer("Done.")];
/// let agent = test_loop(FakeDriver::steps(steps)).with_interceptor(hooks.into_interceptor());
/// let state = block_on(agent.execute(AgentState::new()));
/// assert_eq!(state.errors().collect::<Vec<_>>(), ["tools are off; answer without them"]);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolDecision {
    /// Run the call.
    Run,
    /// Run the call with other arguments. All hooks are called again with the new arguments, at
    /// most 8 times.
    Rewrite(Arguments),
    /// Return this output instead of running the tool.
    Answer(ToolOutput),
    /// Pause the run until the call is decided about. If it already is, this counts as `Run`.
    Ask(ApprovalRequest),
    /// Do not run the call.
    Block {
        /// The reason, for the model.
        reason: String,
    },
    /// Stop the run.
    Stop(StopSignal),
}

/// A decision about a soft stop.
///
/// ```
/// use loopwright_core::{AgentState, CallableHook, HookStack, StopDecision, messages::Message};
/// use loopwright_testing::{FakeDriver, block_on, test_loop};
///
/// let mut hooks = HookStack::default();
/// hooks.add(CallableHook::new("two_drafts").on_stop(|_signal, state, _cx| {
///     if state.step_count() >= 2 {
///         return Ok(StopDecision::Stop);
///     }
///     state.push_message(Message::user("Shorter, please."));
///     Ok(StopDecision::Continue)
/// }));
/// let agent = test_loop(FakeDriver::responses(["A long text.", "Short."]));
/// let state = block_on(agent.with_interceptor(hooks.into_interceptor()).execute(AgentState::new()));
/// assert_eq!(state.text(), "Short.");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopDecision {
    /// Let the execution end.
    Stop,
    /// Take another step.
    Continue,
}

/// A decision about a failed step.
///
/// ```
/// use loopwright_core::{AgentState, CallableHook, ErrorDecision, HookStack};
/// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
///
/// let mut hooks = HookStack::default();
/// hooks.add(CallableHook::new("once_more").on_error(|_failure, state, _cx| {
///     Ok(if state.step_count() < 2 { ErrorDecision::Retry } else { ErrorDecision::Fail })
/// }));
/// let steps = [ScenarioStep::error("no connection"), ScenarioStep::final_answer("Done.")];
/// let agent = test_loop(FakeDriver::steps(steps)).with_interceptor(hooks.into_interceptor());
/// assert_eq!(block_on(agent.execute(AgentState::new())).text(), "Done.");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorDecision {
    /// End the execution as failed.
    Fail,
    /// Take another step; the failed one counts against the limits.
    Retry,
}
