use loopwright_core::messages::{Content, Part, ProviderPayload, ToolCall};
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
    let mut decoder = ResponseDecoder::new(WireApi::Cohere, origin(), context, true);
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

fn whole(message: &Value, finish: &str) -> Answered {
    read(&json!({ "id": "i", "message": message, "finish_reason": finish }).to_string()).0
}

fn event(kind: &str, index: u64, message: &Value) -> Value {
    json!({ "type": kind, "index": index, "delta": { "message": message } })
}

fn block(index: u64, kind: &str) -> Value {
    event("content-start", index, &json!({ "content": { "type": kind, kind: "" } }))
}

fn said(index: u64, kind: &str, text: &str) -> Value {
    event("content-delta", index, &json!({ "content": { kind: text } }))
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    let function = json!({ "name": name, "arguments": arguments });
    json!({ "id": id, "type": "function", "function": function })
}

fn begun(index: u64, call: &Value) -> Value {
    event("tool-call-start", index, &json!({ "tool_calls": call }))
}

fn more(index: u64, arguments: &str) -> Value {
    let call = json!({ "function": { "arguments": arguments } });
    event("tool-call-delta", index, &json!({ "tool_calls": call }))
}

fn ended(finish: &str) -> Value {
    json!({ "type": "message-end", "delta": { "finish_reason": finish } })
}

fn part(content: Content, opaque: &str) -> Part {
    Part::new(content).with_provider_payload(ProviderPayload::new(opaque))
}

#[test]
fn thoughts_plans_words_and_calls_stay_apart_and_in_order() {
    let (answer, told) = streamed(&[
        json!({ "type": "message-start", "id": "i", "delta": { "message": { "content": [] } } }),
        block(0, "thinking"),
        said(0, "thinking", "H"),
        said(0, "thinking", "m"),
        event("tool-plan-delta", 0, &json!({ "tool_plan": "I " })),
        event("tool-plan-delta", 0, &json!({ "tool_plan": "will" })),
        block(1, "text"),
        said(1, "text", "Hi"),
        block(2, "text"),
        said(2, "text", "!"),
        begun(0, &call("c1", "f", "")),
        more(0, "{\"a\""),
        begun(1, &call("c2", "g", "")),
        more(0, ":1}"),
        ended("TOOL_CALL"),
    ]);
    let answer = answer.unwrap();
    let expect = [
        part(Content::Reasoning("Hm".into()), r#"{"type":"thinking","thinking":"Hm"}"#),
        part(Content::Provider { kind: "tool_plan".into() }, r#"{"tool_plan":"I will"}"#),
        Part::text("Hi"),
        Part::text("!"),
        Part::new(Content::ToolCall(ToolCall::new("c1", "f", "{\"a\":1}"))),
        Part::new(Content::ToolCall(ToolCall::new("c2", "g", ""))),
    ];
    assert_eq!(answer.message.parts(), expect);
    assert_eq!((answer.finish_reason, answer.id.as_deref()), (FinishReason::ToolCalls, Some("i")));
    let expect = [
        "reasoning H",
        "reasoning m",
        "text Hi",
        "text !",
        "call 0 Some(\"c1\") f",
        "arguments 0 {\"a\"",
        "call 1 Some(\"c2\") g",
        "arguments 0 :1}",
        "end",
    ];
    assert_eq!(told, expect);
}

#[test]
fn a_whole_answer_means_what_a_streamed_one_does() {
    let message = json!({
        "role": "assistant",
        "tool_plan": "I will",
        "content": [{ "type": "thinking", "thinking": "Hm" }, { "type": "text", "text": "Hi" }],
        "tool_calls": [call("c1", "f", "null")],
    });
    let answer = whole(&message, "TOOL_CALL").unwrap();
    let expect = [
        part(Content::Provider { kind: "tool_plan".into() }, r#"{"tool_plan":"I will"}"#),
        part(Content::Reasoning("Hm".into()), r#"{"type":"thinking","thinking":"Hm"}"#),
        Part::text("Hi"),
        Part::new(Content::ToolCall(ToolCall::new("c1", "f", "null"))),
    ];
    assert_eq!(
        (answer.message.parts(), answer.finish_reason),
        (&expect[..], FinishReason::ToolCalls)
    );
    let text = whole(&json!({ "content": "Hi" }), "COMPLETE").unwrap();
    assert_eq!(text.message.text(), "Hi");
}

#[test]
fn citations_stand_beside_the_words() {
    let cited = r#"{"start":0, "end":2,"text":"Hi"}"#;
    let event = format!(
        "data: {{\"type\":\"citation-start\",\"delta\":{{\"message\":{{\"citations\":{cited}}}}}}}\n\n"
    );
    let body = stream(&[said(0, "text", "Hi")]) + &event + &stream(&[ended("COMPLETE")]);
    let opaque = format!("{{\"citations\":[{cited}]}}");
    let answer = read(&body).0.unwrap();
    assert_eq!(answer.message.parts(), [part(Content::Text("Hi".into()), &opaque)]);
    let body = stream(&[ended("COMPLETE")]);
    let answer = read(&(event + &body)).0.unwrap();
    let alone = part(Content::Provider { kind: "citations".into() }, &opaque);
    assert_eq!(answer.message.parts(), [alone]);
}

#[test]
fn reasons_to_finish() {
    let text = json!({ "content": [{ "type": "text", "text": "Hi" }] });
    let cut = json!({ "tool_calls": [call("c", "f", "{")] });
    let called = json!({ "tool_calls": [call("c", "f", "{}")] });
    for (message, reason, finish) in [
        (&text, "COMPLETE", FinishReason::Stop),
        (&text, "STOP_SEQUENCE", FinishReason::Stop),
        (&text, "MAX_TOKENS", FinishReason::Length),
        (&cut, "MAX_TOKENS", FinishReason::Length),
        (&called, "COMPLETE", FinishReason::ToolCalls),
        (&called, "", FinishReason::ToolCalls),
        (&text, "ERROR_TOXIC", FinishReason::ContentFilter),
        (&text, "USER_CANCEL", FinishReason::Other("USER_CANCEL".into())),
        (&text, "", FinishReason::Other("unknown".into())),
    ] {
        assert_eq!(whole(message, reason).unwrap().finish_reason, finish, "{message} {reason}");
    }
    for (message, reason, kind) in [
        (&text, "ERROR", ModelErrorKind::Unavailable),
        (&text, "TIMEOUT", ModelErrorKind::Timeout),
        (&text, "ERROR_LIMIT", ModelErrorKind::ContextLength),
        (&text, "TOOL_CALL", ModelErrorKind::Protocol),
        (&cut, "", ModelErrorKind::Protocol),
        (&json!({ "tool_calls": [call("c", "", "")] }), "TOOL_CALL", ModelErrorKind::Protocol),
    ] {
        assert_eq!(whole(message, reason).unwrap_err().kind, kind, "{message} {reason}");
    }
}

#[test]
fn a_stream_ends_when_its_message_does() {
    let said = said(0, "text", "Hi");
    for end in ["", "data: [DONE]\n\n"] {
        let error = read(&(stream(std::slice::from_ref(&said)) + end)).0.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol);
    }
    let after = stream(&[said, ended("COMPLETE"), json!({ "error": "late" })]);
    assert_eq!(read(&(after + "data: [DONE]\n\n")).0.unwrap().message.text(), "Hi");
}

#[test]
fn tokens_are_counted_once_and_not_as_they_are_billed() {
    let billed = json!({ "input_tokens": 1, "output_tokens": 2 });
    let tokens = json!({ "input_tokens": 100.0, "output_tokens": 20.0 });
    let usage = json!({ "billed_units": billed, "tokens": tokens, "cached_tokens": 60 });
    let mut end = ended("COMPLETE");
    end["delta"]["usage"] = usage;
    let (answer, _) = streamed(&[said(0, "text", "Hi"), end.clone()]);
    assert_eq!(answer.unwrap().usage, Usage { cache_read: 60, ..Usage::new(100, 20) });
    end["delta"]["usage"] = json!({ "billed_units": billed });
    assert_eq!(streamed(&[end]).0.unwrap().usage, Usage::new(1, 2));
}

#[test]
fn errors_are_told_in_every_form() {
    let begun = said(0, "text", "Hi");
    let mut end = ended("ERROR");
    end["delta"]["error"] = "it broke".into();
    for event in [
        end,
        json!({ "type": "error", "message": "it broke" }),
        json!({ "message": "it broke" }),
        json!({ "error": { "message": "it broke" } }),
    ] {
        let error = streamed(&[begun.clone(), event]).0.unwrap_err();
        let expect = (ModelErrorKind::Unavailable, "p: it broke");
        assert_eq!((error.kind, error.message.as_str()), expect);
    }
    let body = json!({ "id": "i", "message": "it broke" }).to_string();
    assert_eq!(read(&body).0.unwrap_err().message, "p: it broke");
}

#[test]
fn a_call_that_was_not_begun_does_not_go_on() {
    let error = streamed(&[more(0, "{}"), ended("TOOL_CALL")]).0.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Protocol);
}

#[test]
fn a_whole_answer_has_its_id() {
    let message = json!({ "content": [{ "type": "text", "text": "a" }] });
    assert_eq!(whole(&message, "COMPLETE").unwrap().id.as_deref(), Some("i"));
}
