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
        asynchronous::{
            AsyncCall, AsyncEdit, AsyncEnd, AsyncError, AsyncHookFn, AsyncOutcome, AsyncRequest,
            AsyncResponse, AsyncStop, Cloned,
        },
    },
    outcome::ToolOutcome,
    state::AgentState,
    stop::StopSignal,
};

/// The closure for a point.
enum Callback<S: ?Sized, A: ?Sized> {
    Sync(Arc<S>),
    Async(Arc<A>),
}

impl<S: ?Sized, A: ?Sized> Clone for Callback<S, A> {
    fn clone(&self) -> Self {
        match self {
            Self::Sync(call) => Self::Sync(Arc::clone(call)),
            Self::Async(call) => Self::Async(Arc::clone(call)),
        }
    }
}

type OnEdit<R, A> =
    Callback<dyn Fn(&mut StateEdit<'_>, &HookCx<'_>) -> Result<R, BoxError> + Send + Sync, A>;
type OnRequest = Callback<
    dyn Fn(&mut InferenceRequest, &AgentState, &HookCx<'_>) -> Result<InferenceDecision, BoxError>
        + Send
        + Sync,
    dyn AsyncRequest,
>;
type OnResponse = Callback<
    dyn Fn(&mut InferenceResponse, &AgentState, &HookCx<'_>) -> Result<Flow, BoxError>
        + Send
        + Sync,
    dyn AsyncResponse,
>;
type OnCall = Callback<
    dyn Fn(&ToolCall, &AgentState, &HookCx<'_>) -> Result<ToolDecision, BoxError> + Send + Sync,
    dyn AsyncCall,
>;
type OnOutcome = Callback<
    dyn Fn(&ToolCall, &mut ToolOutcome, &AgentState, &HookCx<'_>) -> Result<Flow, BoxError>
        + Send
        + Sync,
    dyn AsyncOutcome,
>;
type OnStop = Callback<
    dyn Fn(Option<&StopSignal>, &mut StateEdit<'_>, &HookCx<'_>) -> Result<StopDecision, BoxError>
        + Send
        + Sync,
    dyn AsyncStop,
>;
type OnError = Callback<
    dyn Fn(&Failure, &mut StateEdit<'_>, &HookCx<'_>) -> Result<ErrorDecision, BoxError>
        + Send
        + Sync,
    dyn AsyncError,
>;

/// Closures as a hook: one for each point, sync or async.
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
/// The setters that end in `_async` take an async closure or an `async fn`. The closure is cloned
/// for each call, so put its captures into an `Arc`. When the run is cancelled, a pending future
/// has the grace period of the run and is then dropped.
///
/// ```
/// use std::{collections::HashSet, sync::Arc};
///
/// use loopwright_core::{BoxError, CallableHook, ToolDecision};
///
/// /// Allows what a service allows.
/// struct Policy(HashSet<String>);
///
/// impl Policy {
///     async fn allows(&self, tool: &str) -> Result<bool, BoxError> {
///         Ok(self.0.contains(tool))
///     }
/// }
///
/// let policy = Arc::new(Policy(HashSet::from(["read_file".to_owned()])));
/// let hook = CallableHook::new("policy").before_tool_async(async move |call, _state, _cx| {
///     Ok(match policy.allows(&call.name).await? {
///         true => ToolDecision::Run,
///         false => ToolDecision::Block { reason: format!("`{}` is not allowed", call.name) },
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
    before_execution: Option<OnEdit<Flow, dyn AsyncEdit>>,
    before_step: Option<OnEdit<Flow, dyn AsyncEdit>>,
    before_inference: Option<OnRequest>,
    after_inference: Option<OnResponse>,
    before_tool: Option<OnCall>,
    after_tool: Option<OnOutcome>,
    after_step: Option<OnEdit<Flow, dyn AsyncEdit>>,
    on_stop: Option<OnStop>,
    on_error: Option<OnError>,
    after_execution: Option<OnEdit<(), dyn AsyncEnd>>,
}

macro_rules! setters {
    ($($point:ident, $point_async:ident, ($($arg:ty),*) -> $result:ty, ($($owned:ty),*);)*) => {
        $(
            #[doc = concat!("Sets the closure to call at [`", stringify!($point), "`](Hook::", stringify!($point), ").")]
            pub fn $point(
                mut self,
                call: impl Fn($($arg,)* &HookCx<'_>) -> Result<$result, BoxError>
                    + Send
                    + Sync
                    + 'static,
            ) -> Self {
                self.$point = Some(Callback::Sync(Arc::new(call)));
                self
            }

            #[doc = concat!("Sets the closure to call at [`", stringify!($point), "`](Hook::", stringify!($point), "), as an async closure.")]
            pub fn $point_async<F>(mut self, call: F) -> Self
            where
                F: AsyncFn($($arg,)* &HookCx<'_>) -> Result<$result, BoxError>,
                F: for<'a, 's, 'c> AsyncHookFn<($($owned,)* &'a HookCx<'c>), Result<$result, BoxError>>,
                F: Clone + Send + Sync + 'static,
            {
                self.$point = Some(Callback::Async(Arc::new(Cloned(call))));
                self
            }
        )*
    };
}

impl CallableHook {
    /// Creates a hook with a name and without closures.
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

    setters! {
        before_execution, before_execution_async, (&mut StateEdit<'_>) -> Flow,
            (&'a mut StateEdit<'s>);
        before_step, before_step_async, (&mut StateEdit<'_>) -> Flow, (&'a mut StateEdit<'s>);
        before_inference, before_inference_async,
            (&mut InferenceRequest, &AgentState) -> InferenceDecision,
            (&'a mut InferenceRequest, &'a AgentState);
        after_inference, after_inference_async, (&mut InferenceResponse, &AgentState) -> Flow,
            (&'a mut InferenceResponse, &'a AgentState);
        before_tool, before_tool_async, (&ToolCall, &AgentState) -> ToolDecision,
            (&'a ToolCall, &'a AgentState);
        after_tool, after_tool_async, (&ToolCall, &mut ToolOutcome, &AgentState) -> Flow,
            (&'a ToolCall, &'a mut ToolOutcome, &'a AgentState);
        after_step, after_step_async, (&mut StateEdit<'_>) -> Flow, (&'a mut StateEdit<'s>);
        on_stop, on_stop_async, (Option<&StopSignal>, &mut StateEdit<'_>) -> StopDecision,
            (Option<&'a StopSignal>, &'a mut StateEdit<'s>);
        on_error, on_error_async, (&Failure, &mut StateEdit<'_>) -> ErrorDecision,
            (&'a Failure, &'a mut StateEdit<'s>);
        after_execution, after_execution_async, (&mut StateEdit<'_>) -> (),
            (&'a mut StateEdit<'s>);
    }
}

macro_rules! forward {
    ($self:ident, $point:ident, $default:expr, $($arg:expr),*) => {
        match &$self.$point {
            Some(Callback::Sync(call)) => call($($arg),*),
            Some(Callback::Async(call)) => call.call($($arg),*).await,
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
