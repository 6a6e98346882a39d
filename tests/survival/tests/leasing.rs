//! What is sent to a session in the moment in which its lease is taken.

use std::{sync::Arc, time::Duration};

use loopwright_agent::AgentDefinition;
use loopwright_core::{AgentState, Clock as _, ExecutionStatus, StopReason, ToolOutput};
use loopwright_sessions::{
    ControlMessage, MemoryStore, SendMessage, SessionFactory, SessionId, SessionRuntime,
    SessionStore as _,
};
use loopwright_survival::{
    ledger::Entry,
    watched::{Watched, Watcher},
};
use loopwright_testing::{
    FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, test_loop,
};
use serde_json::json;

fn session() -> SessionId {
    SessionId::new("a").unwrap()
}

/// Sends a request to stop right after the second write, by which the lease is taken; the first one creates the session.
struct StopsAtLease(MemoryStore);

impl Watcher for StopsAtLease {
    fn before(&self, _: u64) {}

    fn after(&self, write: u64, _: Option<Entry>) {
        if write == 2 {
            block_on(self.0.send_control(&session(), &ControlMessage::Stop)).unwrap();
        }
    }
}

#[test]
fn a_stop_that_is_sent_as_the_lease_is_taken_ends_the_run() {
    let (store, clock) = (MemoryStore::new(), FrozenClock::manual());
    let passes = clock.clone();
    let work = MockTool::with_cx("work", "", move |_, _| {
        passes.advance(Duration::from_millis(400));
        Box::pin(async { Ok(ToolOutput::text("worked")) })
    });
    let calls = (0..20).map(|_| ScenarioStep::tool_call("work", json!({})));
    let model = FakeModel::script(calls.chain([ScenarioStep::final_answer("done")]));
    let agent = test_loop(ModelDriver::new(model)).with_tool(work);
    let watched = Watched::new(Arc::new(store.clone()), StopsAtLease(store));
    let runtime = SessionRuntime::new(Arc::new(watched), agent).with_env(clock.env(0));
    let definition = AgentDefinition::new("helper", "helps", "You help.");
    let state = AgentState::new();
    let new = SessionFactory::new().create_from(definition, state, session(), clock.now());
    block_on(runtime.create(new)).unwrap();
    let done = block_on(runtime.execute(&session(), &SendMessage::text("go"))).unwrap();
    let ExecutionStatus::Stopped(signal) = done.state().status() else {
        panic!("{:?}", done.state().status())
    };
    assert_eq!(signal.reason, StopReason::UserRequested);
}
