//! Closures as hooks.

use std::{borrow::Cow, fmt, sync::Arc};

use async_trait::async_trait;
use loopwright_messages::{InferenceRequest, InferenceResponse, ToolCall};

use crate::{
    BoxError,
    edit::StateEdit,
    failure::Failure,
    hook::{
        ErrorDecision, Flow, Hook, HookCx, HookPoint, HookPoints, InferenceDecision, StopDecision,
        ToolDecision,
    },
    outcome::ToolOutcome,
    state::AgentState,
    stop::StopSignal,
};

type OnEdit<R> = dyn Fn(&mut StateEdit<'_>, &HookCx<'_>) -> Result<R, BoxError> + Send + Sync;
type OnRequest = dyn Fn(&mut InferenceRequest, &AgentState, &HookCx<'_>) -> Result<InferenceDecision, BoxError>
    + Send
    + Sync;
type OnResponse = dyn Fn(&mut InferenceResponse, &AgentState, &HookCx<'_>) -> Result<Flow, BoxError>
    + Send
    + Sync;
type OnCall =
    dyn Fn(&ToolCall, &AgentState, &HookCx<'_>) -> Result<ToolDecision, BoxError> + Send + Sync;
type OnOutcome = dyn Fn(&ToolCall, &mut ToolOutcome, &AgentState, &HookCx<'_>) -> Result<Flow, BoxError>
    + Send
    + Sync;
type OnStop = dyn Fn(Option<&StopSignal>, &mut StateEdit<'_>, &HookCx<'_>) -> Result<StopDecision, BoxError>
    + Send
    + Sync;
type OnError = dyn Fn(&Failure, &mut StateEdit<'_>, &HookCx<'_>) -> Result<ErrorDecision, BoxError>
    + Send
    + Sync;

/// Closures as a hook: one for each point that it takes part in.
///
/// ```
/// use loopwright_core::{CallableHook, Flow, StopSignal};
///
/// let hook = CallableHook::new("three_steps").before_step(|state, _| {
///     Ok(match state.step_count() {
///         3.. => Flow::Stop(StopSignal::requested("three_steps", "that is enough")),
///         _ => Flow::Continue,
///     })
/// });
/// ```
///
/// ```
/// use loopwright_core::{CallableHook, Flow, Hook as _, HookPoint};
///
/// let hook = CallableHook::new("greeting").before_execution(|state, _cx| {
///     state.set_metadata("greeting", "Hello.".into());
///     Ok(Flow::Continue)
/// });
/// assert_eq!(hook.points().iter().collect::<Vec<_>>(), [HookPoint::BeforeExecution]);
/// ```
#[derive(Clone)]
#[must_use]
pub struct CallableHook {
    name: Cow<'static, str>,
    before_execution: Option<Arc<OnEdit<Flow>>>,
    before_step: Option<Arc<OnEdit<Flow>>>,
    before_inference: Option<Arc<OnRequest>>,
    after_inference: Option<Arc<OnResponse>>,
    before_tool: Option<Arc<OnCall>>,
    after_tool: Option<Arc<OnOutcome>>,
    after_step: Option<Arc<OnEdit<Flow>>>,
    on_stop: Option<Arc<OnStop>>,
    on_error: Option<Arc<OnError>>,
    after_execution: Option<Arc<OnEdit<()>>>,
}

macro_rules! setter {
    ($point:ident, $bound:path) => {
        #[doc = concat!("Sets what is done at [`", stringify!($point), "`](Hook::", stringify!($point), ").")]
        pub fn $point(mut self, call: impl $bound + Send + Sync + 'static) -> Self {
            self.$point = Some(Arc::new(call));
            self
        }
    };
}

impl CallableHook {
    /// Names a hook that takes part in nothing yet.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            before_execution: None,
            before_step: None,
            before_inference: None,
            after_inference: None,
            before_tool: None,
            after_tool: None,
            after_step: None,
            on_stop: None,
            on_error: None,
            after_execution: None,
        }
    }

    setter!(before_execution, Fn(&mut StateEdit<'_>, &HookCx<'_>) -> Result<Flow, BoxError>);
    setter!(before_step, Fn(&mut StateEdit<'_>, &HookCx<'_>) -> Result<Flow, BoxError>);
    setter!(
        before_inference,
        Fn(&mut InferenceRequest, &AgentState, &HookCx<'_>) -> Result<InferenceDecision, BoxError>
    );
    setter!(
        after_inference,
        Fn(&mut InferenceResponse, &AgentState, &HookCx<'_>) -> Result<Flow, BoxError>
    );
    setter!(before_tool, Fn(&ToolCall, &AgentState, &HookCx<'_>) -> Result<ToolDecision, BoxError>);
    setter!(
        after_tool,
        Fn(&ToolCall, &mut ToolOutcome, &AgentState, &HookCx<'_>) -> Result<Flow, BoxError>
    );
    setter!(after_step, Fn(&mut StateEdit<'_>, &HookCx<'_>) -> Result<Flow, BoxError>);
    setter!(
        on_stop,
        Fn(Option<&StopSignal>, &mut StateEdit<'_>, &HookCx<'_>) -> Result<StopDecision, BoxError>
    );
    setter!(
        on_error,
        Fn(&Failure, &mut StateEdit<'_>, &HookCx<'_>) -> Result<ErrorDecision, BoxError>
    );
    setter!(after_execution, Fn(&mut StateEdit<'_>, &HookCx<'_>) -> Result<(), BoxError>);
}

macro_rules! forward {
    ($self:ident, $point:ident, $default:expr, $($arg:expr),*) => {
        match &$self.$point {
            Some(call) => call($($arg),*),
            None => Ok($default),
        }
    };
}

#[async_trait]
impl Hook for CallableHook {
    fn name(&self) -> Cow<'static, str> {
        self.name.clone()
    }

    fn points(&self) -> HookPoints {
        let set = [
            (self.before_execution.is_some(), HookPoint::BeforeExecution),
            (self.before_step.is_some(), HookPoint::BeforeStep),
            (self.before_inference.is_some(), HookPoint::BeforeInference),
            (self.after_inference.is_some(), HookPoint::AfterInference),
            (self.before_tool.is_some(), HookPoint::BeforeTool),
            (self.after_tool.is_some(), HookPoint::AfterTool),
            (self.after_step.is_some(), HookPoint::AfterStep),
            (self.on_stop.is_some(), HookPoint::OnStop),
            (self.on_error.is_some(), HookPoint::OnError),
            (self.after_execution.is_some(), HookPoint::AfterExecution),
        ];
        HookPoints::from_points(
            set.into_iter().filter_map(|(is_set, point)| is_set.then_some(point)),
        )
    }

    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        forward!(self, before_execution, Flow::Continue, state, cx)
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        forward!(self, before_step, Flow::Continue, state, cx)
    }

    async fn before_inference(
        &self,
        request: &mut InferenceRequest,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<InferenceDecision, BoxError> {
        forward!(self, before_inference, InferenceDecision::Send, request, state, cx)
    }

    async fn after_inference(
        &self,
        response: &mut InferenceResponse,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        forward!(self, after_inference, Flow::Continue, response, state, cx)
    }

    async fn before_tool(
        &self,
        call: &ToolCall,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        forward!(self, before_tool, ToolDecision::Run, call, state, cx)
    }

    async fn after_tool(
        &self,
        call: &ToolCall,
        outcome: &mut ToolOutcome,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        forward!(self, after_tool, Flow::Continue, call, outcome, state, cx)
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        forward!(self, after_step, Flow::Continue, state, cx)
    }

    async fn on_stop(
        &self,
        signal: Option<&StopSignal>,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        forward!(self, on_stop, StopDecision::Stop, signal, state, cx)
    }

    async fn on_error(
        &self,
        failure: &Failure,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<ErrorDecision, BoxError> {
        forward!(self, on_error, ErrorDecision::Fail, failure, state, cx)
    }

    async fn after_execution(
        &self,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        forward!(self, after_execution, (), state, cx)
    }
}

impl fmt::Debug for CallableHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallableHook")
            .field("name", &self.name)
            .field("points", &self.points())
            .finish_non_exhaustive()
    }
}
