//! The only path to a model, with hooks, account, cancellation, deadline and events around every
//! call.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use futures_util::future::{BoxFuture, Either, select};
use loopwright_messages::{
    Cost, InferenceRequest, InferenceResponse, Message, Prompt, RequestPrefix, Usage,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::AgentLoop,
    budget::Spend,
    clock::RunEnv,
    event::{InferenceRequestStarted, InferenceResponseReceived, PromptCacheBroken, StreamDelta},
    event_bus::EventBus,
    handle::{Inbox, RunHandle},
    hook::{Flow, HookCx, HookPoint, InferenceDecision},
    host::RunHost,
    meter::BudgetAccount,
    model::{ChatModel, Delta, InferCx, ModelCache, ModelError, ModelErrorKind},
    shared::lock,
    state::AgentState,
    step_error::StepError,
    stop::StopSignal,
    trace,
};

/// The path of a step's model calls, with its own tally.
#[derive(Debug)]
pub(crate) struct Inference {
    pub(crate) way: Arc<InferenceContext>,
    pub(crate) step: u32,
    /// Whether a hook makes the call. Hooks are not called about model calls that hooks make during
    /// a model call.
    pub(crate) nested: bool,
    /// When the unrecorded active time started, by the monotonic clock.
    pub(crate) lap_began: Duration,
    pub(crate) spent: Mutex<SpendTally>,
}

/// Data that all model calls of a run share.
#[derive(Debug)]
pub(crate) struct InferenceContext {
    pub(crate) agent: AgentLoop,
    pub(crate) env: RunEnv,
    pub(crate) meter: BudgetAccount,
    pub(crate) cancel: CancellationToken,
    pub(crate) inbox: Weak<Inbox>,
    pub(crate) events: EventBus,
}

impl Deref for Inference {
    type Target = InferenceContext;

    fn deref(&self) -> &InferenceContext {
        &self.way
    }
}

/// The spend of the model calls in a scope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpendTally {
    pub(crate) calls: u32,
    pub(crate) spend: Spend,
    pub(crate) answered_by_hook: bool,
}

/// The driver's last request, so that the next one can continue it.
#[derive(Debug, Default)]
pub(crate) struct LastRequest {
    pub(crate) prompt: Option<Prompt>,
    pub(crate) sent: Option<RequestPrefix>,
    pub(crate) system: Option<ComposedPrompt>,
    pub(crate) last: Spend,
    /// Whether a request got a response, so that `last` holds its tokens.
    pub(crate) has_asked: bool,
    /// The text so far of an interrupted response.
    pub(crate) unfinished: String,
    /// The hook that answered the last request.
    pub(crate) source: Option<Arc<str>>,
    /// The data that the model stores.
    pub(crate) model: ModelCache,
}

/// Composed instructions, and the session's own instructions that they contain.
#[derive(Debug)]
pub(crate) struct ComposedPrompt {
    pub(crate) session: Option<Arc<str>>,
    pub(crate) whole: Option<Arc<str>>,
}

/// The part of a response that has arrived.
#[derive(Debug, Default)]
struct Heard {
    /// Whether the response is not part of the conversation, so that its text is not needed.
    aside: bool,
    text: String,
    spend: Spend,
}

impl Heard {
    fn note(&mut self, delta: &Delta<'_>) {
        match delta {
            Delta::Text(text) if !self.aside => self.text.push_str(text),
            Delta::Usage(usage) => self.spend.usage = *usage,
            _ => {}
        }
    }
}

pub(crate) type SharedMemory = Arc<Mutex<LastRequest>>;

/// The scope of a call that can be abandoned.
pub(crate) struct CallScope<'a> {
    pub(crate) scope: Inference,
    around: &'a Inference,
    is_over: bool,
}

impl CallScope<'_> {
    /// Returns the spend of a call that finished.
    pub(crate) fn close(mut self) -> Spend {
        self.is_over = true;
        self.scope.ledger().spend
    }
}

impl Drop for CallScope<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.around.add_spend(self.scope.ledger().spend);
        }
    }
}

impl Inference {
    /// Creates the same path with its own tally.
    pub(crate) fn scope(&self, nested: bool) -> Self {
        Self {
            way: Arc::clone(&self.way),
            step: self.step,
            nested,
            lap_began: self.lap_began,
            spent: Mutex::default(),
        }
    }

    pub(crate) fn ledger(&self) -> SpendTally {
        *lock(&self.spent)
    }

    /// Creates a scope for a call that can be abandoned. This scope then gets its spend.
    pub(crate) fn scope_of_call(&self) -> CallScope<'_> {
        CallScope { scope: self.scope(false), around: self, is_over: false }
    }

    /// Returns the spend and resets it.
    pub(crate) fn take_spend(&self) -> Spend {
        std::mem::take(&mut lock(&self.spent).spend)
    }

    /// Adds spend that is not from a model call of this scope.
    pub(crate) fn add_spend(&self, spend: Spend) {
        lock(&self.spent).spend += spend;
    }

    pub(crate) fn hook_cx<'a>(&'a self, inference: &'a Self) -> HookCx<'a> {
        HookCx {
            events: &self.events,
            env: &self.env,
            already_approved: false,
            final_status: None,
            aside: false,
            inference,
        }
    }

    pub(crate) async fn infer(
        &self,
        state: &AgentState,
        model: &dyn ChatModel,
        request: &mut InferenceRequest,
        memory: Option<&SharedMemory>,
    ) -> Result<InferenceResponse, StepError> {
        let (answer, by) = if self.asks(HookPoint::BeforeInference) {
            Box::pin(self.before(request, state, memory.is_none())).await?
        } else {
            (None, None)
        };
        self.announce(request, model, memory, by.as_ref());
        let began = self.events.has_listeners().then(|| self.env.clock.monotonic());
        let mut response = if let Some(response) = answer {
            response
        } else {
            let named = request.model.clone().or_else(|| model.model());
            let span = trace::model_call(named.as_deref(), memory.is_none());
            let answer = span.around(self.ask(state, model, request, memory)).await;
            span.model_answered(&answer);
            answer?
        };
        if self.asks(HookPoint::AfterInference) {
            Box::pin(self.after(&mut response, state, memory.is_none())).await?;
        }
        self.events.emit(|| InferenceResponseReceived {
            step: self.step,
            usage: response.usage,
            finish: response.finish_reason.clone(),
            duration: began
                .map_or(Duration::ZERO, |it| self.env.clock.monotonic().saturating_sub(it)),
            answered_by: by,
        });
        Ok(response)
    }

    /// Returns `true` if hooks of a point are called about this call.
    fn asks(&self, point: HookPoint) -> bool {
        !self.nested && self.agent.interceptor().contains(point)
    }

    async fn before(
        &self,
        request: &mut InferenceRequest,
        state: &AgentState,
        aside: bool,
    ) -> Result<(Option<InferenceResponse>, Option<Arc<str>>), StepError> {
        let (hooks, inner) = (self.agent.interceptor(), self.scope(true));
        let cx = HookCx { aside, ..self.hook_cx(&inner) };
        let decided = hooks.before_inference(request, state, &cx).await;
        self.add(inner.ledger().spend);
        match decided? {
            (InferenceDecision::Send, _) => Ok((None, None)),
            (InferenceDecision::Stop(signal), _) => Err(StepError::Stopped(signal)),
            (InferenceDecision::Respond(mut response), by) => {
                (response.usage, response.cost) = (Usage::default(), None);
                lock(&self.spent).answered_by_hook = true;
                Ok((Some(response), by))
            }
        }
    }

    async fn after(
        &self,
        response: &mut InferenceResponse,
        state: &AgentState,
        aside: bool,
    ) -> Result<(), StepError> {
        let (hooks, inner) = (self.agent.interceptor(), self.scope(true));
        let cx = HookCx { aside, ..self.hook_cx(&inner) };
        let flow = hooks.after_inference(response, state, &cx).await;
        self.add(inner.ledger().spend);
        match flow? {
            Flow::Continue => Ok(()),
            Flow::Stop(signal) => Err(StepError::Stopped(signal)),
        }
    }

    /// Reports the request that is about to be sent, and the cause if it does not begin with the
    /// previous one.
    fn announce(
        &self,
        request: &InferenceRequest,
        model: &dyn ChatModel,
        memory: Option<&SharedMemory>,
        by: Option<&Arc<str>>,
    ) {
        if let Some(memory) = memory {
            let mut memory = lock(memory);
            memory.source = by.cloned();
            let broken = match &mut memory.sent {
                Some(sent) => sent.advance(request),
                none => {
                    *none = Some(request.stable_part());
                    None
                }
            };
            if let Some(cause) = broken {
                self.events.emit(|| PromptCacheBroken { step: self.step, cause });
            }
        }
        self.events.emit(|| InferenceRequestStarted {
            step: self.step,
            messages: request.prompt.head.len()
                + request.prompt.turns.len()
                + request.prompt.tail.len(),
            model: request.model.clone().or_else(|| model.model()),
        });
    }

    async fn ask(
        &self,
        state: &AgentState,
        model: &dyn ChatModel,
        request: &InferenceRequest,
        memory: Option<&SharedMemory>,
    ) -> Result<InferenceResponse, StepError> {
        // What the call before took is the best guess at what this one takes.
        let known = memory.map(|it| {
            let memory = lock(it);
            (memory.last, memory.has_asked)
        });
        let (guess, has_asked) = known.unwrap_or_default();
        let least = request.options.max_output_tokens.unwrap_or(0);
        let tokens = if has_asked || state.budget().tokens.is_none() {
            guess.usage.total().max(least)
        } else {
            // Nothing is known but the size of the request. One that is too large for what is left takes all of it.
            self.meter.up_to(estimated_tokens(request)).max(least)
        };
        let cost = match guess.cost {
            // Nothing has been paid yet in this run: what is known before is the size of the request.
            Cost::ZERO if state.budget().cost.is_some() => model.least_cost(request),
            cost => Some(cost),
        };
        let cost = cost.unwrap_or_default();
        let reserved = self.meter.reserve(tokens, cost).map_err(StepError::Stopped)?;
        let mut kept = memory.map(|it| std::mem::take(&mut lock(it).model)).unwrap_or_default();
        let mut heard = Heard { aside: memory.is_none(), ..Heard::default() };
        let result = self.race(state, model, request, &mut kept, &mut heard).await;
        let spend = match &result {
            Ok(it) => Spend { usage: it.usage, cost: it.cost.unwrap_or_default() },
            Err(StepError::Model(error)) => error.spend(),
            // What was told before the interruption counts.
            Err(_) => heard.spend,
        };
        reserved.settle(spend);
        self.add(spend);
        if let Some(memory) = memory {
            let mut memory = lock(memory);
            match &result {
                Ok(_) => {
                    (memory.last, memory.model) = (spend, kept);
                    memory.has_asked = true;
                }
                Err(StepError::Cancelled | StepError::Stopped(_)) => memory.unfinished = heard.text,
                Err(_) => {}
            }
        }
        result
    }

    fn add(&self, spend: Spend) {
        let mut ledger = lock(&self.spent);
        ledger.calls += 1;
        ledger.spend += spend;
    }

    /// Waits for the model, but not longer than the run itself can wait.
    async fn race(
        &self,
        state: &AgentState,
        model: &dyn ChatModel,
        request: &InferenceRequest,
        memory: &mut ModelCache,
        heard: &mut Heard,
    ) -> Result<InferenceResponse, StepError> {
        let aside = heard.aside;
        let mut deltas = |delta: Delta<'_>| {
            let (step, events) = (self.step, &self.events);
            heard.note(&delta);
            if events.has_listeners()
                && let Some(delta) = delta.to_owned()
            {
                events.emit(|| StreamDelta { step, delta, aside });
            }
        };
        let left = self.time_left(state);
        let cx = InferCx {
            deltas: &mut deltas,
            cancel: &self.cancel,
            deadline: left.map(|it| self.env.clock.monotonic().saturating_add(it)),
            clock: &*self.env.clock,
            memory,
        };
        let layers = self.agent.layers();
        let layered = layers.over(model);
        let model = if layers.is_empty() { model } else { &layered };
        let answer = model.infer(request, cx);
        let limit = std::pin::pin!(self.limit(state, left));
        let answer = match select(answer, limit).await {
            Either::Left((answer, _)) => answer,
            Either::Right((error, _)) => return Err(error),
        };
        answer.map_err(|error| {
            // The wire knows the deadline too, and may be the first to give up.
            let is_late = || self.time_left(state).is_some_and(|it| it.is_zero());
            let gave_up = match error.kind {
                ModelErrorKind::Cancelled => StepError::Cancelled,
                ModelErrorKind::Timeout if is_late() => StepError::Stopped(self.lateness(state)),
                _ => return StepError::Model(error),
            };
            // The wire knows better what it came to than its fragments do.
            if !error.spend().is_zero() {
                heard.spend = error.spend();
            }
            gave_up
        })
    }

    /// Returns the active time since the last record of it.
    pub(crate) fn working(&self) -> Duration {
        self.env.clock.monotonic().saturating_sub(self.lap_began)
    }

    /// Returns the time until the time limit or the deadline.
    fn time_left(&self, state: &AgentState) -> Option<Duration> {
        if state.budget().time.is_none() && state.budget().deadline.is_none() {
            return None;
        }
        state.time_left(self.working(), self.env.clock.now())
    }

    fn lateness(&self, state: &AgentState) -> StopSignal {
        state.lateness(self.working(), self.env.clock.now())
    }

    /// Completes when the run is cancelled or its time is used up.
    async fn limit(&self, state: &AgentState, left: Option<Duration>) -> StepError {
        let Some(left) = left else {
            self.cancel.cancelled().await;
            return StepError::Cancelled;
        };
        let timer = self.env.clock.sleep(left);
        match select(timer, std::pin::pin!(self.cancel.cancelled())).await {
            Either::Left(_) => StepError::Stopped(self.lateness(state)),
            Either::Right(_) => StepError::Cancelled,
        }
    }
}

impl RunHost for Inference {
    fn agent(&self) -> &AgentLoop {
        &self.agent
    }

    fn handle(&self) -> RunHandle {
        RunHandle { cancel: self.cancel.clone(), inbox: self.inbox.clone() }
    }

    fn working(&self) -> Duration {
        Self::working(self)
    }

    fn add_spend(&self, spend: Spend) {
        Self::add_spend(self, spend);
    }

    fn call_model<'a>(
        &'a self,
        state: &'a AgentState,
        model: &'a dyn ChatModel,
        request: &'a mut InferenceRequest,
    ) -> BoxFuture<'a, Result<InferenceResponse, StepError>> {
        Box::pin(self.infer(state, model, request, None))
    }
}

/// Returns the approximate number of tokens in the texts of a request.
fn estimated_tokens(request: &InferenceRequest) -> u64 {
    let prompt = &request.prompt;
    let system = request.system.as_ref().map_or(0, |it| it.len());
    let turns = prompt.stable().map(|turn| turn.message().text().len());
    let tail = prompt.tail.iter().map(|message| message.text().len());
    (system + turns.sum::<usize>() + tail.sum::<usize>()) as u64 / BYTES_OF_A_TOKEN
}

/// The approximate number of bytes of text in a token.
const BYTES_OF_A_TOKEN: u64 = 4;

/// Rejects an empty request.
pub(crate) fn check_prompt(prompt: &Prompt) -> Result<(), ModelError> {
    let says = |message: &Message| !message.is_empty();
    let said = prompt.stable().any(|turn| says(turn.message())) || prompt.tail.iter().any(says);
    if said {
        return Ok(());
    }
    let text = "no messages to send; add a user message to the state";
    Err(ModelError::new(ModelErrorKind::InvalidRequest, text))
}
