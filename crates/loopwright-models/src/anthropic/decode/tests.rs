use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, DiscardDeltas, ModelError, ModelErrorKind,
    messages::{Content, FinishReason, InferenceResponse, ModelOrigin, Part, ToolCall, Usage},
};

use crate::{ErrorContext, ResponseDecoder, WireApi};

fn decoder(is_streamed: bool) -> ResponseDecoder {
    let wire = WireApi::Anthropic;
    let origin = ModelOrigin { wire: wire.name().into(), provider: "p".into(), model: "m".into() };
    ResponseDecoder::new(wire, Arc::new(origin), ErrorContext::new("p"), is_streamed)
}

fn read(body: &str, deltas: &mut dyn DeltaSink) -> Result<InferenceResponse, ModelError> {
    let mut decoder = decoder(true);
    decoder.push(body.as_bytes(), deltas)?;
    decoder.finish(deltas)
}

/// A stream of events, each named after its type.
fn stream(events: &[&str]) -> String {
    let event = |data: &&str| format!("event: e\ndata: {data}  \n\n");
    events.iter().map(event).collect()
}

const START: &str = r#"{"type":"message_start","message":{"id":"m1","content":[],"usage":
    {"input_tokens":3,"cache_read_input_tokens":5,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn begin(index: u8, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn add(index: u8, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn end(index: u8) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn stopped(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":{reason}}},"usage":{{"output_tokens":9}}}}"#
    )
}

/// Reads a stream of these blocks that stops for this reason.
fn answer(blocks: &[String], reason: &str) -> Result<InferenceResponse, ModelError> {
    let start = START.replace('\n', "");
    let stopped = stopped(reason);
    let blocks = blocks.iter().map(String::as_str);
    let events: Vec<&str> =
        [start.as_str()].into_iter().chain(blocks).chain([stopped.as_str(), STOP]).collect();
    read(&stream(&events), &mut DiscardDeltas)
}

fn parts(blocks: &[String], reason: &str) -> Vec<(Content, Option<String>)> {
    let response = answer(blocks, reason).unwrap();
    let part =
        |part: &Part| (part.content().clone(), part.opaque().map(|it| it.as_str().to_owned()));
    response.message.parts().iter().map(part).collect()
}

fn text(text: &str) -> Content {
    Content::Text(text.into())
}

#[expect(clippy::unnecessary_wraps, reason = "the examples compare options")]
fn some(json: &str) -> Option<String> {
    Some(json.to_owned())
}

#[test]
fn blocks_become_parts_and_keep_what_only_the_provider_understands() {
    let blocks = [
        begin(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        add(0, r#"{"type":"thinking_delta","thinking":"a\n"}"#),
        add(0, r#"{"type":"thinking_delta","thinking":"b"}"#),
        add(0, r#"{"type":"signature_delta","signature":"S="}"#),
        end(0),
        begin(1, r#"{"type":"redacted_thinking","data":"D"}"#),
        begin(2, r#"{"type":"text","text":""}"#),
        add(2, r#"{"type":"text_delta","text":"c"}"#),
        begin(3, r#"{"citations":[],"type":"text","text":""}"#),
        add(3, r#"{"type":"citations_delta","citation":{"x": 1}}"#),
        add(3, r#"{"type":"text_delta","text":"d"}"#),
        add(3, r#"{"type":"citations_delta","citation":{"x":2}}"#),
    ];
    assert_eq!(
        parts(&blocks, r#""end_turn""#),
        [
            (
                Content::Reasoning("a\nb".into()),
                some(r#"{"type":"thinking","thinking":"a\nb","signature":"S="}"#)
            ),
            (Content::Reasoning("".into()), some(r#"{"type":"redacted_thinking","data":"D"}"#)),
            (text("c"), None),
            (text("d"), some(r#"{"citations":[{"x": 1},{"x":2}],"type":"text","text":"d"}"#)),
        ]
    );
}

#[test]
fn the_providers_own_tools_are_kept_as_they_are() {
    let provider = |kind: &str| Content::Provider { kind: kind.into() };
    let blocks = [
        begin(0, r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#),
        add(0, r#"{"type":"input_json_delta","partial_json":"{\"q\":"}"#),
        add(0, r#"{"type":"input_json_delta","partial_json":"1}"}"#),
        begin(1, r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[ 1 ]}"#),
        begin(2, r#"{"type":"compaction","content":null}"#),
        add(2, r#"{"type":"compaction_delta","content":"x"}"#),
        add(2, r#"{"type":"compaction_delta","content":"y"}"#),
    ];
    assert_eq!(
        parts(&blocks, r#""pause_turn""#),
        [
            (
                provider("server_tool_use"),
                some(r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":1}}"#)
            ),
            (
                provider("web_search_tool_result"),
                some(r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[ 1 ]}"#)
            ),
            (provider("compaction"), some(r#"{"type":"compaction","content":"xy"}"#)),
        ]
    );
    let finish = answer(&blocks, r#""pause_turn""#).unwrap().finish_reason;
    assert_eq!(finish, FinishReason::Other("pause_turn".into()));
}

#[test]
fn a_call_keeps_its_own_form_only_if_there_is_more_to_it() {
    let call = |arguments: &str| Content::ToolCall(ToolCall::new("t", "f", arguments));
    let tool = |more: &str| {
        begin(0, &format!(r#"{{"type":"tool_use","id":"t","name":"f","input":{{}}{more}}}"#))
    };
    let json = r#"{"type":"input_json_delta","partial_json":" {\"a\":1}"}"#;
    let empty = r#"{"type":"input_json_delta","partial_json":""}"#;
    let parts = |blocks: &[String]| parts(blocks, r#""tool_use""#).remove(0);
    assert_eq!(parts(&[tool(""), add(0, json)]), (call(" {\"a\":1}"), None));
    assert_eq!(parts(&[tool(r#","caller":{"type":"direct"}"#), add(0, empty)]), (call(""), None));
    let kept = r#"{"type":"tool_use","id":"t","name":"f","input": {"a":1},"caller":{"type":"c","id":"x"}}"#;
    let caller = r#","caller":{"type":"c","id":"x"}"#;
    assert_eq!(parts(&[tool(caller), add(0, json)]), (call(" {\"a\":1}"), some(kept)));
}

#[test]
fn an_input_that_comes_at_once_is_passed_on() {
    let block = begin(0, r#"{"type":"tool_use","id":"t","name":"f","input":{"a":1}}"#);
    let (start, stopped) = (START.replace('\n', ""), stopped(r#""tool_use""#));
    let body = stream(&[&start, &block, &end(0), &stopped, STOP]);
    let mut seen = Vec::new();
    let mut deltas = |delta: Delta<'_>| seen.push(format!("{delta:?}"));
    let response = read(&body, &mut deltas).unwrap();
    assert_eq!(response.message.tool_calls().next().unwrap().arguments.as_ref(), r#"{"a":1}"#);
    let usage = |output| Usage { input: 8, cache_read: 5, output, ..Usage::default() };
    assert_eq!(
        seen,
        [
            format!("{:?}", Delta::Usage(usage(1))),
            format!("{:?}", Delta::ToolCall { index: 0, id: Some("t"), name: "f" }),
            format!("{:?}", Delta::ToolArguments { index: 0, fragment: r#"{"a":1}"# }),
            format!("{:?}", Delta::Usage(usage(9))),
            format!("{:?}", Delta::End),
        ]
    );
}

#[test]
fn counts_are_corrected_one_by_one() {
    let late = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":
        {"input_tokens":20,"cache_read_input_tokens":0,"cache_creation_input_tokens":4,
         "output_tokens":7,"output_tokens_details":{"thinking_tokens":6}}}"#;
    let (start, late) = (START.replace('\n', ""), late.replace('\n', ""));
    let usage = read(&stream(&[&start, &late, STOP]), &mut DiscardDeltas).unwrap().usage;
    assert_eq!(usage, Usage { input: 24, output: 7, cache_read: 0, cache_write: 4, reasoning: 6 });
}

#[test]
fn reasons_to_stop_are_told_in_our_words() {
    let call = begin(0, r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#);
    let finish = |blocks: &[String], reason: &str| answer(blocks, reason).unwrap().finish_reason;
    for (reason, expect) in [
        (r#""end_turn""#, FinishReason::Stop),
        (r#""stop_sequence""#, FinishReason::Stop),
        (r#""max_tokens""#, FinishReason::Length),
        (r#""model_context_window_exceeded""#, FinishReason::Length),
        (r#""refusal""#, FinishReason::Refusal),
        (r#""later""#, FinishReason::Other("later".into())),
        ("null", FinishReason::Other("unknown".into())),
    ] {
        assert_eq!(finish(&[], reason), expect, "{reason}");
    }
    for (reason, expect) in [
        (r#""end_turn""#, FinishReason::ToolCalls),
        (r#""tool_use""#, FinishReason::ToolCalls),
        (r#""max_tokens""#, FinishReason::Length),
    ] {
        assert_eq!(finish(std::slice::from_ref(&call), reason), expect, "{reason}");
    }
    let error = answer(&[], r#""tool_use""#).unwrap_err();
    assert_eq!(error.message, "p: the response announces tool calls but contains none");
}

#[test]
fn thinking_that_was_cut_off_before_its_signature_is_not_kept_for_the_provider() {
    let blocks = [
        begin(0, r#"{"type":"thinking","thinking":""}"#),
        add(0, r#"{"type":"thinking_delta","thinking":"a"}"#),
    ];
    let opaque = |reason| parts(&blocks, reason).remove(0).1;
    assert_eq!(opaque(r#""max_tokens""#), None);
    let kept = some(r#"{"type":"thinking","thinking":"a","signature":""}"#);
    assert_eq!(opaque(r#""end_turn""#), kept);
}

#[test]
fn a_stream_that_closes_before_its_end_is_an_error() {
    let start = START.replace('\n', "");
    let text = add(0, r#"{"type":"text_delta","text":"a"}"#);
    let stopped = stopped(r#""end_turn""#);
    let body = stream(&[&start, &text, &stopped, STOP]);
    let whole = read(&body, &mut DiscardDeltas).unwrap();
    for cut in 0..body.len() {
        match read(&body[..cut], &mut DiscardDeltas) {
            Ok(part) => assert_eq!(part, whole, "{cut}"),
            Err(error) => assert_eq!(error.kind, ModelErrorKind::Protocol, "{cut}"),
        }
    }
    let error = read(&stream(&[&start, &text, &stopped]), &mut DiscardDeltas).unwrap_err();
    assert_eq!(error.message, "p: the stream closed before the response was complete");
    assert_eq!(error.usage, Usage { input: 8, output: 9, cache_read: 5, ..Usage::default() });
}

#[test]
fn an_error_in_the_stream_says_what_was_consumed() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"full"}}"#;
    let start = START.replace('\n', "");
    for name in ["error", "e"] {
        let body = format!("{}event: {name}\ndata: {error}\n\n", stream(&[&start]));
        let error = read(&body, &mut DiscardDeltas).unwrap_err();
        assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::Unavailable, "p: full"));
        assert_eq!(error.code.as_deref(), Some("overloaded_error"));
        assert_eq!(error.usage, Usage { input: 8, output: 1, cache_read: 5, ..Usage::default() });
    }
}

#[test]
fn an_answer_that_contradicts_the_protocol_is_an_error() {
    for (blocks, message) in [
        (vec![add(0, r#"{"type":"input_json_delta","partial_json":"1"}"#)], "did not start"),
        (vec![begin(0, "1")], "is malformed"),
        (vec![begin(0, r#"{"type":"tool_use","id":"t","name":""}"#)], "without a name"),
        (vec![r#"{"type":"content_block_start","index":0}"#.to_owned()], "is missing"),
        (vec![begin(0, r#"{"type":"text","text":"a"}"#), START.replace('\n', "")], "started twice"),
        (vec!["{".to_owned()], "was cut off"),
        (vec!["1".to_owned()], "not valid Messages API JSON"),
    ] {
        let error = answer(&blocks, r#""end_turn""#).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol);
        assert!(error.message.contains(message), "{error}");
    }
    let error = read(&stream(&[STOP]), &mut DiscardDeltas).unwrap_err();
    assert_eq!(error.message, "p: the stream closed before the response was complete");
}

#[test]
fn pings_marks_of_other_wires_and_unknown_events_are_let_go() {
    let start = START.replace('\n', "");
    let text = add(0, r#"{"type":"text_delta","text":"a"}"#);
    let stopped = stopped(r#""end_turn""#);
    let events = [
        r#"{"type":"ping"}"#,
        &start,
        r#"{"type":"later","x":[1]}"#,
        "[DONE]",
        &text,
        &stopped,
        STOP,
        r#"{"type":"ping","cost":"1"}"#,
        r#"{"error":"none of our business"}"#,
    ];
    let body = format!("event: ping\ndata: x\n\n{}", stream(&events));
    assert_eq!(read(&body, &mut DiscardDeltas).unwrap().message.text(), "a");
}

#[test]
fn a_whole_answer_is_read_at_once() {
    let body = r#"{"id":"m1","type":"message","content":[
        {"type":"thinking","thinking":"t","signature":"S"},
        {"type":"text","text":"a","citations":[{"x": 1}]},
        {"type":"text","text":"b","citations":null},
        {"type":"tool_use","id":"t","name":"f","input":{ "a": 1 }}],
        "stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let response = read(body, &mut DiscardDeltas).unwrap();
    let opaque = |part: &Part| part.opaque().map(|it| it.as_str().to_owned());
    let opaques: Vec<_> = response.message.parts().iter().map(opaque).collect();
    assert_eq!(
        opaques,
        [
            some(r#"{"type":"thinking","thinking":"t","signature":"S"}"#),
            some(r#"{"type":"text","text":"a","citations":[{"x": 1}]}"#),
            None,
            None
        ]
    );
    let call = response.message.tool_calls().next().cloned();
    assert_eq!(call, Some(ToolCall::new("t", "f", r#"{ "a": 1 }"#)));
    assert_eq!(response.usage, Usage { input: 1, output: 2, ..Usage::default() });
    assert_eq!(
        (response.finish_reason, response.id.as_deref()),
        (FinishReason::ToolCalls, Some("m1"))
    );
}

#[test]
fn a_whole_answer_may_be_empty_but_not_missing() {
    let body = r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#;
    let response = read(body, &mut DiscardDeltas).unwrap();
    assert_eq!((response.message.parts(), response.finish_reason), (&[][..], FinishReason::Stop));
    for (body, kind) in [
        (r#"{"type":"message","stop_reason":"end_turn"}"#, ModelErrorKind::Protocol),
        (r#"{"type":"message","content":[]"#, ModelErrorKind::Protocol),
        (
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#,
            ModelErrorKind::RateLimited,
        ),
    ] {
        assert_eq!(read(body, &mut DiscardDeltas).unwrap_err().kind, kind, "{body}");
    }
}

/// The parts of an answer that is the same in one piece and as a stream.
fn container_of(answer: &InferenceResponse) -> Vec<(Content, Option<String>)> {
    let part = |part: &Part| (part.content().clone(), part.opaque().map(|it| it.as_str().into()));
    answer.message.parts().iter().map(part).collect()
}

#[test]
fn a_container_is_kept_wherever_the_answer_names_it() {
    let container = r#"{"id":"container_1","expires_at":"2026-04-24T11:13:36Z"}"#;
    let kept = (Content::Provider { kind: "container".into() }, some(container));
    let whole = format!(
        r#"{{"id":"m1","content":[{{"type":"text","text":"a"}}],"stop_reason":"end_turn",
            "container":{container},"usage":{{}}}}"#
    );
    let whole = read(&whole, &mut DiscardDeltas).unwrap();
    assert_eq!(container_of(&whole), [(text("a"), None), kept.clone()]);

    let start = START.replace('\n', "");
    let blocks = [begin(0, r#"{"type":"text","text":"a"}"#), end(0)];
    let stopped = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn","container":{container}}}}}"#
    );
    let events = [&start, &blocks[0], &blocks[1], &stopped, STOP];
    let streamed = read(&stream(&events), &mut DiscardDeltas).unwrap();
    assert_eq!(container_of(&streamed), [(text("a"), None), kept]);

    let none = whole_with_null();
    assert_eq!(container_of(&none), [(text("a"), None)]);
}

fn whole_with_null() -> InferenceResponse {
    let body =
        r#"{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","container":null}"#;
    read(body, &mut DiscardDeltas).unwrap()
}

#[test]
fn deltas_of_an_unknown_block_are_kept() {
    let block = r#"{"type":"novel","words":"a","items":[1],"state":{"on":false}}"#;
    let blocks = [
        begin(0, block),
        add(0, r#"{"type":"novel_delta","words":"b","items":[2,{"x":null}],"count":3}"#),
        add(0, r#"{"type":"novel_delta","items":[4],"count":5,"state":{"on":true},"words":null}"#),
        end(0),
    ];
    let expect =
        r#"{"type":"novel","words":"ab","items":[1,2,{"x":null},4],"state":{"on":true},"count":5}"#;
    let kind = Content::Provider { kind: "novel".into() };
    assert_eq!(parts(&blocks, "\"end_turn\""), [(kind, some(expect))]);
}

#[test]
fn an_error_ends_the_answer_however_it_is_written() {
    let error = r#"{"type":"overloaded_error","message":"busy"}"#;
    for event in [
        format!(r#"{{"type":"error","error":{error}}}"#),
        format!(r#"{{"type":"other","error":{error}}}"#),
        r#"{"type":"error"}"#.to_owned(),
    ] {
        let start = START.replace('\n', "");
        let failed = read(&stream(&[&start, &event, STOP]), &mut DiscardDeltas);
        let Err(failed) = failed else { panic!("{event}") };
        assert_eq!(failed.usage.input, 3 + 5, "{event}");
    }
}

#[test]
fn an_answer_that_says_nothing_of_what_it_consumed_has_no_usage() {
    let mut decoder = decoder(true);
    assert_eq!(decoder.usage(), None);
    let start = START.replace('\n', "");
    decoder.push(stream(&[&start]).as_bytes(), &mut DiscardDeltas).unwrap();
    assert!(decoder.usage().is_some());
}

#[test]
fn a_stream_without_its_beginning_is_an_answer_if_it_has_a_block() {
    let (stopped, block) = (stopped(r#""end_turn""#), begin(0, r#"{"type":"text","text":"a"}"#));
    let answer = read(&stream(&[&block, &stopped, STOP]), &mut DiscardDeltas).unwrap();
    assert_eq!(answer.message.text(), "a");
    assert!(read(&stream(&[&stopped, STOP]), &mut DiscardDeltas).is_err());
}
