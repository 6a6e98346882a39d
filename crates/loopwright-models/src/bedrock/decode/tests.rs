use std::sync::Arc;

use loopwright_core::{
    Delta, DeltaSink, DiscardDeltas, ModelError, ModelErrorKind,
    messages::{Content, FinishReason, InferenceResponse, ModelOrigin, Part, ToolCall, Usage},
};

use crate::{
    ErrorContext, ResponseDecoder, WireApi,
    event_stream::tests::{event, message},
};

fn read(body: &[u8], deltas: &mut dyn DeltaSink) -> Result<InferenceResponse, ModelError> {
    let wire = WireApi::BedrockConverse;
    let origin = ModelOrigin { wire: wire.name().into(), provider: "p".into(), model: "m".into() };
    let mut decoder = ResponseDecoder::new(wire, Arc::new(origin), ErrorContext::new("p"), true);
    decoder.push(body, deltas)?;
    decoder.finish(deltas)
}

fn add(index: u8, delta: &str) -> Vec<u8> {
    let payload = format!(r#"{{"contentBlockIndex":{index},"delta":{delta},"p":"abc"}}"#);
    event("contentBlockDelta", &payload)
}

fn begin(index: u8, start: &str) -> Vec<u8> {
    let payload = format!(r#"{{"contentBlockIndex":{index},"start":{start}}}"#);
    event("contentBlockStart", &payload)
}

const USAGE: &str = r#"{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3,
    "cacheReadInputTokens":4,"cacheWriteInputTokens":5},"metrics":{"latencyMs":1}}"#;

/// A stream of these events that stops for this reason.
fn stream(events: &[Vec<u8>], reason: &str) -> Vec<u8> {
    let start = event("messageStart", r#"{"role":"assistant"}"#);
    let stop = event("messageStop", &format!(r#"{{"stopReason":"{reason}"}}"#));
    [&start, &events.concat(), &stop, &event("metadata", USAGE)].map(Vec::as_slice).concat()
}

fn parts(response: &InferenceResponse) -> Vec<(Content, Option<String>)> {
    let part =
        |part: &Part| (part.content().clone(), part.opaque().map(|it| it.as_str().to_owned()));
    response.message.parts().iter().map(part).collect()
}

#[expect(clippy::unnecessary_wraps, reason = "the examples compare options")]
fn some(json: &str) -> Option<String> {
    Some(json.to_owned())
}

fn text(text: &str) -> Content {
    Content::Text(text.into())
}

#[test]
fn blocks_become_parts_and_keep_what_only_the_provider_understands() {
    let events = [
        add(0, r#"{"reasoningContent":{"text":"a"}}"#),
        add(0, r#"{"reasoningContent":{"text":"b"}}"#),
        add(0, r#"{"reasoningContent":{"signature":"S="}}"#),
        add(1, r#"{"reasoningContent":{"redactedContent":"QQ=="}}"#),
        add(1, r#"{"reasoningContent":{"redactedContent":"Qg=="}}"#),
        add(2, r#"{"text":""}"#),
        add(2, r#"{"text":"c"}"#),
        add(3, r#"{"text":"d"}"#),
        add(3, r#"{"citation":{"title":"t"}}"#),
        add(4, r#"{"reasoningContent":{"text":"e"}}"#),
        add(5, r#"{"text":""}"#),
    ];
    let response = read(&stream(&events, "end_turn"), &mut DiscardDeltas).unwrap();
    let reasoning = |text: &str| Content::Reasoning(text.into());
    assert_eq!(
        parts(&response),
        [
            (
                reasoning("ab"),
                some(r#"{"reasoningContent":{"reasoningText":{"text":"ab","signature":"S="}}}"#)
            ),
            (reasoning(""), some(r#"{"reasoningContent":{"redactedContent":"QUI="}}"#)),
            (text("c"), None),
            (
                text("d"),
                some(
                    r#"{"citationsContent":{"content":[{"text":"d"}],"citations":[{"title":"t"}]}}"#
                )
            ),
            (reasoning("e"), None),
        ]
    );
    assert_eq!(response.finish_reason, FinishReason::Stop);
    let usage = Usage { input: 10, output: 2, cache_read: 4, cache_write: 5, reasoning: 0 };
    assert_eq!(response.usage, usage);
}

#[test]
fn calls_and_the_providers_own_tools_are_told_apart() {
    let events = [
        begin(0, r#"{"toolUse":{"toolUseId":"s","name":"search","type":"server_tool_use"}}"#),
        add(0, r#"{"toolUse":{"input":"{\"q\":"}}"#),
        add(0, r#"{"toolUse":{"input":"1}"}}"#),
        begin(1, r#"{"toolResult":{"toolUseId":"s"}}"#),
        add(1, r#"{"toolResult":[{"text":"x"}]}"#),
        add(1, r#"{"toolResult":[{"json": 1}]}"#),
        begin(2, r#"{"toolUse":{"toolUseId":"t","name":"f"}}"#),
        add(2, r#"{"toolUse":{"input":"{\"a\""}}"#),
        add(2, r#"{"toolUse":{"input":":1}"}}"#),
        begin(3, r#"{"toolUse":{"toolUseId":"u","name":"g"}}"#),
    ];
    let mut seen = Vec::new();
    let mut deltas = |delta: Delta<'_>| seen.push(format!("{delta:?}"));
    let response = read(&stream(&events, "end_turn"), &mut deltas).unwrap();
    let provider = |kind: &str| Content::Provider { kind: kind.into() };
    let call = |id: &str, name: &str, arguments: &str| {
        Content::ToolCall(ToolCall::new(id, name, arguments))
    };
    assert_eq!(
        parts(&response),
        [
            (
                provider("toolUse"),
                some(
                    r#"{"toolUse":{"toolUseId":"s","name":"search","type":"server_tool_use","input":{"q":1}}}"#
                )
            ),
            (
                provider("toolResult"),
                some(r#"{"toolResult":{"toolUseId":"s","content":[{"text":"x"},{"json": 1}]}}"#)
            ),
            (call("t", "f", r#"{"a":1}"#), None),
            (call("u", "g", ""), None),
        ]
    );
    assert_eq!(response.finish_reason, FinishReason::ToolCalls);
    let usage = Usage { input: 10, output: 2, cache_read: 4, cache_write: 5, reasoning: 0 };
    let expect = [
        Delta::ToolCall { index: 0, id: Some("t"), name: "f" },
        Delta::ToolArguments { index: 0, fragment: r#"{"a""# },
        Delta::ToolArguments { index: 0, fragment: ":1}" },
        Delta::ToolCall { index: 1, id: Some("u"), name: "g" },
        Delta::Usage(usage),
        Delta::End,
    ];
    assert_eq!(seen, expect.map(|delta| format!("{delta:?}")));
}

#[test]
fn reasons_to_stop_are_told_in_our_words() {
    let finish = |reason| read(&stream(&[], reason), &mut DiscardDeltas).map(|it| it.finish_reason);
    for (reason, expect) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("guardrail_intervened", FinishReason::ContentFilter),
        ("content_filtered", FinishReason::ContentFilter),
        ("later", FinishReason::Other("later".into())),
        ("", FinishReason::Other("unknown".into())),
    ] {
        assert_eq!(finish(reason).unwrap(), expect, "{reason}");
    }
    let kind = |reason| finish(reason).unwrap_err().kind;
    assert_eq!(kind("tool_use"), ModelErrorKind::Protocol);
    assert_eq!(kind("malformed_tool_use"), ModelErrorKind::Unavailable);
}

#[test]
fn a_stream_that_closes_before_its_end_is_an_error() {
    let body = stream(&[add(0, r#"{"text":"a"}"#)], "end_turn");
    for cut in 0..body.len() {
        let error = read(&body[..cut], &mut DiscardDeltas).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{cut}");
    }
}

#[test]
fn exceptions_in_the_stream_are_errors() {
    for (kind, expect) in [
        ("throttlingException", ModelErrorKind::RateLimited),
        ("serviceUnavailableException", ModelErrorKind::Unavailable),
        ("internalServerException", ModelErrorKind::Unavailable),
        ("modelStreamErrorException", ModelErrorKind::Unavailable),
        ("modelTimeoutException", ModelErrorKind::Timeout),
        ("validationException", ModelErrorKind::InvalidRequest),
    ] {
        let headers = [(":message-type", "exception"), (":exception-type", kind)];
        let exception = message(&headers, r#"{"message":"m"}"#);
        let body = [add(0, r#"{"text":"a"}"#), exception].concat();
        let error = read(&body, &mut DiscardDeltas).unwrap_err();
        let expect = (expect, "p: m", Some(kind));
        assert_eq!((error.kind, error.message.as_str(), error.code.as_deref()), expect);
    }
}

#[test]
fn an_answer_that_contradicts_the_protocol_is_an_error() {
    let nameless = begin(0, r#"{"toolUse":{"toolUseId":"t"}}"#);
    for (event, message) in [
        (add(0, r#"{"toolUse":{"input":"1"}}"#), "did not start"),
        (nameless, "without a name"),
        (event("messageStop", "["), "was cut off"),
        (event("messageStop", "1"), "not valid Converse JSON"),
    ] {
        let error = read(&stream(&[event], "end_turn"), &mut DiscardDeltas).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol);
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn a_whole_answer_is_read_at_once() {
    let body = r#"{"output":{"message":{"role":"assistant","content":[
        {"reasoningContent":{"reasoningText":{"signature":"S","text":"t"}}},
        {"reasoningContent":{"redactedContent":"QQ=="}},
        {"text":"a"},
        {"citationsContent":{"content":[{"text":"b"},{"text":"c"}],"citations":[ 1 ]}},
        {"toolUse":{"input":{ "a": 1 },"name":"f","toolUseId":"t"}},
        {"later":{"x":1}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2}}"#;
    let response = read(body.as_bytes(), &mut DiscardDeltas).unwrap();
    assert_eq!(
        parts(&response),
        [
            (
                Content::Reasoning("t".into()),
                some(r#"{"reasoningContent":{"reasoningText":{"signature":"S","text":"t"}}}"#)
            ),
            (
                Content::Reasoning("".into()),
                some(r#"{"reasoningContent":{"redactedContent":"QQ=="}}"#)
            ),
            (text("a"), None),
            (
                text("bc"),
                some(
                    r#"{"citationsContent":{"content":[{"text":"b"},{"text":"c"}],"citations":[ 1 ]}}"#
                )
            ),
            (Content::ToolCall(ToolCall::new("t", "f", r#"{ "a": 1 }"#)), None),
            (Content::Provider { kind: "later".into() }, some(r#"{"later":{"x":1}}"#)),
        ]
    );
    assert_eq!(response.finish_reason, FinishReason::ToolCalls);
    assert_eq!(response.usage, Usage { input: 1, output: 2, ..Usage::default() });
}

#[test]
fn a_whole_answer_may_be_an_error_or_none() {
    for (body, expect) in [
        (r#"{"message":"Too many tokens"}"#, "p: Too many tokens"),
        (r#"{"output":{}}"#, "p: the response contains no message"),
        (r#"{"output":{"message":{"content":[1]}}}"#, "p: a block of the response is malformed"),
        (r#"{"output":"#, "p: the response was cut off"),
    ] {
        assert_eq!(read(body.as_bytes(), &mut DiscardDeltas).unwrap_err().message, expect);
    }
}
