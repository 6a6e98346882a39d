//! What tools need that let other agents work.

use std::{future::pending, sync::Arc, time::Duration};

use loopwright_core::{
    Budget, BudgetAccount, ExecutionStatus, RunOptions, Spend, ToolOutput,
    events::{SubagentCompleted, SubagentSpawning},
    messages::{InferenceRequest, Prompt, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, block_on, test_loop,
};
use serde_json::json;

use crate::support::{agent, asked, execute, hooks, options};

fn spend(tokens: u64) -> Spend {
    Spend { usage: Usage::new(tokens, 0), ..Spend::default() }
}

#[test]
fn usage_that_a_tool_adds_is_charged_once() {
    let child = MockTool::with_cx("child", "", |_, cx| {
        Box::pin(async {
            cx.add_spend(spend(7));
            Ok(ToolOutput::text("ok"))
        })
    });
    let steps = [ScenarioStep::tool_call("child", json!({})), "done".into()];
    let account = BudgetAccount::new(&Budget { tokens: Some(10), ..Budget::unlimited() });
    let run = RunOptions { meter: Some(account.clone()), ..options() };
    let state = block_on(agent(steps).with_tool(child).start(asked(), run).finish());
    assert_eq!(state.usage(), Usage::new(7, 0));
    assert!(account.reserve(10, loopwright_core::messages::Cost::ZERO).is_ok());
}

#[test]
fn usage_of_an_abandoned_call_is_recorded() {
    let asking = MockTool::with_cx("asking", "", |_, cx| {
        Box::pin(async move {
            let step = ScenarioStep::from("yes").with_usage(Usage::new(9, 0));
            let prompt = Prompt::of(cx.state.transcript().clone());
            let request = InferenceRequest { prompt, ..InferenceRequest::default() };
            let asked = cx.infer(&FakeModel::script([step]), request).await;
            assert!(asked.is_ok());
            cx.add_spend(spend(1));
            pending().await
        })
    });
    let calls = [("asking", json!({})), ("asking", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls)]).with_tool(asking);
    let clock = FrozenClock::new();
    let budget = Budget { time: Some(Duration::from_secs(3)), ..Budget::unlimited() };
    let run = RunOptions { env: clock.env(1), ..options() };
    let state = block_on(agent.start(asked().with_budget(budget), run).finish());
    assert!(matches!(state.status(), ExecutionStatus::Stopped(_)), "{:?}", state.status());
    assert_eq!((state.usage(), state.total_spent()), (Usage::new(20, 0), spend(20)));
}

#[test]
fn a_tool_tells_of_the_sub_agent_that_it_runs() {
    let child = test_loop(ModelDriver::new(FakeModel::script(["found"])));
    let spawn = MockTool::with_cx("spawn", "", move |_, cx| {
        let child = child.clone();
        Box::pin(async move {
            let name: Arc<str> = "reader".into();
            cx.emit_subagent_started(&name, "look".to_owned(), 1, 3);
            let run = RunOptions { env: cx.child_env(), grace: cx.grace, ..RunOptions::default() };
            let state = child.start(asked(), run).finish().await;
            cx.emit_subagent_completed(&name, &state, Duration::from_secs(2));
            Ok(ToolOutput::text(state.id().unwrap().to_string()))
        })
    });
    let steps = [ScenarioStep::tool_calls([("spawn", json!({})), ("spawn", json!({}))])];
    let steps = steps.into_iter().chain(["done".into()]);
    let events = EventRecorder::new();
    let agent = agent(steps).with_tool(spawn).with_event_sink(events.sink());
    let state = execute(&agent, asked());
    let spawning = events.events_of::<SubagentSpawning>();
    let facts = spawning.iter().map(|it| (&*it.subagent, &*it.prompt, it.depth, it.max_depth));
    assert_eq!(facts.collect::<Vec<_>>(), [("reader", "look", 1, 3); 2]);
    let completed = events.events_of::<SubagentCompleted>();
    let facts = completed.iter().map(|it| (&*it.subagent, &*it.status, it.steps, it.duration));
    assert_eq!(facts.collect::<Vec<_>>(), [("reader", "completed", 1, Duration::from_secs(2)); 2]);
    // Two that begin at the same moment are not taken for one, and neither for the one who asked.
    let ids: Vec<_> = completed.iter().map(|it| it.subagent_id.clone()).collect();
    assert!(ids[0] != ids[1] && !ids.contains(&state.id().cloned()), "{ids:?}");
    // The same run has the same names when it is done again.
    let again = EventRecorder::new();
    execute(&agent.with_event_sink(again.sink()), asked());
    let repeated: Vec<_> =
        again.events_of::<SubagentCompleted>().iter().map(|it| it.subagent_id.clone()).collect();
    assert_eq!(repeated, ids);
}

#[test]
fn the_hooks_of_an_agent_can_be_put_into_another_stack() {
    let hook = loopwright_core::CallableHook::new("count");
    let interceptor = hooks([Arc::new(hook) as Arc<dyn loopwright_core::Hook>]);
    let [registered] = interceptor.hooks() else { panic!("{interceptor:?}") };
    let mut stack = loopwright_core::HookStack::default();
    let shared = Arc::clone(registered.hook());
    stack.register("again".into(), registered.priority(), registered.points(), shared);
    assert_eq!(stack.into_interceptor().hooks()[0].name(), "again");
}
