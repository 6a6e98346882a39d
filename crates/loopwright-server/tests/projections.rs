//! One recorded run in all protocols.

use axum::body::Body;
use http_body_util::BodyExt as _;
use loopwright_testing::{FakeModel, MockTool, ModelDriver, ScenarioStep, test_loop};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    api::{LOCAL, answering, asking},
    world::{Reply, World, request},
};

pub(crate) const TEXT: &str = "Let me look.\n\nIt is ädö, as far as I see.";

/// Looks with a tool, and answers.
pub(crate) async fn looking() -> World {
    let look = MockTool::returning("look", "Looks.", "seen");
    let step = ScenarioStep::tool_call("look", json!({"at": "it"})).with_text("Let me look.");
    let model =
        FakeModel::script([step, "It is ädö, as far as I see.".into()]).with_fragment_size(3);
    World::with(test_loop(ModelDriver::new(model)).with_tool(look)).await
}

/// Sends a request while a worker does what is queued.
pub(crate) async fn answered(world: &World, path: &str, body: Value) -> Reply {
    let post = world.post(LOCAL, path, body);
    let work = async {
        // The request is to be queued first.
        loop {
            let counts = world.work().await;
            if counts != loopwright_worker::JobCounts::default() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let (reply, ()) = futures::join!(post, work);
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply
}

/// Returns the data of the events, without the end mark.
pub(crate) fn data(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.headers["content-type"], "text/event-stream");
    let lines = reply.text.lines().filter_map(|it| it.strip_prefix("data: "));
    lines.filter(|it| *it != "[DONE]").map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|it| it["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

fn joined(events: &[Value], kind: &str, end: &str) -> String {
    let mut texts = vec![String::new()];
    for event in events {
        if event["type"] == kind {
            texts.last_mut().unwrap().push_str(event["delta"].as_str().unwrap());
        } else if event["type"] == end {
            texts.push(String::new());
        }
    }
    texts.retain(|it| !it.is_empty());
    texts.join("\n\n")
}

#[tokio::test]
async fn a_chat_completion_is_streamed_or_whole() {
    let world = looking().await;
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}]},
    ]);
    let body = json!({
        "model": "helper", "messages": messages, "stream": true,
        "stream_options": {"include_usage": true}, "temperature": 1,
    });
    let reply = answered(&world, "/v1/chat/completions", body).await;
    assert!(reply.text.ends_with("data: [DONE]\n\n"), "{}", reply.text);
    let chunks = data(&reply);
    let text: String =
        chunks.iter().filter_map(|it| it["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, TEXT);
    let finish: Vec<&Value> = chunks
        .iter()
        .map(|it| &it["choices"][0]["finish_reason"])
        .filter(|it| it.is_string())
        .collect();
    assert_eq!(finish, [&json!("stop")]);
    assert!(chunks.last().unwrap()["usage"]["total_tokens"].is_u64());
    // What the run says is the transcript of its session, with what the client sent before.
    let session = reply.headers["x-loopwright-session"].to_str().unwrap();
    let shown = world.get(LOCAL, &format!("/v1/sessions/{session}/messages")).await.json();
    let texts: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts[..4], ["Be brief.", "Hi", "Hello", "What is it?"]);
    assert_eq!(texts[4..].join("\n\n"), TEXT);
    let world = looking().await;
    let body = json!({"model": "helper", "messages": [{"role": "user", "content": "What?"}]});
    let whole = answered(&world, "/v1/chat/completions", body).await.json();
    assert_eq!(whole["choices"][0]["message"]["content"], TEXT);
    assert_eq!(whole["object"], "chat.completion");
}

#[tokio::test]
async fn a_response_is_streamed_or_whole_and_the_next_one_continues_it() {
    let world = looking().await;
    let body = json!({"model": "helper", "input": "What is it?", "stream": true});
    let reply = answered(&world, "/v1/responses", body).await;
    let events = data(&reply);
    let message = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ];
    let begin = ["response.created", "response.in_progress"];
    let expect = [&begin[..], &message, &message, &["response.completed"]].concat();
    assert_eq!(types(&events), expect);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
        let name = format!("event: {}\n", event["type"].as_str().unwrap());
        assert!(reply.text.contains(&name));
    }
    let kinds = ("response.output_text.delta", "response.output_text.done");
    assert_eq!(joined(&events, kinds.0, kinds.1), TEXT);
    let last = &events.last().unwrap()["response"];
    let output: Vec<&str> = last["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!((output.join("\n\n"), &last["status"]), (TEXT.to_owned(), &json!("completed")));

    let world = answering(&["one", "two"]).await;
    let first =
        answered(&world, "/v1/responses", json!({"model": "helper", "input": "1"})).await.json();
    let next = json!({
        "model": "helper", "previous_response_id": first["id"],
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "2"}]}],
    });
    let second = answered(&world, "/v1/responses", next.clone()).await.json();
    let text = |it: &Value| it["output"][0]["content"][0]["text"].clone();
    assert_eq!((text(&first), text(&second)), (json!("one"), json!("two")));
    assert_eq!(second["previous_response_id"], first["id"]);
    // The first one is not the last any more.
    assert_eq!(world.post(LOCAL, "/v1/responses", next).await.status, 409);
    assert_eq!(
        world.get(LOCAL, "/v1/sessions").await.json()["sessions"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn errors_of_the_openai_protocols_are_in_their_envelope() {
    let world = answering(&[]).await;
    let models = world.get(LOCAL, "/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], "helper");
    let unknown = json!({"model": "other", "messages": [{"role": "user", "content": "Hi"}]});
    let error = world.post(LOCAL, "/v1/chat/completions", unknown).await;
    assert_eq!(
        (error.status.as_u16(), &error.json()["error"]["type"]),
        (422, &json!("invalid_request_error"))
    );
    assert_eq!(error.headers["content-type"], "application/json");
    let refused = world.send(request("GET", "wrong", "/v1/models", Body::empty())).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["type"]),
        (401, &json!("authentication_error"))
    );
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    for body in [
        json!({"model": "helper", "messages": []}),
        json!({"model": "helper", "messages": [{"role": "assistant", "content": "Hi"}]}),
        json!({"model": "helper", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        json!({"model": "helper", "messages": [{"role": "user", "content": "Hi"}], "tools": [{}]}),
    ] {
        let refused = world.post(LOCAL, "/v1/chat/completions", body).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
    }
}

#[tokio::test]
async fn an_ag_ui_thread_is_a_session() {
    let world = looking().await;
    let input = json!({
        "threadId": "t", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "m", "role": "user", "content": "What is it?"}],
    });
    let events = data(&answered(&world, "/v1/agents/helper/ag-ui", input).await);
    let expect = [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    assert_eq!(types(&events), expect);
    assert_eq!(joined(&events, "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"), TEXT);
    let last = events.last().unwrap();
    assert_eq!(last["outcome"]["type"], "success");
    let usage = json!([{
        "inputTokens": 0, "outputTokens": 0, "totalTokens": 0, "cachedInputTokens": 0,
        "reasoningTokens": 0,
    }]);
    assert_eq!(last["usage"], usage);
}

#[tokio::test]
async fn a_stream_in_a_protocol_beats_while_nothing_happens() {
    let world = looking().await;
    let input = json!({
        "threadId": "t", "runId": "r1",
        "messages": [{"id": "m", "role": "user", "content": "What is it?"}],
    });
    // No worker runs it.
    let post = request("POST", LOCAL, "/v1/agents/helper/ag-ui", Body::from(input.to_string()));
    let mut body = world.app.clone().oneshot(post).await.unwrap().into_body();
    let mut seen = String::new();
    while !seen.ends_with(": heartbeat\n\n") {
        let frame = body.frame().await.unwrap().unwrap();
        seen.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    let begins = r#"data: {"runId":"r1","threadId":"t","type":"RUN_STARTED"}"#;
    assert_eq!(seen, format!("{begins}\n\n: heartbeat\n\n"));
}

/// Clients of AG-UI refuse a run that ends within a step, and the end of a step that has not begun.
pub(crate) fn each_step_ends(events: &[Value]) {
    let mut open = None;
    for event in events {
        match event["type"].as_str().unwrap() {
            "STEP_STARTED" => assert_eq!(open.replace(&event["stepName"]), None),
            "STEP_FINISHED" => assert_eq!(open.take(), Some(&event["stepName"])),
            "RUN_FINISHED" | "RUN_ERROR" => assert_eq!(open, None),
            _ => {}
        }
    }
}

#[tokio::test]
async fn an_ag_ui_interrupt_is_resumed_with_answers_to_all() {
    let world = asking().await;
    let input = |run: &str, resume: Value| {
        json!({
            "threadId": "t", "runId": run, "resume": resume,
            "messages": [{"id": "m", "role": "user", "content": "Paint."}],
        })
    };
    let path = "/v1/agents/helper/ag-ui";
    let events = data(&answered(&world, path, input("r1", json!([]))).await);
    each_step_ends(&events);
    let outcome = &events.last().unwrap()["outcome"];
    assert_eq!(outcome["type"], "interrupt");
    let interrupt = &outcome["interrupts"][0];
    assert_eq!(
        (&interrupt["reason"], &interrupt["message"]),
        (&json!("input_required"), &json!("Which color?"))
    );
    // New input is refused while an interrupt is open.
    assert_eq!(world.post(LOCAL, path, input("r2", json!([]))).await.status, 409);
    let resume = json!([{"interruptId": interrupt["id"], "status": "resolved", "payload": "red"}]);
    let events = data(&answered(&world, path, input("r2", resume)).await);
    each_step_ends(&events);
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    assert_eq!(joined(&events, "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"), "finished");
}

#[tokio::test]
async fn a_chat_of_the_ai_sdk_is_a_session() {
    let world = looking().await;
    let chat = json!({
        "id": "c", "trigger": "submit-message",
        "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "What is it?"}]}],
    });
    let reply = answered(&world, "/v1/agents/helper/ui-messages", chat).await;
    assert_eq!(reply.headers["x-vercel-ai-ui-message-stream"], "v1");
    assert!(reply.text.ends_with("data: [DONE]\n\n"), "{}", reply.text);
    let parts = data(&reply);
    let expect = [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "tool-input-available",
        "tool-output-available",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ];
    assert_eq!(types(&parts), expect);
    assert_eq!(joined(&parts, "text-delta", "text-end"), TEXT);
}
