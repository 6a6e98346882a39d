use std::pin::pin;

use loopwright_agent::{AgentBuilder, UseHook, UseLlmConfig, UseTools};
use loopwright_core::{
    AgentLoop, AgentState, CallableHook, ExecutionStatus, Flow, RunOptions, Step, StopReason,
    StopSignal, ToolOutcome,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep, block_on, poll_times, test_env};
use serde_json::json;

use super::*;

fn agent(model: &FakeModel, stop: &Cancellation) -> AgentBuilder {
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(
            UseTools::new().with_tool(MockTool::scripted()).with_tool(MockTool::hanging("hang")),
        )
        .with_capability(UseCooperativeCancellation::new(stop.clone()))
}

fn asked() -> AgentState {
    AgentState::new().with_user_message("go")
}

fn run(agent: &AgentLoop, state: AgentState) -> AgentState {
    let options = RunOptions { env: test_env(1), ..RunOptions::default() };
    block_on(agent.start(state, options).finish())
}

/// Cancels when the run waits, and lets it end.
fn cancelled_while_it_waits(agent: &AgentLoop, stop: &Cancellation) -> AgentState {
    let options = RunOptions { env: test_env(1), ..RunOptions::default() };
    let mut run = pin!(agent.start(asked(), options).finish());
    assert!(poll_times(run.as_mut(), 1_000).is_none());
    stop.cancel("enough");
    block_on(run)
}

fn ended(state: &AgentState) -> (StopReason, String, u32) {
    let ExecutionStatus::Stopped(signal) = state.status() else { panic!("{:?}", state.status()) };
    (signal.reason, signal.message.clone(), state.step_count())
}

#[test]
fn a_request_before_the_run_ends_it_before_its_first_step_and_no_other_run() {
    let (model, stop) = (FakeModel::script(["done"]), Cancellation::new());
    let agent = agent(&model, &stop).build().unwrap();
    stop.cancel_with(" ", [("who", json!("Ada"))]);
    let state = run(&agent, asked());
    let text = "the run was cancelled on request";
    assert_eq!(ended(&state), (StopReason::UserRequested, text.to_owned(), 0));
    assert_eq!(state.stop_signal().unwrap().context["who"], "Ada");
    assert!(!stop.is_requested());
    let state = run(&agent, state);
    assert_eq!((state.text().as_str(), model.asked()), ("done", 1));
}

#[test]
fn a_request_in_a_step_keeps_the_step_and_begins_no_other() {
    let stop = Cancellation::new();
    let (model, source) = (FakeModel::script([ScenarioStep::tool("work")]), stop.clone());
    let cancels = CallableHook::new("cancels").after_step(move |_, _| {
        source.cancel("enough");
        Ok(Flow::Continue)
    });
    let agent = agent(&model, &stop).with_capability(UseHook::new(cancels)).build().unwrap();
    let state = run(&agent, asked());
    assert_eq!(ended(&state), (StopReason::UserRequested, "enough".to_owned(), 1));
}

#[test]
fn a_model_call_is_given_up() {
    let (model, stop) = (FakeModel::pending(), Cancellation::new());
    let agent = agent(&model, &stop).build().unwrap();
    let state = cancelled_while_it_waits(&agent, &stop);
    assert_eq!(ended(&state), (StopReason::UserRequested, "enough".to_owned(), 0));
}

#[test]
fn a_tool_is_ended_and_the_model_would_be_told() {
    let stop = Cancellation::new();
    let model = FakeModel::script([ScenarioStep::tool_call("hang", json!({}))]);
    let agent = agent(&model, &stop).build().unwrap();
    let state = cancelled_while_it_waits(&agent, &stop);
    assert_eq!(ended(&state), (StopReason::UserRequested, "enough".to_owned(), 1));
    let calls = state.steps().flat_map(Step::tool_executions);
    let outcomes: Vec<_> = calls.map(|(_, outcome)| outcome).collect();
    assert_eq!(outcomes, [&ToolOutcome::Cancelled { started: true }]);
}

#[test]
fn a_request_that_is_withdrawn_ends_nothing() {
    let (model, stop) = (FakeModel::script(["done"]), Cancellation::new());
    stop.cancel("enough");
    stop.reset();
    assert_eq!(run(&agent(&model, &stop).build().unwrap(), asked()).text(), "done");
}

#[test]
fn a_run_that_was_dropped_is_not_waited_for() {
    let (model, stop) = (FakeModel::pending(), Cancellation::new());
    let agent = agent(&model, &stop).build().unwrap();
    {
        let mut run = pin!(agent.execute(asked()));
        assert!(poll_times(run.as_mut(), 1_000).is_none());
        stop.cancel("enough");
        assert!(stop.is_requested());
    }
    assert!(!stop.is_requested());
}

#[test]
fn a_source_of_ones_own_is_asked_between_steps_and_a_signal_that_is_there_stays() {
    struct AfterTwo;
    impl CancellationSource for AfterTwo {
        fn signal(&self, state: &AgentState) -> Option<StopSignal> {
            (state.step_count() == 2).then(|| StopSignal::user_requested("two are enough"))
        }
    }
    let agent = AgentBuilder::base()
        .with_capability(UseLlmConfig::model(FakeModel::script([ScenarioStep::tool("work")])))
        .with_capability(UseTools::new().with_tool(MockTool::scripted()))
        .with_capability(UseCooperativeCancellation::new(AfterTwo))
        .build()
        .unwrap();
    let state = run(&agent, asked());
    assert_eq!(ended(&state), (StopReason::UserRequested, "two are enough".to_owned(), 2));
}
