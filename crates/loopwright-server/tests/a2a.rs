//! A2A over JSON-RPC and HTTP.

use std::time::Duration;

use loopwright_server::Role;
use loopwright_sessions::{
    ClaimRequest, ControlMessage, LeaseRequest, SessionId, SessionStore as _,
};
use loopwright_testing::FrozenClock;
use serde_json::{Value, json};

use crate::{
    api::{LOCAL, answering, asking},
    projections::{TEXT, answered, data, looking},
    world::World,
};

const A2A: &str = "/v1/agents/helper/a2a";

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// Calls a method that needs no run, and returns the result or the error.
async fn call(world: &World, method: &str, params: Value) -> Value {
    let reply = world.post(LOCAL, A2A, request(method, &params)).await.json();
    assert_eq!((&reply["jsonrpc"], &reply["id"]), (&json!("2.0"), &json!(7)));
    reply.get("result").or(reply.get("error")).unwrap().clone()
}

fn texts(events: &[Value]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for update in events.iter().filter_map(|it| it.get("artifactUpdate")) {
        let text = update["artifact"]["parts"][0]["text"].as_str().unwrap();
        if update["append"] == true {
            texts.last_mut().unwrap().push_str(text);
        } else {
            texts.push(text.to_owned());
        }
    }
    texts.join("\n\n")
}

#[tokio::test]
async fn the_card_says_where_and_how_the_agent_is_called() {
    let world = answering(&[]).await;
    let card = world.get(LOCAL, &format!("{A2A}/.well-known/agent-card.json")).await.json();
    assert_eq!(card, world.get(LOCAL, "/.well-known/agent-card.json").await.json());
    let url = "http://127.0.0.1:8080/v1/agents/helper/a2a";
    let interface = |it: &str| json!({"url": url, "protocolBinding": it, "protocolVersion": "1.0"});
    assert_eq!(card["supportedInterfaces"], json!([interface("JSONRPC"), interface("HTTP+JSON")]));
    assert_eq!((&card["name"], &card["description"]), (&json!("helper"), &json!("Helps.")));
    let unknown = world.get(LOCAL, "/v1/agents/other/a2a/.well-known/agent-card.json").await;
    assert_eq!(unknown.problem(), "not_found");
}

#[tokio::test]
async fn a_message_is_a_task_that_is_answered_as_a_whole_or_as_a_stream() {
    let world = looking().await;
    let body = request("SendMessage", &json!({"message": message("m", "What is it?")}));
    let reply = answered(&world, A2A, body.clone()).await.json();
    let task = &reply["result"]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{reply}");
    let answer =
        json!([{"artifactId": "answer", "parts": [{"text": "It is ädö, as far as I see."}]}]);
    assert_eq!(task["artifacts"], answer);
    let found = call(&world, "GetTask", json!({"id": task["id"], "historyLength": 9})).await;
    assert_eq!(found["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(found["artifacts"], task["artifacts"]);
    let said = found["history"].as_array().unwrap();
    let said: Vec<_> = said.iter().map(|it| (&it["role"], &it["parts"][0]["text"])).collect();
    assert_eq!(said[0], (&json!("ROLE_USER"), &json!("What is it?")));
    let agent: Vec<&str> = said[1..].iter().map(|it| it.1.as_str().unwrap()).collect();
    assert_eq!(agent.join("\n\n"), TEXT);
    // The same message again is the same task.
    let context = json!({"contextId": task["contextId"]});
    let mut again = message("m", "What is it?");
    again["contextId"] = context["contextId"].clone();
    let again = call(&world, "SendMessage", json!({"message": again})).await;
    assert_eq!(again["task"]["id"], task["id"]);
    let listed = call(&world, "ListTasks", context).await;
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(1), &task["id"]));
    let world = looking().await;
    let body = request("SendStreamingMessage", &json!({"message": message("m", "What is it?")}));
    let events = data(&answered(&world, A2A, body).await);
    let results: Vec<Value> = events.iter().map(|it| it["result"].clone()).collect();
    assert!(events.iter().all(|it| it["id"] == 7 && it["jsonrpc"] == "2.0"));
    assert_eq!(texts(&results), TEXT);
    check(&results);
    let world = looking().await;
    let body = json!({"message": message("m", "What is it?")});
    let plain = data(&answered(&world, &format!("{A2A}/message:stream"), body).await);
    assert_eq!(texts(&plain), TEXT);
    check(&plain);
}

/// Checks that a task is told of first, and its end last.
fn check(events: &[Value]) {
    let task = &events[0]["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED");
    let end = &events.last().unwrap()["statusUpdate"];
    assert_eq!(end["status"]["state"], "TASK_STATE_COMPLETED");
    for event in &events[1..] {
        let update = event.get("statusUpdate").or(event.get("artifactUpdate")).unwrap();
        assert_eq!((&update["taskId"], &update["contextId"]), (&task["id"], &task["contextId"]));
    }
}

#[tokio::test]
async fn a_task_that_needs_input_goes_on_with_the_next_message_to_it() {
    let world = asking().await;
    let body =
        json!({"message": message("m", "paint"), "configuration": {"returnImmediately": true}});
    let task = world.post(LOCAL, &format!("{A2A}/message:send"), body).await.json()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED");
    world.work().await;
    let path = format!("{A2A}/tasks/{}", task["id"].as_str().unwrap());
    let waiting = world.get(LOCAL, &path).await.json();
    assert_eq!(waiting["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let asked = &waiting["status"]["message"]["parts"];
    assert_eq!(asked[0], json!({"text": "paint: Which color?"}));
    assert_eq!(asked[1]["data"]["pending"][0]["call"], "0");
    let mut reply = message("n", "green");
    reply["taskId"] = task["id"].clone();
    let body = request("SendMessage", &json!({"message": reply}));
    let done = answered(&world, A2A, body).await.json()["result"]["task"].clone();
    assert_eq!(done["id"], task["id"]);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(
        world.get(LOCAL, &path).await.json()["artifacts"][0]["parts"][0]["text"],
        "finished"
    );
}

#[tokio::test]
async fn calls_that_are_wrong_get_the_errors_of_the_protocol() {
    let world = answering(&["x"]).await;
    let code =
        async |method: &str, params: Value| call(&world, method, params).await["code"].clone();
    let id = json!({"id": "unknown"});
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        assert_eq!(code(method, id.clone()).await, -32001, "{method}");
    }
    assert_eq!(code("GetTask", json!({})).await, -32602);
    assert_eq!(code("SendMessage", json!({"message": message("m", " ")})).await, -32602);
    let raw = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "AA=="}]});
    assert_eq!(code("SendMessage", json!({"message": raw})).await, -32005);
    assert_eq!(code("CreateTaskPushNotificationConfig", json!({})).await, -32003);
    assert_eq!(code("GetExtendedAgentCard", json!({})).await, -32007);
    assert_eq!(code("message/send", json!({})).await, -32601);
    let sent = |body: Value| world.post(LOCAL, A2A, body);
    assert_eq!(sent(json!({"id": 1})).await.json()["error"]["code"], -32600);
    let mut wrong =
        crate::world::request("POST", LOCAL, A2A, request("GetTask", &id).to_string().into());
    wrong.headers_mut().insert("a2a-version", "0.3".parse().unwrap());
    assert_eq!(world.send(wrong).await.json()["error"]["code"], -32009);
    // A task that is over is neither cancelled nor followed.
    let body = request("SendMessage", &json!({"message": message("m", "hi")}));
    let task = answered(&world, A2A, body).await.json()["result"]["task"]["id"].clone();
    assert_eq!(code("CancelTask", json!({"id": task})).await, -32002);
    assert_eq!(code("SubscribeToTask", json!({"id": task})).await, -32004);
    // Tasks of others are unknown.
    let mallory = world.token("mallory", Role::Admin);
    let path = format!("{A2A}/tasks/{}", task.as_str().unwrap());
    assert_eq!(world.get(&mallory, &path).await.status, 404);
    assert_eq!(world.post(&mallory, &format!("{path}:cancel"), json!({})).await.status, 404);
    let listed = world.get(&mallory, &format!("{A2A}/tasks")).await.json();
    assert_eq!(listed["tasks"], json!([]));
}

#[tokio::test]
async fn a_task_that_runs_is_cancelled_and_one_that_has_not_begun_is_not() {
    let world = answering(&["x"]).await;
    let body = json!({"message": message("m", "hi"), "configuration": {"returnImmediately": true}});
    let task = call(&world, "SendMessage", body).await["task"].clone();
    let cancel = json!({"id": task["id"]});
    assert_eq!(call(&world, "CancelTask", cancel.clone()).await["code"], -32002);
    // A worker that is at work holds the job and the session.
    let now = FrozenClock::new().env(0).clock.now();
    let queue = world.store.jobs().unwrap();
    queue.claim(ClaimRequest::new("worker", now, Duration::from_mins(1))).await.unwrap().unwrap();
    let id = SessionId::new(task["contextId"].as_str().unwrap()).unwrap();
    let ttl = Duration::from_mins(1);
    let claim = LeaseRequest { owner: "worker", replaces: None, now, ttl };
    let lease = world.store.lease(&id, claim).await.unwrap();
    let cancelled = call(&world, "CancelTask", cancel).await;
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_WORKING", "{cancelled}");
    let posted = world.store.take_control(&lease).await.unwrap();
    assert!(posted.iter().any(|it| it.control == ControlMessage::Cancel), "{posted:?}");
}
