//! Clients of the Model Context Protocol, in the revision without sessions.

use std::cell::Cell;

use axum::{body::Body, http::Request};
use loopwright_server::Role;
use serde_json::{Value, json};

use crate::{
    api::{LOCAL, answering, asking},
    world::{HOST, Reply, World},
};

const REVISION: &str = "2026-07-28";

/// Makes a request of a client that can ask its user.
fn mcp(token: &str, method: &str, params: &Value) -> Request<Body> {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let mut request = Request::builder().method("POST").uri("/mcp").header("host", HOST);
    if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
        request = request.header("mcp-name", name);
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    request
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", REVISION)
        .header("mcp-method", method)
        .body(Body::from(body.to_string()))
        .unwrap()
}

/// Returns the last message of a response.
fn message(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    let last = reply.text.lines().rev().find_map(|it| it.strip_prefix("data: {"));
    serde_json::from_str(&format!("{{{}", last.unwrap())).unwrap()
}

async fn ask(world: &World, token: &str, method: &str, params: Value) -> Value {
    message(&world.send(mcp(token, method, &params)).await)
}

/// Calls the agent while a worker does what is queued.
async fn call(world: &World, token: &str, params: Value) -> Value {
    let mut params = params;
    params["name"] = json!("ask_helper");
    // A worker that is dropped before it has settled its job would leave the session running.
    let is_answered = Cell::new(false);
    let work = async {
        while !is_answered.get() {
            world.work().await;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let asked = async {
        let result = ask(world, token, "tools/call", params).await;
        is_answered.set(true);
        result["result"].clone()
    };
    tokio::join!(asked, work).0
}

#[tokio::test]
async fn an_agent_is_a_tool_and_its_session_a_resource_of_its_principal() {
    let world = answering(&["one", "two"]).await;
    let (ada, ben) = (world.token("ada", Role::Run), world.token("ben", Role::Run));
    let tools = ask(&world, &ada, "tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["name"], "ask_helper", "{tools}");
    let called = call(&world, &ada, json!({"arguments": {"prompt": "Hello"}})).await;
    assert_eq!(called["isError"], false, "{called}");
    let session = called["structuredContent"]["session_id"].as_str().unwrap();
    let uri = format!("session://{session}");
    let listed = ask(&world, &ada, "resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], uri, "{listed}");
    let read = ask(&world, &ada, "resources/read", json!({"uri": uri})).await;
    assert!(read.to_string().contains("Hello"), "{read}");
    let others = ask(&world, &ben, "resources/list", json!({})).await;
    assert_eq!(others["result"]["resources"], json!([]));
    let read = ask(&world, &ben, "resources/read", json!({"uri": uri})).await;
    assert!(read["error"]["message"].as_str().unwrap().contains("unknown resource"), "{read}");
    let arguments = json!({"prompt": "And now?", "session_id": session});
    let refused = call(&world, &ben, json!({"arguments": arguments})).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let continued = call(&world, &ada, json!({"arguments": arguments})).await;
    assert_eq!(continued["structuredContent"]["session_id"], session, "{continued}");
}

#[tokio::test]
async fn a_question_of_the_agent_is_asked_of_the_clients_user_and_answered_once() {
    let world = asking().await;
    let (ada, ben) = (world.token("ada", Role::Approve), world.token("ben", Role::Approve));
    let asked = call(&world, &ada, json!({"arguments": {"prompt": "Paint it"}})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let again = json!({
        "arguments": {"prompt": "Paint it"}, "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"answer": "red"}}},
    });
    let mut stolen = again.clone();
    stolen["name"] = json!("ask_helper");
    let stolen = ask(&world, &ben, "tools/call", stolen).await;
    assert!(
        stolen["error"]["message"].as_str().unwrap().contains("no call is waiting"),
        "{stolen}"
    );
    let answered = call(&world, &ada, again.clone()).await;
    assert_eq!(answered["isError"], false, "{answered}");
    let mut repeated = again;
    repeated["name"] = json!("ask_helper");
    let repeated = ask(&world, &ada, "tools/call", repeated).await;
    assert!(repeated["error"].is_object(), "{repeated}");
}

#[tokio::test]
async fn a_principal_that_may_not_approve_is_not_asked() {
    let world = asking().await;
    let token = world.token("ada", Role::Run);
    let refused = call(&world, &token, json!({"arguments": {"prompt": "Paint it"}})).await;
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("requires role `approve`"), "{refused}");
}

#[tokio::test]
async fn requests_without_access_are_refused() {
    let world = answering(&[]).await;
    let reader = world.token("ada", Role::Read);
    let list = |token: &str| mcp(token, "tools/list", &json!({}));
    let status = async |request| world.send(request).await.status.as_u16();
    assert_eq!(status(list(LOCAL)).await, 200);
    assert_eq!(status(list("wrong")).await, 401);
    assert_eq!(status(list(&reader)).await, 403);
    let mut foreign = list(LOCAL);
    foreign.headers_mut().insert("host", "evil.example".parse().unwrap());
    assert_eq!(status(foreign).await, 421);
    let mut page = list(LOCAL);
    page.headers_mut().insert("origin", "http://evil.example".parse().unwrap());
    assert_eq!(status(page).await, 403);
    let large = json!({"padding": "x".repeat(2 << 20)});
    assert_eq!(status(mcp(LOCAL, "tools/list", &large)).await, 413);
}
