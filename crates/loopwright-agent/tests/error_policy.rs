//! What is done about errors.

use std::time::Duration;

use loopwright_agent::{
    AgentBuilder, ErrorAction, ErrorClass, ErrorPolicy, UseErrorPolicy, UseGuards, UseHook,
    UseLlmConfig, UseTools,
};
use loopwright_core::{
    AgentLoop, AgentState, BoxError, Budget, CallableHook, ExecutionStatus, FailureKind,
    ModelError, ModelErrorKind, StopReason, StopSignal, ToolDecision, ToolError, ToolOptions,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::json;

use crate::support::{asked, execute, with};

use ErrorAction::{Ignore, Retry, Stop};

/// A name, the preset, and what it does about each class of errors.
type Preset = (&'static str, fn() -> ErrorPolicy, [&'static str; 6]);

/// What is done about tool, model, validation, rate limit, timeout and unknown errors by each preset, for
/// the first failed steps in a row, `s`top, `r`etry or `i`gnore.
const TABLE: [Preset; 5] = [
    ("stop_on_any_error", ErrorPolicy::stop_on_any_error, ["sss"; 6]),
    (
        "retry_tool_errors",
        || ErrorPolicy::retry_tool_errors(3),
        ["rrs", "sss", "rrs", "rrs", "rrs", "sss"],
    ),
    (
        "ignore_tool_errors",
        ErrorPolicy::ignore_tool_errors,
        ["iii", "sss", "iii", "iii", "iii", "iii"],
    ),
    (
        "retry_transient",
        || ErrorPolicy::retry_transient(2),
        ["iii", "sss", "iii", "rss", "rss", "iii"],
    ),
    ("retry_all", || ErrorPolicy::retry_all(5), ["rrr"; 6]),
];

/// What a policy does about a step that a tool of this class fails, as an agent does it: the run stops
/// there, or another step is taken.
fn stops_at(policy: ErrorPolicy, step: &ScenarioStep) -> Option<u32> {
    let steps = [step.clone(), step.clone(), step.clone(), "done".into()];
    let state = run(policy, steps);
    matches!(state.status(), ExecutionStatus::Stopped(_)).then(|| state.step_count())
}

#[test]
fn each_preset_does_what_the_table_says_of_it() {
    use ErrorClass::{Model, RateLimit, Timeout, Tool, Unknown, Validation};
    for (name, policy, expect) in TABLE {
        let classes = [Tool, Model, Validation, RateLimit, Timeout, Unknown];
        for (class, expect) in classes.into_iter().zip(expect) {
            let handlings = (1..=3).map(|failed| policy().handling(class, failed));
            let letter = |it| match it {
                Stop => 's',
                Retry => 'r',
                Ignore => 'i',
            };
            assert_eq!(handlings.map(letter).collect::<String>(), expect, "{name}: {class:?}");
        }
        for (tool, column) in [("broken", 0), ("picky", 2), ("slow", 4)] {
            let expect = expect[column].find('s').and_then(|at| u32::try_from(at + 1).ok());
            assert_eq!(stops_at(policy(), &call(tool)), expect, "{name}: {tool}");
        }
    }
}

#[test]
fn every_kind_of_failure_has_a_class() {
    let check = |kind: FailureKind, expect| assert_eq!(ErrorClass::from(kind), expect, "{kind:?}");
    check(FailureKind::Model, ErrorClass::Model);
    check(FailureKind::Network, ErrorClass::Model);
    check(FailureKind::NoModel, ErrorClass::Model);
    check(FailureKind::RateLimit, ErrorClass::RateLimit);
    check(FailureKind::Timeout, ErrorClass::Timeout);
    check(FailureKind::Tool, ErrorClass::Tool);
    check(FailureKind::UnknownTool, ErrorClass::Tool);
    check(FailureKind::InvalidArguments, ErrorClass::Validation);
    check(FailureKind::Validation, ErrorClass::Validation);
    for kind in
        [FailureKind::Hook, FailureKind::ContextCompile, FailureKind::Driver, FailureKind::Panic]
    {
        check(kind, ErrorClass::Unknown);
    }
}

#[test]
fn trying_again_ends_where_the_retries_are_used_up() {
    let policy = ErrorPolicy::retry_tool_errors(3);
    let tools: Vec<_> = (0..5).map(|failed| policy.handling(ErrorClass::Tool, failed)).collect();
    assert_eq!(tools, [Retry, Retry, Retry, Stop, Stop]);
    assert_eq!(policy.handling(ErrorClass::Model, 1), Stop);
    assert_eq!(ErrorPolicy::retry_all(0).handling(ErrorClass::Unknown, 0), Stop);
    assert_eq!(ErrorPolicy::ignore_tool_errors().handling(ErrorClass::Tool, 99), Ignore);
}

/// An agent whose model follows a script, with tools that fail in each way there is.
fn agent(model: &FakeModel, policy: ErrorPolicy) -> AgentLoop {
    let picky = MockTool::returning("picky", "Wants a number.", "fine").with_schema(json!({
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }));
    let timeout = Some(Duration::from_secs(1));
    let slow =
        MockTool::hanging("slow").with_options(ToolOptions { timeout, ..Default::default() });
    let confused = MockTool::new("confused", "Rejects.", |_| {
        Err::<(), BoxError>(Box::new(ToolError::InvalidArguments("no such day".into())))
    });
    let tools = UseTools::new()
        .with_tool(MockTool::scripted())
        .with_tool(MockTool::failing("broken", "no paper"))
        .with_tool(MockTool::panicking("mad"))
        .with_tool(picky)
        .with_tool(slow)
        .with_tool(confused);
    let block = CallableHook::new("block").before_tool(|call, _, _| {
        Ok(match &*call.arguments {
            r#"{"blocked":true}"# => ToolDecision::Block { reason: "not today".into() },
            _ => ToolDecision::Run,
        })
    });
    AgentBuilder::base()
        .with_capability(UseLlmConfig::model(model.clone()))
        .with_capability(tools)
        .with_capability(UseHook::new(block))
        .with_capability(UseGuards::new(Budget::unlimited().with_steps(9)))
        .with_capability(UseErrorPolicy(policy))
        .build()
        .unwrap()
}

fn call(tool: &str) -> ScenarioStep {
    ScenarioStep::tool_call(tool, json!({}))
}

#[track_caller]
fn run(policy: ErrorPolicy, steps: impl IntoIterator<Item = ScenarioStep>) -> AgentState {
    execute(&agent(&FakeModel::script(steps), policy), asked())
}

fn forbidden(class: &str, failed: u32, max_retries: u32) -> StopSignal {
    let text = format!("the error policy stops the run (failed steps: {failed})");
    StopSignal::new(StopReason::ErrorForbade, "error_policy", text)
        .with("error_class", class)
        .with("failed_in_a_row", failed)
        .with("max_retries", max_retries)
}

#[track_caller]
fn check_stopped(state: &AgentState, steps: u32, signal: StopSignal) {
    assert_eq!((state.step_count(), state.status()), (steps, &ExecutionStatus::Stopped(signal)));
}

#[track_caller]
fn check_answered(state: &AgentState, steps: u32) {
    assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, "done"));
    assert_eq!(state.step_count(), steps);
}

#[test]
fn stop_on_any_error_ends_the_run_at_the_first_tool_error_of_any_kind() {
    let check = |step: ScenarioStep, class: &str| {
        let state = run(ErrorPolicy::stop_on_any_error(), [step, "done".into()]);
        check_stopped(&state, 1, forbidden(class, 1, 0));
    };
    check(call("broken"), "tool");
    check(call("mad"), "tool");
    check(call("missing"), "tool");
    check(ScenarioStep::tool_call("scripted", json!({"blocked": true})), "tool");
    check(ScenarioStep::tool_calls([("scripted", json!({})), ("broken", json!({}))]), "tool");
    check(call("picky"), "validation");
    check(call("confused"), "validation");
    check(ScenarioStep::raw_tool_calls([("scripted", "{")]), "validation");
    check(call("slow"), "timeout");
    let state = run(ErrorPolicy::stop_on_any_error(), [call("scripted"), "done".into()]);
    check_answered(&state, 2);
}

#[test]
fn retry_tool_errors_stops_at_the_failed_step_that_uses_the_retries_up() {
    let state = run(ErrorPolicy::retry_tool_errors(3), [call("broken")]);
    check_stopped(&state, 3, forbidden("tool", 3, 3));
    let two = [call("broken"), call("picky"), "done".into()];
    check_answered(&run(ErrorPolicy::retry_tool_errors(3), two), 3);
}

#[test]
fn a_step_without_errors_begins_the_count_anew() {
    let steps = ["broken", "broken", "scripted", "broken", "broken"].map(call);
    let state = run(ErrorPolicy::retry_tool_errors(3), steps.into_iter().chain(["done".into()]));
    check_answered(&state, 6);
}

#[test]
fn tool_errors_that_are_ignored_are_left_to_the_model() {
    for policy in [ErrorPolicy::ignore_tool_errors(), ErrorPolicy::retry_transient(1)] {
        let steps = ["broken", "mad", "missing", "picky"].map(call);
        let state = run(policy, steps.into_iter().chain(["done".into()]));
        check_answered(&state, 5);
        assert!(state.had_tool_errors());
    }
    let steps = [call("slow"), call("slow"), "done".into()];
    check_answered(&run(ErrorPolicy::ignore_tool_errors(), steps), 3);
}

/// A model in one kind of trouble for so many calls.
fn in_trouble(kind: ModelErrorKind, calls: usize) -> FakeModel {
    let left = std::sync::atomic::AtomicUsize::new(calls);
    FakeModel::from_fn(move |_| {
        use std::sync::atomic::Ordering::SeqCst;
        match left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(ModelError::new(kind, "in trouble")),
            Err(_) => ScenarioStep::final_answer("done").to_response(),
        }
    })
}

/// The steps that are taken, and whether there is an answer in the end.
#[track_caller]
fn check_model(policy: ErrorPolicy, kind: ModelErrorKind, failures: usize, expect: (u32, bool)) {
    let state = execute(&agent(&in_trouble(kind, failures), policy), asked());
    let is_failed = matches!(state.status(), ExecutionStatus::Failed(_));
    assert_eq!((state.step_count(), state.status() == &ExecutionStatus::Completed), expect);
    assert_eq!(is_failed, !expect.1);
}

#[test]
fn a_model_that_does_not_answer_fails_the_run_or_is_asked_again() {
    use ModelErrorKind::{Network, RateLimited, Timeout, Unavailable};
    for kind in [Network, RateLimited, Timeout, Unavailable] {
        check_model(ErrorPolicy::stop_on_any_error(), kind, 1, (1, false));
        check_model(ErrorPolicy::ignore_tool_errors(), kind, 1, (1, false));
        check_model(ErrorPolicy::retry_all(3), kind, 2, (3, true));
        check_model(ErrorPolicy::retry_all(3), kind, 3, (3, false));
    }
    for kind in [RateLimited, Timeout] {
        check_model(ErrorPolicy::retry_tool_errors(2), kind, 1, (2, true));
        check_model(ErrorPolicy::retry_transient(2), kind, 1, (2, true));
        check_model(ErrorPolicy::retry_transient(2), kind, 2, (2, false));
    }
    for kind in [Network, Unavailable] {
        check_model(ErrorPolicy::retry_tool_errors(2), kind, 1, (1, false));
        check_model(ErrorPolicy::retry_transient(2), kind, 1, (1, false));
    }
}

#[test]
fn tool_errors_and_models_that_do_not_answer_count_together() {
    let down = || ScenarioStep::error("down");
    let state = run(ErrorPolicy::retry_all(3), [call("broken"), down(), call("broken")]);
    check_stopped(&state, 3, forbidden("tool", 3, 3));
    let state = run(ErrorPolicy::retry_all(3), [down(), call("broken"), "done".into()]);
    check_answered(&state, 3);
}

#[test]
fn a_failing_hook_has_the_class_unknown() {
    let failing = |policy| {
        let broken = CallableHook::new("broken").before_step(|state, _| match state.step_count() {
            0 => Err("no paper".into()),
            _ => Ok(loopwright_core::Flow::Continue),
        });
        let model = FakeModel::script(["done"]);
        let builder = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(model))
            .with_capability(UseErrorPolicy(policy));
        execute(&with(builder, UseHook::new(broken)), asked())
    };
    check_answered(&failing(ErrorPolicy::retry_all(2)), 2);
    let state = failing(ErrorPolicy::retry_tool_errors(2));
    assert!(
        matches!(state.status(), ExecutionStatus::Failed(failure) if failure.kind == FailureKind::Hook)
    );
}

#[test]
fn without_a_policy_tool_errors_are_the_models_and_a_missing_answer_fails_the_run() {
    let run = |steps: Vec<ScenarioStep>| {
        let builder = AgentBuilder::base()
            .with_capability(UseLlmConfig::model(FakeModel::script(steps)))
            .with_capability(UseTools::new().with_tool(MockTool::failing("broken", "no paper")));
        execute(&builder.build().unwrap(), asked())
    };
    check_answered(&run(vec![call("broken"), call("broken"), "done".into()]), 3);
    let state = run(vec![ScenarioStep::error("down"), "done".into()]);
    assert!(matches!(state.status(), ExecutionStatus::Failed(_)));
}
