//! Many tools cost nothing until the model finds them, and tools stay as they were approved.

use std::sync::Arc;
use std::time::Duration;

use loopwright_agent::{AgentBuilder, UseLlmConfig};
use loopwright_core::{AgentLoop, AgentState, messages::InferenceRequest};
use loopwright_mcp::{FileCatalogs, McpClient, ServerHealth, UseMcp};
use loopwright_testing::{FakeModel, ScenarioStep};
use serde_json::json;

use crate::world::{World, results};

fn agent(model: &FakeModel, clients: &[McpClient]) -> AgentLoop {
    AgentBuilder::base()
        .with(UseLlmConfig::model(model.clone()))
        .with(UseMcp::new(clients.iter().cloned()))
        .build()
        .unwrap()
}

fn names(request: &InferenceRequest) -> Vec<String> {
    request.tools.iter().map(|it| it.name.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_tools_cost_one_until_some_are_found_which_are_appended() {
    let world = World::new();
    let client = world.client("many_tools");
    client.tools().await.unwrap();
    let model = FakeModel::script([
        ScenarioStep::tool_call("mcp_search", json!({ "query": "tool1234" })),
        ScenarioStep::tool_call("mcp__fake__tool1234", json!({ "text": "found" })),
        "done".into(),
    ]);
    let agent = agent(&model, &[client]);
    let state = agent.execute(AgentState::new().with_user_message("go")).await;
    let requests = model.requests();
    assert_eq!(names(&requests[0]), ["mcp_search"]);
    assert_eq!(names(&requests[1]), ["mcp_search", "mcp__fake__tool1234"]);
    let bytes = serde_json::to_string(&*requests[0].tools.to_vec()).unwrap().len();
    assert!(bytes < 1_000, "{bytes} bytes of tools are fewer than 2,000 tokens");
    assert_eq!(results(&state)[1], "found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_delays_nothing_and_the_search_says_what_is_wrong() {
    let world = World::new();
    let dead = McpClient::new(
        World::server("hang_at_start").with_startup_timeout(std::time::Duration::from_secs(2)),
        world.host(),
    );
    let model = FakeModel::script(["done"]);
    agent(&model, std::slice::from_ref(&dead))
        .execute(AgentState::new().with_user_message("go"))
        .await;
    assert_eq!(names(&model.requests()[0]), ["mcp_search"]);
    let model = FakeModel::script([
        ScenarioStep::tool_call("mcp_search", json!({ "query": "" })),
        "done".into(),
    ]);
    let state = agent(&model, &[dead]).execute(AgentState::new().with_user_message("go")).await;
    let told = results(&state);
    assert!(told[0].contains("MCP server `fake`"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_asks_its_model_and_ends_while_its_servers_have_not_answered() {
    let world = World::new();
    // Each hangs somewhere else on its way to a list of tools, for longer than this test may take.
    let hanging = [
        "hang_at_start",
        "hang_at_discover",
        "hang_at_initialize",
        "hang_at_list",
        "half_message_and_hang",
        "invalid_json",
    ];
    let clients: Vec<McpClient> = hanging.map(|mode| named(&world, mode)).into();
    let model = FakeModel::script(["done"]);
    let state = agent(&model, &clients).execute(AgentState::new().with_user_message("go")).await;
    assert_eq!((state.text(), model.asked()), ("done".into(), 1));
    let is_over = |it: &&McpClient| {
        matches!(it.status().health, ServerHealth::Connected | ServerHealth::Failed)
    };
    let over: Vec<&McpClient> = clients.iter().filter(is_over).collect();
    assert!(over.is_empty(), "no server has answered or was given up: {over:?}");
}

/// A client of a server that has the name of its behaviour.
fn named(world: &World, mode: &str) -> McpClient {
    let mut server = World::server(mode).with_startup_timeout(Duration::from_mins(10));
    server.name = mode.to_owned();
    McpClient::new(server, world.host())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_the_same_bytes_in_whatever_order_servers_answer() {
    let mut texts = Vec::new();
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let world = World::new();
        let clients = ["alpha", "beta", "gamma"].map(|name| {
            let mut server = World::server("");
            name.clone_into(&mut server.name);
            McpClient::new(server, world.host())
        });
        for index in order {
            clients[index].tools().await.unwrap();
        }
        let model = FakeModel::script(["done"]);
        agent(&model, &clients).execute(AgentState::new().with_user_message("go")).await;
        texts.push(serde_json::to_string(&model.requests()[0].tools.to_vec()).unwrap());
    }
    let first = texts[0].clone();
    assert!(first.contains("mcp__alpha__echo") && first.contains("mcp__gamma__echo"), "{first}");
    assert_eq!(texts, [first.clone(), first.clone(), first]);
}

#[tokio::test(flavor = "multi_thread")]
async fn approved_tools_are_there_without_a_start_and_changed_ones_are_refused() {
    let world = World::new();
    let store = Arc::new(FileCatalogs::new(world.folder.path().join("catalogs")));
    let client = |mode| McpClient::with_catalogs(World::server(mode), world.host(), store.clone());
    let first = client("changing");
    assert_eq!(first.tools().await.unwrap().tools.len(), 2);
    let second = client("changing");
    let model = FakeModel::script(["done"]);
    agent(&model, std::slice::from_ref(&second))
        .execute(AgentState::new().with_user_message("go"))
        .await;
    assert_eq!(names(&model.requests()[0]), ["mcp__fake__echo", "mcp__fake__tool1"]);
    assert_eq!(second.status().starts, 0);
    // The server of `changing` has another second tool each time that it lists its tools.
    second.refresh().await.unwrap();
    let listing = second.status().listing.unwrap();
    assert_eq!((listing.tools.len(), listing.notes.len()), (1, 1), "{listing:?}");
    let drift = second.drift().unwrap();
    assert_eq!((drift.added.len(), drift.removed.as_slice()), (1, ["tool1".to_owned()].as_slice()));
    let refused = second.call_tool("tool2", serde_json::Map::new()).await.unwrap_err();
    assert!(refused.to_string().contains("since it was approved"), "{refused}");
    let unknown = second.call_tool("tool9", serde_json::Map::new()).await.unwrap_err();
    assert_eq!(unknown.to_string(), "unknown tool `tool9` of MCP server `fake`; available: echo");
    second.approve().await.unwrap();
    assert!(second.call_tool("tool3", serde_json::Map::new()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_decides_whether_tools_are_shown_or_found() {
    let world = World::new();
    for (mode, defer, expected) in [("", true, 1), ("many_tools", false, 2_000)] {
        let client = McpClient::new(World::server(mode).with_defer(defer), world.host());
        client.tools().await.unwrap();
        let model = FakeModel::script(["done"]);
        agent(&model, &[client]).execute(AgentState::new().with_user_message("go")).await;
        let names = names(&model.requests()[0]);
        assert_eq!((names.len(), names[0] == "mcp_search"), (expected, defer));
    }
}
