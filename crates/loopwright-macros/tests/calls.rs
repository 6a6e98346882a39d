//! What happens when a model calls a tool.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use loopwright_core::{
    AgentState, AnyTool, ExecutionStatus, Json, RunOptions, Step, StopSignal, Tool, ToolCx,
    ToolError, ToolOutcome, ToolOutput,
};
use loopwright_macros::tool;
use loopwright_testing::{FakeDriver, ScenarioStep, block_on, test_env, test_loop};
use serde::Serialize;
use serde_json::{Value, json};

fn two() -> i64 {
    2
}

/// Divides a number.
#[tool(crate = "loopwright_core")]
async fn divide(a: i64, #[serde(default = "two")] b: i64, c: Option<i64>) -> Result<i64, String> {
    let by = b * c.unwrap_or(1);
    a.checked_div(by).ok_or_else(|| format!("{a} cannot be divided by {by}"))
}

#[test]
fn arguments_arrive_by_name_and_missing_ones_by_their_default() {
    check(divide, &json!({ "b": 3, "a": 6 }), "2");
    check(divide, &json!({ "a": 6 }), "3");
    check(divide, &json!({ "a": 6, "c": 3 }), "1");
}

#[test]
fn the_model_is_told_why_a_call_failed() {
    check(divide, &json!({ "a": 1, "b": 0 }), "Error: 1 cannot be divided by 0");
    check(
        divide,
        &json!({ "a": "1" }),
        "Error: the arguments do not match the schema of `divide`: at /a: \"1\" is not of type \"integer\"",
    );
}

/// Repeats its arguments and its call.
#[tool(crate = "loopwright_core")]
async fn repeat(before: String, cx: &ToolCx<'_>, after: String) -> String {
    format!("{before} {} {after}", cx.call.name)
}

#[test]
fn the_context_arrives_between_the_arguments() {
    check(repeat, &json!({ "after": "b", "before": "a" }), "a repeat b");
}

/// Counts its calls.
#[tool(crate = "loopwright_core", side_effects = "read_only")]
async fn count(
    #[state] calls: &Arc<AtomicUsize>,
    by: usize,
    cx: &ToolCx<'_>,
    #[state] names: &Mutex<Vec<String>>,
) -> Result<String, String> {
    let mut names = names.lock().map_err(|error| error.to_string())?;
    names.push(cx.call.name.to_string());
    let calls = calls.fetch_add(by, Ordering::Relaxed) + by;
    Ok(format!("{calls} {}", names.join(" ")))
}

#[test]
fn a_tool_has_the_state_that_it_was_made_with() {
    let calls = Arc::new(AtomicUsize::new(1));
    let schema =
        AnyTool::new(count(Arc::clone(&calls), Mutex::default())).spec().parameters.clone();
    assert_eq!(schema["required"], json!(["by"]));
    check(count(Arc::clone(&calls), Mutex::default()), &json!({ "by": 4 }), "5 count");
    assert_eq!(calls.load(Ordering::Relaxed), 5);
}

#[test]
fn the_function_of_a_tool_with_state_can_still_be_called() {
    let (calls, names) = (AtomicUsize::new(1), Names::default());
    assert_eq!(block_on(rename::run(&names, calls.into_inner())), "1");
}

type Names = Mutex<Vec<String>>;

/// Renames.
#[tool(crate = "loopwright_core")]
async fn rename(#[state] names: &Names, name: usize) -> String {
    if let Ok(mut names) = names.lock() {
        names.push(name.to_string());
    }
    name.to_string()
}

#[derive(Serialize)]
struct Page {
    title: &'static str,
}

/// Returns JSON.
#[tool(crate = "loopwright_core")]
async fn page() -> Json<Page> {
    Json(Page { title: "Home" })
}

/// Returns nothing.
#[tool(crate = "loopwright_core")]
async fn nothing() {}

/// Returns what it is told to.
#[tool(crate = "loopwright_core")]
async fn maybe(found: bool) -> Option<ToolOutput> {
    found.then(|| ToolOutput::text("found"))
}

#[test]
fn the_model_is_told_what_the_function_returned() {
    check(page, &json!({}), r#"{"title":"Home"}"#);
    check(nothing, &json!({}), "done");
    check(maybe, &json!({ "found": true }), "found");
    check(maybe, &json!({ "found": false }), "null");
}

/// Ends the run.
#[tool(crate = "loopwright_core")]
async fn stop() -> Result<(), ToolError> {
    Err(StopSignal::requested("stop", "enough").into())
}

#[test]
fn an_error_of_the_tool_keeps_its_meaning() {
    let state = call(stop, &json!({}));
    let expect = StopSignal::requested("stop", "enough");
    assert_eq!(state.status(), &ExecutionStatus::Stopped(expect));
}

/// Has an agent call the tool once.
fn call(tool: impl Tool, arguments: &Value) -> AgentState {
    let step = ScenarioStep::tool_call(tool.name(), arguments.clone());
    let driver = FakeDriver::steps([step, ScenarioStep::final_answer("done")]);
    let agent = test_loop(driver).with_tool(tool);
    let state = AgentState::new().with_user_message("go");
    let options = RunOptions { env: test_env(1), ..RunOptions::default() };
    block_on(agent.start(state, options).finish())
}

/// Returns what the model was told about its call.
#[track_caller]
fn told(tool: impl Tool, arguments: &Value) -> String {
    let state = call(tool, arguments);
    let executions = state.step_at(0).into_iter().flat_map(Step::tool_executions);
    let outcomes: Vec<&ToolOutcome> = executions.map(|(_, outcome)| outcome).collect();
    let [outcome] = outcomes[..] else { panic!("there was not one call: {outcomes:?}") };
    outcome.to_result().to_text()
}

#[track_caller]
fn check(tool: impl Tool, arguments: &Value, expect: &str) {
    assert_eq!(told(tool, arguments), expect);
}
