//! One execution in progress.
//!
//! [`Run`] is a machine: [`Point`] says where it stands, each point does one thing and says which
//! point is next. Hooks, a thought, running tools and an append that are awaited are kept in the run
//! and not in the future that awaits them. So `next()` may be dropped at any await: the next call goes
//! on with what was begun and begins nothing twice.

mod act;
mod end;
mod halt;
mod handle;
mod open;
mod options;
mod parked;
mod record;
mod running;
mod think;
mod time;

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use loopwright_messages::Message;
use tokio_util::sync::CancellationToken;

use self::{act::Batch, parked::Parked, record::Broken, time::Reading};
use crate::{
    agent_loop::AgentLoop,
    budget::Spend,
    change::{Change, Stamped},
    continuation::ContinuationOutcome,
    driver::StepError,
    event::{AgentEvent, ContinuationEvaluated, Steered, StepStarted},
    events::Events,
    execution::{Execution, Status},
    failure::Failure,
    hook::HookPoint,
    infer::{Inference, Ledger, SharedMemory, Way},
    interceptor::{Ask, HookError, Word},
    journal::{EffectKey, JournalError},
    meter::Meter,
    state::AgentState,
    step::{OpenStep, Thought},
    stop::StopSignal,
};

pub(crate) use self::handle::Inbox;
pub use self::{
    handle::RunHandle,
    options::{Interrupted, RunOptions},
};

/// One execution in progress, advanced by its caller.
///
/// Dropping a run ends the model call and the tools that it is waiting for.
#[must_use = "a run does nothing until `next` or `finish` is awaited"]
pub struct Run {
    agent: AgentLoop,
    /// Shared with whoever looks at it, and changed where it is as long as nobody does.
    state: Arc<AgentState>,
    options: RunOptions,
    meter: Meter,
    point: Point,
    events: Events,
    /// Events of changes that are not yet acknowledged.
    unsaid: Vec<AgentEvent>,
    inbox: Arc<Inbox>,
    memory: SharedMemory,
    way: Arc<Way>,
    /// When what is worked and not recorded began.
    lap_began: Duration,
    reading: Reading,
    hooks: Option<Parked<Round>>,
    thinking: Option<Parked<Thinking>>,
    batch: Option<Batch>,
    /// The batch of changes that is on its way to the journal.
    appending: Option<BoxFuture<'static, Result<(), JournalError>>>,
    /// Ends the tools of a step that is stopped, and not the run.
    tools: Arc<CancellationToken>,
    /// Ends what tools have left running, once the run is over or dropped.
    leftovers: Leftovers,
    /// Why the step that was just taken failed for good.
    failure: Option<Failure>,
    /// How often an ending was overruled since the last step began.
    vetoes: u32,
    /// Calls whose beginning no journal acknowledged before this run, in order: they did not begin.
    unbegun: Vec<u16>,
    /// Whether hooks were called about the step that was just closed.
    has_called_hooks: bool,
    /// Whether a state is to be handed out.
    is_due: bool,
    /// Whether the journal failed: there is no further effect, hook or append.
    is_broken: bool,
}

/// Fires when it is dropped.
struct Leftovers(CancellationToken);

impl Drop for Leftovers {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Where a run stands: what is to be done next.
#[derive(Clone, Debug)]
enum Point {
    Open,
    BeforeExecution,
    /// Nothing has kept the step from beginning yet.
    Checkpoint,
    BeforeStep,
    Think,
    Act,
    Recover(Failure),
    AfterStep,
    Decide,
    /// The last word on an ending.
    Stop {
        signal: Option<StopSignal>,
        /// Whether it follows a step, and not an attempt to begin one.
        follows_step: bool,
    },
    Close(Status),
    Over,
}

/// What hooks of a point did.
struct Round {
    state: Arc<AgentState>,
    log: Vec<Stamped>,
    ledger: Ledger,
    said: Result<Word, HookError>,
}

/// What a driver came back with.
struct Thinking {
    thought: Result<Thought, StepError>,
    ledger: Ledger,
    journal: Option<JournalError>,
}

impl Run {
    pub(crate) fn new(agent: AgentLoop, state: AgentState, mut options: RunOptions) -> Self {
        // Whoever cancels this run does not cancel what else its owner's token stands for.
        options.cancel = options.cancel.child_token();
        let inbox = Arc::<Inbox>::default();
        let way = Way {
            agent: agent.clone(),
            env: options.env.clone(),
            meter: Meter::unlimited(),
            cancel: options.cancel.clone(),
            inbox: Arc::downgrade(&inbox),
            events: Events::default(),
        };
        let mut unbegun: Vec<u16> =
            state.outbox.changes().filter_map(Change::started_call).collect();
        unbegun.sort_unstable();
        let leftovers = Leftovers(options.cancel.child_token());
        Self {
            tools: Arc::new(leftovers.0.child_token()),
            leftovers,
            way: Arc::new(way),
            agent,
            state: Arc::new(state),
            options,
            meter: Meter::unlimited(),
            point: Point::Open,
            events: Events::default(),
            unsaid: Vec::new(),
            inbox,
            memory: SharedMemory::default(),
            lap_began: Duration::ZERO,
            reading: Reading::default(),
            hooks: None,
            thinking: None,
            batch: None,
            appending: None,
            failure: None,
            vetoes: 0,
            unbegun,
            has_called_hooks: false,
            is_due: false,
            is_broken: false,
        }
    }

    /// Takes the next step and returns the state after it; what it says is on record. The final state
    /// is returned once; after it there is `None`.
    ///
    /// Dropping the future pauses the run: the next call goes on where this one was.
    pub async fn next(&mut self) -> Option<&AgentState> {
        self.time_passed();
        if !self.turn().await {
            return None;
        }
        self.note_hooks_called();
        // A step that is handed out is on record. If that fails, the run ends here.
        self.keep().await;
        self.is_due = false;
        Some(&self.state)
    }

    /// Takes the next step without waiting until what it says is on record: that goes with the beginning of
    /// the next one, in one append, before there is another effect. Tells whether there was a step; the end
    /// of a run is on record.
    ///
    /// Dropping the future pauses the run, as with [`next`](Run::next). Whoever stops between two steps
    /// calls [`keep`](Run::keep).
    pub async fn step(&mut self) -> bool {
        self.time_passed();
        let was_taken = self.turn().await;
        self.note_hooks_called();
        if !self.has_more() {
            self.keep().await;
        }
        self.is_due = false;
        was_taken
    }

    /// Waits until everything that is part of the state is on record. If that fails, the run is over, and
    /// the state says so.
    pub async fn keep(&mut self) {
        let _broken = self.flush().await.is_err();
    }

    fn has_more(&self) -> bool {
        !matches!(self.point, Point::Over)
    }

    /// Tells whether there is anything left to do.
    pub fn has_next(&self) -> bool {
        self.is_due || self.has_more()
    }

    /// Runs to the end and returns the final state.
    #[expect(clippy::manual_async_fn, reason = "an async fn has room for the run twice")]
    pub fn finish(mut self) -> impl Future<Output = AgentState> + Send {
        async move {
            while self.turn().await {
                self.is_due = false;
            }
            // Where the run was over at once, there may be edits that no journal has.
            self.keep().await;
            Arc::unwrap_or_clone(self.state)
        }
    }

    /// Returns the state as it is now, in the middle of a step if `next` was dropped there.
    pub fn state(&self) -> &AgentState {
        &self.state
    }

    /// Gives the state back, and ends what the run was waiting for.
    pub fn into_state(mut self) -> AgentState {
        self.time_passed();
        self.hear_the_last();
        Arc::unwrap_or_clone(self.state)
    }

    /// Returns a handle to steer and cancel the run with.
    pub fn handle(&self) -> RunHandle {
        RunHandle { cancel: self.options.cancel.clone(), inbox: Arc::downgrade(&self.inbox) }
    }

    /// Goes on until a step is over or the execution ended; `false` if it had ended before.
    async fn turn(&mut self) -> bool {
        while !self.is_due {
            match self.advance().await {
                Ok(Turn::On) => (),
                Ok(Turn::Step | Turn::Over) | Err(Broken) => self.is_due = true,
                Ok(Turn::Nothing) => return false,
            }
        }
        true
    }

    async fn advance(&mut self) -> Result<Turn, Broken> {
        if self.is_broken {
            return Ok(Turn::Nothing);
        }
        if matches!(self.point, Point::Open) {
            let now = self.now();
            self.state_mut().stamp(now);
        }
        if self.state.outbox.is_sending() {
            self.flush().await?;
        }
        match self.point.clone() {
            Point::Open => Ok(self.open()),
            Point::BeforeExecution => self.before_execution().await,
            Point::Checkpoint => Ok(self.checkpoint()),
            Point::BeforeStep => self.before_step().await,
            Point::Think => self.think().await,
            Point::Act => self.act().await,
            Point::Recover(failure) => self.recover(failure).await,
            Point::AfterStep => self.after_step().await,
            Point::Decide => Ok(self.decide()),
            Point::Stop { signal, follows_step } => self.stop(signal, follows_step).await,
            Point::Close(status) => self.close(status).await,
            Point::Over => Ok(Turn::Nothing),
        }
    }

    fn go(&mut self, point: Point) -> Turn {
        self.point = point;
        Turn::On
    }

    async fn before_execution(&mut self) -> Result<Turn, Broken> {
        match self.ask(Ask::BeforeExecution).await? {
            Ok(_) => Ok(self.go(Point::Checkpoint)),
            Err(error) => Ok(self.go(Point::Close(Status::Failed(Failure::from(&error))))),
        }
    }

    /// Looks whether anything keeps the step from beginning.
    fn checkpoint(&mut self) -> Turn {
        // What was not recorded is the time that the caller took between two steps.
        self.start_timing();
        let execution = self.state.execution();
        let is_again = execution.is_some_and(|it| it.open_step().is_some());
        let is_signalled = execution.is_some_and(|it| !it.signals().is_empty());
        let heard = self.hear();
        if heard && is_again {
            // What is said while a step is open follows it, and wants another step.
            self.record(asked_by_user());
        } else if heard && is_signalled {
            self.record(Change::Continued);
        }
        if let Some(stop) = self.is_kept_from_stepping() {
            return self.go(stop);
        }
        if is_again {
            return self.begin_step();
        }
        self.say(|run| StepStarted {
            step: run.state.step_count() + 1,
            messages: run.state.transcript().len(),
            tools: Arc::clone(run.agent.tools().names()),
        });
        self.go(Point::BeforeStep)
    }

    async fn before_step(&mut self) -> Result<Turn, Broken> {
        if !self.agent.interceptor().has(HookPoint::BeforeStep) {
            return Ok(self.begin_step());
        }
        if let Err(error) = self.ask(Ask::BeforeStep).await? {
            return Ok(self.fail(Failure::from(&error), Spend::default()));
        }
        Ok(match self.is_kept_from_stepping() {
            Some(stop) => self.go(stop),
            None => self.begin_step(),
        })
    }

    /// Returns the ending that is due before another step, if one is.
    fn is_kept_from_stepping(&mut self) -> Option<Point> {
        self.note_limits();
        let outcome = self.state.execution()?.checkpoint()?;
        if outcome.should_continue {
            // What was overruled does not count against the step that begins.
            self.record(Change::Continued);
            return None;
        }
        Some(self.ending(outcome, false))
    }

    /// Raises the signals that are not anybody's: cancellation and the budget.
    fn note_limits(&mut self) {
        self.note_cancellation();
        self.note_budget();
    }

    fn note_cancellation(&mut self) {
        if self.options.cancel.is_cancelled() {
            let why = self.inbox.why();
            self.signal_once(why);
        }
    }

    fn note_budget(&mut self) {
        if self.state.budget().is_unlimited() {
            return;
        }
        let (now, working) = (self.now(), self.working());
        let used = self.state.execution().map(|it| it.used(working)).unwrap_or_default();
        if let Some(signal) = self.state.budget().exhausted_by(used, now) {
            self.signal_once(signal);
        }
    }

    /// Raises a signal unless there is one with its reason.
    fn signal_once(&mut self, signal: StopSignal) {
        let execution = self.state.execution();
        let has =
            execution.is_some_and(|it| it.signals().iter().any(|it| it.reason == signal.reason));
        if !has {
            self.signal(signal);
        }
    }

    fn ending(&mut self, outcome: ContinuationOutcome, follows_step: bool) -> Point {
        let signal = self.state.execution().and_then(|it| it.strongest_signal()).cloned();
        let step = self.state.step_count();
        self.say(|_| ContinuationEvaluated { step, outcome });
        Point::Stop { signal, follows_step }
    }

    /// Takes over what was said to the agent since the last boundary; tells whether there was any.
    fn hear(&mut self) -> bool {
        let messages = self.inbox.drain();
        self.take_messages(messages)
    }

    /// Takes over what was said when the run goes no further. Whoever goes on with the state answers
    /// it.
    fn hear_the_last(&mut self) {
        let is_open = self.state.execution().is_some_and(|it| it.open_step().is_some());
        let is_early = matches!(
            self.point,
            Point::Open | Point::BeforeExecution | Point::Checkpoint | Point::BeforeStep
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
            self.record(Change::Steered(message));
            self.say(|_| Steered { text });
        }
        heard
    }

    /// Takes the last step into account, and decides whether another one follows.
    fn decide(&mut self) -> Turn {
        if let Some(failure) = self.failure.take() {
            return self.go(Point::Close(Status::Failed(failure)));
        }
        if self.hear() {
            self.record(asked_by_user());
        }
        self.note_cancellation();
        let goes_on = |it: &Execution| it.plainly_goes_on() || it.continuation().should_continue;
        if !self.state.budget().is_unlimited() && self.state.execution().is_some_and(goes_on) {
            // What was answered is not stopped by a limit that the answer reached.
            self.note_budget();
        }
        let Some(execution) = self.state.execution() else {
            return self.go(Point::Close(Status::Completed));
        };
        if execution.plainly_goes_on() && !self.events.has_listeners() {
            self.point = Point::Checkpoint;
            return Turn::Step;
        }
        let outcome = execution.continuation();
        if !outcome.should_continue {
            let ending = self.ending(outcome, true);
            return self.go(ending);
        }
        let step = self.state.step_count();
        self.say(|_| ContinuationEvaluated { step, outcome });
        self.go_on();
        Turn::Step
    }

    /// Clears what stood against another step, and what asked for it.
    fn go_on(&mut self) {
        let is_clear = self
            .state
            .execution()
            .is_none_or(|it| it.signals().is_empty() && it.continuation_requested_by().is_none());
        if !is_clear {
            self.record(Change::Continued);
        }
        self.point = Point::Checkpoint;
    }

    /// Returns the way to a model for this step.
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

    fn make_way(&self) -> Arc<Way> {
        Arc::new(Way {
            agent: self.agent.clone(),
            env: self.options.env.clone(),
            meter: self.meter.clone(),
            cancel: self.options.cancel.clone(),
            inbox: Arc::downgrade(&self.inbox),
            events: self.events.clone(),
        })
    }

    fn key(&self) -> Option<EffectKey> {
        let execution = self.state.execution()?;
        let step = execution.open_step()?.number();
        Some(EffectKey { execution: execution.id().clone(), step, call: None })
    }
}

fn asked_by_user() -> Change {
    Change::ContinuationRequested { by: Arc::from("user") }
}

/// How far a point has brought the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// There is more to do.
    On,
    /// A step is over, and another one follows.
    Step,
    /// The execution ended just now, or waits.
    Over,
    /// It had ended before.
    Nothing,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("point", &self.point)
            .field("steps", &self.state.step_count())
            .finish_non_exhaustive()
    }
}
