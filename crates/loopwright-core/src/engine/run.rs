//! One execution in progress.
//!
//! [`Run`] is a state machine: [`Phase`] is the current point, and each point does one thing and
//! returns the next point. The run itself, and not the future that awaits them, holds pending
//! hooks, a model call, running tools and an append. So `next()` can be dropped at any await: the
//! next call continues the work and starts nothing twice.

mod act;
mod batch;
mod end;
mod halt;
mod open;
mod options;
mod cancel_safe;
mod record;
mod refuse;
mod running;
mod sources;
mod think;
mod time;

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use loopwright_messages::Message;
use tokio_util::sync::CancellationToken;

use self::{
    batch::Batch, cancel_safe::CancelSafe, record::JournalFailed, sources::SourceWatch,
    time::CachedClock,
};
use crate::{
    agent::AgentLoop,
    budget::Spend,
    change::{Change, ChangeRecord},
    continuation::ContinuationOutcome,
    event::{AgentEvent, ContinuationEvaluated, MessageSteered, StepStarted},
    event_bus::EventBus,
    execution::{Execution, ExecutionStatus},
    failure::Failure,
    handle::{CancelReason, Inbox, RunHandle},
    hook::{HookError, HookPoint},
    infer::{Inference, InferenceContext, SharedMemory, SpendTally},
    interceptor::{HookCall, HookOutcome},
    journal::{IdempotencyKey, JournalError},
    meter::BudgetAccount,
    state::AgentState,
    step::{OpenStep, StepResponse},
    step_error::StepError,
    stop::StopSignal,
    trace::Span,
};

pub use self::options::RunOptions;

/// One execution in progress, advanced by its caller.
///
/// Dropping a run ends the model call and the tools that it waits for.
///
/// ```
/// use loopwright_core::{AgentState, RunOptions};
/// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
///
/// let steps = [ScenarioStep::tool("Working."), ScenarioStep::final_answer("Done.")];
/// let agent = test_loop(FakeDriver::steps(steps));
/// block_on(async {
///     let mut run = agent.start(AgentState::new(), RunOptions::default());
///     run.next().await;
///     let paused = run.into_state(); // Stop here; the state can be stored.
///     assert_eq!(paused.step_count(), 1);
///
///     let done = agent.start(paused, RunOptions::default()).finish().await;
///     assert_eq!((done.text().as_str(), done.step_count()), ("Done.", 2));
/// });
/// ```
#[must_use = "a run does nothing until `next` or `finish` is awaited"]
pub struct Run {
    agent: AgentLoop,
    /// Shared with readers, and changed in place while it has no other owner.
    state: Arc<AgentState>,
    options: RunOptions,
    meter: BudgetAccount,
    point: Phase,
    events: EventBus,
    /// Events of changes that are not yet acknowledged.
    pending_events: Vec<AgentEvent>,
    inbox: Arc<Inbox>,
    memory: SharedMemory,
    way: Arc<InferenceContext>,
    /// When the unrecorded active time started.
    lap_began: Duration,
    reading: CachedClock,
    hooks: Option<CancelSafe<HookPass>>,
    thinking: Option<CancelSafe<ThinkResult>>,
    batch: Option<Batch>,
    /// `None` if the agent has no tool sources.
    sources: Option<Box<SourceWatch>>,
    span: Span,
    step_span: Span,
    /// The batch of changes that is being appended to the journal.
    appending: Option<BoxFuture<'static, Result<(), JournalError>>>,
    /// Cancels the tools of a stopped step, but not the run.
    tools: Arc<CancellationToken>,
    /// The reason for that cancellation.
    tools_reason: CancelReason,
    /// Ends processes that tools have left running, once the run ends or is dropped.
    leftovers: CancelOnDrop,
    /// The failure of the step just taken, if it is permanent.
    failure: Option<Failure>,
    /// The number of times that the end was overruled since the last step started.
    vetoes: u32,
    /// Calls whose start no journal acknowledged before this run, in order. They did not start.
    unstarted_calls: Vec<u16>,
    /// Whether hooks were called about the step that just ended.
    has_called_hooks: bool,
    /// Whether a state is ready for the caller.
    state_ready: bool,
    /// Whether the journal failed. Then no further effect, hook or append follows.
    journal_failed: bool,
}

/// A token that fires when it is dropped.
struct CancelOnDrop(CancellationToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The current point of a run: the next thing to do.
#[derive(Clone, Debug)]
enum Phase {
    Open,
    BeforeExecution,
    /// Checks whether anything prevents the step.
    Checkpoint,
    BeforeStep,
    Think,
    Act,
    Recover(Failure),
    AfterStep,
    Decide,
    /// The decision about a stop.
    Stop {
        signal: Option<StopSignal>,
        /// Whether it follows a step, and not an attempt to start one.
        follows_step: bool,
    },
    Close(ExecutionStatus),
    Over,
}

/// The results of the hooks at a point.
struct HookPass {
    state: Arc<AgentState>,
    log: Vec<ChangeRecord>,
    ledger: SpendTally,
    said: Result<HookOutcome, HookError>,
}

/// The result of a driver.
struct ThinkResult {
    thought: Result<StepResponse, StepError>,
    ledger: SpendTally,
    journal: Option<JournalError>,
}

impl Run {
    pub(crate) fn new(agent: AgentLoop, state: AgentState, mut options: RunOptions) -> Self {
        // Whoever cancels this run does not cancel what else its owner's token stands for.
        options.cancel = options.cancel.child_token();
        let inbox = Arc::new(Inbox::new(&options.cancel_reason));
        let way = InferenceContext {
            agent: agent.clone(),
            env: options.env.clone(),
            meter: BudgetAccount::unlimited(),
            cancel: options.cancel.clone(),
            inbox: Arc::downgrade(&inbox),
            events: EventBus::default(),
        };
        let mut unbegun: Vec<u16> =
            state.outbox.changes().filter_map(Change::started_call).collect();
        unbegun.sort_unstable();
        let leftovers = CancelOnDrop(options.cancel.child_token());
        let sources = SourceWatch::new(agent.sources());
        Self {
            tools: Arc::new(leftovers.0.child_token()),
            tools_reason: inbox.cancel_reason.inner(),
            leftovers,
            way: Arc::new(way),
            agent,
            state: Arc::new(state),
            options,
            meter: BudgetAccount::unlimited(),
            point: Phase::Open,
            events: EventBus::default(),
            pending_events: Vec::new(),
            inbox,
            memory: SharedMemory::default(),
            lap_began: Duration::ZERO,
            reading: CachedClock::default(),
            hooks: None,
            thinking: None,
            batch: None,
            sources,
            span: Span::none(),
            step_span: Span::none(),
            appending: None,
            failure: None,
            vetoes: 0,
            unstarted_calls: unbegun,
            has_called_hooks: false,
            state_ready: false,
            journal_failed: false,
        }
    }

    /// Takes the next step and returns the state after it. The step is durable. Returns the final
    /// state once, then `None`.
    ///
    /// Dropping the future pauses the run: the next call continues from there.
    pub async fn next(&mut self) -> Option<&AgentState> {
        self.time_passed();
        if !self.turn().await {
            return None;
        }
        self.note_hooks_called();
        // A step that is handed out is on record. If that fails, the run ends here.
        self.flush().await;
        self.state_ready = false;
        Some(&self.state)
    }

    /// Takes the next step without waiting until it is durable. The journal receives it together
    /// with the start of the next step, in one append, before any further effect. Returns `true` if
    /// a step was taken. The end of a run is durable.
    ///
    /// Dropping the future pauses the run, as with [`next`](Run::next). To stop between two steps,
    /// call [`flush`](Run::flush).
    pub async fn step(&mut self) -> bool {
        self.time_passed();
        let was_taken = self.turn().await;
        self.note_hooks_called();
        if !self.has_more() {
            self.flush().await;
        }
        self.state_ready = false;
        was_taken
    }

    /// Waits until the whole state is durable. If that fails, the run ends and the state records
    /// the failure.
    pub async fn flush(&mut self) {
        let _broken = self.flush_changes().await.is_err();
    }

    fn has_more(&self) -> bool {
        !matches!(self.point, Phase::Over)
    }

    /// Returns `true` if the run has not ended.
    pub fn has_next(&self) -> bool {
        self.state_ready || self.has_more()
    }

    /// Runs to the end and returns the final state.
    #[expect(clippy::manual_async_fn, reason = "an async fn has room for the run twice")]
    pub fn finish(mut self) -> impl Future<Output = AgentState> + Send {
        async move {
            while self.turn().await {
                self.state_ready = false;
            }
            // Where the run was over at once, there may be edits that no journal has.
            self.flush().await;
            Arc::unwrap_or_clone(self.state)
        }
    }

    /// Returns the current state, in the middle of a step if `next` was dropped there.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Returns the state, and ends the work that the run waits for.
    pub fn into_state(mut self) -> AgentState {
        self.time_passed();
        self.drain_inbox_final();
        Arc::unwrap_or_clone(self.state)
    }

    /// Returns a handle to steer and cancel the run.
    ///
    /// ```
    /// use loopwright_core::{AgentState, RunOptions, messages::Message};
    /// use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_loop};
    ///
    /// let steps = [ScenarioStep::tool("Working."), ScenarioStep::final_answer("Done.")];
    /// let agent = test_loop(FakeDriver::steps(steps));
    /// let run = agent.start(AgentState::new().with_user_message("Work."), RunOptions::default());
    /// run.handle().steer(Message::user("Be brief.")).expect("the run takes messages");
    /// let state = block_on(run.finish());
    /// let texts: Vec<String> = state.transcript().iter().map(|turn| turn.message().text()).collect();
    /// assert!(texts.contains(&"Be brief.".to_owned()));
    /// ```
    pub fn handle(&self) -> RunHandle {
        RunHandle { cancel: self.options.cancel.clone(), inbox: Arc::downgrade(&self.inbox) }
    }

    /// Continues until a step or the execution ends; `false` if it had already ended.
    async fn turn(&mut self) -> bool {
        while !self.state_ready {
            match self.advance().await {
                Ok(PhaseResult::Continue) => (),
                Ok(PhaseResult::StepDone | PhaseResult::Finished) | Err(JournalFailed) => {
                    self.state_ready = true;
                }
                Ok(PhaseResult::AlreadyFinished) => return false,
            }
        }
        true
    }

    async fn advance(&mut self) -> Result<PhaseResult, JournalFailed> {
        if self.journal_failed {
            return Ok(PhaseResult::AlreadyFinished);
        }
        if matches!(self.point, Phase::Open) {
            let now = self.now();
            self.state_mut().stamp(now);
        }
        if self.state.outbox.is_sending() {
            self.flush_changes().await?;
        }
        match self.point.clone() {
            Phase::Open => Ok(self.open()),
            Phase::BeforeExecution => self.before_execution().await,
            Phase::Checkpoint => {
                self.update_tools().await;
                Ok(self.checkpoint())
            }
            Phase::BeforeStep => self.before_step().await,
            Phase::Think => self.think().await,
            Phase::Act => self.act().await,
            Phase::Recover(failure) => self.recover(failure).await,
            Phase::AfterStep => self.after_step().await,
            Phase::Decide => Ok(self.decide()),
            Phase::Stop { signal, follows_step } => self.stop(signal, follows_step).await,
            Phase::Close(status) => self.close(status).await,
            Phase::Over => Ok(PhaseResult::AlreadyFinished),
        }
    }

    fn advance_to(&mut self, point: Phase) -> PhaseResult {
        self.point = point;
        PhaseResult::Continue
    }

    async fn before_execution(&mut self) -> Result<PhaseResult, JournalFailed> {
        match self.ask(HookCall::BeforeExecution).await? {
            Ok(_) => Ok(self.advance_to(Phase::Checkpoint)),
            Err(error) => {
                Ok(self.advance_to(Phase::Close(ExecutionStatus::Failed(Failure::from(&error)))))
            }
        }
    }

    /// Checks whether anything prevents the next step.
    fn checkpoint(&mut self) -> PhaseResult {
        // What was not recorded is the time that the caller took between two steps.
        self.start_timing();
        let execution = self.state.execution();
        let open = execution.and_then(|it| it.open_step());
        let (is_again, is_spoken_to) = (open.is_some(), open.is_some_and(OpenStep::is_spoken_to));
        let is_signalled = execution.is_some_and(|it| !it.signals().is_empty());
        let heard = self.drain_inbox();
        if is_again && (heard || is_spoken_to) {
            // What is said while a step is open follows it, and wants another step.
            self.record(asked_by_user());
        } else if heard && is_signalled {
            self.record(Change::StopOverruled);
        }
        if let Some(stop) = self.is_kept_from_stepping() {
            return self.advance_to(stop);
        }
        if is_again {
            return self.begin_step();
        }
        self.say(|run| StepStarted {
            step: run.state.step_count() + 1,
            messages: run.state.transcript().len(),
            tools: Arc::clone(run.agent.tools().names()),
        });
        self.advance_to(Phase::BeforeStep)
    }

    async fn before_step(&mut self) -> Result<PhaseResult, JournalFailed> {
        if !self.agent.interceptor().contains(HookPoint::BeforeStep) {
            return Ok(self.begin_step());
        }
        if let Err(error) = self.ask(HookCall::BeforeStep).await? {
            return Ok(self.fail(Failure::from(&error), Spend::default()));
        }
        Ok(match self.is_kept_from_stepping() {
            Some(stop) => self.advance_to(stop),
            None => self.begin_step(),
        })
    }

    /// Returns the ending that is due before another step, if any.
    fn is_kept_from_stepping(&mut self) -> Option<Phase> {
        self.raise_limits();
        let outcome = self.state.execution()?.checkpoint()?;
        if outcome.should_continue {
            // What was overruled does not count against the step that begins.
            self.record(Change::StopOverruled);
            return None;
        }
        Some(self.ending(outcome, false))
    }

    /// Raises the signals of the run itself: cancellation and the budget.
    fn raise_limits(&mut self) {
        self.note_cancellation();
        self.note_budget();
    }

    fn note_cancellation(&mut self) {
        if self.options.cancel.is_cancelled() {
            let signal = self.inbox.cancel_reason();
            self.signal_once(signal);
        }
    }

    fn note_budget(&mut self) {
        if self.state.budget().is_unlimited() {
            return;
        }
        let (now, working) = (self.now(), self.working());
        let used = self.state.execution().map(|it| it.budget_usage(working)).unwrap_or_default();
        if let Some(signal) = self.state.budget().exhausted_by(used, now) {
            self.signal_once(signal);
        }
    }

    /// Raises a signal unless one with the same reason exists.
    fn signal_once(&mut self, signal: StopSignal) {
        let execution = self.state.execution();
        let has =
            execution.is_some_and(|it| it.signals().iter().any(|it| it.reason == signal.reason));
        if !has {
            self.signal(signal);
        }
    }

    fn ending(&mut self, outcome: ContinuationOutcome, follows_step: bool) -> Phase {
        let signal = self.state.execution().and_then(|it| it.strongest_signal()).cloned();
        let step = self.state.step_count();
        self.say(|_| ContinuationEvaluated { step, outcome });
        Phase::Stop { signal, follows_step }
    }

    /// Takes the messages that were sent to the agent since the last boundary. Returns `true` if
    /// there were any.
    fn drain_inbox(&mut self) -> bool {
        let messages = self.inbox.drain();
        self.take_messages(messages)
    }

    /// Takes the messages at the end of the run. The run that continues the state answers them.
    fn drain_inbox_final(&mut self) {
        let is_open = self.state.execution().is_some_and(|it| it.open_step().is_some());
        let is_early = matches!(
            self.point,
            Phase::Open | Phase::BeforeExecution | Phase::Checkpoint | Phase::BeforeStep
        );
        let messages = self.inbox.close();
        if self.take_messages(messages) && (is_open || !is_early) {
            self.record(asked_by_user());
        }
    }

    fn take_messages(&mut self, messages: VecDeque<Message>) -> bool {
        let mut heard = false;
        for message in messages.into_iter().filter(|it| !it.is_empty()) {
            heard = true;
            let text = message.text();
            self.record(Change::MessageSteered(message));
            self.say(|_| MessageSteered { text });
        }
        heard
    }

    /// Accounts for the last step, and decides whether another one follows.
    fn decide(&mut self) -> PhaseResult {
        if let Some(failure) = self.failure.take() {
            return self.advance_to(Phase::Close(ExecutionStatus::Failed(failure)));
        }
        if self.drain_inbox() {
            self.record(asked_by_user());
        }
        self.note_cancellation();
        let goes_on = |it: &Execution| it.plainly_goes_on() || it.continuation().should_continue;
        if !self.state.budget().is_unlimited() && self.state.execution().is_some_and(goes_on) {
            // What was answered is not stopped by a limit that the answer reached.
            self.note_budget();
        }
        let Some(execution) = self.state.execution() else {
            return self.advance_to(Phase::Close(ExecutionStatus::Completed));
        };
        if execution.plainly_goes_on() && !self.events.has_listeners() {
            self.point = Phase::Checkpoint;
            return PhaseResult::StepDone;
        }
        let outcome = execution.continuation();
        if !outcome.should_continue {
            let ending = self.ending(outcome, true);
            return self.advance_to(ending);
        }
        let step = self.state.step_count();
        self.say(|_| ContinuationEvaluated { step, outcome });
        self.go_on();
        PhaseResult::StepDone
    }

    /// Clears the reasons for and against another step.
    fn go_on(&mut self) {
        let is_clear = self
            .state
            .execution()
            .is_none_or(|it| it.signals().is_empty() && it.continuation_requested_by().is_none());
        if !is_clear {
            self.record(Change::StopOverruled);
        }
        self.point = Phase::Checkpoint;
    }

    /// Returns the access to a model for this step.
    fn inference(&self) -> Inference {
        let open = self.state.execution().and_then(|it| it.open_step());
        Inference {
            way: Arc::clone(&self.way),
            step: open.map_or(self.state.step_count() + 1, OpenStep::number),
            nested: false,
            lap_began: self.lap_began,
            spent: std::sync::Mutex::default(),
        }
    }

    fn inference_context(&self) -> Arc<InferenceContext> {
        Arc::new(InferenceContext {
            agent: self.agent.clone(),
            env: self.options.env.clone(),
            meter: self.meter.clone(),
            cancel: self.options.cancel.clone(),
            inbox: Arc::downgrade(&self.inbox),
            events: self.events.clone(),
        })
    }

    fn key(&self) -> Option<IdempotencyKey> {
        let execution = self.state.execution()?;
        let step = execution.open_step()?.number();
        Some(IdempotencyKey { execution: execution.id().clone(), step, call: None })
    }
}

fn asked_by_user() -> Change {
    Change::ContinuationRequested { by: Arc::from("user") }
}

/// The progress of a run after a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseResult {
    /// The run continues.
    Continue,
    /// A step ended, and another one follows.
    StepDone,
    /// The execution ended just now, or waits.
    Finished,
    /// The execution had already ended.
    AlreadyFinished,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("point", &self.point)
            .field("steps", &self.state.step_count())
            .finish_non_exhaustive()
    }
}
