//! All hooks of an agent as one.

use std::{
    borrow::Cow,
    cmp::Reverse,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use futures_util::FutureExt as _;
use loopwright_messages::{InferenceRequest, InferenceResponse, ToolCall};

use crate::{
    BoxError,
    change::ChangeRecord,
    clock::RunEnv,
    edit::StateEdit,
    event::HookExecuted,
    execution::ExecutionStatus,
    failure::{Failure, Panicked, panic_message},
    hook::{
        ErrorDecision, Flow, Hook, HookCx, HookError, HookPoint, HookPoints, InferenceDecision,
        StopDecision, ToolDecision,
    },
    outcome::ToolOutcome,
    state::AgentState,
    stop::{StopSignal, Strength},
};

/// The priority of a hook. Higher runs earlier; among equal ones, the first added runs first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub i16);

impl Priority {
    /// Cancellation: before all others.
    pub const CANCELLATION: Self = Self(250);
    /// Limits.
    pub const GUARD: Self = Self(200);
    /// Hooks that shape the context.
    pub const CONTEXT: Self = Self(100);
    /// Hooks that inspect finished steps.
    pub const FINISH: Self = Self(-200);
    /// Hooks that store the history.
    pub const HISTORY: Self = Self(-1000);
}

/// A hook with its priority.
#[derive(Clone)]
pub struct RegisteredHook {
    name: Arc<str>,
    priority: Priority,
    points: HookPoints,
    hook: Arc<dyn Hook>,
}

impl RegisteredHook {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the priority: higher runs earlier.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns the points of the hook.
    pub fn points(&self) -> HookPoints {
        self.points
    }

    /// Returns the hook itself, for another stack.
    pub fn hook(&self) -> &Arc<dyn Hook> {
        &self.hook
    }
}

/// A collection of hooks.
///
/// ```
/// use loopwright_core::{CallableHook, HookStack, Priority};
///
/// let mut hooks = HookStack::default();
/// hooks.add(CallableHook::new("second"));
/// hooks.add_at(Priority::GUARD, CallableHook::new("first"));
/// let hooks = hooks.into_interceptor();
/// let names: Vec<&str> = hooks.hooks().iter().map(|hook| hook.name()).collect();
/// assert_eq!(names, ["first", "second"]);
/// ```
#[derive(Clone, Default)]
pub struct HookStack(Vec<RegisteredHook>);

impl HookStack {
    /// Adds a hook at the default priority.
    pub fn add(&mut self, hook: impl Hook + 'static) {
        self.add_at(Priority::default(), hook);
    }

    /// Adds a hook at a priority.
    pub fn add_at(&mut self, priority: Priority, hook: impl Hook + 'static) {
        self.add_shared(priority, Arc::new(hook));
    }

    /// Adds a hook that is shared with other owners.
    pub fn add_shared(&mut self, priority: Priority, hook: Arc<dyn Hook>) {
        let name: Cow<'static, str> = hook.name();
        self.register(name.into(), priority, hook.points(), hook);
    }

    /// Adds a hook under a chosen name, at some of its points only.
    pub fn register(
        &mut self,
        name: Arc<str>,
        priority: Priority,
        points: HookPoints,
        hook: Arc<dyn Hook>,
    ) {
        self.0.push(RegisteredHook { name, priority, points, hook });
    }

    /// Fixes the order.
    pub fn into_interceptor(mut self) -> Interceptor {
        self.0.sort_by_key(|it| Reverse(it.priority));
        let points = self.0.iter().fold(HookPoints::NONE, |all, it| all | it.points);
        Interceptor { hooks: self.0.into(), points }
    }
}

impl fmt::Debug for RegisteredHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredHook")
            .field("name", &self.name)
            .field("priority", &self.priority)
            .field("points", &self.points)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for HookStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|it| (it.priority.0, &it.name))).finish()
    }
}

/// All hooks of an agent in their order, as the loop calls them.
///
/// The default has no hooks and allows everything. A single hook of your own is a stack of one.
#[derive(Clone)]
pub struct Interceptor {
    hooks: Arc<[RegisteredHook]>,
    points: HookPoints,
}

impl Default for Interceptor {
    fn default() -> Self {
        HookStack::default().into_interceptor()
    }
}

impl Interceptor {
    /// Creates an interceptor from one hook.
    pub fn from_hook(hook: Arc<dyn Hook>) -> Self {
        let mut stack = HookStack::default();
        stack.add_shared(Priority::default(), hook);
        stack.into_interceptor()
    }

    /// Returns the hooks, in calling order.
    pub fn hooks(&self) -> &[RegisteredHook] {
        &self.hooks
    }

    /// Returns `true` if any hook is called at a point.
    pub fn contains(&self, point: HookPoint) -> bool {
        self.points.contains(point)
    }
}

impl fmt::Debug for Interceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.hooks.iter().map(RegisteredHook::name)).finish()
    }
}

/// A call of the hooks that can edit the state.
#[derive(Clone, Debug)]
pub(crate) enum HookCall {
    BeforeExecution,
    BeforeStep,
    AfterStep,
    OnStop(Option<StopSignal>),
    OnError(Failure),
    AfterExecution(ExecutionStatus),
}

/// The decision of hooks that can edit the state, besides the signals that they raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookOutcome {
    /// The default: continue, let it stop, let it fail.
    Nothing,
    /// Veto a stop.
    Continue,
    Retry,
}

/// The decision of one hook that can edit the state.
enum Reply {
    Word(HookOutcome),
    Stop(StopSignal),
}

impl HookCall {
    pub(crate) fn point(&self) -> HookPoint {
        match self {
            Self::BeforeExecution => HookPoint::BeforeExecution,
            Self::BeforeStep => HookPoint::BeforeStep,
            Self::AfterStep => HookPoint::AfterStep,
            Self::OnStop(_) => HookPoint::OnStop,
            Self::OnError(_) => HookPoint::OnError,
            Self::AfterExecution(_) => HookPoint::AfterExecution,
        }
    }

    async fn call_one(
        &self,
        hook: &dyn Hook,
        state: &mut StateEdit<'_>,
        cx: &HookCx<'_>,
    ) -> Result<Reply, BoxError> {
        let word = match self {
            Self::BeforeExecution => return Ok(hook.before_execution(state, cx).await?.into()),
            Self::BeforeStep => return Ok(hook.before_step(state, cx).await?.into()),
            Self::AfterStep => return Ok(hook.after_step(state, cx).await?.into()),
            Self::OnStop(signal) => match hook.on_stop(signal.as_ref(), state, cx).await? {
                StopDecision::Stop => HookOutcome::Nothing,
                StopDecision::Continue => HookOutcome::Continue,
            },
            Self::OnError(failure) => match hook.on_error(failure, state, cx).await? {
                ErrorDecision::Fail => HookOutcome::Nothing,
                ErrorDecision::Retry => HookOutcome::Retry,
            },
            Self::AfterExecution(status) => {
                let cx = HookCx { final_status: Some(status), ..*cx };
                hook.after_execution(state, &cx).await?;
                HookOutcome::Nothing
            }
        };
        Ok(Reply::Word(word))
    }

    /// Returns `true` if a stop of this strength ends the round, because later hooks have nothing
    /// left to prepare.
    fn is_ended_by(&self, strength: Strength) -> bool {
        matches!(self, Self::BeforeExecution | Self::BeforeStep) && strength == Strength::Hard
    }
}

impl From<Flow> for Reply {
    fn from(flow: Flow) -> Self {
        match flow {
            Flow::Continue => Self::Word(HookOutcome::Nothing),
            Flow::Stop(signal) => Self::Stop(signal),
        }
    }
}

/// The decision of all hooks about a call.
#[derive(Debug)]
pub(crate) struct CallDecision {
    /// The strongest decision.
    pub(crate) decision: ToolDecision,
    /// The hook that made it.
    pub(crate) by: Arc<str>,
    /// The call with the arguments that the decision is about.
    pub(crate) call: ToolCall,
    /// The last hook that rewrote the arguments, if they differ from those of the call before hooks.
    pub(crate) rewritten_by: Option<Arc<str>>,
}

/// The maximum number of times that arguments are rewritten again.
const REWRITES: usize = 8;

impl Interceptor {
    /// Calls all hooks of a point that can edit the state. The log includes their stops. A hard
    /// stop before an execution or a step ends the round; no other stop does, nor a veto or a
    /// retry.
    pub(crate) async fn call_hooks(
        &self,
        ask: &HookCall,
        state: &mut Arc<AgentState>,
        log: &mut Vec<ChangeRecord>,
        cx: &HookCx<'_>,
    ) -> Result<HookOutcome, HookError> {
        let mut word = HookOutcome::Nothing;
        for it in self.at(ask.point()) {
            let mut edit = StateEdit::new(state, log, &it.name, &*cx.env.clock);
            match it
                .guard(ask.point(), cx, async { ask.call_one(&*it.hook, &mut edit, cx).await })
                .await?
            {
                Reply::Word(HookOutcome::Nothing) => (),
                Reply::Word(said) => word = said,
                Reply::Stop(signal) => {
                    let strength = signal.strength();
                    edit.signal(signal);
                    if ask.is_ended_by(strength) {
                        break;
                    }
                }
            }
        }
        Ok(word)
    }

    /// Calls hooks about a request. The first response or stop ends the round; a response includes
    /// the name of its hook.
    pub(crate) async fn before_inference(
        &self,
        request: &mut InferenceRequest,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<(InferenceDecision, Option<Arc<str>>), HookError> {
        let point = HookPoint::BeforeInference;
        for it in self.at(point) {
            match it
                .guard(point, cx, async { it.hook.before_inference(request, state, cx).await })
                .await?
            {
                InferenceDecision::Send => (),
                decided => return Ok((decided, Some(Arc::clone(&it.name)))),
            }
        }
        Ok((InferenceDecision::Send, None))
    }

    pub(crate) async fn after_inference(
        &self,
        response: &mut InferenceResponse,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, HookError> {
        let (point, mut said) = (HookPoint::AfterInference, Flow::Continue);
        for it in self.at(point) {
            let flow = it
                .guard(point, cx, async { it.hook.after_inference(response, state, cx).await })
                .await?;
            said = said.stronger(flow);
        }
        Ok(said)
    }

    /// Calls all hooks about a call. An approval of the call covers only the arguments with which
    /// it arrives here.
    pub(crate) async fn before_tool(
        &self,
        call: &ToolCall,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<CallDecision, HookError> {
        let (mut call, arrived) = (call.clone(), Arc::clone(&call.arguments));
        let (mut rewrites, mut rewritten_by) = (0, None);
        loop {
            let already_approved = cx.already_approved && rewritten_by.is_none();
            let cx = HookCx { already_approved, ..*cx };
            match self.decide(&call, state, &cx).await? {
                (ToolDecision::Rewrite(arguments), by) => {
                    rewrites += 1;
                    if rewrites > REWRITES {
                        let reason =
                            format!("hooks rewrote the arguments more than {REWRITES} times");
                        let decision = ToolDecision::Block { reason };
                        return Ok(CallDecision { decision, by, call, rewritten_by });
                    }
                    call.arguments = Arc::clone(arguments.shared());
                    rewritten_by = (call.arguments != arrived).then_some(by);
                }
                (decision, by) => return Ok(CallDecision { decision, by, call, rewritten_by }),
            }
        }
    }

    async fn decide(
        &self,
        call: &ToolCall,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<(ToolDecision, Arc<str>), HookError> {
        let point = HookPoint::BeforeTool;
        let mut strongest = (ToolDecision::Run, Arc::from("default"));
        for it in self.at(point) {
            let decision =
                it.guard(point, cx, async { it.hook.before_tool(call, state, cx).await }).await?;
            match decision {
                ToolDecision::Rewrite(ref to) if to.as_str() == &*call.arguments => (),
                ToolDecision::Rewrite(_) => return Ok((decision, Arc::clone(&it.name))),
                ToolDecision::Ask(_) if cx.already_approved => (),
                decision if strength(&decision) > strength(&strongest.0) => {
                    strongest = (decision, Arc::clone(&it.name));
                }
                _ => (),
            }
        }
        Ok(strongest)
    }

    pub(crate) async fn after_tool(
        &self,
        call: &ToolCall,
        outcome: &mut ToolOutcome,
        state: &AgentState,
        cx: &HookCx<'_>,
    ) -> Result<Flow, HookError> {
        let (point, mut said) = (HookPoint::AfterTool, Flow::Continue);
        for it in self.at(point) {
            let flow = it
                .guard(point, cx, async { it.hook.after_tool(call, outcome, state, cx).await })
                .await?;
            said = said.stronger(flow);
        }
        Ok(said)
    }

    /// Returns `true` if all hooks of a point can be skipped. A hook that panics cannot.
    pub(crate) fn is_idle(&self, point: HookPoint, state: &AgentState, env: &RunEnv) -> bool {
        let is_idle = || self.at(point).all(|it| it.hook.can_skip(point, state, env));
        catch_unwind(AssertUnwindSafe(is_idle)).unwrap_or_default()
    }

    fn at(&self, point: HookPoint) -> impl Iterator<Item = &RegisteredHook> {
        self.hooks.iter().filter(move |it| it.points.contains(point))
    }
}

fn strength(decision: &ToolDecision) -> u8 {
    match decision {
        ToolDecision::Run | ToolDecision::Rewrite(_) => 0,
        ToolDecision::Allow => 1,
        ToolDecision::Answer(_) => 2,
        ToolDecision::Ask(_) => 3,
        ToolDecision::Block { .. } => 4,
        ToolDecision::Stop(_) => 5,
    }
}

impl RegisteredHook {
    /// Awaits a hook, contains its panic, and returns its duration.
    async fn guard<R>(
        &self,
        point: HookPoint,
        cx: &HookCx<'_>,
        call: impl Future<Output = Result<R, BoxError>>,
    ) -> Result<R, HookError> {
        let began = cx.events.has_listeners().then(|| cx.env.clock.monotonic());
        let result = AssertUnwindSafe(call).catch_unwind().await;
        if let Some(began) = began {
            cx.events.emit(|| HookExecuted {
                point: point.as_str().into(),
                hook: Arc::clone(&self.name),
                duration: cx.env.clock.monotonic().saturating_sub(began),
            });
        }
        let result =
            result.unwrap_or_else(|payload| Err(Panicked(panic_message(&*payload)).into()));
        result.map_err(|source| HookError {
            hook: Arc::clone(&self.name),
            point: point.as_str(),
            source,
        })
    }
}
