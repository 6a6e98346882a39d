//! Whatever a model, a tool or a caller does wrong: the outcome, the status, and that the state can
//! go on.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, Budget, CallableHook, Driver,
    ExecutionStatus, FailureKind, StepError, StepResponse, StopReason, ThinkCx, ToolDecision,
    ToolOptions, ToolOutput,
    events::ToolCallCompleted,
    messages::{Content, FinishReason, Message, Part, Role, ToolCall, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeDriver, FakeModel, MockTool, ModelDriver, ScenarioStep, test_loop,
    yield_times,
};
use serde_json::json;

use crate::support::{agent, asked, execute, hooked, is_valid, outcomes, told};

/// What the model is told of a call that goes wrong; the run goes on and completes, and so does
/// another one after it.
#[track_caller]
fn check_call(tool: MockTool, call: (&'static str, &'static str), expect: &str) -> AgentState {
    let steps = [ScenarioStep::raw_tool_calls([call]), "done".into(), "again".into()];
    let agent = agent(steps).with_tool(tool);
    let state = execute(&agent, asked());
    assert!(told(&state)[0].contains(expect), "{:?}", told(&state));
    assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, "done"));
    goes_on(&agent, &state, "again");
    state
}

#[track_caller]
fn goes_on(agent: &AgentLoop, state: &AgentState, expect: &str) {
    is_valid(state);
    let state = execute(agent, state.clone().with_user_message("once more"));
    assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, expect));
    is_valid(&state);
}

fn typed() -> MockTool {
    let schema = json!({
        "type": "object",
        "properties": { "count": { "type": "integer" } },
        "required": ["count"],
    });
    MockTool::returning("typed", "", "counted").with_schema(schema)
}

#[test]
fn a_tool_that_there_is_not() {
    let state = check_call(
        typed(),
        ("mistyped", "{}"),
        "Error: unknown tool `mistyped`; available: scripted, typed",
    );
    assert_eq!(kinds(&state), [FailureKind::UnknownTool]);
}

#[test]
fn arguments_that_break_the_schema() {
    let state = check_call(
        typed(),
        ("typed", r#"{"count":"three"}"#),
        "the arguments do not match the schema of `typed`: at /count:",
    );
    assert_eq!(kinds(&state), [FailureKind::InvalidArguments]);
    check_call(typed(), ("typed", "{}"), "at /:");
    check_call(typed(), ("typed", "[1]"), "at /:");
}

#[test]
fn arguments_that_are_not_json() {
    let tool = typed();
    let state =
        check_call(tool.clone(), ("typed", r#"{"count": 3"#), "the arguments are not valid JSON:");
    assert_eq!(kinds(&state), [FailureKind::InvalidArguments]);
    assert_eq!(tool.keys().len(), 0);
}

#[test]
fn arguments_that_are_nothing_are_an_empty_object() {
    check_call(MockTool::returning("look", "", "seen"), ("look", ""), "seen");
    check_call(MockTool::returning("look", "", "seen"), ("look", "null"), "seen");
}

#[test]
fn a_tool_that_panics() {
    let text = "Error: the tool panicked: the tool lost its head";
    let state = check_call(MockTool::panicking("panic"), ("panic", "{}"), text);
    assert_eq!(kinds(&state), [FailureKind::Panic]);
}

#[test]
fn a_tool_that_hangs() {
    let options = ToolOptions { timeout: Some(Duration::from_secs(3)), ..ToolOptions::default() };
    let tool = MockTool::hanging("hang").with_options(options);
    let state = check_call(tool, ("hang", "{}"), "did not finish within 3s");
    assert_eq!(kinds(&state), [FailureKind::Timeout]);
}

#[test]
fn a_tool_that_fails() {
    let state =
        check_call(MockTool::failing("fail", "it broke"), ("fail", "{}"), "Error: it broke");
    assert_eq!(kinds(&state), [FailureKind::Tool]);
}

#[test]
fn a_tool_that_returns_100_megabytes() {
    let tool = MockTool::huge("huge", 100_000_000);
    let state = check_call(tool, ("huge", "{}"), "[truncated: the tool returned 100000000 bytes");
    assert!(told(&state)[0].len() < 1_100_000);
}

#[test]
fn a_prompt_that_says_nothing() {
    let model = FakeModel::echo();
    let agent = test_loop(ModelDriver::new(model.clone()));
    let state = execute(&agent, AgentState::new());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.to_string(), "no messages to send; add a user message to the state");
    assert_eq!((model.asked(), state.step_count()), (0, 1));
    goes_on(&agent, &state, "once more");
}

#[test]
fn a_model_that_never_stops_under_a_budget() {
    let agent = agent([ScenarioStep::tool("more"), ScenarioStep::tool("more"), "again".into()]);
    let budget = Budget { steps: Some(2), ..Budget::default() };
    let state = execute(&agent, asked().with_budget(budget));
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::StepsLimitReached);
    goes_on(&agent, &state, "again");
}

#[test]
fn a_driver_that_fails_or_panics() {
    let agent = agent([ScenarioStep::error("down"), "again".into()]);
    let state = execute(&agent, asked());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(
        (failure.kind, failure.to_string().as_str()),
        (FailureKind::Driver, "the driver failed: down")
    );
    goes_on(&agent, &state, "again");
    let state = execute(&test_loop(Odd(|| panic!("no idea"))), asked());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.kind, FailureKind::Panic);
    goes_on(&test_loop(FakeDriver::default()), &state, "ok");
}

struct Odd(fn() -> Message);

#[async_trait]
impl Driver for Odd {
    async fn think(&self, _: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let spend = loopwright_core::Spend { usage: Usage::new(1, 1), ..Default::default() };
        Ok(StepResponse {
            message: (self.0)(),
            finish_reason: FinishReason::Stop,
            spend,
            answered_by: None,
        })
    }
}

#[test]
fn a_driver_reply_in_another_role_fails_the_step() {
    let state = execute(&test_loop(Odd(|| Message::user("I am you"))), asked());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.kind, FailureKind::Driver);
    goes_on(&test_loop(FakeDriver::default()), &state, "ok");
}

/// Calls of one answer, as a careless provider numbers them.
fn careless() -> Message {
    let ids = [None, Some("same"), Some("same"), Some("")];
    let calls = ids.into_iter().zip(["1", "2", "3", "4"]).map(|(id, number)| {
        Part::new(Content::ToolCall(ToolCall {
            id: id.map(Into::into),
            name: "echo".into(),
            arguments: number.into(),
        }))
    });
    Message::new(Role::Assistant, calls)
}

/// Answers with careless calls, and then with words.
struct Careless;

#[async_trait]
impl Driver for Careless {
    async fn think(&self, state: &AgentState, _: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let is_first = state.step_count() == 0;
        let message = if is_first { careless() } else { Message::assistant("done") };
        let spend = loopwright_core::Spend::default();
        Ok(StepResponse { message, finish_reason: FinishReason::Stop, spend, answered_by: None })
    }
}

/// Answers a call with its argument, a later one sooner.
fn echo() -> MockTool {
    let echo = MockTool::with_cx("echo", "", |arguments, _| {
        let turns = 5 - u32::try_from(arguments.as_u64().unwrap_or(0)).unwrap_or(0);
        Box::pin(async move {
            yield_times(turns).await;
            Ok(ToolOutput::text(arguments.to_string()))
        })
    });
    echo.with_schema(json!({ "type": "integer" }))
}

#[test]
fn calls_without_ids_and_with_the_same_ids_are_paired_by_position() {
    let events = EventRecorder::new();
    let agent = test_loop(Careless).with_tool(echo()).with_event_sink(events.sink());
    let state = execute(&agent, asked());
    assert_eq!(told(&state), ["1", "2", "3", "4"]);
    assert_eq!(state.transcript().get(1).unwrap().message(), &careless());
    let mut ended: Vec<_> = events
        .events_of::<ToolCallCompleted>()
        .into_iter()
        .map(|it| (it.call, it.id, it.outcome.to_result().to_text()))
        .collect();
    assert_eq!(ended.first().map(|it| it.0), Some(3), "the last call ends first");
    ended.sort();
    let same = || Some(Arc::from("same"));
    let expect = [(0, None, "1"), (1, same(), "2"), (2, same(), "3"), (3, Some("".into()), "4")];
    assert_eq!(ended, expect.map(|(call, id, text)| (call, id, text.to_owned())));
}

#[test]
fn calls_with_the_same_id_are_decided_separately() {
    let ask = CallableHook::new("policy").before_tool(|call, _, _| {
        Ok(match call.id.as_deref() {
            Some("same") => ToolDecision::Ask(ApprovalRequest::new("?", "me")),
            _ => ToolDecision::Run,
        })
    });
    let agent = hooked(&test_loop(Careless).with_tool(echo()), ask);
    let paused = execute(&agent, asked());
    let asked: Vec<_> = paused.pending().iter().map(|it| (it.index, &*it.call.arguments)).collect();
    assert_eq!(asked, [(1, "2"), (2, "3")]);
    let deny = ApprovalDecision::Deny { reason: "no".into() };
    let state =
        execute(&agent, paused.clone().decide(1, deny).decide(2, ApprovalDecision::Approve));
    assert_eq!(told(&state), ["1", "Blocked: no", "3", "4"]);
}

fn kinds(state: &AgentState) -> Vec<FailureKind> {
    let kind = |it| match it {
        loopwright_core::ToolOutcome::Failed(failure) => Some(failure.kind),
        _ => None,
    };
    outcomes(state, 0).into_iter().filter_map(kind).collect()
}
