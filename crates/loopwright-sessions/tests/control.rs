//! Control of a session that runs: messages, stop and cancel from others, and the lease.

use std::{
    borrow::Cow,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use loopwright_core::{
    AgentLoop, AgentState, Clock, ExecutionStatus, RunEnv, SideEffects, StopReason, Timestamp,
    ToolOptions, ToolOutput,
    messages::{Message, Role, TurnBody},
};
use loopwright_sessions::{
    ActionCx, AgentSession, ContinueRun, ControlMessage, LeaseRequest, MemoryStore, SendMessage,
    SessionAction, SessionError, SessionRuntime, SessionStore as _, StoreError, SuspendSession,
};
use loopwright_testing::{
    FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, run_until_stuck,
    test_loop,
};
use serde_json::json;

use crate::support::{answering, id, runtime, session};

/// How long each step takes: less than a control message waits at most.
const SHORT: Duration = Duration::from_millis(400);

/// An agent that takes this many steps, none of which waits for anything. At the call with number `at`,
/// `happens` runs.
fn short_steps<F, R>(clock: &FrozenClock, steps: u32, at: u32, happens: F) -> AgentLoop
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let (asked, called) = (AtomicU32::new(0), AtomicU32::new(0));
    let model = FakeModel::from_fn(move |_| {
        let is_last = asked.fetch_add(1, SeqCst) + 1 >= steps;
        let step = if is_last {
            ScenarioStep::final_answer("done")
        } else {
            ScenarioStep::tool_call("work", json!({}))
        };
        step.to_response()
    });
    let (clock, happens) = (clock.clone(), Arc::new(happens));
    let work = MockTool::with_cx("work", "", move |_, _| {
        clock.advance(SHORT);
        let is_now = called.fetch_add(1, SeqCst) + 1 == at;
        let happens = Arc::clone(&happens);
        Box::pin(async move {
            if is_now {
                happens().await;
            }
            Ok(ToolOutput::text("worked"))
        })
    });
    test_loop(ModelDriver::new(model)).with_tool(work)
}

/// Runs an agent of short steps that is sent a control message at its third call.
async fn controlled(control: ControlMessage) -> AgentState {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let posts = store.clone();
    let agent = short_steps(&clock, 20, 3, move || {
        let (store, control) = (posts.clone(), control.clone());
        async move { store.send_control(&id("a"), &control).await.unwrap() }
    });
    let runtime = running(&store, &agent, &clock);
    runtime.create(session("a")).await.unwrap();
    let done = runtime.execute(&id("a"), &SendMessage::text("go")).await.unwrap();
    done.state().clone()
}

fn running(store: &MemoryStore, agent: &AgentLoop, clock: &FrozenClock) -> SessionRuntime {
    runtime(store, agent).0.with_env(clock.env(0))
}

#[tokio::test]
async fn stop_and_cancel_are_heard_although_every_step_is_short() {
    for control in [ControlMessage::Stop, ControlMessage::Cancel] {
        let state = controlled(control).await;
        let ExecutionStatus::Stopped(signal) = state.status() else {
            panic!("{:?}", state.status())
        };
        assert_eq!(signal.reason, StopReason::UserRequested);
        assert!((3..=5).contains(&state.step_count()), "{} steps", state.step_count());
    }
}

#[tokio::test]
async fn a_stop_that_is_sent_in_a_step_begins_no_other_step() {
    for step in [1, 2, 7] {
        let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
        let (posts, time) = (store.clone(), clock.clone());
        // The step never waits: it has ended when the request is looked for.
        let agent = short_steps(&clock, 9, step, move || {
            let (store, time) = (posts.clone(), time.clone());
            async move {
                store.send_control(&id("a"), &ControlMessage::Stop).await.unwrap();
                time.advance(Duration::from_secs(1));
            }
        });
        let runtime = running(&store, &agent, &clock);
        runtime.create(session("a")).await.unwrap();
        let done = runtime.execute(&id("a"), &SendMessage::text("go")).await.unwrap();
        let ended = (done.state().status().as_str(), done.state().step_count());
        assert_eq!(ended, ("stopped", step));
    }
}

#[tokio::test]
async fn a_message_is_heard_although_every_step_is_short() {
    let state = controlled(ControlMessage::SendMessage(Message::user("and this"))).await;
    let mut turns = state.transcript().iter().skip(1);
    let place = turns.position(|turn| turn.message().role() == Role::User);
    assert!(place.is_some_and(|it| (3..=5).contains(&it)), "heard at step {place:?}");
}

#[tokio::test]
async fn lease_is_renewed_although_every_step_is_short() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let (other, now) = (store.clone(), clock.clone());
    // That is after 40 seconds; the lease lasts for 30.
    let agent = short_steps(&clock, 103, 100, move || {
        let (store, now) = (other.clone(), now.now());
        async move {
            let taken = store.lease(&id("a"), claim(now)).await;
            assert!(matches!(taken, Err(StoreError::Busy { .. })), "{taken:?}");
        }
    });
    let runtime = running(&store, &agent, &clock);
    runtime.create(session("a")).await.unwrap();
    let done = runtime.execute(&id("a"), &SendMessage::text("go")).await.unwrap();
    assert_eq!((done.state().text().as_str(), done.state().step_count()), ("done", 103));
    assert_eq!(done.state().errors().count(), 0);
}

/// Returns what users and agents said, without the steps on the way.
fn said(state: &AgentState) -> Vec<String> {
    let turns = state.transcript().iter();
    let words = turns.filter(|turn| !matches!(turn.body(), TurnBody::ToolExchange(_)));
    words.map(|turn| turn.message().text()).collect()
}

async fn say(store: &MemoryStore, text: &str) {
    store.send_control(&id("a"), &ControlMessage::SendMessage(Message::user(text))).await.unwrap();
}

/// An agent with a tool that never returns the first time.
fn hanging() -> AgentLoop {
    let options = ToolOptions { side_effects: SideEffects::Idempotent, ..ToolOptions::default() };
    let entered = AtomicU32::new(0);
    let tool = MockTool::with_cx("hang", "", move |_, _| {
        let is_first = entered.fetch_add(1, SeqCst) == 0;
        Box::pin(async move {
            if is_first {
                return pending().await;
            }
            Ok(ToolOutput::text("returned"))
        })
    });
    let script = [ScenarioStep::tool_call("hang", json!({})), "done".into()];
    test_loop(ModelDriver::new(FakeModel::script(script))).with_tool(tool.with_options(options))
}

#[test]
fn messages_that_a_runner_took_and_did_not_keep_are_heard_once_by_the_next_one() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let agent = hanging();
    let first = running(&store, &agent, &clock);
    block_on(first.create(session("a"))).unwrap();
    let (a, go) = (id("a"), SendMessage::text("go"));
    let mut run = Box::pin(first.execute(&a, &go));
    assert!(run_until_stuck(&mut run).is_none());
    for text in ["one", "two"] {
        block_on(say(&store, text));
        // It is collected, and waits for the end of the step.
        clock.advance(Duration::from_secs(1));
        assert!(run_until_stuck(&mut run).is_none());
    }
    // The runner dies.
    drop(run);
    clock.advance(Duration::from_mins(1));
    block_on(say(&store, "three"));
    let second = running(&store, &agent, &clock);
    let done = block_on(second.execute(&a, &ContinueRun)).unwrap();
    assert_eq!(said(done.state()), ["go", "one", "two", "three", "done"]);
    let again = block_on(second.execute(&a, &SuspendSession)).unwrap();
    assert_eq!(said(again.state()), ["go", "one", "two", "three", "done"]);
    let lease = block_on(store.lease(&a, claim(clock.now()))).unwrap();
    assert_eq!(block_on(store.take_control(&lease)).unwrap(), []);
}

#[test]
fn a_message_stays_in_the_store_until_it_is_part_of_the_conversation() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let asleep = clock.clone();
    let slow = MockTool::with_cx("slow", "", move |_, _| {
        let sleep = asleep.env(0).clock.sleep(Duration::from_secs(3));
        Box::pin(async move {
            sleep.await;
            Ok(ToolOutput::text("slept"))
        })
    });
    let calls = [("hang", json!({})), ("slow", json!({}))];
    let script = [ScenarioStep::tool_calls(calls), "done".into()];
    let (model, hanging) = (FakeModel::script(script), hanging());
    let agent = test_loop(ModelDriver::new(model)).with_tools(hanging.tools().clone());
    let agent = agent.with_tool(slow);
    let first = running(&store, &agent, &clock);
    block_on(first.create(session("a"))).unwrap();
    let (a, go) = (id("a"), SendMessage::text("go"));
    let mut run = Box::pin(first.execute(&a, &go));
    assert!(run_until_stuck(&mut run).is_none());
    block_on(say(&store, "one"));
    clock.advance(Duration::from_secs(1));
    assert!(run_until_stuck(&mut run).is_none(), "it is collected");
    let before = block_on(store.header(&a)).unwrap().unwrap().length;
    clock.advance(Duration::from_secs(3));
    assert!(run_until_stuck(&mut run).is_none());
    let after = block_on(store.header(&a)).unwrap().unwrap().length;
    assert!(after > before, "other changes were kept meanwhile");
    drop(run);
    clock.advance(Duration::from_mins(1));
    let done = block_on(running(&store, &agent, &clock).execute(&a, &ContinueRun)).unwrap();
    assert_eq!(said(done.state()), ["go", "one", "done"]);
}

/// Continues what a runner that ended left, with the requests that it left.
struct TakeOver;

#[async_trait]
impl SessionAction for TakeOver {
    fn name(&self) -> Cow<'static, str> {
        "take_over".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        cx.heed_earlier_requests();
        let state = session.state().clone();
        cx.run(session, state).await
    }
}

/// An agent whose first step hangs for good and keeps changes meanwhile, and which then takes steps and answers.
fn hanging_and_keeping(clock: &FrozenClock) -> AgentLoop {
    let asleep = clock.clone();
    let slow = MockTool::with_cx("slow", "", move |_, _| {
        let sleep = asleep.env(0).clock.sleep(Duration::from_secs(3));
        Box::pin(async move {
            sleep.await;
            Ok(ToolOutput::text("slept"))
        })
    });
    let calls = [("hang", json!({})), ("slow", json!({}))];
    let again = ScenarioStep::tool_call("hang", json!({}));
    let script = [ScenarioStep::tool_calls(calls), again.clone(), again, "done".into()];
    let (model, hanging) = (FakeModel::script(script), hanging());
    test_loop(ModelDriver::new(model)).with_tools(hanging.tools().clone()).with_tool(slow)
}

/// Returns a session whose runner collected these control messages, kept other changes and died.
fn died_after(
    store: &MemoryStore,
    clock: &FrozenClock,
    agent: &AgentLoop,
    posts: &[ControlMessage],
) {
    let first = running(store, agent, clock);
    block_on(first.create(session("a"))).unwrap();
    let (a, go) = (id("a"), SendMessage::text("go"));
    let mut run = Box::pin(first.execute(&a, &go));
    assert!(run_until_stuck(&mut run).is_none());
    for control in posts {
        block_on(store.send_control(&a, control)).unwrap();
    }
    clock.advance(Duration::from_secs(1));
    assert!(run_until_stuck(&mut run).is_none(), "they are collected");
    let before = block_on(store.header(&a)).unwrap().unwrap().length;
    clock.advance(Duration::from_secs(3));
    assert!(run_until_stuck(&mut run).is_none());
    let after = block_on(store.header(&a)).unwrap().unwrap().length;
    assert!(after > before, "other changes are kept meanwhile");
    drop(run);
    clock.advance(Duration::from_mins(1));
}

/// Returns what is left of the control messages of the session.
fn left(store: &MemoryStore, clock: &FrozenClock) -> Vec<ControlMessage> {
    let lease = block_on(store.lease(&id("a"), claim(clock.now()))).unwrap();
    let left = block_on(store.take_control(&lease)).unwrap();
    block_on(store.release(&lease)).unwrap();
    left.into_iter().map(|it| it.control).collect()
}

#[test]
fn request_to_stop_stays_in_the_store_until_the_execution_has_ended() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let agent = hanging_and_keeping(&clock);
    died_after(&store, &clock, &agent, &[ControlMessage::Stop]);
    assert_eq!(left(&store, &clock), [ControlMessage::Stop]);
    let stopped = block_on(running(&store, &agent, &clock).execute(&id("a"), &TakeOver)).unwrap();
    let state = stopped.state();
    assert!(matches!(state.status(), ExecutionStatus::Stopped(_)), "{:?}", state.status());
    assert_eq!((state.step_count(), left(&store, &clock)), (1, vec![]));
    let done = block_on(running(&store, &agent, &clock).execute(&id("a"), &TakeOver)).unwrap();
    assert_eq!(done.state().status(), &ExecutionStatus::Completed);
}

#[test]
fn messages_around_a_request_to_stop_are_heard_once_although_the_runner_died_in_between() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let agent = hanging_and_keeping(&clock);
    let say = |text| ControlMessage::SendMessage(Message::user(text));
    died_after(&store, &clock, &agent, &[say("one"), ControlMessage::Stop, say("two")]);
    assert_eq!(left(&store, &clock), [say("one"), ControlMessage::Stop, say("two")]);
    let stopped = block_on(running(&store, &agent, &clock).execute(&id("a"), &TakeOver)).unwrap();
    assert!(matches!(stopped.state().status(), ExecutionStatus::Stopped(_)), "{stopped:?}");
    let note = "[No answer: interrupted by the user.]";
    assert_eq!(said(stopped.state()), ["go", "one", note, "two"]);
    assert_eq!(left(&store, &clock), []);
    let done = block_on(running(&store, &agent, &clock).execute(&id("a"), &ContinueRun)).unwrap();
    assert_eq!(said(done.state()), ["go", "one", note, "two", "done"]);
}

#[test]
fn request_to_stop_that_follows_a_late_message_ends_the_run_of_that_message() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let (posts, asked) = (store.clone(), AtomicU32::new(0));
    let model = FakeModel::from_fn(move |_| {
        match asked.fetch_add(1, SeqCst) {
            0 => {}
            1..9 => return ScenarioStep::tool_call("missing", json!({})).to_response(),
            _ => return ScenarioStep::final_answer("two").to_response(),
        }
        block_on(say(&posts, "and this"));
        block_on(posts.send_control(&id("a"), &ControlMessage::Stop)).unwrap();
        ScenarioStep::final_answer("one").to_response()
    });
    let runtime = running(&store, &test_loop(ModelDriver::new(model)), &clock);
    block_on(runtime.create(session("a"))).unwrap();
    let stopped = block_on(runtime.execute(&id("a"), &SendMessage::text("go"))).unwrap();
    let ExecutionStatus::Stopped(signal) = stopped.state().status() else { panic!("{stopped:?}") };
    assert_eq!(signal.reason, StopReason::UserRequested);
    // No step of that run began.
    assert_eq!((stopped.state().step_count(), left(&store, &clock)), (0, vec![]));
    assert_eq!(said(stopped.state()), ["go", "one", "and this"]);
}

fn claim(now: Timestamp) -> LeaseRequest<'static> {
    LeaseRequest { owner: "another", replaces: None, now, ttl: Duration::from_secs(30) }
}

#[test]
fn a_message_that_comes_as_the_run_ends_is_the_next_message() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let (posts, asked) = (store.clone(), AtomicU32::new(0));
    let model = FakeModel::from_fn(move |_| {
        let number = asked.fetch_add(1, SeqCst) + 1;
        if number == 1 {
            block_on(say(&posts, "and this"));
        }
        ScenarioStep::final_answer(format!("answer {number}")).to_response()
    });
    let runtime = running(&store, &test_loop(ModelDriver::new(model)), &clock);
    block_on(runtime.create(session("a"))).unwrap();
    let done = block_on(runtime.execute(&id("a"), &SendMessage::text("go"))).unwrap();
    assert_eq!(said(done.state()), ["go", "answer 1", "and this", "answer 2"]);
    assert_eq!(block_on(runtime.session(&id("a"))).unwrap(), done);
    assert_eq!(done.state().status(), &ExecutionStatus::Completed);
}

#[test]
fn a_message_that_was_left_is_answered_without_another_one() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let runtime = running(&store, &answering(["one", "two"]).0, &clock);
    block_on(runtime.create(session("a"))).unwrap();
    block_on(runtime.execute(&id("a"), &SendMessage::text("go"))).unwrap();
    block_on(say(&store, "and this"));
    let done = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
    assert_eq!(said(done.state()), ["go", "one", "and this", "two"]);
    let done = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
    assert_eq!(said(done.state()), ["go", "one", "and this", "two"]);
}

#[test]
fn a_message_to_a_run_that_is_stopped_waits_for_the_next_one() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let (posts, now) = (store.clone(), clock.clone());
    let asked = AtomicU32::new(0);
    let model = FakeModel::from_fn(move |_| {
        if asked.fetch_add(1, SeqCst) > 0 {
            return ScenarioStep::final_answer("one").to_response();
        }
        block_on(posts.send_control(&id("a"), &ControlMessage::Cancel)).unwrap();
        block_on(say(&posts, "and this"));
        now.advance(Duration::from_secs(1));
        ScenarioStep::tool_call("missing", json!({})).to_response()
    });
    let runtime = running(&store, &test_loop(ModelDriver::new(model)), &clock);
    block_on(runtime.create(session("a"))).unwrap();
    let stopped = block_on(runtime.execute(&id("a"), &SendMessage::text("go"))).unwrap();
    assert!(matches!(stopped.state().status(), ExecutionStatus::Stopped(_)), "{stopped:?}");
    let done = block_on(runtime.execute(&id("a"), &SendMessage::text("go on"))).unwrap();
    let note = "[No answer: interrupted by the user.]";
    assert_eq!(said(done.state()), ["go", "and this", note, "go on", "one"]);
}

/// A machine's clock that is set on in the middle of a run.
#[derive(Clone)]
struct Set {
    clock: FrozenClock,
    on: Arc<AtomicU64>,
}

impl Clock for Set {
    fn now(&self) -> Timestamp {
        self.clock.now().plus(Duration::from_millis(self.on.load(SeqCst)))
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }
}

#[tokio::test]
async fn lease_is_renewed_at_once_when_the_clock_of_the_machine_is_set() {
    const ON: Duration = Duration::from_mins(20);
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let set = Set { clock: clock.clone(), on: Arc::default() };
    let steps = AtomicU32::new(0);
    let (other, sets) = (store.clone(), set.clone());
    let work = MockTool::with_cx("work", "", move |_, _| {
        clock.advance(SHORT);
        let (step, store, set) = (steps.fetch_add(1, SeqCst) + 1, other.clone(), sets.clone());
        Box::pin(async move {
            if step == 2 {
                set.on.store(u64::try_from(ON.as_millis()).unwrap(), SeqCst);
            }
            if step == 6 {
                let taken = store.lease(&id("a"), claim(set.now())).await;
                assert!(matches!(taken, Err(StoreError::Busy { .. })), "{taken:?}");
            }
            Ok(ToolOutput::text("worked"))
        })
    });
    let mut script = vec![ScenarioStep::tool_call("work", json!({})); 8];
    script.push("done".into());
    let agent = test_loop(ModelDriver::new(FakeModel::script(script))).with_tool(work);
    let env = RunEnv { clock: Arc::new(set), seed: 0 };
    let runtime = runtime(&store, &agent).0.with_env(env);
    runtime.create(session("a")).await.unwrap();
    let done = runtime.execute(&id("a"), &SendMessage::text("go")).await.unwrap();
    assert_eq!((done.state().text().as_str(), done.state().errors().count()), ("done", 0));
}

/// Works without a run, a second at a time, until its lease was renewed. After the first second, this happens.
struct Slow<F> {
    clock: FrozenClock,
    happens: F,
}

#[async_trait]
impl<F: Fn() + Send + Sync> SessionAction for Slow<F> {
    fn name(&self) -> Cow<'static, str> {
        "slow".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let taken = cx.lease();
        let work = std::future::poll_fn(|waiting| {
            self.clock.advance(Duration::from_secs(1));
            (self.happens)();
            if cx.lease() != taken {
                return std::task::Poll::Ready(());
            }
            waiting.waker().wake_by_ref();
            std::task::Poll::Pending
        });
        cx.supervisor.keep_lease(work).await?;
        Ok(session)
    }
}

#[tokio::test]
async fn lease_is_renewed_while_an_action_works_without_a_run() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let runtime = running(&store, &answering(["done"]).0, &clock);
    runtime.create(session("a")).await.unwrap();
    runtime.execute(&id("a"), &Slow { clock: clock.clone(), happens: || {} }).await.unwrap();
    assert!(clock.monotonic() < claim(clock.now()).ttl);
}

#[tokio::test]
async fn work_of_an_action_is_dropped_when_its_lease_is_lost() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let runtime = running(&store, &answering(["done"]).0, &clock).with_owner("this");
    runtime.create(session("a")).await.unwrap();
    let (other, now) = (store.clone(), clock.now());
    let happens = move || {
        let claim = LeaseRequest { replaces: Some("this"), ..claim(now) };
        block_on(other.lease(&id("a"), claim)).ok();
    };
    let lost = runtime.execute(&id("a"), &Slow { clock, happens }).await.unwrap_err();
    assert!(matches!(lost, SessionError::Store(StoreError::LeaseLost(_))), "{lost:?}");
}
