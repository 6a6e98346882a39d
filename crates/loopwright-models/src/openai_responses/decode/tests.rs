use loopwright_core::messages::{Content, ProviderPayload, ToolCall};
use serde_json::{Value, json};

use super::*;
use crate::{ResponseDecoder, WireApi};

type Answered = Result<InferenceResponse, ModelError>;

fn origin() -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin { wire: "w".into(), provider: "p".into(), model: "m".into() })
}

/// Reads an answer, and what was passed on of it.
fn read(body: &str) -> (Answered, Vec<String>) {
    let mut told = Vec::new();
    let mut deltas = |delta: Delta<'_>| {
        told.push(match delta {
            Delta::Text(text) => format!("text {text}"),
            Delta::Reasoning(text) => format!("reasoning {text}"),
            Delta::ToolCall { index, id, name } => format!("call {index} {id:?} {name}"),
            Delta::ToolArguments { index, fragment } => format!("arguments {index} {fragment}"),
            Delta::End => "end".to_owned(),
            _ => return,
        });
    };
    let context = ErrorContext::new("p");
    let mut decoder = ResponseDecoder::new(WireApi::OpenAiResponses, origin(), context, true);
    let pushed = decoder.push(body.as_bytes(), &mut deltas);
    let answer = pushed.and_then(|()| decoder.finish(&mut deltas));
    (answer, told)
}

fn stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect::<Vec<_>>().concat()
}

fn streamed(events: &[Value]) -> (Answered, Vec<String>) {
    read(&stream(events))
}

fn whole(body: &Value) -> Answered {
    read(&body.to_string()).0
}

fn added(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": index, "item": item })
}

fn done(index: u64, item: &Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn delta(kind: &str, index: u64, text: &str) -> Value {
    json!({ "type": format!("response.{kind}.delta"), "output_index": index, "delta": text })
}

fn completed() -> Value {
    ended("completed", &json!({}))
}

fn ended(how: &str, response: &Value) -> Value {
    json!({ "type": format!("response.{how}"), "response": response })
}

fn message(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": content })
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    let (kind, id) = ("function_call", json!(id));
    json!({ "type": kind, "id": "fc", "call_id": id, "name": name, "arguments": arguments })
}

fn parts(answer: &Answered) -> &[Part] {
    answer.as_ref().unwrap().message.parts()
}

fn opaque(part: &Part) -> Value {
    serde_json::from_str(part.opaque().unwrap().as_str()).unwrap()
}

#[test]
fn items_are_kept_as_they_came_and_in_order() {
    let thought = r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm"}], "encrypted_content":"E=="}"#;
    let search = r#"{"type":"web_search_call","id":"ws_1",  "status":"completed"}"#;
    let said = r#"{"type":"message","id":"msg_1","phase":"commentary","content":[{"type":"output_text","text":"Hi","annotations":[{"url":"u"}]}]}"#;
    let call =
        r#"{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}"}"#;
    let items = [thought, search, said, call];
    let event = |(index, item): (usize, &&str)| {
        let kind = "response.output_item.done";
        format!("data: {{\"type\":\"{kind}\",\"output_index\":{index},\"item\":{item}}}\n\n")
    };
    let mut events = items.iter().enumerate().map(event).collect::<Vec<_>>().concat();
    events += &stream(&[completed()]);
    let (answer, told) = read(&events);
    let part =
        |content, item: &str| Part::new(content).with_provider_payload(ProviderPayload::new(item));
    let expect = [
        part(Content::Reasoning("Hm".into()), thought),
        part(Content::Provider { kind: "web_search_call".into() }, search),
        part(Content::Text("Hi".into()), said),
        part(Content::ToolCall(ToolCall::new("c1", "f", r#"{"a":1}"#)), call),
    ];
    assert_eq!(parts(&answer), expect);
    assert_eq!(
        told,
        ["reasoning Hm", "text Hi", "call 0 Some(\"c1\") f", "arguments 0 {\"a\":1}", "end"]
    );
    let body = format!("{{\"status\":\"completed\",\"output\":[{}]}}", items.join(","));
    assert_eq!(parts(&read(&body).0), expect);
}

#[test]
fn fields_that_only_the_complete_item_has_are_passed_on() {
    let (answer, told) = streamed(&[
        added(0, &json!({ "type": "message", "id": "a", "content": [] })),
        delta("output_text", 0, "Hel"),
        done(0, &message("Hello")),
        added(1, &call("c", "f", "")),
        done(1, &call("c", "f", "{}")),
        completed(),
    ]);
    let answer = answer.unwrap();
    assert_eq!(
        (answer.message.text().as_str(), answer.finish_reason),
        ("Hello", FinishReason::ToolCalls)
    );
    let expect = ["text Hel", "text lo", "call 0 Some(\"c\") f", "arguments 0 {}", "end"];
    assert_eq!(told, expect);
}

#[test]
fn items_are_known_by_their_position_whatever_their_ids() {
    let about = |event: Value, id: &str| {
        let mut event = event;
        event["item_id"] = id.into();
        event
    };
    let (answer, _) = streamed(&[
        added(0, &call("c1", "f", "")),
        added(1, &call("c2", "g", "")),
        about(delta("function_call_arguments", 1, "[2"), "x"),
        about(delta("function_call_arguments", 0, "[1"), "y"),
        about(delta("function_call_arguments", 1, "]"), "z"),
        about(delta("function_call_arguments", 0, "]"), "z"),
        done(1, &call("c2", "g", "[2]")),
        done(0, &call("c1", "f", "[1]")),
        completed(),
    ]);
    let answer = answer.unwrap();
    let calls: Vec<_> = answer.message.tool_calls().cloned().collect();
    assert_eq!(calls, [ToolCall::new("c1", "f", "[1]"), ToolCall::new("c2", "g", "[2]")]);
}

#[test]
fn items_that_are_never_completed_are_made_of_what_was_said() {
    let (answer, _) = streamed(&[
        added(0, &json!({ "type": "reasoning", "id": "rs", "summary": [] })),
        delta("reasoning_text", 0, "Hm"),
        added(1, &json!({ "type": "message", "id": "m", "phase": "final_answer", "content": [] })),
        delta("output_text", 1, "Hi"),
        added(2, &call("c", "f", "")),
        delta("function_call_arguments", 2, "{}"),
        completed(),
    ]);
    let parts = parts(&answer);
    assert_eq!(parts[0], Part::reasoning("Hm"));
    assert_eq!(
        opaque(&parts[1]),
        json!({
            "type": "message", "id": "m", "phase": "final_answer", "role": "assistant",
            "status": "completed",
            "content": [{ "type": "output_text", "text": "Hi", "annotations": [] }],
        })
    );
    assert_eq!(opaque(&parts[2])["arguments"], "{}");
    assert_eq!(answer.unwrap().finish_reason, FinishReason::ToolCalls);
}

#[test]
fn the_last_event_completes_what_the_stream_did_not() {
    let output = json!([message("Hi"), call("c", "f", "{}")]);
    for events in [
        vec![],
        vec![added(0, &json!({ "type": "message", "content": [] })), delta("output_text", 0, "H")],
        vec![done(0, &message("Hi"))],
    ] {
        let mut events = events;
        events.push(ended("completed", &json!({ "output": output })));
        let (answer, told) = streamed(&events);
        assert_eq!(parts(&answer).len(), 2);
        assert_eq!(opaque(&parts(&answer)[0]), message("Hi"));
        let text: String = told.iter().filter_map(|it| it.strip_prefix("text ")).collect();
        assert_eq!(text, "Hi");
    }
}

#[test]
fn a_last_event_that_tells_of_no_items_takes_none_away() {
    let (answer, _) =
        streamed(&[done(0, &message("Hi")), ended("completed", &json!({ "output": [] }))]);
    assert_eq!(answer.unwrap().message.text(), "Hi");
}

#[test]
fn an_answer_that_contradicts_itself_is_an_error() {
    let begun = added(0, &json!({ "type": "message", "content": [] }));
    for events in [
        vec![begun.clone(), delta("output_text", 0, "Ho"), done(0, &message("Hello"))],
        vec![begun.clone(), delta("output_text", 0, "Hi"), done(0, &call("c", "f", "{}"))],
        vec![begun, delta("reasoning_text", 0, "Hi")],
        vec![added(0, &call("c", "f", "")), done(0, &call("c", "g", ""))],
        vec![
            added(0, &call("c", "f", "")),
            delta("function_call_arguments", 0, "{\"a\":1}"),
            done(0, &call("c", "f", "{\"a\":2}")),
        ],
    ] {
        let mut events = events;
        events.push(completed());
        let error = streamed(&events).0.unwrap_err();
        assert_eq!(error.message, "p: the response contradicts itself");
    }
}

#[test]
fn a_stream_ends_when_an_event_says_how() {
    let said = done(0, &message("Hi"));
    for end in ["", "data: [DONE]\n\n"] {
        let error = read(&(stream(std::slice::from_ref(&said)) + end)).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol);
    }
    let after = stream(&[said, completed(), json!({ "error": { "message": "late" } })]);
    assert_eq!(read(&(after + "data: [DONE]\n\n")).0.unwrap().message.text(), "Hi");
}

#[test]
fn reasons_to_finish() {
    let refusal = json!([{ "type": "refusal", "refusal": "No" }]);
    let refused = json!({ "type": "message", "content": refusal });
    let answer = |item: &Value, status: &str, reason: Value| {
        let details = json!({ "reason": reason });
        whole(&json!({ "status": status, "incomplete_details": details, "output": [item] }))
            .map(|answer| answer.finish_reason)
    };
    let said = message("Hi");
    let called = call("c", "f", "{");
    for (item, status, reason, finish) in [
        (&said, "completed", Value::Null, FinishReason::Stop),
        (&refused, "completed", Value::Null, FinishReason::Refusal),
        (&called, "completed", Value::Null, FinishReason::ToolCalls),
        (&called, "incomplete", "max_output_tokens".into(), FinishReason::Length),
        (&said, "incomplete", "content_filter".into(), FinishReason::ContentFilter),
        (&said, "incomplete", "tired".into(), FinishReason::Other("tired".into())),
        (&said, "incomplete", Value::Null, FinishReason::Other("incomplete".into())),
        (&said, "new", Value::Null, FinishReason::Other("new".into())),
    ] {
        assert_eq!(answer(item, status, reason).unwrap(), finish, "{item} {status}");
    }
    for status in ["in_progress", "queued"] {
        assert_eq!(answer(&said, status, Value::Null).unwrap_err().kind, ModelErrorKind::Protocol);
    }
    for status in ["failed", "cancelled"] {
        let error = answer(&said, status, Value::Null).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unavailable);
    }
}

#[test]
fn a_refusal_is_told_from_an_answer() {
    let (answer, told) = streamed(&[
        added(0, &json!({ "type": "message", "content": [] })),
        delta("refusal", 0, "N"),
        delta("refusal", 0, "o"),
        completed(),
    ]);
    let answer = answer.unwrap();
    assert_eq!(
        (answer.message.refusal(), answer.finish_reason),
        (Some("No"), FinishReason::Refusal)
    );
    assert_eq!(told, ["end"]);
}

#[test]
fn an_answer_cut_at_its_limit_keeps_what_there_is() {
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": { "cached_tokens": 4 },
        "output_tokens": 5, "output_tokens_details": { "reasoning_tokens": 3 },
    });
    let details = json!({ "reason": "max_output_tokens" });
    let (answer, _) = streamed(&[
        added(0, &call("c", "f", "")),
        delta("function_call_arguments", 0, "{\"a"),
        ended("incomplete", &json!({ "id": "r", "incomplete_details": details, "usage": usage })),
    ]);
    let answer = answer.unwrap();
    assert_eq!(answer.finish_reason, FinishReason::Length);
    assert_eq!(answer.message.tool_calls().next().unwrap(), &ToolCall::new("c", "f", "{\"a"));
    let usage = Usage { input: 10, output: 5, cache_read: 4, cache_write: 0, reasoning: 3 };
    assert_eq!((answer.usage, answer.id.as_deref()), (usage, Some("r")));
}

#[test]
fn a_complete_answer_does_not_end_within_a_call() {
    let (answer, _) = streamed(&[
        added(0, &call("c", "f", "")),
        delta("function_call_arguments", 0, "{\"a"),
        completed(),
    ]);
    assert_eq!(answer.unwrap_err().message, "p: the response was cut off within a tool call");
    let nameless = whole(&json!({ "output": [call("c", "", "{}")] }));
    assert_eq!(nameless.unwrap_err().message, "p: the response calls a tool without a name");
}

#[test]
fn tokens_without_words_are_an_error() {
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let lost = ended("completed", &json!({ "output": [], "usage": usage }));
    assert_eq!(streamed(&[lost]).0.unwrap_err().kind, ModelErrorKind::Protocol);
    let none = json!({ "input_tokens": 0, "output_tokens": 0 });
    let (empty, _) = streamed(&[ended("completed", &json!({ "output": [], "usage": none }))]);
    assert_eq!(empty.unwrap().finish_reason, FinishReason::Stop);
}

#[test]
fn errors_are_told_in_every_form() {
    let limit = json!({ "code": "rate_limit_exceeded", "message": "slow down" });
    let usage = json!({ "input_tokens": 7, "output_tokens": 2 });
    let failed = ended("failed", &json!({ "status": "failed", "error": limit, "usage": usage }));
    let flat = json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slow down" });
    for event in [
        &failed,
        &flat,
        &json!({ "type": "error", "error": limit }),
        &json!({ "type": "response.error", "error": limit }),
        &json!({ "error": limit }),
    ] {
        let begun = added(0, &message(""));
        let error = streamed(&[begun, event.clone()]).0.unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ModelErrorKind::RateLimited, "p: slow down")
        );
        assert_eq!(error.code.as_deref(), Some("rate_limit_exceeded"));
    }
    assert_eq!(streamed(&[failed]).0.unwrap_err().usage, Usage::new(7, 2));
    let body = json!({ "status": "failed", "output": [], "error": limit });
    assert_eq!(whole(&body).unwrap_err().kind, ModelErrorKind::RateLimited);
    assert_eq!(whole(&json!({ "detail": "no" })).unwrap_err().message, "p: no");
}

#[test]
fn an_error_field_that_is_not_filled_is_none() {
    let mut said = done(0, &message("Hi"));
    said["error"] = Value::Null;
    let end = ended("completed", &json!({ "status": "completed", "error": null }));
    assert_eq!(streamed(&[said, end]).0.unwrap().message.text(), "Hi");
}

#[test]
fn calls_of_the_wires_own_tools_are_calls() {
    let custom =
        json!({ "type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "x y" });
    let shell = json!({ "type": "local_shell_call", "call_id": "s", "action": { "a": 1 } });
    let hosted = json!({ "type": "shell_call", "id": "h", "environment": { "type": "container" } });
    let answer = whole(&json!({ "output": [custom, shell, hosted] })).unwrap();
    let calls: Vec<_> = answer.message.tool_calls().cloned().collect();
    let expect =
        [ToolCall::new("c", "sql", "x y"), ToolCall::new("s", "local_shell_call", "{\"a\":1}")];
    assert_eq!(calls, expect);
}

#[test]
fn a_thought_is_its_summary_and_itself() {
    let (answer, told) = streamed(&[
        added(0, &json!({ "type": "reasoning", "summary": [] })),
        delta("reasoning_summary_text", 0, "a"),
        done(
            0,
            &json!({
                "type": "reasoning", "summary": [{ "text": "a" }, { "text": "b" }],
                "content": [{ "type": "reasoning_text", "text": "c" }],
            }),
        ),
        completed(),
    ]);
    assert_eq!(answer.unwrap().message.reasoning(), "abc");
    assert_eq!(told, ["reasoning a", "reasoning bc", "end"]);
}

#[test]
fn items_without_positions_are_told_apart_by_id() {
    let about = |kind: &str, id: &str, text: &str| json!({ "type": format!("response.{kind}"), "item_id": id, "delta": text });
    let item =
        |kind: &str, item: Value| json!({ "type": format!("response.{kind}"), "item": item });
    let named = |id: &str, call_id: &str| json!({ "type": "function_call", "id": id, "call_id": call_id, "name": "f" });
    let (answer, _) = streamed(&[
        item("output_item.added", named("a", "c1")),
        item("output_item.added", named("b", "c2")),
        about("function_call_arguments.delta", "a", "1"),
        about("function_call_arguments.delta", "b", "2"),
        completed(),
    ]);
    let answer = answer.unwrap();
    let calls: Vec<_> = answer.message.tool_calls().cloned().collect();
    assert_eq!(calls, [ToolCall::new("c1", "f", "1"), ToolCall::new("c2", "f", "2")]);
}

#[test]
fn the_complete_text_of_a_part_replaces_missing_fragments() {
    let refused = json!({ "type": "response.refusal.done", "output_index": 0, "refusal": "No" });
    let (answer, _) = streamed(&[added(0, &message("")), refused, completed()]);
    assert_eq!(answer.unwrap().message.refusal(), Some("No"));
    let custom = json!({ "type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "f" });
    let input =
        json!({ "type": "response.custom_tool_call_input.done", "output_index": 0, "input": "ls" });
    let (answer, told) = streamed(&[added(0, &custom), input, completed()]);
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(told[..2], ["call 0 Some(\"c\") f", "arguments 0 ls"]);
}

#[test]
fn usage_of_an_answer_is_passed_on_and_known_at_its_end() {
    let usage = json!({ "input_tokens": 3, "output_tokens": 4 });
    let events = [
        done(0, &message("Hi")),
        ended("completed", &json!({ "status": "completed", "usage": usage })),
    ];
    let mut passed_on = Vec::new();
    let mut deltas = |delta: Delta<'_>| {
        if let Delta::Usage(usage) = delta {
            passed_on.push(usage);
        }
    };
    let context = ErrorContext::new("p");
    let mut decoder = ResponseDecoder::new(WireApi::OpenAiResponses, origin(), context, true);
    decoder.push(stream(&events).as_bytes(), &mut deltas).unwrap();
    let answer = decoder.finish(&mut deltas).unwrap();
    assert_eq!((answer.usage, passed_on), (Usage::new(3, 4), vec![Usage::new(3, 4)]));
}

#[test]
fn an_item_that_was_followed_by_a_later_one_says_nothing_more() {
    let said = |order: [(u64, &str); 2]| {
        let [first, second] = order.map(|(index, text)| delta("output_text", index, text));
        streamed(&[added(0, &message("")), added(1, &message("")), first, second, completed()]).0
    };
    assert_eq!(said([(0, "a"), (1, "b")]).unwrap().message.text(), "ab");
    let contradiction = said([(1, "b"), (0, "a")]).unwrap_err();
    assert!(contradiction.message.contains("contradicts itself"), "{contradiction}");
}

#[test]
fn calls_are_numbered_in_order_and_keep_what_was_said_of_their_arguments() {
    let arguments = |index| delta("function_call_arguments", index, "{}");
    let events = [
        added(0, &call("a", "f", "")),
        arguments(0),
        added(1, &call("b", "g", "")),
        arguments(1),
        // Some providers leave out at the end what was said before.
        done(0, &call("a", "f", "")),
        done(1, &call("b", "g", "{}")),
        completed(),
    ];
    let (answer, told) = streamed(&events);
    let expect =
        ["call 0 Some(\"a\") f", "arguments 0 {}", "call 1 Some(\"b\") g", "arguments 1 {}", "end"];
    assert_eq!(told, expect);
    let message = answer.unwrap().message;
    let calls: Vec<_> = message.tool_calls().map(|it| (&*it.name, &*it.arguments)).collect();
    assert_eq!(calls, [("f", "{}"), ("g", "{}")]);
}
