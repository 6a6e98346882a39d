//! Decisions about tool calls, and their execution.

mod finished;

use std::{borrow::Cow, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{
    FutureExt as _,
    future::{Either, select},
};
use loopwright_messages::{Part, ToolCall};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) use self::finished::{FinishedCall, PausedCall};
use crate::{
    change::Change,
    event::ToolCallStarted,
    failure::{Failure, FailureKind, panic_message},
    handle::CancelReason,
    hook::{Flow, HookCx, HookPoint, ToolDecision},
    infer::Inference,
    interceptor::CallDecision,
    interrupted::OnInterrupted,
    journal::{EffectRecord, IdempotencyKey, Journal, contained},
    on_ask::OnAsk,
    outcome::{ApprovalRequest, Arguments, ToolOutcome, ToolOutput},
    pause::{CallNote, ToolPause},
    state::AgentState,
    step::{Few, StepResponse},
    stop::StopSignal,
    tool::{AnyTool, RawArgs, SideEffects, ToolCx, ToolError},
};

/// Runs tool calls: calls hooks, checks arguments, limits time and size, and retries repeatable calls.
#[derive(Clone)]
pub struct ToolExecutor {
    /// The maximum size of a tool's text output in bytes. The rest is cut, and the model receives a note.
    pub max_output_bytes: usize,
    /// The time limit of a call whose tool sets none.
    pub default_timeout: Option<Duration>,
    /// The time in which a call that waits can be decided about or answered, if the request sets no
    /// deadline. After it, the call is denied. `None` means no limit. Sub-agents have the same.
    pub answer_within: Option<Duration>,
    /// Runs the tools; `None` means that the loop calls them itself.
    pub runner: Option<Arc<dyn ToolRunner>>,
}

/// Runs tools in another way, for instance in another process.
///
/// The loop does everything around it: hooks, the check of arguments, limits of time and size,
/// retries, the record and the events. A call that must not happen twice runs once.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Runs a call whose arguments match the schema. Without a runner, the loop uses
    /// [`AnyTool::call`]. Dropping the future must end all work that it started.
    ///
    /// # Errors
    ///
    /// Returns an error if the tool fails or stops the agent.
    async fn run(
        &self,
        tool: &AnyTool,
        arguments: Value,
        cx: &ToolCx<'_>,
    ) -> Result<ToolOutput, ToolError>;
}

impl Default for ToolExecutor {
    fn default() -> Self {
        Self { max_output_bytes: 1 << 20, default_timeout: None, answer_within: None, runner: None }
    }
}

impl fmt::Debug for ToolExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolExecutor")
            .field("max_output_bytes", &self.max_output_bytes)
            .field("default_timeout", &self.default_timeout)
            .field("answer_within", &self.answer_within)
            .field("has_runner", &self.runner.is_some())
            .finish()
    }
}

/// Data that the calls of one step share.
#[derive(Debug)]
pub(crate) struct CallContext {
    /// The response that contains the calls.
    pub(crate) thought: Arc<StepResponse>,
    pub(crate) positions: CallPositions,
    pub(crate) journal: Option<JournalRef>,
    pub(crate) cancel: Arc<CancellationToken>,
    pub(crate) cancel_reason: CancelReason,
    pub(crate) on_interrupted: OnInterrupted,
    pub(crate) on_ask: OnAsk,
    pub(crate) grace: Duration,
    pub(crate) inference: Inference,
    pub(crate) key: IdempotencyKey,
    /// Notes on paused calls that can now continue.
    pub(crate) notes: Vec<CallNote>,
}

/// The positions of the calls among the parts of a response, for direct access.
#[derive(Debug)]
pub(crate) struct CallPositions(Few<usize>);

impl CallPositions {
    pub(crate) fn of(thought: &StepResponse) -> Self {
        let parts = thought.message.parts().iter().enumerate();
        Self(parts.filter_map(|(at, part)| part.as_tool_call().map(|_| at)).collect())
    }
}

/// A journal with a `Debug` implementation.
#[derive(Clone)]
pub(crate) struct JournalRef(pub(crate) Arc<dyn Journal>);

impl std::fmt::Debug for JournalRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

/// The disposition of a call.
#[derive(Debug)]
pub(crate) enum CallDisposition {
    /// The call is ready to run.
    Run(ReadyCall),
    /// The call ended without running.
    Over(Box<FinishedCall>),
    /// The call needs a decision.
    Ask(AskedCall),
    /// The run stops; the call did not run.
    Stop(StopSignal),
}

impl CallDisposition {
    pub(crate) fn over(ended: impl Into<FinishedCall>) -> Self {
        Self::Over(Box::new(ended.into()))
    }

    /// Asks first if the tool of a ready call declares that, unless the call is already decided
    /// about.
    pub(crate) fn unless_asked(self, resolved: bool) -> Self {
        match self {
            Self::Run(ready) if !resolved => match ready.approval() {
                Some(text) => {
                    let question = ApprovalRequest::new(text, Arc::clone(ready.tool.name()));
                    Self::Ask(AskedCall { question, arguments: Some(ready.arguments) })
                }
                None => Self::Run(ready),
            },
            disposition => disposition,
        }
    }

    /// Asks first, unless the call ends without running.
    fn asking(self, question: impl FnOnce() -> ApprovalRequest) -> Self {
        match self {
            Self::Run(ready) => {
                Self::Ask(AskedCall { question: question(), arguments: Some(ready.arguments) })
            }
            disposition => disposition,
        }
    }
}

/// A call that needs a decision.
#[derive(Debug)]
pub(crate) struct AskedCall {
    pub(crate) question: ApprovalRequest,
    /// The arguments that the question is about. `None` means those of the model.
    pub(crate) arguments: Option<Arguments>,
}

/// A call that is ready to run.
#[derive(Debug)]
pub(crate) struct ReadyCall {
    pub(crate) tool: AnyTool,
    pub(crate) arguments: Arguments,
    /// The arguments as a value, unless the tool takes them as written.
    pub(crate) parsed: Option<Value>,
    pub(crate) attempt: u32,
}

fn failed(kind: FailureKind, message: impl Into<String>) -> ToolOutcome {
    ToolOutcome::Failed(Failure::new(kind, message))
}

impl CallContext {
    pub(crate) fn call(&self, index: u16) -> Option<&ToolCall> {
        let position = *self.positions.0.get(usize::from(index))?;
        self.thought.message.parts().get(position)?.as_tool_call()
    }

    /// Returns the question of the tool in its previous attempt.
    pub(crate) fn pause(&self, index: u16) -> Option<&ToolPause> {
        self.notes.iter().find(|it| it.call == index)?.pause.as_deref()
    }

    /// Returns the signal of a decision that stops the run.
    pub(crate) fn rejection(&self, index: u16, reason: &str) -> StopSignal {
        let tool = self.call(index).map(|it| &*it.name).unwrap_or_default();
        StopSignal::requested("user", format!("`{tool}` was denied: {reason}")).into_final()
    }

    pub(crate) fn key(&self, index: u16) -> IdempotencyKey {
        IdempotencyKey { call: Some(index), ..self.key.clone() }
    }

    /// Prepares a call: hooks, the lookup of the tool, its schema, then the approval that it declares.
    pub(crate) async fn prepare(
        &self,
        index: u16,
        resolved: bool,
        edited: Option<Arguments>,
        state: &AgentState,
    ) -> CallDisposition {
        let Some(written) = self.call(index) else {
            return CallDisposition::over(failed(FailureKind::Other, "unknown call"));
        };
        let call = match edited {
            None => Cow::Borrowed(written),
            Some(edited) => {
                Cow::Owned(ToolCall { arguments: Arc::clone(edited.shared()), ..written.clone() })
            }
        };
        let call = &*call;
        if !self.inference.agent.interceptor().contains(HookPoint::BeforeTool) {
            return self.validated(call).unless_asked(resolved);
        }
        let inner = self.inference.scope(false);
        let cx = HookCx { already_approved: resolved, ..self.inference.hook_cx(&inner) };
        let decided = self.inference.agent.interceptor().before_tool(call, state, &cx).await;
        let mut verdict = match decided {
            Err(error) => CallDisposition::over(error),
            Ok(hooks) => self.follow(hooks, resolved),
        };
        if let CallDisposition::Over(ended) = &mut verdict {
            ended.spend += inner.ledger().spend;
        }
        verdict
    }

    fn follow(&self, hooks: CallDecision, resolved: bool) -> CallDisposition {
        let CallDecision { decision, by, call, rewritten_by } = hooks;
        match decision {
            ToolDecision::Run | ToolDecision::Rewrite(_) | ToolDecision::Allow => {
                let ready = self.validated(&call);
                let asked = match decision {
                    ToolDecision::Allow => ready,
                    _ => ready.unless_asked(resolved && rewritten_by.is_none()),
                };
                match rewritten_by.filter(|_| resolved) {
                    Some(hook) => asked.asking(|| {
                        let text = format!(
                            "hook `{hook}` changed the arguments after the call was approved"
                        );
                        ApprovalRequest::new(text, hook)
                    }),
                    None => asked,
                }
            }
            ToolDecision::Answer(output) => CallDisposition::over(ToolOutcome::Returned(output)),
            // A call that could not run anyway is not asked about.
            ToolDecision::Ask(question) => self.validated(&call).asking(|| question),
            ToolDecision::Block { reason } => {
                let ended = FinishedCall::from(ToolOutcome::Blocked { reason });
                CallDisposition::over(FinishedCall { blocked_by: Some(by), ..ended })
            }
            ToolDecision::Stop(signal) => CallDisposition::Stop(signal),
        }
    }

    fn validated(&self, call: &ToolCall) -> CallDisposition {
        self.validate(call, Arguments::new(Arc::clone(&call.arguments)))
    }

    /// Checks that the tool exists, and that the arguments match its schema.
    pub(crate) fn validate(&self, call: &ToolCall, arguments: Arguments) -> CallDisposition {
        match self.check(call, &arguments) {
            Ok((tool, parsed)) => {
                CallDisposition::Run(ReadyCall { tool, arguments, parsed, attempt: 1 })
            }
            Err(outcome) => CallDisposition::over(outcome),
        }
    }

    fn check(
        &self,
        call: &ToolCall,
        to: &Arguments,
    ) -> Result<(AnyTool, Option<Value>), ToolOutcome> {
        let tools = self.inference.agent.tools();
        let tool = tools.get(&call.name).ok_or_else(|| {
            let known: Vec<&str> = tools.names().iter().map(|name| &**name).collect();
            let text = format!("unknown tool `{}`; available: {}", call.name, known.join(", "));
            failed(FailureKind::UnknownTool, text)
        })?;
        if let Some(reason) = tool.withdrawal_reason() {
            return Err(failed(FailureKind::UnknownTool, reason));
        }
        if tool.takes(to.as_str()) {
            return Ok((tool.clone(), None));
        }
        let effective = ToolCall { arguments: Arc::clone(to.shared()), ..call.clone() };
        let parsed = effective.parse_arguments().map_err(|error| {
            failed(
                FailureKind::InvalidArguments,
                format!(
                    "the arguments are not valid JSON: \
                {error}"
                ),
            )
        })?;
        if let Some(violation) = tool.violation(&parsed) {
            let text =
                format!("the arguments do not match the schema of `{}`: {violation}", call.name);
            return Err(failed(FailureKind::InvalidArguments, text));
        }
        Ok((tool.clone(), Some(parsed)))
    }

    /// Runs a call that is ready, unless its outcome is already recorded.
    pub(crate) async fn run(
        &self,
        index: u16,
        mut ready: ReadyCall,
        state: &AgentState,
    ) -> FinishedCall {
        let key = self.key(index);
        if let Some(JournalRef(journal)) = &self.journal {
            match contained(async { journal.lookup(&key).await }).await {
                Ok(EffectRecord::Outcome(outcome)) => return ToolOutcome::clone(&outcome).into(),
                Ok(_) => (),
                Err(error) => {
                    return FinishedCall {
                        journal: Some(Failure::from_error(FailureKind::Journal, &error)),
                        ..ToolOutcome::Skipped { reason: "the journal is unavailable".into() }
                            .into()
                    };
                }
            }
        }
        let clock = &self.inference.env.clock;
        let began = self.inference.events.has_listeners().then(|| clock.monotonic());
        let inner = self.inference.scope_of_call();
        let attempts = ready.attempts();
        // What few calls need has no room in the future of every call.
        let before = if attempts > 1 {
            Box::pin(self.attempts_but_the_last(index, &key, &ready, state, &inner.scope)).await
        } else {
            None
        };
        let mut ended = if let Some(ended) = before {
            ended
        } else {
            self.announce(index, &ready, attempts - 1);
            let arguments = match ready.parsed.take() {
                Some(value) => RawArgs::Value(value),
                None => RawArgs::Text(ready.arguments.as_str()),
            };
            self.attempt(&key, &ready.tool, arguments, state, &inner.scope).await
        };
        ended.has_run = true;
        if ended.signal.is_none()
            && let Some(reason) = self.pause(index).and_then(ToolPause::stop_reason)
        {
            ended.signal = Some(self.rejection(index, reason));
        }
        ended.spend += inner.close();
        ended.duration =
            began.map_or(Duration::ZERO, |began| clock.monotonic().saturating_sub(began));
        if let Some(paused) = &mut ended.pause {
            paused.pause.name_tool(ready.tool.name());
            paused.arguments = Some(ready.arguments);
            return ended;
        }
        ended.arguments = Some(ready.arguments);
        let hooks = self.inference.agent.interceptor();
        if ended.journal.is_some() || !hooks.contains(HookPoint::AfterTool) {
            return ended;
        }
        Box::pin(self.finish(index, ended, state)).await
    }

    /// Runs all attempts of a call except the last. Returns `None` if all of them failed.
    async fn attempts_but_the_last(
        &self,
        index: u16,
        key: &IdempotencyKey,
        ready: &ReadyCall,
        state: &AgentState,
        inner: &Inference,
    ) -> Option<FinishedCall> {
        let mut delay = ready.tool.options().retry.delay;
        for attempt in 0..ready.attempts() - 1 {
            self.announce(index, ready, attempt);
            let arguments = match &ready.parsed {
                Some(value) => RawArgs::Value(value.clone()),
                None => RawArgs::Text(ready.arguments.as_str()),
            };
            let ended = self.attempt(key, &ready.tool, arguments, state, inner).await;
            let failed = matches!(ended.outcome, ToolOutcome::Failed(_)) && ended.signal.is_none();
            if !failed {
                return Some(ended);
            }
            self.inference.env.clock.sleep(delay).await;
            delay = delay.saturating_mul(2);
        }
        None
    }

    fn announce(&self, index: u16, ready: &ReadyCall, attempt: u32) {
        self.inference.events.emit(|| ToolCallStarted {
            step: self.key.step,
            call: index,
            id: self.call(index).and_then(|call| call.id.clone()),
            tool: Arc::clone(ready.tool.name()),
            arguments: Arc::clone(ready.arguments.shared()),
            attempt: ready.attempt + attempt,
        });
    }

    async fn attempt(
        &self,
        key: &IdempotencyKey,
        tool: &AnyTool,
        arguments: RawArgs<'_>,
        state: &AgentState,
        inner: &Inference,
    ) -> FinishedCall {
        let Some(call) = key.call.and_then(|index| self.call(index)) else {
            return failed(FailureKind::Other, "unknown call").into();
        };
        let cx = ToolCx {
            state,
            call,
            key,
            agent: &self.inference.agent,
            meter: &self.inference.meter,
            journal: self.journal.as_ref().map(|it| &it.0),
            cancel: &self.cancel,
            cancel_reason: &self.cancel_reason,
            on_interrupted: self.on_interrupted,
            on_ask: self.on_ask,
            grace: self.grace,
            events: &self.inference.events,
            env: &self.inference.env,
            inference: inner,
            pause: key.call.and_then(|index| self.pause(index)),
        };
        let answer = match &self.inference.agent.executor().runner {
            None => tool.run(arguments, &cx),
            Some(runner) => match arguments.into_value() {
                Ok(arguments) => runner.run(tool, arguments, &cx),
                Err(error) => return ended_by(error),
            },
        };
        let answer = AssertUnwindSafe(answer).catch_unwind();
        let limit = tool.options().timeout.or(self.inference.agent.executor().default_timeout);
        let answer = match limit {
            None => answer.await,
            Some(limit) => {
                let timer = self.inference.env.clock.sleep(limit);
                match select(std::pin::pin!(answer), timer).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right(_) => return timed_out(limit).into(),
                }
            }
        };
        match answer {
            Ok(Ok(output)) => ToolOutcome::Returned(self.bound(output)).into(),
            Ok(Err(error)) => ended_by(error),
            Err(payload) => {
                let text = format!("the tool panicked: {}", panic_message(&*payload));
                failed(FailureKind::Panic, text).into()
            }
        }
    }

    /// Calls hooks with the outcome of a call, whether it ran or not.
    pub(crate) async fn finish(
        &self,
        index: u16,
        mut ended: FinishedCall,
        state: &AgentState,
    ) -> FinishedCall {
        let hooks = self.inference.agent.interceptor();
        let Some(call) = self.call(index).filter(|_| hooks.contains(HookPoint::AfterTool)) else {
            return ended;
        };
        let inner = self.inference.scope(false);
        let cx = self.inference.hook_cx(&inner);
        match hooks.after_tool(call, &mut ended.outcome, state, &cx).await {
            Ok(Flow::Continue) => (),
            Ok(Flow::Stop(signal)) => ended.signal = ended.signal.or(Some(signal)),
            // What the tool did stands; the step fails because of the hook.
            Err(error) => ended.failure = Some(Failure::from(&error)),
        }
        ended.spend += inner.ledger().spend;
        ended
    }

    /// Truncates output that exceeds the limit of the executor.
    fn bound(&self, output: ToolOutput) -> ToolOutput {
        let limit = self.inference.agent.executor().max_output_bytes;
        let size: usize = output.content.iter().filter_map(Part::as_text).map(str::len).sum();
        if size <= limit {
            return output;
        }
        let mut left = limit;
        let mut parts: Vec<Part> = output.content.iter().map(|part| cut(part, &mut left)).collect();
        let note =
            format!("\n[truncated: the tool returned {size} bytes; the first {limit} are shown]");
        parts.push(Part::text(note));
        ToolOutput { content: parts.into(), value: None, ..output }
    }
}

fn cut(part: &Part, left: &mut usize) -> Part {
    let Some(text) = part.as_text() else { return part.clone() };
    let kept = &text[..text.floor_char_boundary(*left)];
    *left -= kept.len();
    if kept.len() == text.len() { part.clone() } else { Part::text(kept) }
}

fn timed_out(limit: Duration) -> ToolOutcome {
    let text = format!("the tool did not finish within {limit:?} and may have taken effect");
    failed(FailureKind::Timeout, text)
}

fn ended_by(error: ToolError) -> FinishedCall {
    match error {
        ToolError::Stop(signal) => {
            let told = ToolOutput::text(format!("The run is being stopped: {}", signal.message));
            FinishedCall { signal: Some(signal), ..ToolOutcome::Returned(told).into() }
        }
        ToolError::Pause(pause) => {
            // What it says if the call cannot wait: the run is being ended.
            let outcome = ToolOutcome::Cancelled { started: true };
            let paused = PausedCall { pause: *pause, arguments: None };
            FinishedCall { pause: Some(Box::new(paused)), ..outcome.into() }
        }
        ToolError::Journal(failure) => {
            FinishedCall { journal: Some(failure), ..ToolOutcome::Unknown.into() }
        }
        ToolError::OutcomeUnknown => ToolOutcome::Unknown.into(),
        ToolError::InvalidArguments(text) => failed(FailureKind::InvalidArguments, text).into(),
        ToolError::Failed(error) => {
            ToolOutcome::Failed(Failure::from_error(FailureKind::Tool, &*error)).into()
        }
    }
}

impl ReadyCall {
    /// Returns the maximum number of attempts, at least one.
    fn attempts(&self) -> u32 {
        let options = self.tool.options();
        let may_repeat =
            matches!(options.side_effects, SideEffects::ReadOnly | SideEffects::Idempotent);
        if may_repeat { options.retry.attempts.max(1) } else { 1 }
    }

    /// Returns the question if the tool declares that the call needs approval.
    fn approval(&self) -> Option<String> {
        self.tool.approval(|| match &self.parsed {
            Some(arguments) => Cow::Borrowed(arguments),
            None => Cow::Owned(serde_json::from_str(self.arguments.as_str()).unwrap_or_default()),
        })
    }

    /// Returns the change to record before the call runs; `None` for calls without effects.
    pub(crate) fn record(&self, index: u16) -> Option<Change> {
        (self.tool.options().side_effects != SideEffects::ReadOnly).then(|| {
            Change::ToolCallStarted {
                call: index,
                attempt: self.attempt,
                arguments: self.arguments.clone(),
            }
        })
    }
}
