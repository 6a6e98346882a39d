use loopwright_core::{DiscardDeltas, messages::Content};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{ResponseDecoder, WireApi};

fn origin() -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin { wire: "w".into(), provider: "p".into(), model: "m".into() })
}

type Answered = Result<InferenceResponse, ModelError>;

fn read(body: &[u8], cuts: &[usize]) -> Answered {
    let mut decoder =
        ResponseDecoder::new(WireApi::OpenAiChat, origin(), ErrorContext::new("p"), true);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
    cuts.extend([0, body.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        decoder.push(&body[pair[0]..pair[1]], &mut DiscardDeltas)?;
    }
    decoder.finish(&mut DiscardDeltas)
}

/// Reads a whole answer with this message.
fn whole(message: &Value, finish: &Value) -> Answered {
    let body = json!({ "choices": [{ "message": message, "finish_reason": finish }] });
    read(body.to_string().as_bytes(), &[])
}

/// Reads a stream of these deltas, which ends as it should.
fn streamed(deltas: &[Value], finish: &str) -> Answered {
    let chunk = |delta: &Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    let mut chunks: Vec<Value> = deltas.iter().map(chunk).collect();
    chunks.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] }));
    chunks_read(&chunks, "data: [DONE]\n\n")
}

fn chunks_read(chunks: &[Value], end: &str) -> Answered {
    let events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    read((events.concat() + end).as_bytes(), &[])
}

fn calls(answer: &Answered) -> Vec<(Option<&str>, &str, &str)> {
    let message = &answer.as_ref().unwrap().message;
    message.tool_calls().map(|it| (it.id.as_deref(), &*it.name, &*it.arguments)).collect()
}

fn fragment(
    index: impl Into<Value>,
    id: impl Into<Value>,
    name: impl Into<Value>,
    arguments: impl Into<Value>,
) -> Value {
    let function = json!({ "name": name.into(), "arguments": arguments.into() });
    json!({ "tool_calls": [{ "index": index.into(), "id": id.into(), "function": function }] })
}

#[test]
fn text_comes_as_text_or_as_parts() {
    let parts =
        json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] });
    for message in [json!({ "content": "ab" }), parts] {
        let answer = whole(&message, &json!("stop")).unwrap();
        assert_eq!(
            (answer.message.text(), answer.finish_reason),
            ("ab".to_owned(), FinishReason::Stop)
        );
    }
}

#[test]
fn nothing_said_is_told_in_many_ways() {
    for content in [json!(null), json!(""), json!([]), json!({}), json!(0)] {
        let answer = whole(&json!({ "content": content, "refusal": "" }), &json!("stop")).unwrap();
        assert!(answer.message.parts().is_empty(), "{content}");
    }
}

#[test]
fn reasoning_is_sent_back_in_the_field_it_came_in() {
    for field in ["reasoning_content", "reasoning"] {
        let answer = streamed(
            &[json!({ field: "a" }), json!({ field: "\"b" }), json!({ "content": "c" })],
            "stop",
        );
        let message = answer.unwrap().message;
        assert_eq!((message.reasoning(), message.text()), ("a\"b".to_owned(), "c".to_owned()));
        let opaque = message.parts()[0].opaque().unwrap().as_str();
        assert_eq!(opaque, json!({ field: "a\"b" }).to_string());
    }
}

#[test]
fn reasoning_details_are_put_together_by_index() {
    let detail = |detail: Value| json!({ "reasoning_details": [detail] });
    let answer = streamed(
        &[
            detail(json!({ "type": "reasoning.text", "index": 0, "text": "a", "format": "f" })),
            detail(json!({ "type": "reasoning.text", "index": 0, "text": "b" })),
            detail(json!({ "type": "reasoning.text", "index": 0, "text": "", "signature": "s" })),
            detail(json!({ "type": "reasoning.encrypted", "index": 1, "data": "d", "more": [1] })),
        ],
        "stop",
    );
    let message = answer.unwrap().message;
    assert_eq!(message.reasoning(), "ab");
    let opaque: Value =
        serde_json::from_str(message.parts()[0].opaque().unwrap().as_str()).unwrap();
    let text = json!({ "type": "reasoning.text", "index": 0, "text": "ab", "format": "f", "signature": "s" });
    let data = json!({ "type": "reasoning.encrypted", "index": 1, "data": "d", "more": [1] });
    assert_eq!(opaque, json!({ "reasoning_details": [text, data] }));
}

#[test]
fn thinking_within_the_content_keeps_its_place() {
    let thinking = |text: &str| json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": text }] }]);
    let answer = streamed(
        &[
            json!({ "content": thinking("a") }),
            json!({ "content": thinking("b") }),
            json!({ "content": "c" }),
            json!({ "content": thinking("d") }),
            json!({ "content": "e" }),
        ],
        "stop",
    );
    let message = answer.unwrap().message;
    let said: Vec<String> = message
        .parts()
        .iter()
        .map(|part| match part.content() {
            Content::Text(text) => format!("says {text}"),
            Content::Reasoning(text) => format!("thinks {text}"),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(said, ["thinks ab", "says c", "thinks d", "says e"]);
}

#[test]
fn a_refusal_is_no_empty_success() {
    let answer =
        streamed(&[json!({ "refusal": "I " }), json!({ "refusal": "won't" })], "stop").unwrap();
    assert_eq!(answer.message.refusal(), Some("I won't"));
    assert_eq!(answer.finish_reason, FinishReason::Refusal);
}

#[test]
fn fragments_of_calls_are_put_together() {
    let null = || Value::Null;
    let answer = streamed(
        &[
            fragment(json!(1), json!("a"), json!("f"), json!("")),
            fragment(json!(1), null(), null(), json!("{\"x\"")),
            fragment(json!(1), json!(""), json!(""), json!(":1}")),
            fragment(json!(2), json!("b"), json!("g"), json!("{}")),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&answer), [(Some("a"), "f", "{\"x\":1}"), (Some("b"), "g", "{}")]);
    assert_eq!(answer.unwrap().finish_reason, FinishReason::ToolCalls);
}

#[test]
fn calls_are_told_apart_without_indexes_and_ids() {
    let null = || Value::Null;
    let by_id = streamed(
        &[
            fragment(null(), json!("a"), json!("f"), json!("{")),
            fragment(null(), null(), null(), json!("}")),
            fragment(null(), json!("b"), json!("g"), json!("{}")),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&by_id), [(Some("a"), "f", "{}"), (Some("b"), "g", "{}")]);
    let reused = streamed(
        &[
            fragment(json!(0), json!("a"), json!("f"), json!("{}")),
            fragment(json!(0), json!("b"), json!("g"), json!("{")),
            fragment(json!(0), null(), null(), json!("}")),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&reused), [(Some("a"), "f", "{}"), (Some("b"), "g", "{}")]);
    let nothing = streamed(
        &[
            fragment(json!(0), null(), json!("f"), json!("{}")),
            fragment(json!(0), null(), json!("f"), json!("{\"x\":1}")),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&nothing), [(None, "f", "{}"), (None, "f", "{\"x\":1}")]);
}

#[test]
fn arguments_are_kept_as_they_were_written() {
    for (wire, kept) in [
        (json!("null"), "null"),
        (json!(null), ""),
        (json!(""), ""),
        (json!("{ \"a\" :1}"), "{ \"a\" :1}"),
        (json!({ "a": 1 }), "{\"a\":1}"),
        (json!("{\"a\""), "{\"a\""),
    ] {
        let call = json!({ "id": "a", "function": { "name": "f", "arguments": wire } });
        let answer = whole(&json!({ "tool_calls": [call] }), &json!("tool_calls"));
        assert_eq!(calls(&answer), [(Some("a"), "f", kept)], "{wire}");
    }
}

#[test]
fn calls_of_a_whole_answer_may_lack_ids_or_repeat_them() {
    let call = |id: Value| json!({ "id": id, "function": { "name": "f", "arguments": "{}" } });
    let message = json!({ "tool_calls": [call(json!("a")), call(json!("a")), call(json!(null))] });
    let answer = whole(&message, &json!("tool_calls"));
    assert_eq!(calls(&answer), [(Some("a"), "f", "{}"), (Some("a"), "f", "{}"), (None, "f", "{}")]);
}

#[test]
fn empty_fields_count_as_missing() {
    let message = json!({
        "content": "", "refusal": "", "audio": { "data": "" },
        "function_call": { "name": "", "arguments": "" },
        "tool_calls": [
            { "id": "a", "function": { "name": "f", "arguments": "{}" }, "custom": { "name": "", "input": "" } },
            { "id": "", "function": { "name": "", "arguments": "" } },
        ],
    });
    let answer = whole(&message, &json!(""));
    assert_eq!(calls(&answer), [(Some("a"), "f", "{}")]);
    assert_eq!(answer.unwrap().finish_reason, FinishReason::ToolCalls);
}

#[test]
fn the_older_form_of_a_call_is_a_call() {
    let answer = streamed(
        &[
            json!({ "function_call": { "name": "f", "arguments": "" } }),
            json!({ "function_call": { "arguments": "{}" } }),
        ],
        "function_call",
    );
    assert_eq!(calls(&answer), [(None, "f", "{}")]);
}

#[test]
fn unknown_fields_of_a_tool_call_are_kept() {
    let call = json!({ "id": "a", "function": { "name": "f" }, "extra_content": { "google": { "thought_signature": "s" } } });
    let answer = whole(&json!({ "tool_calls": [call] }), &json!("stop")).unwrap();
    let opaque = answer.message.parts()[0].opaque().unwrap().as_str();
    assert_eq!(opaque, r#"{"extra_content":{"google":{"thought_signature":"s"}}}"#);
}

#[test]
fn a_call_without_a_name_is_an_error() {
    let answer =
        streamed(&[fragment(json!(0), json!("a"), json!(null), json!("{}"))], "tool_calls");
    assert_eq!(answer.unwrap_err().kind, ModelErrorKind::Protocol);
}

#[test]
fn reasons_to_finish_have_one_name_each() {
    let text = json!({ "content": "a" });
    let call = json!({ "tool_calls": [{ "id": "a", "function": { "name": "f" } }] });
    let finish = |message: &Value, reason: Value| whole(message, &reason).unwrap().finish_reason;
    let other = |word: &str| FinishReason::Other(word.into());
    for (reason, expect) in [
        (json!("stop"), FinishReason::Stop),
        (json!("eos"), FinishReason::Stop),
        (json!("length"), FinishReason::Length),
        (json!("model_length"), FinishReason::Length),
        (json!("content_filter"), FinishReason::ContentFilter),
        (json!(""), other("unknown")),
        (json!(null), other("unknown")),
        (json!("tool_calls"), other("tool_calls")),
        (json!("later"), other("later")),
    ] {
        assert_eq!(finish(&text, reason.clone()), expect, "{reason}");
    }
    for reason in [json!("stop"), json!(""), json!(null), json!("tool_calls"), json!("end_turn")] {
        assert_eq!(finish(&call, reason.clone()), FinishReason::ToolCalls, "{reason}");
    }
    assert_eq!(finish(&call, json!("length")), FinishReason::Length);
}

#[test]
fn an_answer_that_failed_is_an_error() {
    let text = json!({ "content": "a" });
    for reason in ["error", "network_error", "insufficient_system_resource"] {
        let error = whole(&text, &json!(reason)).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Unavailable, "{reason}");
    }
    let error = whole(&json!({ "content": "" }), &json!("tool_calls")).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Protocol);
    for body in [r#"{"choices":[]}"#, "{}", r#"{"id":"x","usage":{}}"#] {
        let error = read(body.as_bytes(), &[]).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{body}");
    }
}

#[test]
fn errors_stand_in_many_places() {
    let text = json!({ "choices": [{ "index": 0, "delta": { "content": "a" } }] });
    let beside = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }], "error": { "message": "e" } });
    for error in [
        json!({ "error": { "message": "e" } }),
        json!({ "error": "e" }),
        json!({ "object": "error", "message": "e" }),
        json!({ "message": "e", "code": 500 }),
        json!({ "detail": "e" }),
        json!({ "x_groq": { "error": "e" } }),
        json!({ "choices": [{ "index": 0, "delta": {}, "error": { "message": "e" } }] }),
        beside,
    ] {
        let got = chunks_read(&[text.clone(), error.clone()], "data: [DONE]\n\n").unwrap_err();
        assert!(got.message.starts_with("p: e"), "{error}: {got}");
    }
    let stream = format!("data: {text}\n\nevent: error\ndata: {{\"message\":\"e\"}}\n\n");
    assert_eq!(read(stream.as_bytes(), &[]).unwrap_err().message, "p: e");
}

#[test]
fn a_list_in_the_place_of_an_answer_is_an_error() {
    for body in ["[]", r#"["","","",null,null,{"m":1}]"#, r#"[{"error":{"message":"e"}}]"#] {
        assert!(read(body.as_bytes(), &[]).is_err(), "{body}");
        assert!(read(format!("data: {body}\n\n").as_bytes(), &[]).is_err(), "{body}");
    }
}

#[test]
fn an_empty_error_is_none() {
    for none in [json!(null), json!(""), json!({}), json!(false)] {
        let chunk = json!({ "error": none, "choices": [{ "delta": { "content": "a" }, "finish_reason": "stop" }] });
        assert_eq!(chunks_read(&[chunk], "").unwrap().message.text(), "a", "{none}");
    }
}

fn finished(usage: &Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": { "content": "a" }, "finish_reason": "stop" }], "usage": usage })
}

#[test]
fn the_last_usage_that_is_one_counts() {
    let usage = |input: u64| json!({ "prompt_tokens": input, "completion_tokens": 1 });
    let after = |usage: Value| json!({ "choices": [], "usage": usage });
    let input = |chunks: &[Value]| chunks_read(chunks, "data: [DONE]\n\n").unwrap().usage.input;
    assert_eq!(input(&[finished(&usage(1)), after(usage(2))]), 2);
    assert_eq!(input(&[finished(&usage(1)), after(json!(null))]), 1);
    assert_eq!(input(&[finished(&json!(null)), json!({ "usage": usage(3) })]), 3);
    let groq = json!({ "choices": [], "x_groq": { "usage": usage(4) } });
    assert_eq!(input(&[finished(&json!(null)), groq.clone()]), 4);
    assert_eq!(input(&[finished(&usage(5)), groq.clone()]), 5);
    assert_eq!(input(&[groq, finished(&usage(6))]), 6);
}

#[test]
fn usage_counts_nothing_twice() {
    let check = |usage: Value, expect: Usage| {
        assert_eq!(chunks_read(&[finished(&usage)], "").unwrap().usage, expect, "{usage}");
    };
    check(
        json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": { "cached_tokens": 4, "cache_write_tokens": 2 },
            "completion_tokens_details": { "reasoning_tokens": 3 } }),
        Usage { input: 10, output: 5, cache_read: 4, cache_write: 2, reasoning: 3 },
    );
    check(
        json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 18,
            "completion_tokens_details": { "reasoning_tokens": 3 } }),
        Usage { reasoning: 3, ..Usage::new(10, 8) },
    );
    check(
        json!({ "prompt_tokens": 10, "completion_tokens": 5.0, "prompt_cache_hit_tokens": 7,
            "prompt_tokens_details": null, "total_tokens": "?" }),
        Usage { cache_read: 7, ..Usage::new(10, 5) },
    );
    check(json!([]), Usage::default());
}

#[test]
fn only_the_first_choice_is_read() {
    let choice = |index: u64, content: &str| json!({ "choices": [{ "index": index, "delta": { "content": content } }] });
    let end = |index: u64| json!({ "choices": [{ "index": index, "delta": {}, "finish_reason": "stop" }] });
    let chunks = [choice(1, "x"), choice(0, "a"), end(1), choice(0, "b"), end(0)];
    assert_eq!(chunks_read(&chunks, "").unwrap().message.text(), "ab");
    assert!(chunks_read(&chunks[..4], "").is_err());
}

#[test]
fn a_stream_ends_by_its_word_or_by_a_reason() {
    let text = json!({ "choices": [{ "index": 0, "delta": { "content": "a" } }] });
    let text = std::slice::from_ref(&text);
    assert!(chunks_read(text, "").is_err());
    assert_eq!(
        chunks_read(text, "data: [DONE]").unwrap().finish_reason,
        FinishReason::Other("unknown".into())
    );
    assert_eq!(
        chunks_read(&[finished(&json!(null))], "").unwrap().finish_reason,
        FinishReason::Stop
    );
    assert!(chunks_read(&[], "data: [DONE]\n\n").is_err(), "nothing was said");
    assert!(chunks_read(&[finished(&json!(null))], "data: {\"choices\":[").is_err(), "cut");
    let cut = json!({ "choices": [{ "index": 0, "delta": fragment(json!(0), json!("a"), json!("f"), json!("{\"a")) }] });
    assert!(chunks_read(&[cut], "data: [DONE]\n\n").is_err(), "cut within a call");
    let after = "data: [DONE]\n\ndata: {\"choices\":[],\"cost\":\"0\"}\n\ndata: nonsense\n\n";
    assert!(chunks_read(text, after).is_ok());
}

fn deltas() -> impl Strategy<Value = Vec<Value>> {
    let delta = prop_oneof![
        "[a-z😀\"\\\\\n]{0,6}".prop_map(|text| json!({ "content": text, "obfuscation": "x" })),
        "[a-zé ]{0,6}".prop_map(|text| json!({ "reasoning_content": text })),
        (0_u8..3, "[a-z]{1,3}", "[a-z{}\":]{0,5}").prop_map(|(index, id, text)| fragment(
            json!(index),
            json!(id),
            json!("f"),
            json!(text)
        )),
        Just(json!({ "refusal": "no" })),
    ];
    prop::collection::vec(delta, 0..8)
}

proptest! {
    #[test]
    fn cutting_a_stream_into_pieces_changes_nothing(
        deltas in deltas(),
        cuts in prop::collection::vec(any::<usize>(), 0..16),
        line_end in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
    ) {
        let events: Vec<String> = deltas
            .iter()
            .map(|delta| json!({ "choices": [{ "index": 0, "delta": delta }] }))
            .map(|chunk| format!(": c{line_end}data: {chunk}{line_end}{line_end}"))
            .collect();
        let stream = events.concat() + "data:" + &finished(&json!(null)).to_string() + line_end + line_end;
        let (whole, cut) = (read(stream.as_bytes(), &[]), read(stream.as_bytes(), &cuts));
        prop_assert_eq!(whole.unwrap(), cut.unwrap());
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(prop::sample::select(b"data: {}[]\":,\n\rchoies1".to_vec()), 0..120),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let (whole, cut) = (read(&bytes, &[]), read(&bytes, &cuts));
        prop_assert_eq!(whole.ok(), cut.ok());
    }
}

#[test]
fn a_signature_of_the_message_is_kept_with_its_words() {
    let google = |fields: Value| json!({ "extra_content": { "google": fields } });
    let opaque = |answer: &Answered, index: usize| {
        let part = &answer.as_ref().unwrap().message.parts()[index];
        let opaque = part.opaque().map(|it| serde_json::from_str::<Value>(it.as_str()).unwrap());
        (part.content().clone(), opaque)
    };
    let signature = google(json!({ "thought_signature": "S" }));
    let mut message = signature.clone();
    message["content"] = "Hi".into();
    let answer = whole(&message, &json!("stop"));
    assert_eq!(opaque(&answer, 0), (Content::Text("Hi".into()), Some(signature)));

    // A stream tells it in pieces, and the last one may have no words.
    let mut first = google(json!({ "thought": false }));
    first["content"] = "Hi".into();
    let last =
        json!({ "content": "", "extra_content": { "google": { "thought_signature": "S" } } });
    let answer = streamed(&[first, last], "stop");
    let both = google(json!({ "thought": false, "thought_signature": "S" }));
    assert_eq!(opaque(&answer, 0), (Content::Text("Hi".into()), Some(both)));

    // Beside calls only, it stands for itself, and theirs stay theirs.
    let mut alone = fragment(0, "a", "f", "{}");
    alone["thought_signature"] = "T".into();
    let answer = streamed(&[alone], "tool_calls");
    let kind = Content::Provider { kind: "extra_content".into() };
    assert_eq!(opaque(&answer, 1), (kind, Some(json!({ "thought_signature": "T" }))));

    let nothing = json!({ "content": "Hi", "extra_content": null, "thought_signature": null });
    assert_eq!(opaque(&whole(&nothing, &json!("stop")), 0).1, None);
    let empty = json!({ "content": "Hi", "extra_content": {} });
    assert_eq!(opaque(&whole(&empty, &json!("stop")), 0).1, None);
}

#[test]
fn content_that_is_no_text_says_nothing() {
    for content in [json!(null), json!({ "text": "a" }), json!(true), json!(3), json!(1.5)] {
        let call = json!({ "id": "c", "function": { "name": "f", "arguments": "{}" } });
        let message = json!({ "content": content, "tool_calls": [call] });
        let answer = whole(&message, &json!("tool_calls"));
        assert_eq!(calls(&answer), [(Some("c"), "f", "{}")], "{content}");
        assert_eq!(answer.unwrap().message.text(), "", "{content}");
    }
}

#[test]
fn usage_of_an_answer_is_known_before_its_end() {
    let mut decoder =
        ResponseDecoder::new(WireApi::OpenAiChat, origin(), ErrorContext::new("p"), true);
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 4 });
    let chunk = json!({ "choices": [{ "delta": { "content": "a" } }], "usage": usage });
    decoder.push(format!("data: {chunk}\n\n").as_bytes(), &mut DiscardDeltas).unwrap();
    assert_eq!(decoder.usage(), Some(Usage::new(3, 4)));
}

#[test]
fn fragments_with_an_id_that_come_after_whole_arguments_go_on_with_their_call() {
    let deltas =
        [fragment(0, "c", "f", "{}"), fragment(0, "c", "f", " "), fragment(0, "d", "f", "{}")];
    let answer = streamed(&deltas, "tool_calls");
    assert_eq!(calls(&answer), [(Some("c"), "f", "{} "), (Some("d"), "f", "{}")]);
    // Without ids only the arguments tell.
    let deltas = [fragment(0, "", "f", "{}"), fragment(0, "", "f", "{}")];
    assert_eq!(calls(&streamed(&deltas, "tool_calls")).len(), 2);
    let deltas = [fragment(0, "", "f", r#"{"a":"#), fragment(0, "", "f", "1}")];
    assert_eq!(calls(&streamed(&deltas, "tool_calls")), [(None, "f", r#"{"a":1}"#)]);
    let deltas = [fragment(0, "", "f", "{}"), fragment(0, "", "f", "")];
    assert_eq!(calls(&streamed(&deltas, "tool_calls")), [(None, "f", "{}")]);
}

#[test]
fn an_empty_reason_ends_a_whole_answer_and_no_stream() {
    let message = json!({ "content": "a" });
    assert!(whole(&message, &json!("")).is_ok());
    let chunk = json!({ "choices": [{ "delta": message, "finish_reason": "" }] });
    assert!(chunks_read(&[chunk], "").is_err());
}

#[test]
fn fragments_without_an_index_go_to_the_call_of_their_id() {
    let null = || Value::Null;
    let deltas = [
        fragment(null(), "a", "f", r#"{"x":"#),
        fragment(null(), "b", "g", "{}"),
        fragment(null(), "a", "", "1}"),
    ];
    let answer = streamed(&deltas, "tool_calls");
    assert_eq!(calls(&answer), [(Some("a"), "f", r#"{"x":1}"#), (Some("b"), "g", "{}")]);
}
