//! When things happened, by the run's own account.

use std::time::Duration;

use loopwright_core::{
    CallState, CallableHook, Change, Flow, RunOptions, Step, Timestamp, ToolOptions, ToolOutput,
};
use loopwright_testing::{FrozenClock, MemoryJournal, MockTool, ScenarioStep, block_on};
use serde_json::{Value, json};

use crate::support::{agent, asked, execute, hooked, journaled, told};

#[test]
fn what_comes_after_hooks_and_tools_has_the_time_after_them() {
    let (journal, clock) = (MemoryJournal::new(), FrozenClock::new());
    let (hooks, tools) = (clock.clone(), clock.clone());
    let hook = CallableHook::new("slow").before_step(move |state, _| {
        if state.step_count() == 0 {
            hooks.advance(Duration::from_secs(1));
            state.set_metadata("seen", json!(true));
            hooks.advance(Duration::from_secs(2));
        }
        Ok(Flow::Go)
    });
    let tool = MockTool::new("slow", "", move |_| {
        tools.advance(Duration::from_secs(4));
        Ok::<_, loopwright_core::BoxError>("done".to_owned())
    });
    let agent = agent([ScenarioStep::tool_call("slow", json!({})), "done".into()]).with_tool(tool);
    let (began, options) = (clock.env(1).clock.now(), journaled(&journal));
    let options = RunOptions { env: clock.env(1), ..options };
    let state = block_on(hooked(&agent, hook).start(asked(), options).finish());

    let seconds = |at: Timestamp| at.since(began).as_secs();
    let changes = journal.changes();
    let stamps: Vec<_> = changes.iter().map(|it| (it.change.name(), seconds(it.at))).collect();
    let expect = [
        ("edited", 0),
        ("opened", 0),
        ("edited", 1),
        ("thinking", 3),
        ("thought", 3),
        ("started", 3),
        ("settled", 7),
        ("step_closed", 7),
        ("thinking", 7),
        ("thought", 7),
        ("step_closed", 7),
        ("closed", 7),
    ];
    assert_eq!(stamps, expect);
    let durations: Vec<_> = state.steps().map(Step::duration).collect();
    assert_eq!(durations, [Duration::from_secs(7), Duration::ZERO]);
    assert!(matches!(changes[2].change, Change::Edited { .. }));
}

#[test]
fn a_call_sees_what_became_of_those_before_it() {
    let look = MockTool::with_cx("look", "", |_, cx| {
        let calls =
            cx.state.execution().and_then(|it| it.open_step()).map(|it| it.calls().to_vec());
        let done = calls.iter().flatten().filter(|it| matches!(it, CallState::Done(_))).count();
        Box::pin(async move { Ok(ToolOutput::json(Value::from(done))) })
    });
    let look = look.with_options(ToolOptions { exclusive: true, ..ToolOptions::default() });
    let calls = ["look", "look", "look"].map(|it| (it, json!({})));
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]).with_tool(look);
    assert_eq!(told(&execute(&agent, asked())), ["0", "1", "2"]);
}
