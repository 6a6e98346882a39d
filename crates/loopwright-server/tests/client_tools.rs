//! Tools that clients declare and run themselves.

use loopwright_server::Role;
use loopwright_sessions::{JobQuery, JobStatus, SessionStore as _};
use loopwright_testing::{FakeModel, MockTool, ModelDriver, ScenarioStep, test_loop};
use serde_json::{Value, json};

use crate::{
    api::LOCAL,
    projections::{answered, data, each_step_ends},
    world::World,
};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const AG_UI: &str = "/v1/agents/helper/ag-ui";

/// An agent that locates with a tool of the client, and has a tool of its own.
async fn locating() -> World {
    let look = MockTool::returning("look", "Looks.", "seen");
    let locate = ScenarioStep::tool_call("locate", json!({"precise": true}));
    let steps = [locate.with_text("Let me ask."), "In Bern.".into(), "Bye.".into()];
    let model = FakeModel::script(steps).with_fragment_size(3);
    World::with(test_loop(ModelDriver::new(model)).with_tool(look)).await
}

fn function(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"precise": {"type": "boolean"}}});
    json!({"name": name, "description": "Returns the position.", "parameters": parameters})
}

fn chat(messages: impl Into<Value>) -> Value {
    let messages = messages.into();
    let tool = json!({"type": "function", "function": function("locate")});
    json!({"model": "helper", "messages": messages, "tools": [tool]})
}

fn response(input: impl Into<Value>) -> Value {
    let input = input.into();
    let mut tool = function("locate");
    tool["type"] = json!("function");
    json!({"model": "helper", "input": input, "tools": [tool]})
}

/// Asks, and returns the message with the call.
async fn asked(world: &World) -> (String, Value) {
    let body = chat(json!([{"role": "user", "content": "Where am I?"}]));
    let reply = answered(world, CHAT, body).await;
    let session = reply.headers["x-loopwright-session"].to_str().unwrap().to_owned();
    let choice = reply.json()["choices"][0].clone();
    assert_eq!(choice["finish_reason"], "tool_calls");
    (session, choice["message"].clone())
}

fn with_result(message: &Value, result: &str) -> Value {
    let id = &message["tool_calls"][0]["id"];
    chat(json!([
        {"role": "user", "content": "Where am I?"}, message,
        {"role": "tool", "tool_call_id": id, "content": result},
    ]))
}

#[tokio::test]
async fn a_completion_ends_with_calls_of_the_client_and_its_results_continue_the_run() {
    let world = locating().await;
    let (session, message) = asked(&world).await;
    assert_eq!(message["content"], "Let me ask.");
    let call = &message["tool_calls"][0];
    assert_eq!(call["type"], "function");
    let expect = json!({"name": "locate", "arguments": "{\"precise\":true}"});
    assert_eq!(call["function"], expect);

    let mut next = with_result(&message, "46.9, 7.4");
    next["stream"] = json!(true);
    let reply = answered(&world, CHAT, next.clone()).await;
    assert_eq!(reply.headers["x-loopwright-session"], session);
    let text = |chunks: &[Value]| -> String {
        chunks.iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str()).collect()
    };
    assert_eq!(text(&data(&reply)), "In Bern.");
    // The same request again reads the end of the same run.
    let again = world.post(LOCAL, CHAT, next).await;
    assert_eq!((again.status.as_u16(), text(&data(&again))), (200, "In Bern.".to_owned()));
    // The job that waited for the result has continued, and is the only one.
    let jobs = world.store.jobs().unwrap().records(&JobQuery::last(9)).await.unwrap();
    let statuses: Vec<JobStatus> = jobs.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [JobStatus::Completed]);
    let other = world.post(LOCAL, CHAT, with_result(&message, "elsewhere")).await;
    assert_eq!(other.status, 409, "{}", other.text);

    let path = format!("/v1/sessions/{session}/messages");
    let shown = world.get(LOCAL, &path).await.json();
    assert_eq!(shown["messages"][1]["calls"][0]["result"], "46.9, 7.4");
    // The whole conversation begins another session, and holds the exchange.
    let mut whole = with_result(&message, "46.9, 7.4");
    let messages = whole["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "In Bern."}));
    messages.push(json!({"role": "user", "content": "Bye!"}));
    let reply = answered(&world, CHAT, whole).await;
    let third = reply.headers["x-loopwright-session"].to_str().unwrap();
    assert_ne!(third, session);
    let shown = world.get(LOCAL, &format!("/v1/sessions/{third}/messages")).await.json();
    assert_eq!(shown["messages"][1]["calls"][0]["result"], "46.9, 7.4");
    assert_eq!(shown["messages"][4]["text"], "Bye.");
}

#[tokio::test]
async fn a_streamed_completion_has_the_calls_as_chunks() {
    let world = locating().await;
    let mut body = chat(json!([{"role": "user", "content": "Where am I?"}]));
    body["stream"] = json!(true);
    let chunks = data(&answered(&world, CHAT, body).await);
    let calls: Vec<&Value> = chunks
        .iter()
        .map(|it| &it["choices"][0]["delta"]["tool_calls"][0])
        .filter(|it| it.is_object())
        .collect();
    assert_eq!((calls.len(), &calls[0]["index"]), (1, &json!(0)));
    assert_eq!(calls[0]["function"]["name"], "locate");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn a_response_has_calls_of_the_client_as_items() {
    let world = locating().await;
    let mut body = response(json!("Where am I?"));
    body["stream"] = json!(true);
    let events = data(&answered(&world, RESPONSES, body).await);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let done = "response.function_call_arguments.done";
    let done = events.iter().find(|it| it["type"] == done).unwrap();
    assert_eq!(done["arguments"], "{\"precise\":true}");
    let first = &events.last().unwrap()["response"];
    assert_eq!(first["status"], "completed");
    let call = &first["output"][1];
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("locate")));

    // A message does not do instead of the result.
    let mut message = response(json!("Never mind."));
    message["previous_response_id"] = first["id"].clone();
    assert_eq!(world.post(LOCAL, RESPONSES, message).await.status, 422);
    let output =
        |id: &Value| json!({"type": "function_call_output", "call_id": id, "output": "46.9, 7.4"});
    let mut next = response(json!([output(&call["call_id"])]));
    next["previous_response_id"] = first["id"].clone();
    let second = answered(&world, RESPONSES, next).await.json();
    assert_eq!(second["output"][0]["content"][0]["text"], "In Bern.");
    assert_eq!(second["previous_response_id"], first["id"]);

    // Without the previous response, the items name the call.
    let world = locating().await;
    let first = answered(&world, RESPONSES, response(json!("Where?"))).await.json();
    let call = &first["output"][1];
    let user = json!({"role": "user", "content": "Where?"});
    let items = json!([user, first["output"][0], call, output(&call["call_id"])]);
    let second = answered(&world, RESPONSES, response(items)).await.json();
    assert_eq!(second["output"][0]["content"][0]["text"], "In Bern.");
}

#[tokio::test]
async fn ag_ui_shows_calls_of_the_client_without_a_result() {
    let world = locating().await;
    let input = |run: &str, messages: Value| json!({"threadId": "t", "runId": run, "messages": messages, "tools": [function("locate")]});
    let user = json!({"id": "m", "role": "user", "content": "Where am I?"});
    let events = data(&answered(&world, AG_UI, input("r1", json!([user]))).await);
    each_step_ends(&events);
    let of = |kind: &str| events.iter().filter(|it| it["type"] == kind).collect::<Vec<_>>();
    assert_eq!((of("TOOL_CALL_START").len(), of("TOOL_CALL_RESULT").len()), (1, 0));
    assert_eq!(of("TOOL_CALL_ARGS")[0]["delta"], "{\"precise\":true}");
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    let id = &of("TOOL_CALL_START")[0]["toolCallId"];
    let unanswered = world.post(LOCAL, AG_UI, input("r2", json!([user]))).await;
    assert_eq!(unanswered.status, 422, "{}", unanswered.text);
    let result = json!({"id": "r", "role": "tool", "toolCallId": id, "content": "46.9, 7.4"});
    let next = input("r3", json!([user, result]));
    let events = data(&answered(&world, AG_UI, next.clone()).await);
    each_step_ends(&events);
    assert_eq!(events[1..], data(&world.post(LOCAL, AG_UI, next).await)[1..], "repeated");
    assert!(!events.iter().any(|it| it["type"].as_str().unwrap().starts_with("TOOL_CALL")));
    let texts = events.iter().filter(|it| it["type"] == "TEXT_MESSAGE_CONTENT");
    assert_eq!(texts.map(|it| it["delta"].as_str().unwrap()).collect::<String>(), "In Bern.");
}

#[tokio::test]
async fn only_the_principal_of_the_session_answers_its_calls() {
    let world = locating().await;
    let (session, message) = asked(&world).await;
    let other = world.token("ada", Role::Admin);
    let body = with_result(&message, "stolen");
    let refused = world.post(&other, CHAT, body.clone()).await;
    assert_eq!(refused.status, 404, "{}", refused.text);
    let reader = world.token("local", Role::Read);
    assert_eq!(world.post(&reader, CHAT, body).await.status, 403);
    // Without an answer, the session waits.
    let pending = world.get(LOCAL, &format!("/v1/sessions/{session}/pending")).await.json();
    assert_eq!(pending["pending"][0]["kind"], "result");
    let mut two = with_result(&message, "a");
    let again = two["messages"][2].clone();
    two["messages"].as_array_mut().unwrap().push(again);
    assert_eq!(world.post(LOCAL, CHAT, two).await.status, 422);
    let unknown = json!([{"role": "tool", "tool_call_id": "call_7", "content": "x"}]);
    assert_eq!(world.post(LOCAL, CHAT, chat(unknown)).await.status, 404);
}

#[tokio::test]
async fn tools_beyond_the_limits_and_names_of_the_agent_are_refused() {
    let world = locating().await;
    let refused = async |tools: Value, choice: Value, code: &str| {
        let mut body = chat(json!([{"role": "user", "content": "Hi"}]));
        (body["tools"], body["tool_choice"]) = (tools, choice);
        let reply = world.post(LOCAL, CHAT, body).await;
        let error = &reply.json()["error"];
        assert_eq!((reply.status.as_u16(), &error["code"]), (422, &json!(code)), "{error}");
    };
    let tool = |function: Value| json!([{"type": "function", "function": function}]);
    let with = |parameters: Value| {
        let mut function = function("f");
        function["parameters"] = parameters;
        tool(function)
    };
    refused(tool(function("look")), json!("auto"), "tool_name_taken").await;
    refused(tool(function("mcp__a__b")), json!("auto"), "tool_name_taken").await;
    let deep = (0..40).fold(json!({}), |it, _| json!({"items": it}));
    for parameters in [
        json!({"type": "string"}),
        json!([]),
        json!({"properties": {"a": {"$ref": "https://example.com/a"}}}),
        json!({"properties": {"a": deep}}),
        json!({"description": "x".repeat(40 << 10)}),
    ] {
        refused(with(parameters), json!("auto"), "invalid").await;
    }
    let many: Vec<Value> =
        (0..129).map(|it| tool(function(&format!("f{it}")))[0].clone()).collect();
    refused(json!(many), json!(null), "invalid").await;
    let twice = tool(function("f"))[0].clone();
    refused(json!([twice, twice]), json!(null), "invalid").await;
    refused(tool(function("no space")), json!(null), "invalid").await;
    refused(json!([{"type": "web_search"}]), json!(null), "invalid").await;
    refused(tool(function("f")), json!("required"), "invalid").await;
    // Nothing of them is left.
    let sessions = world.get(LOCAL, "/v1/sessions").await.json();
    assert_eq!(sessions["sessions"], json!([]));
}
