//! Runs that are stopped through the API after any of their events.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use loopwright_broadcast::{BroadcastConfig, BroadcastEnvelope};
use loopwright_core::AgentLoop;
use loopwright_sessions::{
    LogEntry, SendMessage, SessionId, SessionLog, SessionRuntime, SessionStore as _,
};
use loopwright_testing::{FakeModel, FrozenClock, ModelDriver, poll_times, test_loop};
use serde_json::{Value, json};

use crate::{
    api::LOCAL,
    events::long_run,
    queued::Queued,
    world::{Same, World, request},
};

/// A session of an agent with 2,000 events, which advances only when its run is polled.
struct Session {
    store: Queued,
    app: Router,
    clock: FrozenClock,
    runtime: SessionRuntime,
    id: SessionId,
}

impl Session {
    async fn begin(world: &World, agent: AgentLoop) -> Self {
        let store = Queued::new(Arc::clone(&world.store) as _);
        // Where sleeps end at once, the whole run is one poll.
        let clock = FrozenClock::manual();
        let app = world.of_store(Arc::new(store.clone()));
        let runtime = SessionRuntime::new(Arc::new(store.clone()), Same(agent))
            .with_env(clock.env(0))
            .with_event_log(BroadcastConfig::standard());
        let created = post(&app, "/v1/sessions", &json!({})).await;
        let id = SessionId::new(created["id"].as_str().unwrap()).unwrap();
        Self { store, app, clock, runtime, id }
    }

    async fn recorded_after(&self, after: u64) -> Vec<LogEntry> {
        self.store.read_log(&self.id, SessionLog::Events, after, 9999).await.unwrap()
    }

    /// Sends a message. When the log has this number of events, stops the run. Returns the events of that moment; `None` if
    /// the run ended before.
    async fn run(&self, message: &str, stop_after: u64) -> Option<Vec<LogEntry>> {
        let message = SendMessage::text(message);
        let mut run = pin!(self.runtime.execute(&self.id, &message));
        let mut before = None;
        loop {
            if let Some(done) = poll_times(run.as_mut(), 1) {
                done.unwrap();
                return before;
            }
            if before.is_none() && !self.recorded_after(stop_after - 1).await.is_empty() {
                before = Some(self.recorded_after(0).await);
                post(&self.app, &format!("/v1/sessions/{}/stop", self.id), &json!({})).await;
                self.clock.advance(Duration::from_secs(1));
            }
        }
    }

    /// Returns the status and the number of steps of the last run.
    async fn ending(&self) -> (&'static str, usize) {
        let session = self.runtime.session(&self.id).await.unwrap();
        (session.state().status().as_str(), session.state().step_count() as usize)
    }
}

async fn post(app: &Router, path: &str, body: &Value) -> Value {
    let request = request("POST", LOCAL, path, Body::from(body.to_string()));
    let reply = World::send_to(app, request).await;
    assert!(reply.status.is_success(), "{reply:?}");
    reply.json()
}

/// Returns number and type of each event. Times differ from run to run.
fn numbers_and_types(events: &[LogEntry]) -> Vec<(u64, String)> {
    let kind = |it: &LogEntry| serde_json::from_slice::<BroadcastEnvelope>(&it.body).unwrap().kind;
    events.iter().map(|it| (it.number, kind(it))).collect()
}

/// Returns the positions of the events that begin steps.
fn step_begins(events: &[LogEntry]) -> Vec<usize> {
    let begins = |it: &LogEntry| it.body.starts_with(b"{\"type\":\"agent.step.started\"");
    events.iter().enumerate().filter(|(_, it)| begins(it)).map(|(at, _)| at).collect()
}

/// Stops after some of the events, and with `LOOPWRIGHT_LONG` after each.
#[tokio::test]
async fn a_run_of_2000_events_that_is_stopped_after_any_ends_with_its_step_and_continues() {
    let world = World::with(test_loop(ModelDriver::new(FakeModel::script(["done"])))).await;
    let whole = Session::begin(&world, long_run()).await;
    assert!(whole.run("go", 9999).await.is_none());
    let whole = whole.recorded_after(0).await;
    let (begins, whole) = (step_begins(&whole), numbers_and_types(&whole));
    assert_eq!((whole.len(), begins.len()), (2000, 499));
    let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
    let is_taken = |it: &u64| is_long || it.is_multiple_of(100) || *it < 15 || *it > 1992;
    let mut ended_before = Vec::new();
    for number in (1..=2000).filter(is_taken) {
        let session = Session::begin(&world, long_run()).await;
        let Some(before) = session.run("go", number).await else {
            assert_eq!(session.ending().await, ("completed", 499), "after event {number}");
            ended_before.push(number);
            continue;
        };
        // No step began after the request. The last step is the answer, which completes the run.
        let begun = step_begins(&before).len();
        let expect = if begun < 499 { "stopped" } else { "completed" };
        assert_eq!(session.ending().await, (expect, begun), "after event {number}");
        // All events of these steps are there, in their order, before the one about the end. Fragments of the answer
        // may be gathered in another way.
        let events = session.recorded_after(0).await;
        assert!(events.starts_with(&before), "after event {number}");
        let (end, kept) = events.split_last().unwrap();
        let kept = numbers_and_types(kept);
        match begins.get(begun) {
            Some(next) => assert_eq!(kept, whole[..*next], "after event {number}"),
            None => assert!(kept.starts_with(&whole[..=begins[498]]), "after event {number}"),
        }
        let end: BroadcastEnvelope = serde_json::from_slice(&end.body).unwrap();
        let told = if begun < 499 { "cancelled" } else { "completed" };
        assert_eq!(end.payload["status"], told, "after event {number}");
        // The next message goes on, and its events follow.
        assert!(session.run("go on", 9999).await.is_none());
        assert_eq!(session.ending().await.0, "completed", "after event {number}");
        let all = session.recorded_after(0).await;
        assert!(all.len() > events.len() && all.starts_with(&events), "after event {number}");
        assert!(all.iter().zip(1..).all(|(it, at)| it.number == at), "after event {number}");
    }
    println!("not stopped, because the run ended before: {ended_before:?}");
    assert!(ended_before.iter().all(|it| *it > whole[begins[498]].0), "{ended_before:?}");
}
