//! Control of a session that runs: messages, stop and cancel from others, and the lease.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use loopwright_core::{
    AgentLoop, AgentState, Clock as _, Status, StopReason, ToolOutput,
    messages::{Message, Role},
};
use loopwright_sessions::{
    Claim, MemoryStore, SendMessage, SessionRuntime, SessionStore, StoreError, Wish,
};
use loopwright_testing::{FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, loop_of};
use serde_json::json;

use crate::support::{id, runtime, session};

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
    loop_of(ModelDriver::new(model)).with_tool(work)
}

/// Runs an agent of short steps that is sent a control message at its third call.
async fn controlled(wish: Wish) -> AgentState {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let posts = store.clone();
    let agent = short_steps(&clock, 20, 3, move || {
        let (store, wish) = (posts.clone(), wish.clone());
        async move { store.post(&id("a"), &wish).await.unwrap() }
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
    for wish in [Wish::Stop, Wish::Cancel] {
        let state = controlled(wish).await;
        let Status::Stopped(signal) = state.status() else { panic!("{:?}", state.status()) };
        assert_eq!(signal.reason, StopReason::UserRequested);
        assert!((3..=5).contains(&state.step_count()), "{} steps", state.step_count());
    }
}

#[tokio::test]
async fn a_message_is_heard_although_every_step_is_short() {
    let state = controlled(Wish::Say(Message::user("and this"))).await;
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
            let lasts = Duration::from_secs(30);
            let claim = Claim { owner: "another", instead_of: None, now, lasts };
            let taken = store.lease(&id("a"), claim).await;
            assert!(matches!(taken, Err(StoreError::Busy { .. })), "{taken:?}");
        }
    });
    let runtime = running(&store, &agent, &clock);
    runtime.create(session("a")).await.unwrap();
    let done = runtime.execute(&id("a"), &SendMessage::text("go")).await.unwrap();
    assert_eq!((done.state().text().as_str(), done.state().step_count()), ("done", 103));
    assert_eq!(done.state().errors().count(), 0);
}
