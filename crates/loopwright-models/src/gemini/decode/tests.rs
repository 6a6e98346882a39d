use loopwright_core::{DiscardDeltas, messages::Content};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{ResponseDecoder, WireApi};

type Answered = Result<InferenceResponse, ModelError>;

fn read(body: &[u8], cuts: &[usize], deltas: &mut dyn DeltaSink) -> Answered {
    let origin = ModelOrigin { wire: "w".into(), provider: "p".into(), model: "m".into() };
    let context = ErrorContext::new("p");
    let mut decoder = ResponseDecoder::new(WireApi::Gemini, Arc::new(origin), context, true);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
    cuts.extend([0, body.len()]);
    cuts.sort_unstable();
    for pair in cuts.windows(2) {
        decoder.push(&body[pair[0]..pair[1]], deltas)?;
    }
    decoder.finish(deltas)
}

/// Returns a chunk of these parts.
fn said(parts: &Value) -> Value {
    json!({ "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }] })
}

fn stopped(reason: &str) -> Value {
    json!({ "candidates": [{ "content": {}, "finishReason": reason, "index": 0 }] })
}

/// Reads a whole answer of one chunk.
fn whole(parts: &Value, reason: &str) -> Answered {
    let mut chunk = said(parts);
    chunk["candidates"][0]["finishReason"] = reason.into();
    read(chunk.to_string().as_bytes(), &[], &mut DiscardDeltas)
}

fn events(chunks: &[Value]) -> String {
    let events: Vec<_> = chunks.iter().map(|it| format!("data: {it}\r\n\r\n")).collect();
    events.concat()
}

fn streamed(chunks: &[Value]) -> Answered {
    read(events(chunks).as_bytes(), &[], &mut DiscardDeltas)
}

/// Reads a stream of these lists of parts, which ends as it should.
fn fragments(parts: &[Value]) -> Answered {
    let mut chunks: Vec<Value> = parts.iter().map(said).collect();
    chunks.push(stopped("STOP"));
    streamed(&chunks)
}

/// Shows each part: what it says, and what is sent back if that is more.
fn shown(answer: &Answered) -> Vec<(String, Option<Value>)> {
    let opaque = |part: &loopwright_core::messages::Part| {
        part.opaque().map(|opaque| serde_json::from_str(opaque.as_str()).unwrap())
    };
    let words = |content: &Content| match content {
        Content::Text(text) => format!("text {text}"),
        Content::Reasoning(text) => format!("thought {text}"),
        Content::ToolCall(call) => {
            format!("call {} {} {}", call.id.as_deref().unwrap_or("-"), call.name, call.arguments)
        }
        Content::Provider { kind } => format!("provider {kind}"),
        other => format!("{other:?}"),
    };
    let parts = answer.as_ref().unwrap().message.parts();
    parts.iter().map(|part| (words(part.content()), opaque(part))).collect()
}

fn plain(words: &str) -> (String, Option<Value>) {
    (words.to_owned(), None)
}

fn sealed(words: &str, raw: Value) -> (String, Option<Value>) {
    (words.to_owned(), Some(raw))
}

fn finish(answer: Answered) -> FinishReason {
    answer.unwrap().finish_reason
}

fn failure(answer: Answered) -> (ModelErrorKind, String) {
    let error = answer.unwrap_err();
    (error.kind, error.message)
}

#[test]
fn text_and_thoughts_that_follow_each_other_are_one_part() {
    let answer = fragments(&[
        json!([{ "text": "I ", "thought": true }]),
        json!([{ "text": "see.", "thought": true }, { "text": "Yes" }]),
        json!([{ "text": "" }, { "text": "!" }]),
    ]);
    assert_eq!(shown(&answer), [plain("thought I see."), plain("text Yes!")]);
    assert_eq!(finish(answer), FinishReason::Stop);
}

#[test]
fn parts_of_a_whole_answer_stay_apart() {
    let answer = whole(&json!([{ "text": "a" }, { "text": "b" }]), "STOP");
    assert_eq!(shown(&answer), [plain("text a"), plain("text b")]);
}

#[test]
fn signed_pieces_of_a_text_are_sent_back_as_they_came() {
    let signed =
        |text: &str, signature: &str| json!({ "text": text, "thoughtSignature": signature });
    let answer = fragments(&[
        json!([{ "text": "a" }]),
        json!([{ "text": "b" }]),
        json!([signed("c", "S1")]),
        json!([{ "text": "d" }, signed("", "S2")]),
    ]);
    let raw = json!([{ "text": "ab" }, signed("c", "S1"), { "text": "d" }, signed("", "S2")]);
    assert_eq!(shown(&answer), [sealed("text abcd", raw)]);
}

#[test]
fn a_signature_stands_alone_where_there_is_nothing_to_sign() {
    let call = json!({ "functionCall": { "name": "f" } });
    let empty = json!({ "text": "", "thoughtSignature": "S" });
    let bare = json!({ "thoughtSignature": "S", "thought": true });
    let answer = fragments(&[json!([call]), json!([empty]), json!([bare])]);
    let expect =
        [plain("call - f "), sealed("text ", empty.clone()), sealed("thought ", bare.clone())];
    assert_eq!(shown(&answer), expect);
}

#[test]
fn calls_are_kept_byte_for_byte() {
    let body = r#"{"candidates":[{"content":{"parts":[
        {"thoughtSignature":"S","functionCall":{"name":"f","id":"7","args":{"b" : 1.0,"a":"\u00e9"}}},
        {"functionCall":{"name":"g","args":{}}}]},"finishReason":"STOP"}]}"#;
    let answer = read(body.as_bytes(), &[], &mut DiscardDeltas).unwrap();
    let calls: Vec<_> = answer.message.tool_calls().collect();
    assert_eq!(&*calls[0].arguments, r#"{"b" : 1.0,"a":"\u00e9"}"#);
    assert_eq!((calls[0].id.as_deref(), calls[1].id.as_deref()), (Some("7"), None));
    let opaque = answer.message.parts()[0].opaque().unwrap().as_str();
    assert!(opaque.starts_with(r#"{"thoughtSignature":"S","functionCall":{"#), "{opaque}");
    assert_eq!(answer.finish_reason, FinishReason::ToolCalls);
}

#[test]
fn arguments_may_arrive_value_by_value() {
    let open = |call: Value| json!([{ "functionCall": call }]);
    let arg = |path: &str, text: &str| json!({ "jsonPath": path, "stringValue": text });
    let answer = fragments(&[
        json!([{ "functionCall": { "name": "f", "willContinue": true }, "thoughtSignature": "S" }]),
        open(json!({ "partialArgs": [arg("$.a", "x")], "willContinue": true })),
        open(json!({ "partialArgs": [arg("$.a", "y")], "willContinue": true })),
        open(json!({})),
        open(json!({ "name": "g", "id": "2", "partialArgs": [arg("$.b[0]", "z")] })),
    ]);
    let raw = json!({
        "functionCall": { "name": "f", "args": { "a": "xy" } },
        "thoughtSignature": "S",
    });
    let expect = [sealed(r#"call - f {"a":"xy"}"#, raw), plain(r#"call 2 g {"b":["z"]}"#)];
    assert_eq!(shown(&answer), expect);
}

#[test]
fn arguments_that_were_cut_for_length_do_not_look_whole() {
    let begun = json!([{ "functionCall": {
        "name": "f",
        "partialArgs": [{ "jsonPath": "$.a", "stringValue": "x" }],
        "willContinue": true,
    } }]);
    let answer = streamed(&[said(&begun), stopped("MAX_TOKENS")]);
    assert_eq!(shown(&answer), [plain(r#"call - f {"a":"x""#)]);
    assert_eq!(finish(answer), FinishReason::Length);
    let (kind, message) = failure(streamed(&[said(&begun), stopped("STOP")]));
    assert_eq!(kind, ModelErrorKind::Protocol);
    assert_eq!(message, "p: the response was cut off within a part");
}

#[test]
fn calls_that_make_no_sense_are_errors() {
    let nameless = json!([{ "functionCall": { "args": {} } }]);
    assert_eq!(failure(whole(&nameless, "STOP")).1, "p: the response calls a tool without a name");
    let aimless =
        json!([{ "functionCall": { "name": "f", "partialArgs": [{ "jsonPath": "a" }] } }]);
    let message = "p: the arguments of a tool call are malformed";
    assert_eq!(failure(whole(&aimless, "STOP")).1, message);
}

#[test]
fn tools_run_by_the_provider_are_kept() {
    let code = json!({ "executableCode": { "code": "1" }, "thoughtSignature": "S" });
    let result = json!({ "codeExecutionResult": { "output": "1" } });
    let answer =
        fragments(&[json!([code, { "text": "" }]), json!([result]), json!([{ "text": "1" }])]);
    let expect = [
        sealed("provider executableCode", code.clone()),
        sealed("provider codeExecutionResult", result.clone()),
        plain("text 1"),
    ];
    assert_eq!(shown(&answer), expect);
}

#[test]
fn sources_come_after_the_answer() {
    let sources = json!({ "webSearchQueries": ["q"] });
    let mut first = said(&json!([{ "text": "a" }]));
    first["candidates"][0]["groundingMetadata"] = json!({});
    let mut second = said(&json!([{ "text": "b" }]));
    second["candidates"][0]["groundingMetadata"] = sources.clone();
    let mut last = stopped("STOP");
    last["candidates"][0]["groundingMetadata"] = sources.clone();
    let answer = streamed(&[first, second, last]);
    assert_eq!(shown(&answer), [plain("text ab"), sealed("provider groundingMetadata", sources)]);
}

#[test]
fn pictures_that_the_model_makes_are_pictures() {
    let data = json!({ "mimeType": "image/png", "data": "AAAA" });
    let picture = json!({ "inlineData": data, "thoughtSignature": "S" });
    let draft = json!({ "inlineData": data, "thought": true });
    let answer = fragments(&[json!([draft, picture])]).unwrap();
    let parts = answer.message.parts();
    assert_eq!(parts[0].content(), &Content::Provider { kind: "inlineData".into() });
    assert_eq!(
        parts[1].content(),
        loopwright_core::messages::Part::image("image/png", "AAAA").content()
    );
    assert_eq!(parts[1].opaque().unwrap().as_str(), picture.to_string());
}

#[test]
fn the_last_usage_counts_as_a_whole() {
    let usage = |counts: Value| json!({ "usageMetadata": counts });
    let mut last = stopped("STOP");
    last["usageMetadata"] = json!({
        "promptTokenCount": 10, "toolUsePromptTokenCount": 5, "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 20,
    });
    let first = usage(json!({ "promptTokenCount": 99, "thoughtsTokenCount": 99 }));
    let silent = usage(json!({ "trafficType": "ON_DEMAND" }));
    let answer = streamed(&[first, last, silent]).unwrap();
    let expect = Usage { input: 15, output: 5, cache_read: 4, cache_write: 0, reasoning: 2 };
    assert_eq!(answer.usage, expect);
}

#[test]
fn reasons_to_finish_are_told_in_our_words() {
    let text = json!([{ "text": "a" }]);
    let call = json!([{ "functionCall": { "name": "f" } }]);
    let check = |parts: &Value, reason: &str, expect: FinishReason| {
        assert_eq!(finish(whole(parts, reason)), expect, "{reason}");
    };
    check(&text, "STOP", FinishReason::Stop);
    check(&call, "STOP", FinishReason::ToolCalls);
    check(&call, "MAX_TOKENS", FinishReason::Length);
    check(&text, "SAFETY", FinishReason::ContentFilter);
    check(&text, "MODEL_ARMOR", FinishReason::ContentFilter);
    check(&text, "OTHER", FinishReason::Other("OTHER".into()));
    check(&text, "", FinishReason::Other("unknown".into()));
    check(&call, "", FinishReason::ToolCalls);
}

#[test]
fn calls_that_the_provider_could_not_read_are_errors() {
    let mut chunk = stopped("MALFORMED_FUNCTION_CALL");
    chunk["candidates"][0]["finishMessage"] = "f(".into();
    chunk["usageMetadata"] = json!({ "promptTokenCount": 3 });
    let error = streamed(&[chunk]).unwrap_err();
    assert_eq!(error.message, "p: the response failed: MALFORMED_FUNCTION_CALL: f(");
    assert_eq!(error.code.as_deref(), Some("MALFORMED_FUNCTION_CALL"));
    assert_eq!((error.kind, error.usage), (ModelErrorKind::Protocol, Usage::new(3, 0)));
}

#[test]
fn a_prompt_that_is_not_let_through_is_filtered() {
    let blocked = json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" } });
    for answer in [
        streamed(std::slice::from_ref(&blocked)),
        read(blocked.to_string().as_bytes(), &[], &mut DiscardDeltas),
    ] {
        let answer = answer.unwrap();
        assert_eq!(
            (answer.message.is_empty(), answer.finish_reason),
            (true, FinishReason::ContentFilter)
        );
    }
}

#[test]
fn an_answer_without_a_candidate_is_none() {
    for body in ["{}", r#"{"candidates":[]}"#, r#"{"candidates":null,"usageMetadata":{}}"#, "[]"] {
        let answer = read(body.as_bytes(), &[], &mut DiscardDeltas);
        assert_eq!(failure(answer).0, ModelErrorKind::Protocol, "{body}");
    }
}

#[test]
fn further_candidates_are_ignored() {
    let other =
        json!({ "candidates": [{ "index": 1, "content": { "parts": [{ "text": "b" }] } }] });
    let answer = streamed(&[said(&json!([{ "text": "a" }])), other, stopped("STOP")]);
    assert_eq!(shown(&answer), [plain("text a")]);
}

#[test]
fn errors_are_found_wherever_they_stand() {
    let error = json!({ "error": { "code": 503, "message": "busy", "status": "UNAVAILABLE" } });
    let text = said(&json!([{ "text": "a" }]));
    for answer in [
        streamed(&[text.clone(), error.clone(), stopped("STOP")]),
        read(error.to_string().as_bytes(), &[], &mut DiscardDeltas),
        read(json!([error]).to_string().as_bytes(), &[], &mut DiscardDeltas),
        read(json!([text, error]).to_string().as_bytes(), &[], &mut DiscardDeltas),
        read(
            format!("{}event: error\ndata: {error}\n\n", events(&[text])).as_bytes(),
            &[],
            &mut DiscardDeltas,
        ),
    ] {
        assert_eq!(failure(answer), (ModelErrorKind::Unavailable, "p: busy".to_owned()));
    }
}

#[test]
fn a_list_of_chunks_is_a_stream_as_well() {
    let chunks =
        json!([said(&json!([{ "text": "a" }])), said(&json!([{ "text": "b" }])), stopped("STOP")]);
    let body = chunks.to_string();
    let answer = read(body.as_bytes(), &[], &mut DiscardDeltas);
    assert_eq!(shown(&answer), [plain("text ab")]);
    for cut in 0..body.len() {
        assert!(read(&body.as_bytes()[..cut], &[], &mut DiscardDeltas).is_err(), "cut at {cut}");
    }
}

/// Returns a stream in which the model stops twice.
fn stopped_twice() -> Vec<Value> {
    let mut code = said(&json!([{ "executableCode": { "code": "1" } }]));
    code["candidates"][0]["finishReason"] = "STOP".into();
    let mut text = said(&json!([{ "text": "one" }]));
    text["candidates"][0]["finishReason"] = "STOP".into();
    vec![code, said(&json!([{ "codeExecutionResult": { "output": "1" } }])), text]
}

#[test]
fn an_answer_may_go_on_after_a_reason_to_finish() {
    let answer = streamed(&stopped_twice()).unwrap();
    assert_eq!((answer.message.text().as_str(), answer.finish_reason), ("one", FinishReason::Stop));
}

#[test]
fn a_cut_stream_is_never_a_shorter_answer() {
    let call = json!([{ "functionCall": { "name": "f", "args": { "a": 1 } } }]);
    for chunks in
        [stopped_twice(), vec![said(&json!([{ "text": "a" }])), said(&call), stopped("STOP")]]
    {
        let body = events(&chunks);
        let all = shown(&streamed(&chunks));
        for cut in 0..body.len() {
            let answer = read(&body.as_bytes()[..cut], &[], &mut DiscardDeltas);
            assert!(answer.is_err() || shown(&answer) == all, "cut at {cut}");
        }
    }
}

#[derive(Default)]
struct Seen(Vec<String>);

impl DeltaSink for Seen {
    fn push(&mut self, delta: Delta<'_>) {
        self.0.push(format!("{delta:?}"));
    }
}

#[test]
fn fragments_are_passed_on_as_they_come() {
    let arg = json!({ "jsonPath": "$.a", "numberValue": 1 });
    let chunks = [
        said(&json!([{ "text": "t", "thought": true }, { "text": "a" }])),
        said(&json!([{ "functionCall": { "name": "f", "args": {} } }])),
        said(
            &json!([{ "functionCall": { "name": "g", "partialArgs": [arg], "willContinue": true } }]),
        ),
        said(&json!([{ "functionCall": {} }])),
        stopped("STOP"),
    ];
    let mut seen = Seen::default();
    read(events(&chunks).as_bytes(), &[], &mut seen).unwrap();
    let expect = [
        r#"Reasoning("t")"#,
        r#"Text("a")"#,
        r#"ToolCall { index: 0, id: None, name: "f" }"#,
        r#"ToolArguments { index: 0, fragment: "{}" }"#,
        r#"ToolCall { index: 1, id: None, name: "g" }"#,
        r#"ToolArguments { index: 1, fragment: "{\"a\":1}" }"#,
        "End",
    ];
    assert_eq!(seen.0, expect);
}

proptest! {
    #[test]
    fn a_stream_decodes_alike_however_it_is_split(cuts in prop::collection::vec(any::<usize>(), 0..20)) {
        let body = events(&stopped_twice());
        let answer = read(body.as_bytes(), &cuts, &mut DiscardDeltas);
        prop_assert_eq!(answer.unwrap(), streamed(&stopped_twice()).unwrap());
    }

    #[test]
    fn no_bytes_are_too_strange(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut body = events(&stopped_twice()).into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        drop(read(&body, &[], &mut DiscardDeltas));
    }
}

#[test]
fn a_list_of_events_that_ends_too_early_is_no_answer() {
    let list = json!([said(&json!([{ "text": "a" }]))]).to_string();
    assert!(read(list.as_bytes(), &[], &mut DiscardDeltas).is_err());
    let list = json!([said(&json!([{ "text": "a" }])), stopped("STOP")]).to_string();
    assert_eq!(read(list.as_bytes(), &[], &mut DiscardDeltas).unwrap().message.text(), "a");
}

#[test]
fn the_first_id_of_an_answer_counts() {
    let with_id = |mut chunk: Value, id: &str| {
        chunk["responseId"] = id.into();
        chunk
    };
    let text = || said(&json!([{ "text": "a" }]));
    let chunks = [with_id(text(), ""), with_id(text(), "1"), with_id(stopped("STOP"), "2")];
    assert_eq!(streamed(&chunks).unwrap().id.as_deref(), Some("1"));
}
