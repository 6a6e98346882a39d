//! Renews the lease and receives control messages while an agent runs.

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Either, select},
};
use loopwright_core::{AgentState, ExecutionStatus, Run, RunEnv, Timestamp, messages::Message};
use tokio_util::sync::CancellationToken;

use crate::{
    journal::StoreJournal,
    store::{ControlMessage, Lease, Posted, SessionStore, StoreError},
};

/// Renews the lease of a session in use, and receives its control messages.
pub struct RunSupervisor {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) journal: Arc<StoreJournal>,
    pub(crate) env: RunEnv,
    pub(crate) lasts: Duration,
    /// Once it is cancelled, runs are left after the step that is under way.
    pub(crate) leave: CancellationToken,
    /// Messages that no run has heard.
    pub(crate) waiting: Mutex<Vec<Message>>,
    /// Requests to stop or cancel that were sent before the lease was taken.
    pub(crate) earlier: Mutex<Requests>,
    /// Requests that the next run heeds.
    pub(crate) heeded: Mutex<Requests>,
    /// When the lease was taken or renewed last.
    pub(crate) renewed: Mutex<Instant>,
}

/// Requests to stop or cancel, and the messages that were sent after the first of them.
#[derive(Default)]
pub(crate) struct Requests {
    requests: Vec<ControlMessage>,
    /// They wait until the run has ended, and then become part of the conversation.
    following: Vec<Message>,
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits control messages in their order: the messages before the first request, and the rest.
fn at_first_request(posted: Vec<Posted>) -> (Vec<Message>, Requests) {
    let (mut before, mut rest) = (Vec::new(), Requests::default());
    for Posted { control, .. } in posted {
        match control {
            ControlMessage::SendMessage(message) if rest.requests.is_empty() => {
                before.push(message);
            }
            ControlMessage::SendMessage(message) => rest.following.push(message),
            request => rest.requests.push(request),
        }
    }
    (before, rest)
}

/// A moment by both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Instant {
    monotonic: Duration,
    wall: Timestamp,
}

impl Instant {
    pub(crate) fn of(env: &RunEnv) -> Self {
        Self { monotonic: env.clock.monotonic(), wall: env.clock.now() }
    }

    /// Returns `true` if this duration has passed since then. If the time of day was set meanwhile,
    /// it has: where leases end by it, theirs must be written again.
    fn is_due(self, env: &RunEnv, after: Duration) -> bool {
        let now = Self::of(env);
        let passed = now.monotonic.saturating_sub(self.monotonic);
        let (on, back) = (now.wall.since(self.wall), self.wall.since(now.wall));
        passed >= after || back >= after || on.abs_diff(passed) >= after
    }
}

/// How long a control waits at most to be heard.
const HEARD: Duration = Duration::from_millis(500);

/// How often a lease is renewed while it lasts.
const RENEWED: u32 = 3;

impl RunSupervisor {
    /// Takes note of the control messages that were there when the lease was taken. No run heeds the requests among
    /// them, unless [`heed_earlier`](RunSupervisor::heed_earlier) is called.
    pub(crate) fn with_earlier(self, posted: Vec<Posted>) -> Self {
        let (messages, requests) = at_first_request(self.journal.receive(posted));
        self.journal.heed_after(u64::MAX);
        Self { waiting: Mutex::new(messages), earlier: Mutex::new(requests), ..self }
    }

    /// Runs an agent to its end and obeys control messages on the way. On shutdown, the run stops
    /// between two steps, where the next run continues.
    ///
    /// Messages that were sent before the run starts are delivered first. Messages that arrive too
    /// late wait in the store for the next run. Messages sent after a request to stop or cancel
    /// follow the end of the run.
    ///
    /// After a [request to stop](ControlMessage::Stop) no step begins. A request stays in the store until the end of the
    /// execution is durable, so that it is not lost if this process exits first.
    ///
    /// The lease is renewed in time. If that fails, the run continues until its next write, which is
    /// refused; if it is lost for good, or the session was deleted, the run is cancelled.
    pub fn drive(&self, run: Run) -> impl Future<Output = AgentState> + Send {
        // An async fn has room for the run twice.
        self.drive_boxed(Box::new(run))
    }

    pub(crate) async fn drive_boxed(&self, mut run: Box<Run>) -> AgentState {
        let handle = run.handle();
        let (mut is_last_step, mut is_between) = (false, true);
        let mut position = Position::of(run.state());
        let Requests { requests, mut following } = std::mem::take(&mut *locked(&self.heeded));
        let mut controls: Vec<ControlMessage> =
            self.take_waiting().into_iter().map(ControlMessage::SendMessage).collect();
        controls.extend(requests);
        let mut is_to_end = false;
        let mut watch = self.watch();
        loop {
            for control in controls.drain(..) {
                is_to_end |= !matches!(control, ControlMessage::SendMessage(_));
                match control {
                    // A write that keeps it would handle the request before it, too.
                    ControlMessage::SendMessage(message) if is_to_end => following.push(message),
                    ControlMessage::SendMessage(message) => {
                        self.waiting().extend(handle.steer(message).err());
                    }
                    ControlMessage::Stop if position.is_in_step(run.state()) => is_last_step = true,
                    ControlMessage::Stop | ControlMessage::Cancel => handle.cancel(),
                }
            }
            if !run.has_next() || (is_between && self.leave.is_cancelled()) {
                break;
            }
            let is_due = watch.is_due(&self.env);
            // The step continues while the store is asked: it may hold what the store needs to answer.
            // A step that is dropped continues where it was.
            let heard = first(is_due, &mut watch.controls, pin!(run.step())).await;
            is_between = heard.is_none();
            if let Some(heard) = heard {
                controls = heeded(heard);
                watch = self.watch();
            }
            if is_between {
                position = Position::between_steps(run.state());
                if is_last_step {
                    handle.cancel();
                }
            }
        }
        drop(watch);
        run.flush().await;
        let state = run.into_state();
        if *state.status() != ExecutionStatus::InProgress {
            // Requests are for the run that they were sent to, which has ended.
            self.journal.heed_after(u64::MAX);
        }
        if matches!(state.status(), ExecutionStatus::Stopped(_)) {
            return state.with_appended_messages(following);
        }
        self.waiting().append(&mut following);
        state
    }

    /// Renews the lease while an action does other work than a run.
    ///
    /// # Errors
    ///
    /// Returns an error, and drops the work, if the lease is lost or the session was deleted.
    pub async fn keep_lease<T>(&self, work: impl Future<Output = T>) -> Result<T, StoreError> {
        let renewing = async {
            loop {
                self.env.clock.sleep(self.lasts / RENEWED).await;
                // After other errors, it is tried again, and the next write is refused if the lease has ended.
                if let Err(error @ (StoreError::LeaseLost(_) | StoreError::NotFound(_))) =
                    self.renewed_lease().await
                {
                    return error;
                }
            }
        };
        match select(pin!(work), pin!(renewing)).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right((error, _)) => Err(error),
        }
    }

    /// Returns the messages that came as a run ended. Requests to stop or cancel that came after the first of them are
    /// for the next run; those before it are done with.
    pub(crate) async fn late_messages(&self) -> Vec<Message> {
        let mut posted = self.hear().await.unwrap_or_default();
        if self.waiting().is_empty() {
            let is_said = |it: &Posted| matches!(it.control, ControlMessage::SendMessage(_));
            posted.drain(..posted.iter().position(is_said).unwrap_or(posted.len()));
        }
        self.journal.heed_after(posted.first().map_or(u64::MAX, |it| it.number - 1));
        let (mut messages, requests) = at_first_request(posted);
        *locked(&self.heeded) = requests;
        self.waiting().append(&mut messages);
        self.take_waiting()
    }

    /// Returns the messages that no run has heard, for a run that begins with them.
    pub(crate) fn take_waiting(&self) -> Vec<Message> {
        let mut messages = std::mem::take(&mut *self.waiting());
        messages.append(&mut locked(&self.earlier).following);
        messages
    }

    /// Returns `true` if there are messages that no run has heard.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting().is_empty() || !locked(&self.earlier).following.is_empty()
    }

    /// Has the next run heed the requests to stop or cancel that were sent before the lease was taken.
    pub(crate) fn heed_earlier(&self) {
        *locked(&self.heeded) = std::mem::take(&mut *locked(&self.earlier));
        self.journal.heed_after(0);
    }

    fn renewed(&self) -> MutexGuard<'_, Instant> {
        locked(&self.renewed)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Message>> {
        locked(&self.waiting)
    }

    /// Begins to wait for the next look at the store.
    fn watch(&self) -> Watch<'_> {
        let pause = HEARD.min(self.lasts / RENEWED);
        let (clock, due) = (&self.env.clock, self.env.clock.monotonic().saturating_add(pause));
        let mut sleep = clock.sleep(pause);
        // Steps that never wait give no timer a chance to fire.
        let pause = poll_fn(move |cx| {
            let is_due = clock.monotonic() >= due;
            if is_due { Poll::Ready(()) } else { sleep.poll_unpin(cx) }
        });
        let controls = async move {
            pause.await;
            self.hear().await
        };
        Watch { due, controls: Box::pin(controls) }
    }

    /// Returns what others newly want; renews the lease when it is time.
    async fn hear(&self) -> Result<Vec<Posted>, StoreError> {
        let Some(lease) = self.renewed_lease().await? else { return Ok(Vec::new()) };
        Ok(self.journal.receive(self.store.take_control(&lease).await?))
    }

    /// Returns the lease, which is renewed if it is time.
    async fn renewed_lease(&self) -> Result<Option<Lease>, StoreError> {
        let Some(mut lease) = self.journal.lease() else { return Ok(None) };
        if self.renewed().is_due(&self.env, self.lasts / RENEWED) {
            let began = Instant::of(&self.env);
            lease = self.store.renew(&lease, began.wall, self.lasts).await?;
            self.journal.set_lease(lease.clone());
            self.journal.renew_subagents(began.wall).await;
            *self.renewed() = began;
        }
        Ok(Some(lease))
    }
}

/// The last known position between two steps.
struct Position {
    /// The number of steps that had ended there, in all executions. `None` means that the run continues an execution whose
    /// last step may want an end: its hooks may not have been called.
    ended: Option<u64>,
}

impl Position {
    /// Returns the position of a run that starts with this state.
    fn of(state: &AgentState) -> Self {
        let is_after_step = state.is_interrupted() && state.step_count() > 0;
        Self { ended: (!is_after_step).then(|| state.total_steps()) }
    }

    fn between_steps(state: &AgentState) -> Self {
        Self { ended: Some(state.total_steps()) }
    }

    /// Returns `true` if a step has begun since then, and perhaps has to be decided about.
    fn is_in_step(&self, state: &AgentState) -> bool {
        let is_open = state.execution().is_some_and(|it| it.open_step().is_some());
        is_open || self.ended != Some(state.total_steps())
    }
}

/// The next look at the store. It continues from step to step, so that it comes however short these are.
struct Watch<'a> {
    /// When, in monotonic time.
    due: Duration,
    /// Waits until then, renews the lease if need be and returns the control messages.
    controls: BoxFuture<'a, Result<Vec<Posted>, StoreError>>,
}

impl Watch<'_> {
    fn is_due(&self, env: &RunEnv) -> bool {
        env.clock.monotonic() >= self.due
    }
}

/// Waits for `controls` or the step, and returns what the former came back with if it came first. If it is due,
/// it comes first even if no step ever waits.
async fn first<T>(
    is_due: bool,
    controls: impl Future<Output = T> + Unpin,
    step: impl Future + Unpin,
) -> Option<T> {
    if is_due {
        match select(controls, step).await {
            Either::Left((heard, _)) => Some(heard),
            Either::Right(_) => None,
        }
    } else {
        match select(step, controls).await {
            Either::Left(_) => None,
            Either::Right((heard, _)) => Some(heard),
        }
    }
}

/// Returns the control messages. A caller that lost the right to write, because the session is gone or another process holds
/// it, cannot keep what it does: it is to stop.
fn heeded(heard: Result<Vec<Posted>, StoreError>) -> Vec<ControlMessage> {
    match heard {
        Err(StoreError::LeaseLost(_) | StoreError::NotFound(_)) => vec![ControlMessage::Cancel],
        heard => heard.unwrap_or_default().into_iter().map(|it| it.control).collect(),
    }
}

impl fmt::Debug for RunSupervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunSupervisor").field(&self.journal.lease()).finish()
    }
}
