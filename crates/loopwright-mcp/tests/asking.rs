//! What servers of the revisions before 2026-07-28 ask and report while a call runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loopwright_capabilities::questions::OnQuestion;
use loopwright_core::messages::{
    Content, InferenceRequest, Part, ToolCall, ToolChoice, TurnBody, Usage,
};
use loopwright_core::{AgentState, ApprovalDecision, Budget, ExecutionStatus, StopReason};
use loopwright_mcp::{McpClient, McpLog, ServerSampling};
use loopwright_testing::{EventRecorder, FakeModel, ScenarioStep};
use serde_json::{Value, json};

use crate::world::{World, agent, agent_with, call, calling, results, waiting};

fn go() -> AgentState {
    AgentState::new().with_user_message("go")
}

fn sampling(world: &World, mode: &str, sampling: ServerSampling) -> McpClient {
    McpClient::new(World::server(mode).with_sampling(sampling), world.host())
}

/// A client whose user is there.
fn attended(world: &World, mode: &str) -> McpClient {
    McpClient::new(World::server(mode), world.host().with_attendance(|| true))
}

fn yes() -> ApprovalDecision {
    ApprovalDecision::Reply(json!("yes"))
}

/// The tools are known from the start, so that the first request has them.
async fn ready(client: &McpClient) {
    client.tools().await.unwrap();
}

/// What the server was told, without what the client adds to every message.
fn told(results: &[String]) -> Value {
    let message: Value = serde_json::from_str(&results[0]).unwrap_or_default();
    if message["error"].is_null() { message["result"].clone() } else { message["error"].clone() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_answers_a_server_that_may_use_it_on_the_account_of_the_run() {
    let world = World::new();
    let client = sampling(&world, "asks_model", ServerSampling::Allow);
    ready(&client).await;
    let usage = |step: ScenarioStep| step.with_usage(Usage::new(10, 1));
    let model = FakeModel::script([
        usage(ScenarioStep::tool_call("mcp__fake__echo", json!({}))),
        usage("42".into()),
        usage("done".into()),
    ]);
    let state = agent(&client, &model).execute(go()).await;
    let answer = json!({
        "role": "assistant", "content": {"type": "text", "text": "42"},
        "model": "unknown", "stopReason": "endTurn",
    });
    assert_eq!(told(&results(&state)), answer);
    assert_eq!(state.execution().unwrap().spent().usage, Usage::new(30, 3));
    let request = &model.requests()[1];
    let said: Vec<String> = request.prompt.stable().map(|it| it.message().text()).collect();
    assert_eq!(said, ["What is 6 x 7?\u{1b}[2J"]);
    assert_eq!(request.system.as_deref(), Some("Count."));
    let options = &request.options;
    assert_eq!(
        (options.max_output_tokens, options.temperature, options.stop.as_slice()),
        (Some(100), Some(0.5), ["END".to_owned()].as_slice())
    );
    assert!(request.tools.is_empty(), "the tools of the agent are not the server's");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_passes_calls_results_and_tools_to_the_model_and_gets_its_calls() {
    let world = World::new();
    let client = sampling(&world, "asks_model_with_tools", ServerSampling::Allow);
    ready(&client).await;
    let model = calling([
        ScenarioStep::tool_call("look", json!({"place": "there"})).with_text("I look."),
        "done".into(),
    ]);
    let state = agent(&client, &model).execute(go()).await;
    let told = told(&results(&state));
    assert_eq!(told["content"][0], json!({"type": "text", "text": "I look."}));
    let input = json!({"place": "there"});
    let called = &told["content"][1];
    assert_eq!(
        (&called["type"], &called["name"], &called["input"]),
        (&json!("tool_use"), &json!("look"), &input)
    );
    assert_eq!(told["stopReason"], "toolUse");
    let request: &InferenceRequest = &model.requests()[1];
    assert_eq!(request.tool_choice, ToolChoice::Required);
    assert_eq!(request.tools.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["look"]);
    let turns: Vec<_> = request.prompt.stable().collect();
    let question = [
        Part::text("How warm is it?"),
        Part::image(
            "image/png",
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==",
        ),
    ];
    assert_eq!(turns[0].message().parts(), question);
    let TurnBody::ToolExchange(exchange) = turns[1].body() else { panic!("{turns:?}") };
    let looked = ToolCall::new("one", "look", json!({"place": "here"}).to_string());
    assert_eq!(exchange.reply().parts()[0].content(), &Content::ToolCall(looked));
    assert_eq!(exchange.results()[0].to_text(), "20");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_the_model_waits_for_the_user_while_the_server_waits() {
    let world = World::new();
    let client = attended(&world, "asks_model");
    ready(&client).await;
    for (decision, expected) in
        [(yes(), json!("42")), (ApprovalDecision::Reply(json!("no")), json!(null))]
    {
        let model = calling(["42", "done"]);
        let agent = agent(&client, &model);
        let state = agent.execute(go()).await;
        assert_eq!(state.status(), &ExecutionStatus::Paused);
        let asked = "MCP server `fake` requests a response from your model (1 message, up to 100 tokens): \
                     What is 6 x 7?\\u{1b}[2J";
        assert_eq!(waiting(&state), [asked]);
        assert_eq!(model.asked(), 1, "nothing is asked before the user allows it");
        assert!(agent.decide(&state, &[0], ApprovalDecision::Reply(json!("perhaps"))).is_err());
        let state = agent.decide(&state, &[0], decision).unwrap();
        let state = agent.execute(state).await;
        let told = told(&results(&state));
        assert_eq!(told["content"]["text"], expected, "{told}");
        assert_eq!(told["code"].is_null(), expected.is_string());
        assert_eq!(client.status().starts, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_the_model_that_no_user_can_allow_is_refused_and_the_call_goes_on() {
    let world = World::new();
    let code = async |client: &McpClient, on_question| {
        ready(client).await;
        let model = calling(["done"]);
        let state = agent_with(client, &model, on_question).execute(go()).await;
        assert_eq!((state.text(), model.asked()), ("done".into(), 2));
        told(&results(&state))["code"].clone()
    };
    let unattended = sampling(&world, "asks_model", ServerSampling::Ask);
    assert_eq!(code(&unattended, OnQuestion::Wait).await, -1);
    assert_eq!(code(&unattended, OnQuestion::Decline).await, -1);
    let denied = sampling(&world, "asks_model", ServerSampling::Deny);
    assert_eq!(code(&denied, OnQuestion::Wait).await, -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_budget_a_server_uses_up_stops() {
    let world = World::new();
    let client = sampling(&world, "asks_model", ServerSampling::Allow);
    ready(&client).await;
    let usage = |step: ScenarioStep| step.with_usage(Usage::new(10, 1));
    let steps = [usage(ScenarioStep::tool_call("mcp__fake__echo", json!({}))), usage("42".into())];
    let model = FakeModel::script(steps);
    let state = go().with_budget(Budget::default().with_tokens(11));
    let state = agent(&client, &model).execute(state).await;
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::TokenLimitReached);
    assert_eq!(model.asked(), 1, "the server's request would exceed the budget");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_in_the_open_connection_and_its_answer_reaches_the_server() {
    let world = World::new();
    let client = attended(&world, "elicitation");
    ready(&client).await;
    let model = calling(["done"]);
    let agent = agent(&client, &model);
    let state = agent.execute(go()).await;
    assert_eq!(waiting(&state), ["MCP server `fake` asks: Your name?"]);
    let state = state.decide(0, ApprovalDecision::Reply(json!({"name": "Ada"})));
    let state = agent.execute(state).await;
    assert_eq!(told(&results(&state)), json!({"action": "accept", "content": {"name": "Ada"}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_process_is_gone_says_that_its_outcome_is_not_known() {
    let world = World::new();
    let model = calling(["done"]);
    let first = attended(&world, "elicitation");
    ready(&first).await;
    let state = agent(&first, &model).execute(go()).await;
    let stored = serde_json::to_string(&state).unwrap();
    drop((first, state));
    let state: AgentState = serde_json::from_str(&stored).unwrap();
    let state = state.decide(0, ApprovalDecision::Reply(json!({"name": "Ada"})));
    let second = attended(&world, "elicitation");
    ready(&second).await;
    let state = agent(&second, &model).execute(state).await;
    let told = results(&state).join("");
    assert!(told.contains("the server's question was lost when the program exited"), "{told}");
    assert_eq!(state.text(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_that_the_user_declined_or_cancelled_and_its_call_continues() {
    let world = World::new();
    let client = attended(&world, "elicitation");
    ready(&client).await;
    let again = ScenarioStep::tool_call("mcp__fake__echo", json!({}));
    let model = calling([again, "done".into()]);
    let agent = agent(&client, &model);
    let state = agent.execute(go()).await;
    let reason = "not now".to_owned();
    let state = agent.decide(&state, &[0], ApprovalDecision::Deny { reason }).unwrap();
    let state = agent.execute(state).await;
    assert_eq!(waiting(&state), ["MCP server `fake` asks: Your name?"]);
    let state = agent.decide(&state, &[0], ApprovalDecision::Cancel).unwrap();
    let state = agent.execute(state).await;
    let told: Vec<Value> =
        results(&state).iter().map(|it| told(std::slice::from_ref(it))).collect();
    assert_eq!(told, [json!({"action": "decline"}), json!({"action": "cancel"})]);
    assert_eq!(state.text(), "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_declined_as_soon_as_no_user_is_there() {
    let world = World::new();
    let is_there = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_there);
    let host = world.host().with_attendance(move || flag.load(Ordering::Relaxed));
    let client = McpClient::new(World::server("elicitation"), host);
    ready(&client).await;
    let declined = agent(&client, &calling(["done"])).execute(go()).await;
    assert_eq!(told(&results(&declined)), json!({"action": "decline"}));
    is_there.store(true, Ordering::Relaxed);
    let waits = agent(&client, &calling(["done"])).execute(go()).await;
    assert_eq!(waiting(&waits).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_messages_of_a_call_are_events_and_lines_of_the_log_at_the_level_info() {
    let world = World::new();
    let client = world.client("log");
    let (told, events): (String, EventRecorder) = call(&client, "mcp__fake__echo", json!({})).await;
    assert_eq!(told, "[\"info\"]");
    let logs: Vec<(String, String)> =
        events.events_of::<McpLog>().into_iter().map(|it| (it.level, it.message)).collect();
    let expected = [("warning", "low on\\u{1b}[2J ink"), ("info", "{\"page\":1}")]
        .map(|(level, message)| (level.to_owned(), message.to_owned()));
    assert_eq!(logs, expected);
    assert_eq!(client.log().to_lines(), ["[warning] low on\\u{1b}[2J ink", "[info] {\"page\":1}"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_that_a_run_was_cancelled() {
    let world = World::new();
    let client = world.client("waits_for_cancel");
    ready(&client).await;
    let run =
        agent(&client, &calling(["done"])).start(go(), loopwright_core::RunOptions::default());
    let (called, handle) = (client.clone(), run.handle());
    tokio::spawn(async move {
        wait_for_log(&called, 1).await;
        handle.cancel();
    });
    let state = run.finish().await;
    assert_eq!(state.stop_signal().unwrap().reason, StopReason::UserRequested);
    wait_for_log(&client, 2).await;
    assert_eq!(client.log().to_lines(), ["called", "notifications/cancelled true"]);
}

/// Waits until a server has written this many lines.
async fn wait_for_log(client: &McpClient, lines: usize) {
    while client.log().to_lines().len() < lines {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
