//! What clients do with sessions.

use axum::body::Body;
use http_body_util::BodyExt as _;
use loopwright_core::{ToolOutput, ToolPause};
use loopwright_server::Role;
use loopwright_sessions::{ClaimRequest, ControlMessage, SessionId, SessionStore as _};
use loopwright_testing::{FakeModel, FrozenClock, MockTool, ModelDriver, ScenarioStep, test_loop};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::world::{World, request};

/// The token of the local user.
pub(crate) const LOCAL: &str = "local-secret";

pub(crate) async fn answering(answers: &[&str]) -> World {
    let script: Vec<ScenarioStep> = answers.iter().map(|it| (*it).into()).collect();
    World::with(test_loop(ModelDriver::new(FakeModel::script(script).with_fragment_size(4)))).await
}

async fn said(world: &World, path: &str) -> Vec<(String, String)> {
    let messages = world.get(LOCAL, &format!("{path}/messages")).await.json();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
    let messages = messages["messages"].as_array().unwrap().clone();
    messages.iter().map(|it| (text(it, "role"), text(it, "text"))).collect()
}

fn pair(role: &str, text: &str) -> (String, String) {
    (role.to_owned(), text.to_owned())
}

async fn session(world: &World, token: &str) -> String {
    let created = world.post(token, "/v1/sessions", json!({})).await;
    assert_eq!(created.status, 201, "{created:?}");
    let location = created.headers["location"].to_str().unwrap().to_owned();
    assert_eq!(location, format!("/v1/sessions/{}", created.id()));
    location
}

#[tokio::test]
async fn a_message_is_answered_and_its_run_can_be_followed() {
    let world = answering(&["hello there"]).await;
    let path = session(&world, LOCAL).await;
    let run = world.post(LOCAL, &format!("{path}/messages"), json!({"text": "hi"})).await;
    assert_eq!((run.status.as_u16(), &run.json()["status"]), (202, &json!("queued")));
    assert_eq!(world.work().await.completed, 1);
    let run = world.get(LOCAL, run.headers["location"].to_str().unwrap()).await;
    assert_eq!(run.json()["status"], "completed");
    let shown = world.get(LOCAL, &path).await.json();
    assert_eq!(
        (&shown["text"], &shown["run_status"]),
        (&json!("hello there"), &json!("completed"))
    );
    assert_eq!((&shown["title"], &shown["agent"]), (&json!("hi"), &json!("helper")));
    assert_eq!(said(&world, &path).await, [pair("user", "hi"), pair("assistant", "hello there")]);
    let events = world.get(LOCAL, &format!("{path}/events")).await;
    assert_eq!(events.headers["content-type"], "text/event-stream");
    assert!(events.text.contains("\"status\":\"completed\""), "{}", events.text);
    let usage = world.get(LOCAL, &format!("{path}/usage")).await.json();
    assert_eq!(usage["steps"], 1);
}

#[tokio::test]
async fn a_request_that_is_repeated_with_its_key_takes_effect_once() {
    let world = answering(&["one", "two"]).await;
    let keyed = |path: &str, key: &str, body: Value| {
        let mut request = request("POST", LOCAL, path, Body::from(body.to_string()));
        request.headers_mut().insert("idempotency-key", key.parse().unwrap());
        world.send(request)
    };
    let first = keyed("/v1/sessions", "k", json!({})).await;
    let again = keyed("/v1/sessions", "k", json!({})).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 200));
    assert_eq!(first.id(), again.id());
    assert_ne!(keyed("/v1/sessions", "other", json!({})).await.id(), first.id());
    let messages = format!("/v1/sessions/{}/messages", first.id());
    let run = keyed(&messages, "k", json!({"text": "hi"})).await;
    world.work().await;
    let again = keyed(&messages, "k", json!({"text": "hi"})).await;
    assert_eq!((run.status.as_u16(), again.status.as_u16()), (202, 200));
    assert_eq!((run.id(), &again.json()["status"]), (again.id(), &json!("completed")));
    assert_eq!(keyed(&messages, "k", json!({"text": "ho"})).await.problem(), "invalid");
    assert_eq!(world.work().await.completed, 0);
}

#[tokio::test]
async fn a_message_to_a_running_session_is_queued_refused_steered_or_interrupts() {
    let world = answering(&["one", "two"]).await;
    let path = session(&world, LOCAL).await;
    let messages = format!("{path}/messages");
    world.post(LOCAL, &messages, json!({"text": "first"})).await;
    let refused = world.post(LOCAL, &messages, json!({"text": "no", "mode": "reject"})).await;
    assert_eq!((refused.status.as_u16(), refused.problem()), (409, "conflict".to_owned()));
    world.post(LOCAL, &messages, json!({"text": "second"})).await;
    world.work().await;
    let texts = ["first", "one", "second", "two"];
    let found = said(&world, &path).await;
    assert_eq!(found.iter().map(|it| &*it.1).collect::<Vec<_>>(), texts);
}

#[tokio::test]
async fn of_messages_that_are_sent_at_once_and_refuse_to_wait_one_begins_a_run() {
    let world = answering(&["one", "two"]).await;
    let path = session(&world, LOCAL).await;
    let messages = format!("{path}/messages");
    let sent = (0..8)
        .map(|it| world.post(LOCAL, &messages, json!({"text": format!("{it}"), "mode": "reject"})));
    let mut statuses: Vec<u16> =
        futures::future::join_all(sent).await.iter().map(|it| it.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [202, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(world.work().await.completed, 1);
}

#[tokio::test]
async fn a_steered_message_reaches_the_run_and_an_interrupting_one_cancels_it() {
    let world = answering(&["heard", "after"]).await;
    let path = session(&world, LOCAL).await;
    let id = SessionId::new(path.rsplit('/').next().unwrap()).unwrap();
    let messages = format!("{path}/messages");
    world.post(LOCAL, &messages, json!({"text": "first"})).await;
    // A worker that is at work holds the job and the session.
    let now = FrozenClock::new().env(0).clock.now();
    let lasts = std::time::Duration::from_mins(1);
    let queue = world.store.jobs().unwrap();
    queue.claim(ClaimRequest::new("worker", now, lasts)).await.unwrap().unwrap();
    let claim = loopwright_sessions::LeaseRequest { owner: "w", replaces: None, now, ttl: lasts };
    let lease = world.store.lease(&id, claim).await.unwrap();
    let steered = world.post(LOCAL, &messages, json!({"text": "left", "mode": "steer"})).await;
    let interrupts =
        world.post(LOCAL, &messages, json!({"text": "new", "mode": "interrupt"})).await;
    assert_eq!((steered.status.as_u16(), interrupts.status.as_u16()), (202, 202));
    let stopped = world.post(LOCAL, &format!("{path}/stop"), json!({})).await;
    assert_eq!(stopped.json()["was_running"], true);
    let posted = world.store.take_control(&lease).await.unwrap();
    let posted: Vec<_> = posted.into_iter().map(|it| it.control).collect();
    let left = ControlMessage::SendMessage(loopwright_core::messages::Message::user("left"));
    assert_eq!(posted, [left, ControlMessage::Cancel, ControlMessage::Stop]);
}

#[tokio::test]
async fn a_list_is_paged_and_its_tag_tells_that_it_did_not_change() {
    let world = answering(&[]).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.post(LOCAL, "/v1/sessions", json!({})).await.id());
    }
    let (mut found, mut path) = (Vec::new(), "/v1/sessions?limit=2".to_owned());
    loop {
        let page = world.get(LOCAL, &path).await.json();
        let sessions = page["sessions"].as_array().unwrap();
        found.extend(sessions.iter().map(|it| it["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sessions?limit=2&cursor={next}");
    }
    ids.sort();
    found.sort();
    assert_eq!(ids, found);
    let list = world.get(LOCAL, "/v1/sessions").await;
    let tag = list.headers["etag"].clone();
    let again = |tag: axum::http::HeaderValue| {
        let mut request = request("GET", LOCAL, "/v1/sessions", Body::empty());
        request.headers_mut().insert("if-none-match", tag);
        world.send(request)
    };
    let unchanged = again(tag.clone()).await;
    assert_eq!((unchanged.status.as_u16(), &*unchanged.text), (304, ""));
    session(&world, LOCAL).await;
    assert_eq!(again(tag).await.status, 200);
}

#[tokio::test]
async fn a_session_is_forked_rewound_exported_and_deleted() {
    let world = answering(&["one", "two"]).await;
    let path = session(&world, LOCAL).await;
    let messages = format!("{path}/messages");
    for text in ["first", "second"] {
        world.post(LOCAL, &messages, json!({ "text": text })).await;
    }
    world.work().await;
    let fork = world.post(LOCAL, &format!("{path}/fork"), json!({"step": 1})).await;
    assert_eq!((fork.status.as_u16(), &fork.json()["text"]), (201, &json!("one")));
    assert_eq!(fork.json()["parent"], path.rsplit('/').next().unwrap());
    let unknown = world.post(LOCAL, &format!("{path}/fork"), json!({"step": 9})).await;
    assert_eq!(unknown.problem(), "invalid");
    let rewound = world.post(LOCAL, &format!("{path}/rewind"), json!({})).await;
    assert_eq!((rewound.status.as_u16(), &rewound.json()["text"]), (200, &json!("one")));
    let export = world.get(LOCAL, &format!("{path}/export")).await;
    let lines: Vec<Value> =
        export.text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!((&lines[0]["type"], &lines[0]["subagents"]), (&json!("session"), &json!(0)));
    assert_eq!(lines.len() as u64 - 1, lines[0]["header"]["length"].as_u64().unwrap());
    assert_eq!(world.delete(LOCAL, &path).await.status, 204);
    assert_eq!(world.get(LOCAL, &path).await.problem(), "not_found");
    assert_eq!(world.delete(LOCAL, &path).await.problem(), "not_found");
}

/// A model that calls a tool which asks a question.
pub(crate) async fn asking() -> World {
    asking_times(1).await
}

/// A model that calls a tool which asks the same question in each of so many steps.
async fn asking_times(count: usize) -> World {
    let tool = MockTool::with_cx("paint", "Paints.", |_, cx| {
        let reply = cx.answer().cloned();
        Box::pin(async move {
            match reply {
                Some(color) => Ok(ToolOutput::json(color)),
                None => Err(ToolPause::ask("Which color?").into()),
            }
        })
    });
    let calls = (0..count).map(|_| ScenarioStep::tool_call("paint", json!({"n": 1})));
    let model = FakeModel::script(calls.chain(["finished".into()]));
    World::with(test_loop(ModelDriver::new(model)).with_tool(tool)).await
}

#[tokio::test]
async fn a_call_that_waits_is_decided_and_the_run_continues() {
    let world = asking().await;
    let path = session(&world, LOCAL).await;
    world.post(LOCAL, &format!("{path}/messages"), json!({"text": "go"})).await;
    assert_eq!(world.work().await.needs_input, 1);
    let pending = world.get(LOCAL, &format!("{path}/pending")).await.json();
    let call = &pending["pending"][0];
    let told = (&call["tool"], &call["question"], &call["kind"]);
    assert_eq!(told, (&json!("paint"), &json!("Which color?"), &json!("answer")));
    let decide = format!("{path}/pending/{}", call["call"].as_str().unwrap());
    let unknown =
        world.post(LOCAL, &format!("{path}/pending/7"), json!({"decision": "deny"})).await;
    assert_eq!(unknown.problem(), "not_found");
    let answer = json!({"decision": "answer", "answer": "yes"});
    let decided = world.post(LOCAL, &decide, answer).await;
    assert_eq!(
        (decided.status.as_u16(), &decided.json()["pending"]),
        (200, &json!(0)),
        "{decided:?}"
    );
    world.work().await;
    let shown = world.get(LOCAL, &path).await.json();
    assert_eq!((&shown["run_status"], &shown["text"]), (&json!("completed"), &json!("finished")));
}

#[tokio::test]
async fn a_question_can_be_left_undecided() {
    let world = asking().await;
    let path = session(&world, LOCAL).await;
    world.post(LOCAL, &format!("{path}/messages"), json!({"text": "go"})).await;
    world.work().await;
    let call = format!("{path}/pending/0");
    let cancel = json!({"decision": "cancel"});
    assert_eq!(world.post(LOCAL, &call, cancel.clone()).await.status, 200);
    assert_eq!(world.post(LOCAL, &call, cancel).await.problem(), "not_found");
    world.work().await;
    let shown = world.get(LOCAL, &format!("{path}/messages")).await.json().to_string();
    assert!(shown.contains("the user dismissed the question without an answer"), "{shown}");
}

#[tokio::test]
async fn a_decision_about_a_request_as_it_was_shown_does_not_answer_the_next_one() {
    let world = asking_times(2).await;
    let path = session(&world, LOCAL).await;
    world.post(LOCAL, &format!("{path}/messages"), json!({"text": "go"})).await;
    world.work().await;
    let shown = world.get(LOCAL, &format!("{path}/pending")).await.json();
    let shown = shown["pending"][0].clone();
    let decide = format!("{path}/pending/{}", shown["request"].as_str().unwrap());
    let answer = json!({"decision": "answer", "answer": "red"});
    assert_eq!(world.post(LOCAL, &decide, answer.clone()).await.status, 200);
    assert_eq!(world.post(LOCAL, &decide, answer.clone()).await.problem(), "conflict");
    world.work().await;
    // The next step asks the same about the same call, at the same address.
    let next = world.get(LOCAL, &format!("{path}/pending")).await.json();
    let mut expected = shown.clone();
    expected["request"] = next["pending"][0]["request"].clone();
    assert_eq!((&next["pending"][0], next["pending"][0] == shown), (&expected, false));
    assert_eq!(world.post(LOCAL, &decide, answer.clone()).await.problem(), "conflict");
    assert_eq!(world.get(LOCAL, &format!("{path}/pending")).await.json(), next);
    let decide = format!("{path}/pending/{}", next["pending"][0]["request"].as_str().unwrap());
    assert_eq!(world.post(LOCAL, &decide, answer).await.status, 200);
}

#[tokio::test]
async fn an_answer_counts_for_the_session_that_showed_the_request_and_not_for_its_fork() {
    let world = asking().await;
    let path = session(&world, LOCAL).await;
    world.post(LOCAL, &format!("{path}/messages"), json!({"text": "go"})).await;
    world.work().await;
    let forked = world.post(LOCAL, &format!("{path}/fork"), json!({})).await.json();
    let fork = format!("/v1/sessions/{}", forked["id"].as_str().unwrap());
    let pending = |of: String| {
        let world = &world;
        async move { world.get(LOCAL, &format!("{of}/pending")).await.json()["pending"][0].clone() }
    };
    let (source, copy) = (pending(path.clone()).await, pending(fork.clone()).await);
    assert_eq!((&source["call"], &source["question"]), (&copy["call"], &copy["question"]));
    assert_ne!(source["request"], copy["request"]);
    let request = source["request"].as_str().unwrap();
    let answer = json!({"decision": "answer", "answer": "red"});
    let at = |of: &str, call: &str| format!("{of}/pending/{call}");
    let conflict = world.post(LOCAL, &at(&fork, request), answer.clone()).await;
    assert_eq!(conflict.problem(), "conflict");
    for odd in [format!("%2B{request}"), format!("0{request}"), "0@".to_owned(), "0@1".to_owned()] {
        let refused = world.post(LOCAL, &at(&path, &odd), answer.clone()).await;
        assert_eq!(refused.problem(), "not_found", "{odd}");
    }
    assert_eq!(world.post(LOCAL, &at(&path, request), answer).await.status, 200);
    assert_eq!(pending(fork).await, copy);
}

#[tokio::test]
async fn a_server_that_shuts_down_begins_nothing_and_ends_its_streams() {
    let world = answering(&["one"]).await;
    let path = session(&world, LOCAL).await;
    assert_eq!(world.get(LOCAL, "/readyz").await.status, 200);
    world.drain.cancel();
    let refused = world.post(LOCAL, &format!("{path}/messages"), json!({"text": "hi"})).await;
    assert_eq!(
        (refused.problem(), &refused.headers["retry-after"]),
        ("unavailable".to_owned(), &"1".parse().unwrap())
    );
    assert_eq!(world.post(LOCAL, "/v1/sessions", json!({})).await.problem(), "unavailable");
    let stream = world.get(LOCAL, &format!("{path}/events")).await;
    assert!(stream.text.ends_with(": the server is shutting down\n\n"), "{}", stream.text);
    assert_eq!(world.get(LOCAL, "/readyz").await.problem(), "unavailable");
    assert_eq!(world.get(LOCAL, "/healthz").await.status, 200);
}

#[tokio::test]
async fn a_principal_that_sends_too_many_requests_is_refused_and_others_are_not() {
    let agent = test_loop(ModelDriver::new(FakeModel::script(["x"])));
    let rate = std::num::NonZeroU32::new(3).unwrap();
    let world = World::built(agent, |server| server.with_rate(rate)).await;
    let ada = world.token("ada", Role::Read);
    for expect in [200, 200, 200, 429, 429] {
        assert_eq!(world.get(&ada, "/v1/sessions").await.status, expect);
    }
    let refused = world.get(&ada, "/v1/sessions").await;
    assert_eq!(refused.problem(), "too_many_requests");
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(world.get(LOCAL, "/v1/sessions").await.status, 200);
    assert_eq!(world.get("lwt_wrong", "/v1/sessions").await.status, 401);
}

#[tokio::test]
async fn the_metrics_count_requests_and_jobs() {
    let world = answering(&["one"]).await;
    let path = session(&world, LOCAL).await;
    world.post(LOCAL, &format!("{path}/messages"), json!({"text": "hi"})).await;
    let text = world.get(LOCAL, "/metrics").await.text;
    assert!(text.contains("loopwright_http_requests_total{method=\"POST\",status=\"201\"} 1\n"));
    assert!(text.contains("loopwright_jobs{status=\"queued\"} 1\n"), "{text}");
    let run = world.token("ada", Role::Approve);
    assert_eq!(world.get(&run, "/metrics").await.problem(), "forbidden");
}

/// A step of six events, 497 of four, and an answer in six events.
#[tokio::test]
async fn a_stream_of_2000_events_that_is_cut_after_each_is_the_uncut_stream() {
    let tool = (loopwright_testing::SCRIPTED_TOOL, json!({}));
    let calls = |count| ScenarioStep::tool_calls(vec![tool.clone(); count]);
    let answer = ScenarioStep::final_answer("ädö ".repeat(3));
    let steps = (0..498).map(|step| calls(if step == 0 { 2 } else { 1 }));
    let script: Vec<_> = steps.chain([answer]).collect();
    let model = FakeModel::script(script).with_fragment_size(4);
    let world = World::with(test_loop(ModelDriver::new(model))).await;
    let path = session(&world, LOCAL).await;
    world.post(LOCAL, &format!("{path}/messages"), json!({"text": "go"})).await;
    assert_eq!(world.work().await.completed, 1);
    let events = format!("{path}/events");
    let uncut = world.get(LOCAL, &events).await.text;
    let whole: Vec<&str> = uncut.split_inclusive("\n\n").collect();
    assert_eq!(whole.len(), 2000);
    let mut joined = String::new();
    for after in 0..2000 {
        let mut request = request("GET", LOCAL, &events, Body::empty());
        request.headers_mut().insert("last-event-id", after.to_string().parse().unwrap());
        let response = world.app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        // The client goes away after an event.
        let frame = response.into_body().frame().await.unwrap().unwrap();
        let bytes = frame.into_data().unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        joined.push_str(text.split_inclusive("\n\n").next().unwrap());
    }
    assert!(joined == uncut, "the joined stream differs from the uncut one");
    let mut request = request("GET", LOCAL, &events, Body::empty());
    request.headers_mut().insert("last-event-id", "2000".parse().unwrap());
    assert_eq!(world.send(request).await.status, 204);
}
