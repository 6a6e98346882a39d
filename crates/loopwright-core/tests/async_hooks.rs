//! Hooks that are async closures.

use std::sync::{Arc, Mutex};

use loopwright_core::{
    AgentLoop, AgentState, BoxError, CallableHook, ErrorDecision, ExecutionStatus, Flow, HookCx,
    InferenceDecision, RunOptions, StateEdit, StopDecision, ToolDecision, ToolOutcome,
};
use loopwright_testing::{
    FakeModel, FrozenClock, ModelDriver, ScenarioStep, block_on, run_until_stuck, test_loop,
    yield_times,
};

use crate::support::{asked, execute, hooked, lock, options, told};

/// Something that answers later.
#[derive(Clone, Default)]
struct Service(Arc<Mutex<Vec<String>>>);

impl Service {
    async fn note(&self, what: impl Into<String>) -> Result<(), BoxError> {
        yield_times(2).await;
        lock(&self.0).push(what.into());
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

fn model_agent(steps: impl IntoIterator<Item = ScenarioStep>) -> AgentLoop {
    test_loop(ModelDriver::new(FakeModel::script(steps)))
}

/// A hook that waits at every point.
fn at_every_point(service: &Service) -> CallableHook {
    // Each closure captures its own copy.
    let services: [Arc<Service>; 10] = std::array::from_fn(|_| Arc::new(service.clone()));
    let [one, two, three, four, five, six, seven, eight, nine, ten] = services;
    CallableHook::new("every")
        .before_execution_async(async move |state, _cx| {
            one.note("before_execution").await?;
            state.set_metadata("greeting", "Hello.".into());
            Ok(Flow::Continue)
        })
        .before_step_async(async move |_state, _cx| {
            two.note("before_step").await?;
            Ok(Flow::Continue)
        })
        .before_inference_async(async move |request, _state, _cx| {
            three.note(format!("before_inference {}", request.tools.len())).await?;
            Ok(InferenceDecision::Send)
        })
        .after_inference_async(async move |response, _state, _cx| {
            four.note(format!("after_inference {}", response.message.text())).await?;
            Ok(Flow::Continue)
        })
        .before_tool_async(async move |call, _state, _cx| {
            five.note(format!("before_tool {}", call.name)).await?;
            Ok(ToolDecision::Run)
        })
        .after_tool_async(async move |call, outcome, _state, _cx| {
            six.note(format!("after_tool {}", call.name)).await?;
            *outcome = ToolOutcome::Blocked { reason: "changed".to_owned() };
            Ok(Flow::Continue)
        })
        .after_step_async(async move |state, _cx| {
            seven.note(format!("after_step {}", state.step_count())).await?;
            Ok(Flow::Continue)
        })
        .on_stop_async(async move |_signal, _state, _cx| {
            eight.note("on_stop").await?;
            Ok(StopDecision::Stop)
        })
        .on_error_async(async move |failure, _state, _cx| {
            nine.note(format!("on_error {}", failure.message())).await?;
            Ok(ErrorDecision::Retry)
        })
        .after_execution_async(async move |_state, _cx| {
            ten.note("after_execution").await?;
            Ok(())
        })
}

#[test]
fn async_closures_are_called_at_every_point_and_may_change_what_they_see() {
    let service = Service::default();
    let steps = [ScenarioStep::tool("looking"), ScenarioStep::error("offline"), "done".into()];
    let state = execute(&hooked(&model_agent(steps), at_every_point(&service)), asked());
    assert_eq!((state.text().as_str(), state.status()), ("done", &ExecutionStatus::Completed));
    assert_eq!(state.context().metadata().get("greeting"), Some(&"Hello.".into()));
    assert!(told(&state)[0].contains("changed"), "{:?}", told(&state));
    let expect = [
        "before_execution",
        "before_step",
        "before_inference 1",
        "after_inference looking",
        "before_tool scripted",
        "after_tool scripted",
        "after_step 1",
        "before_step",
        "before_inference 1",
        "on_error offline",
        "after_step 2",
        "before_step",
        "before_inference 1",
        "after_inference done",
        "after_step 3",
        "on_stop",
        "after_execution",
    ];
    assert_eq!(service.notes(), expect);
}

async fn counts(state: &mut StateEdit<'_>, _cx: &HookCx<'_>) -> Result<Flow, BoxError> {
    yield_times(1).await;
    state.set_metadata("counted", state.step_count().into());
    Ok(Flow::Continue)
}

#[test]
fn an_async_function_is_a_hook() {
    let agent =
        hooked(&model_agent(["done".into()]), CallableHook::new("c").after_step_async(counts));
    let state = execute(&agent, asked());
    assert_eq!(state.context().metadata().get("counted"), Some(&1.into()));
}

#[test]
fn an_async_closure_that_fails_fails_the_step() {
    let hook = CallableHook::new("gone").before_tool_async(async |_call, _state, _cx| {
        yield_times(1).await;
        Err("the service is gone".into())
    });
    let state = execute(&hooked(&model_agent([ScenarioStep::tool("looking")]), hook), asked());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{:?}", state.status()) };
    assert_eq!(failure.to_string(), "hook `gone` failed at before_tool: the service is gone");
}

#[test]
fn a_run_that_is_cancelled_gives_an_async_closure_its_grace_and_drops_it() {
    let alive = Arc::new(());
    let captured = Arc::clone(&alive);
    let hook = CallableHook::new("stuck").before_tool_async(async move |_call, _state, _cx| {
        let _held = Arc::clone(&captured);
        std::future::pending().await
    });
    let agent = hooked(&model_agent([ScenarioStep::tool("looking")]), hook);
    let clock = FrozenClock::manual();
    let options = RunOptions { env: clock.env(1), ..options() };
    let mut run = agent.start(asked(), options);
    assert!(run_until_stuck(run.next()).is_none());
    // The test, the closure, its copy for the call, and what the call holds.
    assert_eq!(Arc::strong_count(&alive), 4);
    run.handle().cancel();
    assert!(run_until_stuck(run.next()).is_none());
    clock.advance(std::time::Duration::from_secs(1));
    let state = block_on(run.finish());
    assert_eq!((Arc::strong_count(&alive), state.status().as_str()), (2, "stopped"));
    assert_ne!(state, AgentState::new());
}

#[test]
fn dropping_next_does_not_call_an_async_closure_again() {
    let service = Service::default();
    let noting = Arc::new(service.clone());
    let hook = CallableHook::new("once").before_tool_async(async move |_call, _state, _cx| {
        noting.note("called").await?;
        Ok(ToolDecision::Run)
    });
    let agent = hooked(&model_agent([ScenarioStep::tool("looking"), "done".into()]), hook);
    let mut run = agent.start(asked(), options());
    let mut polls = 0;
    loop {
        polls += 1;
        let next = std::pin::pin!(run.next());
        if loopwright_testing::poll_times(next, 1).is_some() {
            break;
        }
    }
    assert!(polls > 2);
    block_on(run.finish());
    assert_eq!(service.notes(), ["called"]);
}
