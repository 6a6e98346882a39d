//! Wrappers around whole steps: what is opened is closed, once.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_agent::{StateProcessor, UseHook, UseStateProcessor};
use loopwright_core::{
    AgentLoop, AgentState, BoxError, CallableHook, Driver, ExecutionStatus, Flow, Hook, HookCx,
    RunOptions, StateEdit, StepError, StepResponse, StopDecision, StopReason, StopSignal, ThinkCx,
};
use loopwright_testing::{
    MemoryJournal, MockTool, ScenarioStep, Timeline, block_on, run_until_stuck,
};

use crate::support::{asked, execute, options, scripted, with};

/// Notes when it opens and closes, and opens in one of these ways.
#[derive(Clone)]
struct Bracket {
    name: &'static str,
    timeline: Timeline,
    opens: Opens,
}

#[derive(Clone)]
enum Opens {
    Well,
    Stopping(StopReason),
    Failing,
    Panicking,
    Cancelling,
}

#[async_trait]
impl StateProcessor for Bracket {
    async fn before(&self, _: &mut StateEdit<'_>, cx: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.timeline.note(format!("{} opens", self.name));
        match &self.opens {
            Opens::Well => Ok(Flow::Continue),
            Opens::Stopping(reason) => Ok(Flow::Stop(StopSignal::new(*reason, self.name, ""))),
            Opens::Failing => Err("no paper".into()),
            Opens::Panicking => panic!("no paper"),
            Opens::Cancelling => {
                cx.run().cancel();
                Ok(Flow::Continue)
            }
        }
    }

    async fn after(&self, _: &mut StateEdit<'_>, _: &HookCx<'_>) -> Result<Flow, BoxError> {
        self.timeline.note(format!("{} closes", self.name));
        Ok(Flow::Continue)
    }
}

/// An agent that answers once, with three processors of which the middle one opens in this way.
fn nested(middle: Opens, timeline: &Timeline, hook: impl Hook + 'static) -> AgentLoop {
    let bracket =
        |name, opens| UseStateProcessor::new(Bracket { name, timeline: timeline.clone(), opens });
    let builder = scripted(["done"])
        .with_capability(bracket("outer", Opens::Well))
        .with_capability(bracket("middle", middle))
        .with_capability(bracket("inner", Opens::Well));
    with(builder, UseHook::new(hook))
}

fn no_hook() -> CallableHook {
    CallableHook::new("none").after_execution(|_, _| Ok(()))
}

const ALL: [&str; 6] =
    ["outer opens", "middle opens", "inner opens", "inner closes", "middle closes", "outer closes"];
const OUTER: [&str; 3] = ["outer opens", "middle opens", "outer closes"];

#[test]
fn a_processor_that_does_not_open_has_those_closed_that_were_opened_and_no_others() {
    for opens in [
        Opens::Stopping(StopReason::StopRequested),
        Opens::Stopping(StopReason::StepsLimitReached),
        Opens::Failing,
        Opens::Panicking,
    ] {
        let timeline = Timeline::new();
        let is_stop = matches!(opens, Opens::Stopping(_));
        let state = execute(&nested(opens, &timeline, no_hook()), asked());
        assert_eq!(timeline.notes(), OUTER);
        assert_eq!(state.status().as_str(), if is_stop { "stopped" } else { "failed" });
    }
}

#[test]
fn a_panic_of_a_processor_is_still_told_as_one() {
    let state = execute(&nested(Opens::Panicking, &Timeline::new(), no_hook()), asked());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.kind, loopwright_core::FailureKind::Panic);
    assert!(failure.to_string().contains("no paper"), "{failure}");
}

#[test]
fn no_processor_opens_for_a_step_that_a_hook_keeps_from_beginning() {
    let stop = CallableHook::new("stop")
        .before_step(|_, _| Ok(Flow::Stop(StopSignal::requested("stop", "enough"))));
    let fail = CallableHook::new("fail").before_step(|_, _| Err("no paper".into()));
    for hook in [stop, fail] {
        let timeline = Timeline::new();
        drop(execute(&nested(Opens::Well, &timeline, hook), asked()));
        assert_eq!(timeline.notes(), [""; 0]);
    }
}

#[test]
fn a_processor_whose_stop_is_overruled_takes_part_in_the_step() {
    let timeline = Timeline::new();
    let request = CallableHook::new("request").before_step(|state, _| {
        if state.step_count() == 0 {
            state.request_continuation();
        }
        Ok(Flow::Continue)
    });
    let middle = Opens::Stopping(StopReason::StopRequested);
    let state = execute(&nested(middle, &timeline, request), asked());
    assert_eq!((state.step_count(), state.text().as_str()), (1, "done"));
    assert_eq!(timeline.notes(), ALL);
}

#[test]
fn processors_open_again_when_a_stop_of_theirs_is_vetoed() {
    let timeline = Timeline::new();
    let once = CallableHook::new("once").on_stop(|signal, state, _| {
        let is_first = state.metadata().get("vetoed").is_none();
        state.set_metadata("vetoed", true.into());
        Ok(if signal.is_some() && is_first { StopDecision::Continue } else { StopDecision::Stop })
    });
    let middle = Opens::Stopping(StopReason::StopRequested);
    drop(execute(&nested(middle, &timeline, once), asked()));
    assert_eq!(timeline.notes(), [OUTER, OUTER].concat());
}

#[test]
fn processors_of_a_step_that_is_cancelled_before_it_begins_are_closed() {
    let timeline = Timeline::new();
    let state = execute(&nested(Opens::Cancelling, &timeline, no_hook()), asked());
    assert_eq!((state.step_count(), state.status().as_str()), (0, "stopped"));
    assert_eq!(timeline.notes(), ALL);
}

/// Stops the run instead of answering.
struct Stopping;

#[async_trait]
impl Driver for Stopping {
    async fn think(&self, _: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        Err(StepError::Stopped(StopSignal::requested("driver", "no more")))
    }
}

#[test]
fn processors_of_a_step_whose_driver_stops_are_closed() {
    let timeline = Timeline::new();
    let agent = nested(Opens::Well, &timeline, no_hook()).with_driver(Arc::new(Stopping));
    let state = execute(&agent, asked());
    assert_eq!((state.step_count(), state.status().as_str()), (0, "stopped"));
    assert_eq!(timeline.notes(), ALL);
}

#[test]
fn processors_close_when_a_hook_fails_after_the_step() {
    let timeline = Timeline::new();
    let fail = CallableHook::new("fail").after_step(|_, _| Err("no paper".into()));
    drop(execute(&nested(Opens::Well, &timeline, fail), asked()));
    assert_eq!(timeline.notes(), ALL);
}

#[test]
fn a_step_that_another_process_goes_on_with_is_closed_there() {
    let (timeline, journal) = (Timeline::new(), MemoryJournal::new());
    let bracket = || Bracket { name: "it", timeline: timeline.clone(), opens: Opens::Well };
    let agent = |tool: MockTool| {
        let steps = [ScenarioStep::tool_call("look", serde_json::json!({})), "done".into()];
        let builder = scripted(steps)
            .with_capability(loopwright_agent::UseTools::new().with_tool(tool))
            .with_capability(UseStateProcessor::new(bracket()));
        builder.build().unwrap()
    };
    let kept = || RunOptions { journal: Some(Arc::new(journal.clone())), ..options() };
    let never = MockTool::hanging("look");
    let mut run = agent(never).start(asked(), kept());
    assert!(run_until_stuck(run.next()).is_none());
    assert_eq!(timeline.notes(), ["it opens"]);
    drop(run);
    let state = AgentState::new().replay(journal.changes()).unwrap();
    let look = MockTool::returning("look", "", "seen");
    drop(block_on(agent(look).start(state, kept()).finish()));
    assert_eq!(timeline.notes(), ["it opens", "it closes", "it opens", "it closes"]);
}
