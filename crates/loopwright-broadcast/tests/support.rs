//! Agents under test, and what is told of them.

use std::sync::{Arc, Mutex};

use loopwright_broadcast::{BroadcastConfig, BroadcastEnvelope, Broadcasting, Subscription};
use loopwright_core::{AgentLoop, AgentState, EventEnvelope, EventSink, RunOptions};
use loopwright_testing::{FakeModel, FrozenClock, ModelDriver, ScenarioStep, block_on, test_loop};
use serde_json::{Value, json};

/// Enough for every test.
pub(crate) const ROOM: usize = 10_000;

pub(crate) fn answering<S: Into<ScenarioStep>>(answers: impl IntoIterator<Item = S>) -> AgentLoop {
    test_loop(ModelDriver::new(FakeModel::script(answers).with_fragment_size(2)))
}

/// Runs an agent to its end, at a clock that stands still.
pub(crate) fn run(agent: &AgentLoop, sink: Arc<dyn EventSink>) -> AgentState {
    let agent = agent.clone().with_event_sink(sink);
    let options = RunOptions { env: FrozenClock::new().env(0), ..RunOptions::default() };
    block_on(agent.start(AgentState::new().with_user_message("go"), options).finish())
}

/// Returns what is told of a run, in a session named `s`.
pub(crate) fn told(config: BroadcastConfig, agent: &AgentLoop) -> Vec<BroadcastEnvelope> {
    let broadcasting = Broadcasting::new(config).with_session("s");
    let subscription = broadcasting.subscribe(ROOM);
    drop(run(agent, Arc::new(broadcasting)));
    all(subscription)
}

/// Returns everything that is told until nobody tells anything any more.
pub(crate) fn all(mut subscription: Subscription) -> Vec<BroadcastEnvelope> {
    let mut told = Vec::new();
    while let Some(frame) = block_on(subscription.recv()) {
        assert_eq!(frame.channel(), format!("agent.{}", frame.envelope().unwrap().session_id));
        told.push(frame.envelope().unwrap());
    }
    told
}

/// Says in a word or two which envelopes they are.
pub(crate) fn words(told: &[BroadcastEnvelope]) -> Vec<String> {
    let word = |it: &BroadcastEnvelope| match it.status() {
        Some(status) => format!("status {status}"),
        None => it.kind.trim_start_matches("agent.").to_owned(),
    };
    told.iter().map(word).collect()
}

/// Returns the payloads of one type.
pub(crate) fn payloads(told: &[BroadcastEnvelope], kind: &str) -> Vec<Value> {
    told.iter().filter(|it| it.kind == kind).map(|it| it.payload.clone()).collect()
}

/// Makes an event out of its JSON form, told by an agent `a` in an execution `e` at a moment.
pub(crate) fn event(event: Value) -> EventEnvelope {
    event_of("a", "e", event)
}

pub(crate) fn event_of(agent: &str, execution: &str, event: impl Into<Value>) -> EventEnvelope {
    let event: Value = event.into();
    let envelope = json!({
        "seq": 0, "at": "2026-03-04T05:06:07.089Z", "agent": agent, "execution": execution,
        "event": event,
    });
    serde_json::from_value(envelope).unwrap()
}

/// What is written, for the caller that looks at it.
#[derive(Clone, Default)]
pub(crate) struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
