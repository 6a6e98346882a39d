use std::{
    future::pending,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_broadcast::BroadcastConfig;
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, CallableHook, Clock, ExecutionStatus,
    Interceptor, ModelError, ModelErrorKind, RunEnv, SideEffects, Timestamp, ToolDecision,
    ToolOptions, ToolOutput,
    messages::{Message, TurnBody},
};
use loopwright_sessions::{
    ClaimRequest, ContinueRun, ControlMessage, DecideCall, EventFollower, FollowEvent, Job,
    JobOutcome, JobQueue, JobRecord, JobStatus, MemoryStore, NewSession, SessionHeader, SessionId,
    SessionLog, SessionRepository, SessionRuntime, SessionStore as _,
};
use loopwright_store_sql::SqliteStore;
use loopwright_testing::{FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, test_loop};
use loopwright_worker::{
    JobCounts, JobSignal, NoQueue, OnIdle, Worker, WorkerEvent, WorkerOptions,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) struct Same(pub(crate) AgentLoop);

impl LoopFactory for Same {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.0.clone())
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<SqliteStore>,
    _folder: TempDir,
}

impl World {
    pub(crate) async fn with(sessions: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap());
        for name in sessions {
            let header =
                &SessionHeader::new(id(name), "agent", FrozenClock::new().env(0).clock.now());
            let definition = &AgentDefinition::new("agent", "works", "You work.");
            store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
        }
        Self { store, _folder: folder }
    }

    pub(crate) fn queue(&self) -> &dyn JobQueue {
        self.store.jobs().unwrap()
    }

    pub(crate) async fn push(&self, session: &str, text: &str) -> Job {
        let job = Job::send_message(id(session), Message::user(text));
        let now = FrozenClock::new().env(0).clock.now();
        assert!(self.queue().push(&job, now).await.unwrap());
        job
    }

    pub(crate) fn worker(&self, agent: &AgentLoop) -> Worker {
        let options = WorkerOptions { on_idle: OnIdle::Exit, ..WorkerOptions::default() };
        let worker = Worker::new(Arc::clone(&self.store) as _, Same(agent.clone())).unwrap();
        worker.with_options(options)
    }

    /// Works until nothing is left to do.
    async fn work(&self, agent: &AgentLoop) -> JobCounts {
        let worker = self.worker(agent).with_env(FrozenClock::new().env(0));
        worker.run(&CancellationToken::new()).await
    }

    pub(crate) async fn record(&self, job: &Job) -> JobRecord {
        self.queue().job(&job.id).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, session: &str) -> AgentState {
        let repository = SessionRepository::new(Arc::clone(&self.store) as _);
        repository.load(&id(session)).await.unwrap().state().clone()
    }

    pub(crate) async fn said(&self, session: &str) -> Vec<String> {
        let state = self.state(session).await;
        state.transcript().iter().map(|turn| turn.message().text()).collect()
    }
}

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn agent(model: &FakeModel) -> AgentLoop {
    test_loop(ModelDriver::new(model.clone()))
}

#[test]
fn a_store_without_a_queue_is_refused() {
    let agent = Same(agent(&FakeModel::echo()));
    let refused = Worker::new(Arc::new(MemoryStore::new()), agent).unwrap_err();
    assert_eq!(refused, NoQueue);
}

#[tokio::test]
async fn jobs_of_a_session_are_answered_in_their_order() {
    let world = World::with(&["a", "b"]).await;
    for (session, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
        world.push(session, text).await;
    }
    let model = FakeModel::script(["x", "y", "z"].map(ScenarioStep::final_answer));
    let tally = world.work(&agent(&model)).await;
    assert_eq!(tally, JobCounts { completed: 3, ..JobCounts::default() });
    assert_eq!(world.said("a").await, ["1", "x", "3", "z"]);
    assert_eq!(world.said("b").await, ["2", "y"]);
}

#[tokio::test]
async fn a_reader_of_a_session_with_a_queued_job_waits_for_its_run() {
    let world = World::with(&["a"]).await;
    let work = async || {
        // What is told is kept while the run continues, which takes time.
        let worker = world.worker(&agent(&FakeModel::echo()));
        let worker = worker.with_event_log(BroadcastConfig::minimal());
        worker.run(&CancellationToken::new()).await;
    };
    world.push("a", "1").await;
    work().await;
    let notes = world.store.read_log(&id("a"), SessionLog::Events, 0, 99).await.unwrap();
    let last = notes.last().unwrap().number;
    let (store, clock) = (Arc::clone(&world.store) as _, Arc::new(FrozenClock::new()));
    let mut reader = EventFollower::of(store, clock, id("a"), last).await.unwrap();
    let wait = Duration::from_secs(1);
    assert_eq!(reader.next_run(wait).await.unwrap(), FollowEvent::Ended);
    world.push("a", "2").await;
    assert_eq!(reader.next_run(wait).await.unwrap(), FollowEvent::Timeout);
    // A job may end without a run.
    let (queue, now) = (world.store.jobs().unwrap(), Timestamp::from_millis(1 << 50));
    let claimed = queue.claim(ClaimRequest::new("another", now, wait)).await.unwrap().unwrap();
    assert_eq!(reader.next_run(wait).await.unwrap(), FollowEvent::Timeout);
    assert!(queue.settle(&claimed, &JobOutcome::Failed("refused".into()), now).await.unwrap());
    assert_eq!(reader.next_run(wait).await.unwrap(), FollowEvent::Ended);
    // One that starts much later is nothing to wait for.
    let later = Job::resume(id("a")).with_start_at(Timestamp::from_millis(1 << 52));
    assert!(queue.push(&later, now).await.unwrap());
    assert_eq!(reader.next_run(wait).await.unwrap(), FollowEvent::Ended);
    world.push("a", "3").await;
    work().await;
    assert!(matches!(reader.next(wait).await.unwrap(), FollowEvent::Entry(_)));
}

#[tokio::test]
async fn a_transient_failure_is_retried_without_repeating_the_message() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let asked = AtomicUsize::new(0);
    let model = FakeModel::from_fn(move |_| match asked.fetch_add(1, SeqCst) {
        0 | 1 => Err(ModelError::new(ModelErrorKind::Network, "the cable is out")),
        _ => ScenarioStep::final_answer("hello").to_response(),
    });
    let tally = world.work(&agent(&model)).await;
    assert_eq!(tally, JobCounts { completed: 1, retried: 2, ..JobCounts::default() });
    assert_eq!(world.said("a").await, ["hi", "hello"]);
    let record = world.record(&job).await;
    assert_eq!((record.status, record.attempts, record.reason), (JobStatus::Completed, 2, None));
}

#[tokio::test]
async fn a_refused_job_is_not_retried() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let model = FakeModel::from_fn(|_| Err(ModelError::new(ModelErrorKind::Auth, "wrong key")));
    let tally = world.work(&agent(&model)).await;
    assert_eq!(tally, JobCounts { failed: 1, ..JobCounts::default() });
    let record = world.record(&job).await;
    assert_eq!((record.status, record.claims), (JobStatus::Failed, 1));
    assert!(record.reason.unwrap().contains("wrong key"));
}

#[tokio::test]
async fn a_job_that_workers_die_of_is_given_up() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let now = FrozenClock::new().env(0).clock.now();
    for _ in 0..WorkerOptions::default().max_crashes {
        let lasts = WorkerOptions::default().lease_ttl;
        assert!(
            world.queue().claim(ClaimRequest::new("gone", now, lasts)).await.unwrap().is_some()
        );
        assert_eq!(world.queue().release_all("gone", now).await.unwrap(), 1);
    }
    let tally = world.work(&agent(&FakeModel::echo())).await;
    assert_eq!(tally, JobCounts { failed: 1, ..JobCounts::default() });
    let reason = world.record(&job).await.reason.unwrap();
    assert_eq!(&*reason, "gave up: 20 workers died while processing the job");
}

/// An agent that works twice before it answers, and lets something happen as it works.
fn working(happens: impl Fn() + Send + Sync + 'static) -> (AgentLoop, FakeModel) {
    let tool = MockTool::new("work", "", move |_| {
        happens();
        Ok::<_, String>("worked")
    });
    let call = || ScenarioStep::tool_call("work", json!({}));
    let script = [call(), call(), ScenarioStep::final_answer("done")];
    // The question is one turn, and each step makes one.
    let model = FakeModel::script_by(|request| request.prompt.turns.len() - 1, script);
    (agent(&model).with_tool(tool), model)
}

#[tokio::test]
async fn a_worker_that_drains_ends_its_step_and_leaves_the_rest_to_another_one() {
    let world = World::with(&["a", "b"]).await;
    let (job, other) = (world.push("a", "hi").await, world.push("b", "hi").await);
    let drain = CancellationToken::new();
    let drains = drain.clone();
    let (agent, model) = working(move || drains.cancel());
    let tally = world.worker(&agent).run(&drain).await;
    assert_eq!((tally, model.asked()), (JobCounts { released: 1, ..JobCounts::default() }, 1));
    let state = world.state("a").await;
    assert_eq!((state.status(), state.step_count()), (&ExecutionStatus::InProgress, 1));
    let found = [world.record(&job).await, world.record(&other).await];
    let found = found.map(|it| (it.status, it.claims, it.crashes));
    assert_eq!(found, [(JobStatus::Queued, 1, 0), (JobStatus::Queued, 0, 0)]);
    // Another one continues after the step.
    let tally = world.worker(&agent).run(&CancellationToken::new()).await;
    assert_eq!((tally, model.asked()), (JobCounts { completed: 2, ..JobCounts::default() }, 6));
    assert_eq!(world.state("a").await.execution_count(), 1);
}

/// Lets a worker leave a job after its first step, and posts a control message that it does not receive any more.
async fn left_with(control: &ControlMessage) -> (World, Job, AgentLoop, FakeModel) {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let drain = CancellationToken::new();
    let drains = drain.clone();
    let (agent, model) = working(move || drains.cancel());
    let tally = world.worker(&agent).run(&drain).await;
    assert_eq!((tally, model.asked()), (JobCounts { released: 1, ..JobCounts::default() }, 1));
    world.store.send_control(&id("a"), control).await.unwrap();
    (world, job, agent, model)
}

#[tokio::test]
async fn a_request_to_stop_that_its_worker_could_not_heed_stops_the_next_one_with_the_job() {
    for control in [ControlMessage::Stop, ControlMessage::Cancel] {
        let (world, job, agent, model) = left_with(&control).await;
        let tally = world.worker(&agent).run(&CancellationToken::new()).await;
        let stopped = JobCounts { stopped: 1, ..JobCounts::default() };
        // No step was in progress, and none began.
        assert_eq!((tally, model.asked()), (stopped, 1), "{control:?}");
        assert_eq!(world.record(&job).await.status, JobStatus::Stopped, "{control:?}");
        // It was for that job only.
        world.push("a", "and now?").await;
        let tally = world.worker(&agent).run(&CancellationToken::new()).await;
        assert_eq!(tally, JobCounts { completed: 1, ..JobCounts::default() }, "{control:?}");
        assert!(
            matches!(world.state("a").await.status(), ExecutionStatus::Completed),
            "{control:?}"
        );
    }
}

#[tokio::test]
async fn a_request_to_stop_that_a_dead_worker_could_not_heed_stops_the_next_one_with_the_job() {
    let world = World::with(&["a"]).await;
    world.push("a", "hi").await;
    let now = FrozenClock::new().env(0).clock.now();
    let lasts = WorkerOptions::default().lease_ttl;
    assert!(world.queue().claim(ClaimRequest::new("gone", now, lasts)).await.unwrap().is_some());
    world.store.send_control(&id("a"), &ControlMessage::Cancel).await.unwrap();
    assert_eq!(world.queue().release_all("gone", now).await.unwrap(), 1);
    let tally = world.work(&agent(&FakeModel::echo())).await;
    assert_eq!(tally, JobCounts { stopped: 1, ..JobCounts::default() });
}

#[tokio::test]
async fn a_request_to_stop_an_earlier_run_stops_no_job() {
    let world = World::with(&["a"]).await;
    world.store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
    world.push("a", "hi").await;
    let tally = world.work(&agent(&FakeModel::echo())).await;
    assert_eq!(tally, JobCounts { completed: 1, ..JobCounts::default() });
}

#[tokio::test]
async fn as_many_jobs_run_at_once_as_it_is_said() {
    let names: Vec<String> = (0..6).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::with(&names).await;
    for name in &names {
        world.push(name, "hi").await;
    }
    let running = Arc::new(Mutex::new((0_usize, 0_usize)));
    let heard = Arc::clone(&running);
    let options = WorkerOptions {
        concurrency: NonZeroUsize::new(3).unwrap(),
        on_idle: OnIdle::Exit,
        ..WorkerOptions::default()
    };
    let worker = world.worker(&agent(&FakeModel::echo())).with_options(options);
    let worker = worker.with_listener(move |event: &WorkerEvent| {
        let mut running = heard.lock().unwrap();
        match event {
            WorkerEvent::JobStarted(_) => running.0 += 1,
            _ => running.0 -= 1,
        }
        running.1 = running.1.max(running.0);
    });
    let tally = worker.run(&CancellationToken::new()).await;
    assert_eq!(tally, JobCounts { completed: 6, ..JobCounts::default() });
    assert_eq!(*running.lock().unwrap(), (0, 3));
}

#[tokio::test]
async fn a_parked_job_is_over_once_it_was_decided_and_the_session_went_on() {
    let world = World::with(&["a"]).await;
    let (drain, calls) = (CancellationToken::new(), AtomicUsize::new(0));
    let drains = drain.clone();
    let pay = MockTool::with_cx("pay", "", move |_, _| {
        let is_first = calls.fetch_add(1, SeqCst) == 0;
        let drains = drains.clone();
        Box::pin(async move {
            if is_first {
                drains.cancel();
                return pending().await;
            }
            Ok(ToolOutput::text("paid"))
        })
    });
    let pay = pay.with_options(ToolOptions {
        side_effects: SideEffects::AtMostOnce,
        ..ToolOptions::default()
    });
    let script = [ScenarioStep::tool_call("pay", json!({})), ScenarioStep::final_answer("done")];
    let agent = agent(&FakeModel::script(script)).with_tool(pay);
    let job = world.push("a", "hi").await;
    // It is cut off in the middle of the payment, so no process knows whether that took effect.
    let options = WorkerOptions { drain_timeout: Duration::ZERO, ..WorkerOptions::default() };
    world.worker(&agent).with_options(options).with_owner("gone").run(&drain).await;
    // Its lease ends.
    let clock = FrozenClock::new();
    clock.advance(Duration::from_hours(24 * 3_650));
    let worker = world.worker(&agent).with_env(clock.env(0));
    let tally = worker.run(&CancellationToken::new()).await;
    assert_eq!(tally, JobCounts { needs_input: 1, ..JobCounts::default() });
    let runtime = SessionRuntime::new(Arc::clone(&world.store) as _, Same(agent));
    let runtime = runtime.with_env(clock.env(1));
    let decide = DecideCall { path: None, resolution: ApprovalDecision::Approve };
    runtime.execute(&id("a"), &decide).await.unwrap();
    assert_eq!(world.record(&job).await.status, JobStatus::NeedsInput);
    runtime.execute(&id("a"), &ContinueRun).await.unwrap();
    let record = world.record(&job).await;
    assert_eq!((record.status, record.reason), (JobStatus::Completed, None));
}

#[tokio::test]
async fn a_resume_job_lets_the_agent_hear_a_message_that_no_run_has_heard() {
    let world = World::with(&["a"]).await;
    let message = ControlMessage::SendMessage(Message::user("steered"));
    world.store.send_control(&id("a"), &message).await.unwrap();
    let job = Job::resume(id("a"));
    world.queue().push(&job, FrozenClock::new().env(0).clock.now()).await.unwrap();
    let model = FakeModel::script(["heard"]);
    let counts = world.work(&test_loop(ModelDriver::new(model))).await;
    assert_eq!(counts.completed, 1);
    assert_eq!(world.said("a").await, ["steered", "heard"]);
    assert_eq!(world.state("a").await.text(), "heard");
}

#[tokio::test]
async fn a_worker_that_waits_for_jobs_looks_for_them_when_it_is_signalled() {
    let world = World::with(&["a"]).await;
    let signal = JobSignal::new();
    let agent = test_loop(ModelDriver::new(FakeModel::script(["done"])));
    // Its clock stands still: only the signal can wake it.
    let options = WorkerOptions::default();
    let worker = Worker::new(Arc::clone(&world.store) as _, Same(agent)).unwrap();
    let worker = worker.with_options(options).with_env(FrozenClock::manual().env(0));
    let worker = worker.with_signal(signal.clone());
    let drain = CancellationToken::new();
    let pushes = async {
        tokio::task::yield_now().await;
        let job = world.push("a", "go").await;
        signal.notify();
        while world.record(&job).await.status != JobStatus::Completed {
            tokio::task::yield_now().await;
        }
        drain.cancel();
    };
    let (counts, ()) = futures::join!(worker.run(&drain), pushes);
    assert_eq!(counts.completed, 1);
}

/// Asks about every call.
fn asks() -> CallableHook {
    CallableHook::new("asks")
        .before_tool(|_, _, _| Ok(ToolDecision::Ask(ApprovalRequest::new("pay?", "asks"))))
}

/// An agent that pays twice at once after each message, and asks about both.
pub(crate) fn asking(paid: &Arc<AtomicUsize>) -> AgentLoop {
    let paid = Arc::clone(paid);
    let pay = MockTool::new("pay", "", move |_| {
        paid.fetch_add(1, SeqCst);
        Ok::<_, String>("paid")
    });
    let model = FakeModel::from_fn(|request| {
        let last = request.prompt.turns.last();
        let is_asked = last.is_some_and(|turn| matches!(turn.body(), TurnBody::Input(_)));
        let step = if is_asked {
            ScenarioStep::tool_calls([("pay", json!({})), ("pay", json!({}))])
        } else {
            ScenarioStep::final_answer("done")
        };
        step.to_response()
    });
    let side_effects = SideEffects::AtMostOnce;
    let pay = pay.with_options(ToolOptions { side_effects, ..ToolOptions::default() });
    let agent = agent(&model).with_tool(pay);
    agent.with_interceptor(Interceptor::from_hook(Arc::new(asks())))
}

#[tokio::test]
async fn a_parked_job_resumes_by_itself_once_every_call_was_decided() {
    let world = World::with(&["a"]).await;
    let paid = Arc::new(AtomicUsize::new(0));
    let agent = asking(&paid);
    let job = world.push("a", "hi").await;
    let parked = JobCounts { needs_input: 1, ..JobCounts::default() };
    assert_eq!(world.work(&agent).await, parked);
    // Another process decides; nothing but the session is written.
    let decide = async |call: u16, resolution| {
        let runtime = SessionRuntime::new(Arc::clone(&world.store) as _, Same(asking(&paid)));
        let decide = DecideCall { path: Some(vec![call]), resolution };
        runtime.execute(&id("a"), &decide).await.unwrap();
    };
    decide(1, ApprovalDecision::Approve).await;
    assert_eq!(world.work(&agent).await, JobCounts::default());
    assert_eq!(world.record(&job).await.status, JobStatus::NeedsInput);
    decide(0, ApprovalDecision::Deny { reason: "no".into() }).await;
    assert_eq!(world.work(&agent).await, JobCounts { completed: 1, ..JobCounts::default() });
    assert_eq!((world.record(&job).await.status, paid.load(SeqCst)), (JobStatus::Completed, 1));
    assert_eq!(world.work(&agent).await, JobCounts::default());
    assert_eq!(world.said("a").await.iter().filter(|text| *text == "hi").count(), 1);
}

#[tokio::test]
async fn a_parked_job_resumes_by_itself_when_the_deadline_of_its_calls_has_passed() {
    let world = World::with(&["a"]).await;
    let paid = Arc::new(AtomicUsize::new(0));
    let limit = Duration::from_hours(1);
    let agent = asking(&paid).with(|parts| parts.executor.answer_within = Some(limit));
    let clock = FrozenClock::new();
    let work = async || {
        let worker = world.worker(&agent).with_env(clock.env(0));
        worker.run(&CancellationToken::new()).await
    };
    let job = world.push("a", "hi").await;
    assert_eq!(work().await, JobCounts { needs_input: 1, ..JobCounts::default() });
    assert_eq!(work().await, JobCounts::default());
    clock.advance(limit);
    assert_eq!(work().await, JobCounts { completed: 1, ..JobCounts::default() });
    assert_eq!((world.record(&job).await.status, paid.load(SeqCst)), (JobStatus::Completed, 0));
}

#[tokio::test]
async fn a_parked_job_of_a_deleted_session_fails_and_the_jobs_of_other_sessions_resume() {
    let world = World::with(&["a", "b"]).await;
    let agent = asking(&Arc::default());
    let (resumed, deleted) = (world.push("a", "hi").await, world.push("b", "hi").await);
    let parked = JobCounts { needs_input: 2, ..JobCounts::default() };
    assert_eq!(world.work(&agent).await, parked);
    world.store.delete(&id("b"), FrozenClock::new().env(0).clock.now()).await.unwrap();
    let runtime = SessionRuntime::new(Arc::clone(&world.store) as _, Same(agent.clone()));
    for call in [0, 1] {
        let decide = DecideCall { path: Some(vec![call]), resolution: ApprovalDecision::Approve };
        runtime.execute(&id("a"), &decide).await.unwrap();
    }
    assert_eq!(world.work(&agent).await, JobCounts { completed: 1, ..JobCounts::default() });
    let [resumed, deleted] = [world.record(&resumed).await, world.record(&deleted).await];
    assert_eq!((resumed.status, resumed.reason), (JobStatus::Completed, None));
    let reason: Arc<str> = "unknown session `b`".into();
    assert_eq!((deleted.status, deleted.reason), (JobStatus::Failed, Some(reason)));
}

#[tokio::test]
async fn a_parked_job_that_a_later_one_went_on_with_is_not_done_again() {
    let world = World::with(&["a"]).await;
    let paid = Arc::new(AtomicUsize::new(0));
    let agent = asking(&paid);
    let first = world.push("a", "one").await;
    world.work(&agent).await;
    let second = world.push("a", "two").await;
    world.work(&agent).await;
    let runtime = SessionRuntime::new(Arc::clone(&world.store) as _, Same(agent.clone()));
    for _ in 0..2 {
        let state = world.state("a").await;
        for pending in state.pending() {
            let path = Some(pending.address());
            let decide = DecideCall { path, resolution: ApprovalDecision::Approve };
            runtime.execute(&id("a"), &decide).await.unwrap();
        }
        world.work(&agent).await;
    }
    // Even if the first job is delivered once more.
    let now = FrozenClock::new().env(0).clock.now();
    world.queue().answered(&id("a"), &JobOutcome::Released, now).await.unwrap();
    world.work(&agent).await;
    let said = world.said("a").await;
    for text in ["one", "two"] {
        assert_eq!(said.iter().filter(|said| *said == text).count(), 1, "{said:?}");
    }
    for job in [first, second] {
        assert_eq!(world.record(&job).await.status, JobStatus::Completed, "{said:?}");
    }
}

#[tokio::test]
async fn a_worker_runs_the_jobs_whose_needs_it_covers_and_then_exits_if_it_was_told_to() {
    let world = World::with(&["a", "b", "c"]).await;
    let now = FrozenClock::new().env(0).clock.now();
    let job = |session, needs: &str| {
        Job::send_message(id(session), Message::user("hi")).with_needs(needs.parse().unwrap())
    };
    let (gpu, eu) = (job("a", "gpu"), job("b", "zone=eu"));
    let later = job("c", "").with_start_at(now.plus(Duration::from_hours(1)));
    assert_eq!(world.queue().push_all(&[gpu, eu, later], now).await.unwrap(), [true; 3]);
    let agent = agent(&FakeModel::echo());
    let work = async |labels: &str| {
        let worker = world.worker(&agent).with_env(FrozenClock::new().env(0));
        worker.with_labels(labels.parse().unwrap()).run(&CancellationToken::new()).await.completed
    };
    assert_eq!(work("").await, 0);
    assert_eq!(work("gpu,cuda").await, 1);
    assert_eq!(work("gpu,cuda").await, 0);
    assert_eq!(work("zone=eu").await, 1);
    assert_eq!(world.queue().count(JobStatus::Queued).await.unwrap(), 1);
}

/// A clock at which no time passes; it reports when the worker starts to wait.
#[derive(Default)]
struct Stopped(Notify);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration == WorkerOptions::default().poll_interval {
            self.0.notify_one();
        }
        Box::pin(pending())
    }
}

#[tokio::test]
async fn a_worker_starts_a_job_that_its_process_pushes_without_waiting_for_its_next_poll() {
    let world = World::with(&["a"]).await;
    let (clock, drain) = (Arc::new(Stopped::default()), CancellationToken::new());
    let env = RunEnv { clock: Arc::clone(&clock) as _, ..FrozenClock::new().env(0) };
    let drains = drain.clone();
    let worker = world.worker(&agent(&FakeModel::echo())).with_options(WorkerOptions::default());
    let worker = worker.with_env(env).with_listener(move |event: &WorkerEvent| {
        if matches!(event, WorkerEvent::JobFinished { .. }) {
            drains.cancel();
        }
    });
    let push = async {
        clock.0.notified().await;
        world.push("a", "hi").await;
    };
    let (tally, ()) = tokio::join!(worker.run(&drain), push);
    assert_eq!(tally, JobCounts { completed: 1, ..JobCounts::default() });
}
