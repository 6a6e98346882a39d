use serde_json::{Value, json};

use super::*;

/// A tool loop of two requests: a streamed call, its result, and an answer.
fn recording() -> Value {
    let tools = json!([{ "type": "function", "function": { "name": "add", "description": "Adds.",
        "parameters": { "type": "object" } } }]);
    let system = json!({ "role": "system", "content": "Be brief." });
    let question = json!({ "role": "user", "content": "2 + 3?" });
    let call = json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c1",
        "type": "function", "function": { "name": "add", "arguments": "{\"a\":2,\"b\":3}" } }] });
    let result = json!({ "role": "tool", "tool_call_id": "c1", "content": "5" });
    let request = |messages: Value| {
        json!({ "path": "/v1/chat/completions",
            "body": { "model": "m", "stream": true, "messages": messages, "tools": tools } })
    };
    let response = |events: &[Value]| {
        let events: Vec<_> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let events = events.concat();
        json!({ "status": 200, "headers": { "content-type": "text/event-stream" },
            "body": format!("{events}data: [DONE]\n\n") })
    };
    let delta = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    let piece = |arguments: &str| {
        delta(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": arguments } }] }))
    };
    let end = |reason: &str| {
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }],
            "usage": { "prompt_tokens": 9, "completion_tokens": 4 } })
    };
    let begin = delta(json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
        "function": { "name": "add", "arguments": "" } }] }));
    let words = [delta(json!({ "content": "It is " })), delta(json!({ "content": "five." }))];
    json!({ "name": "adding", "provider": "example", "api": "openai-chat", "exchanges": [
        { "streaming": true, "request": request(json!([system, question])),
          "response": response(&[begin, piece("{\"a\":2,"), piece("\"b\":3}"), end("tool_calls")]) },
        { "streaming": true, "request": request(json!([system, question, call, result])),
          "response": response(&[&words[..], &[end("stop")]].concat()) },
    ] })
}

fn expectation() -> Value {
    let question = json!({ "role": "user", "kind": "text", "text": "2 + 3?" });
    let result =
        json!({ "role": "tool", "kind": "tool_result", "id": "c1", "name": "add", "text": "5" });
    let tool = json!({ "name": "add", "description": "Adds.", "schema": { "type": "object" },
        "kind": "function" });
    let usage = json!({ "input_total": 9, "output_total": 4 });
    json!({
        "exchanges": [
            { "tool_calls": [{ "id": "c1", "name": "add", "arguments": { "a": 2, "b": 3 } }],
              "finish_reason": "tool_calls", "usage": usage },
            { "text": "It is five.", "finish_reason": "stop", "usage": usage },
        ],
        "script": {
            "first": { "system": ["Be brief."], "tools": [tool] },
            "exchanges": [{ "new_items": [question] }, { "new_items": [result] }],
        },
    })
}

fn report(recording: Value, expectation: Value) -> Report {
    let recording = Arc::new(serde_json::from_value(recording).unwrap());
    let expectation = Arc::new(serde_json::from_value(expectation).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check(vec![Scenario { recording, expectation }], Depth::Quick))
}

/// Returns where something is wrong: the exchange and what was looked at.
fn wrong(change: impl FnOnce(&mut Value, &mut Value)) -> Vec<(usize, &'static str)> {
    let (mut recording, mut expectation) = (recording(), expectation());
    change(&mut recording, &mut expectation);
    let failures = report(recording, expectation).failures;
    let mut places: Vec<_> = failures.iter().map(|it| (it.exchange, it.check)).collect();
    places.dedup();
    places
}

#[test]
fn a_conversation_that_is_as_expected_passes() {
    let report = report(recording(), expectation());
    assert_eq!(report.failures, []);
    assert_eq!((report.scenarios, report.exchanges, report.requests), (1, 2, 2));
    assert_eq!(report.to_string(), "1 scenarios, 2 exchanges, 0 failures");
}

#[test]
fn a_wrong_expectation_is_a_failure_in_memory_and_over_the_wire() {
    let both = [(1, "answer"), (1, "loop")];
    assert_eq!(wrong(|_, it| it["exchanges"][1]["text"] = json!("It is six.")), both);
    assert_eq!(wrong(|_, it| it["exchanges"][1]["finish_reason"] = json!("length")), both);
    assert_eq!(wrong(|_, it| it["exchanges"][1]["usage"] = json!(null)), both);
    assert_eq!(wrong(|_, it| it["exchanges"][1]["error"] = json!({ "status": 500 })), both);
}

#[test]
fn an_answer_without_its_end_is_a_failure() {
    let places = wrong(|recording, _| {
        let body = &mut recording["exchanges"][1]["response"]["body"];
        let end = body.as_str().unwrap().find("five").unwrap();
        *body = json!(body.as_str().unwrap()[..end]);
    });
    assert_eq!(places, [(1, "answer"), (1, "loop")]);
}

#[test]
fn another_request_than_the_recorded_one_is_a_failure() {
    let in_second = |path: &str, value: Value| {
        wrong(|recording, _| {
            *recording["exchanges"][1]["request"].pointer_mut(path).unwrap() = value;
        })
    };
    assert_eq!(in_second("/body/messages/0/content", json!("Be long.")), [(1, "loop")]);
    assert_eq!(in_second("/body/tools/0/function/name", json!("sub")), [(1, "loop")]);
    assert_eq!(in_second("/path", json!("/v1/responses")), [(1, "loop")]);
}

#[test]
fn a_conversation_that_the_client_rewrote_is_said_anew() {
    let mut rewritten = recording();
    rewritten["exchanges"][1]["request"]["body"]["messages"][1]["content"] = json!("2 plus 3?");
    let report = report(rewritten, expectation());
    assert_eq!(report.failures, []);
    let broken = "the prefix was broken by the client: HookRewrote";
    assert!(report.notes.iter().any(|note| note.what == broken), "{:?}", report.notes);
}

#[test]
fn a_wire_that_is_not_there_is_told() {
    let mut strange = recording();
    strange["api"] = json!("carrier-pigeon");
    let report = report(strange, expectation());
    assert_eq!(report.skipped, [("adding".to_owned(), "carrier-pigeon".to_owned())]);
    let text = report.to_string();
    assert!(text.ends_with("0 scenarios, 0 exchanges, 0 failures, 1 skipped"), "{text}");
}
