//! What becomes of a session whose process ended in the middle.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, Arguments, ExecutionStatus, OnInterrupted, RunOptions,
    SideEffects, ToolOptions, ToolOutput,
    messages::{Turn, TurnBody},
};
use loopwright_sessions::{
    ContinueRun, DecideCall, MemoryStore, SendMessage, SessionError, SessionQuery, SessionRelation,
    SessionRuntime, SessionStore as _,
};
use loopwright_testing::{
    FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, run_until_stuck,
    test_loop,
};
use serde_json::json;

use crate::support::{id, runtime, session};

/// An agent that pays with a tool which never comes back the first time, and how often it paid.
fn paying(effects: SideEffects) -> (AgentLoop, MockTool) {
    let paid = AtomicUsize::new(0);
    let pay = MockTool::with_cx("pay", "", move |_, _| {
        let times = paid.fetch_add(1, SeqCst);
        Box::pin(async move {
            if times == 0 {
                return pending().await;
            }
            Ok(ToolOutput::text("paid"))
        })
    });
    let pay = pay.with_options(ToolOptions { side_effects: effects, ..ToolOptions::default() });
    let model = FakeModel::script([ScenarioStep::tool_call("pay", json!({})), "done".into()]);
    (test_loop(ModelDriver::new(model)).with_tool(pay.clone()), pay)
}

/// A runtime whose session `a` stopped in the middle of a payment, as another process finds it.
fn stopped_while_paying(agent: &AgentLoop) -> (SessionRuntime, MemoryStore) {
    let store = MemoryStore::new();
    let clock = FrozenClock::manual();
    let (first, _) = runtime(&store, agent);
    let first = first.with_env(clock.env(0));
    block_on(first.create(session("a"))).unwrap();
    assert!(run_until_stuck(first.execute(&id("a"), &SendMessage::text("pay"))).is_none());
    // Its lease ends.
    clock.advance(Duration::from_mins(1));
    let (second, _) = runtime(&store, agent);
    (second.with_env(clock.env(1)), store)
}

fn outcomes(state: &AgentState) -> Vec<String> {
    let results = |turn: &Arc<Turn>| match turn.body() {
        TurnBody::ToolExchange(exchange) => exchange.results().to_vec(),
        _ => Vec::new(),
    };
    state.transcript().iter().flat_map(results).map(|it| it.to_text()).collect()
}

#[test]
fn a_call_that_must_not_happen_twice_is_told_as_unknown() {
    let (agent, pay) = paying(SideEffects::AtMostOnce);
    let (runtime, _) = stopped_while_paying(&agent);
    let done = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
    assert_eq!((done.state().text().as_str(), pay.calls().len()), ("done", 1));
    let [outcome] = &outcomes(done.state())[..] else { panic!("{done:?}") };
    assert!(outcome.contains("Unknown"), "{outcome}");
}

#[test]
fn an_idempotent_call_runs_again_with_the_same_key() {
    let (agent, pay) = paying(SideEffects::Idempotent);
    let (runtime, _) = stopped_while_paying(&agent);
    let done = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
    assert_eq!(outcomes(done.state()), ["paid"]);
    let keys = pay.keys();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}

#[test]
fn a_session_may_wait_for_a_decision_about_what_was_interrupted() {
    let answer = ApprovalDecision::Answer(ToolOutput::text("it was paid"));
    let denied = ApprovalDecision::Deny { reason: "not again".to_owned() };
    for (resolution, times, expect) in [
        (ApprovalDecision::Approve, 2, "paid"),
        (denied, 1, "so its effects are unknown; it was not repeated: not again"),
        (answer, 1, "it was paid"),
    ] {
        let (agent, pay) = paying(SideEffects::AtMostOnce);
        let (runtime, _) = stopped_while_paying(&agent);
        let runtime = runtime.with_interrupted(OnInterrupted::RequireApproval);
        let waits = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
        assert_eq!((waits.state().status(), pay.calls().len()), (&ExecutionStatus::Paused, 1));
        let decide = DecideCall { path: None, resolution };
        block_on(runtime.execute(&id("a"), &decide)).unwrap();
        let done = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
        assert_eq!((done.state().text().as_str(), pay.calls().len()), ("done", times));
        assert!(outcomes(done.state())[0].contains(expect), "{:?}", outcomes(done.state()));
        let nothing = block_on(runtime.execute(&id("a"), &decide));
        assert!(matches!(nothing, Err(SessionError::NotPending { .. })), "{nothing:?}");
    }
}

#[test]
fn a_sub_agent_goes_on_in_its_own_session() {
    let model = FakeModel::script([ScenarioStep::tool("looking"), "found".into()]);
    let child = test_loop(ModelDriver::new(model.clone()));
    let entered = Arc::new(AtomicUsize::new(0));
    let spawn = MockTool::with_cx("spawn", "", move |_, cx| {
        let (child, entered) = (child.clone(), entered.fetch_add(1, SeqCst));
        Box::pin(async move {
            let journal = cx.journal.unwrap().child(cx.key);
            let recorded = journal.load_changes().await.unwrap();
            let state = match &recorded[..] {
                [] => AgentState::new().with_user_message("look"),
                _ => AgentState::new().replay(recorded).unwrap(),
            };
            let (env, journal) = (cx.env.clone(), Some(journal));
            let mut run = child.start(state, RunOptions { env, journal, ..RunOptions::default() });
            if entered == 0 {
                run.next().await;
                return pending().await;
            }
            Ok(ToolOutput::text(run.finish().await.text()))
        })
    });
    let options = ToolOptions { side_effects: SideEffects::Resumable, ..ToolOptions::default() };
    let parent = FakeModel::script([ScenarioStep::tool_call("spawn", json!({})), "done".into()]);
    let agent = test_loop(ModelDriver::new(parent)).with_tool(spawn.with_options(options));
    let (runtime, store) = stopped_while_paying(&agent);
    let done = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
    assert_eq!(outcomes(done.state()), ["found"]);
    // The first answer of the sub-agent was paid for once.
    assert_eq!(model.asked(), 2);
    let mut query = SessionQuery::first(9);
    query.kinship = SessionRelation::ChildOf(id("a"));
    let children = block_on(store.list(&query)).unwrap();
    let [child] = &children.sessions[..] else { panic!("{children:?}") };
    assert!(child.call.is_some());
    query.kinship = SessionRelation::TopLevel;
    assert_eq!(block_on(store.list(&query)).unwrap().len(), 1);
    // It goes with its parent.
    let child = child.id.clone();
    block_on(runtime.delete(&id("a"))).unwrap();
    assert_eq!(block_on(store.load(&child)).unwrap(), None);
}

#[test]
fn a_fork_of_what_is_in_use_is_what_was_on_record() {
    let (agent, _) = paying(SideEffects::AtMostOnce);
    let store = MemoryStore::new();
    let (runtime, _) = runtime(&store, &agent);
    let runtime = runtime.with_env(FrozenClock::manual().env(0));
    block_on(runtime.create(session("a"))).unwrap();
    assert!(run_until_stuck(runtime.execute(&id("a"), &SendMessage::text("pay"))).is_none());
    let fork = block_on(runtime.fork(&id("a"), None, Some(id("b")))).unwrap();
    let source = block_on(store.header(&id("a"))).unwrap().unwrap();
    assert_eq!((fork.length, fork.parent), (source.length, Some(id("a"))));
    let begin = block_on(runtime.fork(&id("a"), Some(0), Some(id("c")))).unwrap();
    assert!(begin.length < fork.length);
    let beyond = block_on(runtime.fork(&id("a"), Some(7), None));
    assert!(matches!(beyond, Err(SessionError::NoStep { step: 7, steps: 0, .. })), "{beyond:?}");
}

#[test]
fn arguments_that_do_not_fit_are_refused_by_the_session_and_not_kept() {
    let (agent, pay) = paying(SideEffects::AtMostOnce);
    let (runtime, _) = stopped_while_paying(&agent);
    let runtime = runtime.with_interrupted(OnInterrupted::RequireApproval);
    let waits = block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
    let edited = |json: &str| DecideCall {
        path: None,
        resolution: ApprovalDecision::ApproveWith { arguments: Arguments::new(json) },
    };
    let refused = block_on(runtime.execute(&id("a"), &edited("much")));
    assert!(matches!(refused, Err(SessionError::Decision(_))), "{refused:?}");
    assert_eq!(block_on(runtime.session(&id("a"))).unwrap().state(), waits.state());
    block_on(runtime.execute(&id("a"), &edited(r#"{"sum":9}"#))).unwrap();
    block_on(runtime.execute(&id("a"), &ContinueRun)).unwrap();
    assert_eq!(pay.calls(), [json!({}), json!({ "sum": 9 })]);
}
