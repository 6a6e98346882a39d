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
/// Each point of the lifecycle has one method, which does nothing by default. A hook can change the
/// *subject* of its point, which it receives as `&mut`, and its return type is its decision. Where
/// calls of one step run concurrently, hooks only read the state.
///
/// A hook that fails or panics fails its step or execution; it never crashes the program. If a run
/// is interrupted at a point, the hooks of the point are called again later, and the edits of the
/// interrupted round do not count. The edits of a round in which a hook failed do not count either.
/// After a cancellation, hooks that do not finish within the grace period are dropped.
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
    /// Returns the name of the hook in events and stop signals.
    fn name(&self) -> Cow<'static, str> {
        any::type_name::<Self>().into()
    }

    /// Returns the points of the hook. The loop does not call it at other points, at no cost.
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

    /// Called with a response of a model, or of a hook that responded instead.
    async fn after_inference(
        &self,
        _response: &mut InferenceResponse,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called with each tool call before it runs. The hook may receive calls of one step
    /// concurrently.
    async fn before_tool(
        &self,
        _call: &ToolCall,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        Ok(ToolDecision::Run)
    }

    /// Called with the outcome of each tool call that hooks decided about, whether it ran or not.
    /// Not called for calls that the user decided about, that were cut off or skipped, or that a
    /// crash or a cancellation ended.
    async fn after_tool(
        &self,
        _call: &ToolCall,
        _outcome: &mut ToolOutcome,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called after each step, including failed ones, before the loop decides whether to take
    /// another.
    async fn after_step(
        &self,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Ok(Flow::Continue)
    }

    /// Called when the execution is about to end without a failure. `None` is a natural end.
    /// [`StopDecision::Continue`] requests another step, which only a soft reason permits.
    async fn on_stop(
        &self,
        _signal: Option<&StopSignal>,
        _state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        Ok(StopDecision::Stop)
    }

    /// Called when a step has failed.
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

/// The context of a hook.
#[derive(Clone, Copy)]
pub struct HookCx<'a> {
    /// Emits events; hooks do not log.
    pub events: &'a EventBus,
    /// Time and IDs.
    pub env: &'a RunEnv,
    /// Whether the call of this tool point is already approved with its present arguments.
    pub already_approved: bool,
    /// The final status of the execution; `Some` when it has ended.
    pub final_status: Option<&'a ExecutionStatus>,
    /// Whether the model call of this inference point is outside the conversation: a hook or a tool
    /// made it, and its response is not an answer of the agent.
    pub aside: bool,
    pub(crate) inference: &'a dyn RunHost,
}

impl HookCx<'_> {
    /// Returns the agent of the run.
    pub fn agent(&self) -> &AgentLoop {
        self.inference.agent()
    }

    /// Returns a handle to cancel and steer the run, which stays valid after the hook returns.
    pub fn run(&self) -> RunHandle {
        self.inference.handle()
    }

    /// Calls a model. The account is charged, and cancelling the run cancels the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the model does not respond, or the budget does not allow the call.
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

/// Whether the run continues.
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
    /// Continue with the next hook, then with the next point.
    Continue,
    /// Stop the run with the work done so far.
    ///
    /// Later hooks of this point are still called: they may have to record the work done, and a
    /// soft stop can still be overruled. Only a hard stop before an execution or a step ends the
    /// round. The strongest of several stops decides.
    Stop(StopSignal),
}

impl Flow {
    /// Returns the stronger of two; the first if they are equally strong.
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
    /// Run the call, after the approval that the tool [declares](crate::ToolApproval), if any.
    Run,
    /// Run the call without the approval that the tool declares: the user has allowed it.
    Allow,
    /// Run the call with different arguments. All hooks are called again with the new arguments, at
    /// most 8 times. A call that was approved with its previous arguments is asked about again.
    Rewrite(Arguments),
    /// Return this output instead of running the tool.
    Answer(ToolOutput),
    /// Pause the run until there is a decision about the call. If the call is already approved with
    /// these arguments, this counts as `Run`.
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
