//! Servers of revision 2026-07-28.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_capabilities::questions::OnQuestion;
use loopwright_core::messages::Part;
use loopwright_core::{AgentState, ApprovalDecision};
use loopwright_mcp::{
    AnswerElicitations, Elicitation, ElicitationReply, McpClient, McpProgress, ServerSampling,
};
use loopwright_testing::EventRecorder;
use serde_json::{Map, Value, json};

use crate::world::{World, agent, agent_with, call, calling, results, waiting};

fn go() -> AgentState {
    AgentState::new().with_user_message("go")
}

/// Lets another process continue a run.
fn moved(state: &AgentState) -> AgentState {
    serde_json::from_str(&serde_json::to_string(state).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_the_model_waits_for_the_user_over_a_restart() {
    let world = World::new();
    let model = calling(["42", "done"]);
    let client = || world.client("stateless_asks_model");
    let first = client();
    first.tools().await.unwrap();
    let state = agent(&first, &model).execute(go()).await;
    let asked = "MCP server `fake` requests a response from your model (1 message, up to 100 tokens): \
                 What is 6 x 7?\\u{1b}[2J";
    assert_eq!((waiting(&state), model.asked()), (vec![asked.to_owned()], 1));
    let state = moved(&state).decide(0, ApprovalDecision::Reply(json!("yes")));
    let second = client();
    second.tools().await.unwrap();
    let state = agent(&second, &model).execute(state).await;
    let told: Value = serde_json::from_str(&results(&state)[0]).unwrap();
    assert_eq!(told["content"]["text"], "42");
    assert_eq!((state.text(), model.asked()), ("done".into(), 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_the_model_that_is_not_allowed_fails_the_call() {
    let world = World::new();
    let told = async |client: &McpClient, on_question| {
        client.tools().await.unwrap();
        let model = calling(["done"]);
        let state = agent_with(client, &model, on_question).execute(go()).await;
        assert_eq!((state.text(), model.asked()), ("done".into(), 2));
        results(&state).join("")
    };
    let client = world.client("stateless_asks_model");
    let headless = told(&client, OnQuestion::Decline).await;
    assert!(headless.contains("set `sampling = \"allow\"` for MCP server `fake`"), "{headless}");
    let server = World::server("stateless_asks_model").with_sampling(ServerSampling::Deny);
    let denied = told(&McpClient::new(server, world.host()), OnQuestion::Wait).await;
    assert!(denied.contains("does not allow"), "{denied}");
    let wrong = told(&world.client("stateless_asks_model_wrongly"), OnQuestion::Wait).await;
    assert!(wrong.contains("sent an invalid model request: there are no messages"), "{wrong}");
    let by_hand = client.call_tool("echo", Map::new()).await.unwrap_err().to_string();
    assert!(by_hand.contains("models are available only while an agent calls a tool"), "{by_hand}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_told_the_folders_and_asks_for_the_log() {
    let world = World::new();
    let (roots, _) = call(&world.client("stateless_roots"), "mcp__fake__echo", json!({})).await;
    let folder = world.folder.path().to_str().unwrap();
    assert!(roots.contains(&format!("file://{folder}")), "{roots}");
    let (level, _) = call(&world.client("stateless_log"), "mcp__fake__echo", json!({})).await;
    assert_eq!(level, "\"info\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_and_asks_the_user_over_a_restart() {
    let world = World::new();
    let model = calling(["done"]);
    let events = EventRecorder::new();
    let first = world.client("stateless_task");
    first.tools().await.unwrap();
    let state = agent(&first, &model).with_event_sink(events.sink()).execute(go()).await;
    let progress: Vec<Option<String>> =
        events.events_of::<McpProgress>().into_iter().map(|it| it.message).collect();
    assert_eq!(progress, [Some("half way".to_owned())]);
    assert_eq!(waiting(&state), ["MCP server `fake` asks: Who?"]);
    let state = moved(&state).decide(0, ApprovalDecision::Reply(json!({"name": "Ada"})));
    let second = world.client("stateless_task");
    second.tools().await.unwrap();
    let state = agent(&second, &model).execute(state).await;
    let told: Value = serde_json::from_str(&results(&state)[0]).unwrap();
    assert_eq!(told, json!({"action": "accept", "content": {"name": "Ada"}}));
    assert!(!first.log().to_lines().concat().contains("cancelled"), "a task that waits goes on");
}

/// Answers at once.
#[derive(Debug)]
struct Ready;

#[async_trait]
impl AnswerElicitations for Ready {
    async fn answer(&self, _: &Elicitation) -> ElicitationReply {
        ElicitationReply::Accept(json!({"name": "Ada"}))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_on_when_its_question_is_answered_at_once() {
    let world = World::new();
    let host = world.host().with_answers(Arc::new(Ready));
    let client = McpClient::new(World::server("stateless_task"), host);
    let said = client.call_tool("echo", Map::new()).await.unwrap();
    let told: Value = serde_json::from_str(said["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(told, json!({"action": "accept", "content": {"name": "Ada"}}));
    // Requests are in their order, so that a cancellation would be in the log before this answer.
    client.resources().await.unwrap();
    assert_eq!(client.log().to_lines(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_fails_or_takes_too_long_is_an_error_and_is_cancelled() {
    let world = World::new();
    let failing = world.client("stateless_failing_task");
    let error = failing.call_tool("echo", Map::new()).await.unwrap_err().to_string();
    assert!(error.contains("refused `tools/call`: no\\u{1b}[2J paper"), "{error}");
    let server =
        World::server("stateless_endless_task").with_max_call_time(Duration::from_millis(300));
    let endless = McpClient::new(server, world.host());
    let error = endless.call_tool("echo", Map::new()).await.unwrap_err().to_string();
    assert!(error.contains("did not respond to `tools/call` within 0.3 s"), "{error}");
    while endless.log().to_lines().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(endless.log().to_lines(), ["cancelled \"t1\""]);
}

async fn listed(client: &McpClient) -> Vec<String> {
    client.resources().await.unwrap().into_iter().map(|it| it.name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_used_again_as_long_as_the_server_allows() {
    let world = World::new();
    let fresh = world.client("stateless_fresh");
    let cached = world.client("stateless_cached");
    assert_eq!([listed(&fresh).await, listed(&fresh).await], [["list 1"], ["list 2"]]);
    assert_eq!([listed(&cached).await, listed(&cached).await], [["list 1"], ["list 1"]]);
    let read = async || cached.read_resource("note:///a").await.unwrap();
    let expected = [Part::text("[resource note:///a]\nread 2")];
    assert_eq!((read().await, read().await), (expected.to_vec(), expected.to_vec()));
    // The server reports that its list has changed.
    while listed(&cached).await == ["list 1"] {
        cached.call_tool("echo", Map::new()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_watched_resource_are_reported_in_both_revisions() {
    let world = World::new();
    for (mode, end) in
        [("resources", "resources/unsubscribe"), ("stateless_fresh", "notifications/cancelled")]
    {
        let client = world.client(mode);
        let mut watch = client.watch_resource("note:///one").await.unwrap();
        assert!(watch.changed().await, "{mode}");
        drop(watch);
        while client.log().to_lines().last().map(String::as_str) != Some(end) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let client = world.client("");
    let error = client.watch_resource("note:///one").await;
    assert!(error.is_ok(), "this server takes every subscription");
}
