//! What the wires cost without a network.
//!
//! `cargo bench -p loopwright-models --all-features --bench wires` prints the time to read a stream of
//! 4,000 fragments on each wire, and to write the request of a step after 10, 100 and 200 steps of 2 KB.

#![expect(clippy::expect_used, reason = "a bench may give up")]

use std::{fmt::Write as _, sync::Arc};

use divan::counter::ItemsCount;
use loopwright_core::{
    Delta,
    messages::{
        Content, InferenceRequest, Message, ModelOrigin, Part, Prompt, Role, ToolCall,
        ToolExchange, ToolResult, Turn, TurnBody,
    },
};
use loopwright_models::{ErrorContext, Quirks, RequestEncoder, ResponseDecoder, WireApi};

const FRAGMENTS: usize = 4_000;

fn main() {
    divan::main();
}

fn origin(wire: WireApi) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin { wire: wire.name().into(), provider: "p".into(), model: "m".into() })
}

/// A streamed answer: how it begins, how a fragment of text reads, how it ends.
fn stream(wire: WireApi) -> Option<String> {
    let (begin, fragment, end) = match wire.name() {
        "openai-chat" => (
            "",
            r#"data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"obfuscation":"abcdef"}

"#,
            "data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        ),
        "openai-responses" => (
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\nevent: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"in_progress\",\"content\":[],\"role\":\"assistant\"}}\n\n",
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[],\"obfuscation\":\"abcdef\"}\n\n",
            "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",\"output\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
        ),
        "anthropic-messages" => (
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"m\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n",
            "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        "gemini-generate" => (
            "",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\" word\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":1,\"candidatesTokenCount\":1,\"totalTokenCount\":2},\"modelVersion\":\"m\",\"responseId\":\"r\"}\r\n\r\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\".\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":1,\"candidatesTokenCount\":1,\"totalTokenCount\":2}}\r\n\r\n",
        ),
        "ollama-chat" => (
            "",
            "{\"model\":\"m\",\"created_at\":\"2026-01-01T00:00:00.000000Z\",\"message\":{\"role\":\"assistant\",\"content\":\" word\"},\"done\":false}\n",
            "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":1,\"eval_count\":1}\n",
        ),
        "cohere-chat" => (
            "event: message-start\ndata: {\"id\":\"1\",\"type\":\"message-start\",\"delta\":{\"message\":{\"role\":\"assistant\",\"content\":[]}}}\n\nevent: content-start\ndata: {\"type\":\"content-start\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":\"text\",\"text\":\"\"}}}}\n\n",
            "event: content-delta\ndata: {\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\" word\"}}}}\n\n",
            "event: content-end\ndata: {\"type\":\"content-end\",\"index\":0}\n\nevent: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",\"usage\":{\"tokens\":{\"input_tokens\":1,\"output_tokens\":1}}}}\n\n",
        ),
        _ => return None,
    };
    let mut text = begin.to_owned();
    for _ in 0..FRAGMENTS {
        let _ = write!(text, "{fragment}");
    }
    Some(text + end)
}

/// Reads a stream that arrives in pieces of 4 KiB; divide by 4,000 for the time of a fragment. The
/// frames of Bedrock are not made here.
#[divan::bench(args = WireApi::ALL.iter().map(|wire| wire.name()).filter(|name| *name != "bedrock-converse"), sample_count = 50, sample_size = 1)]
fn read_4000_fragments(bencher: divan::Bencher<'_, '_>, wire: &str) {
    let wire = WireApi::named(wire).expect("it is one");
    let Some(stream) = stream(wire) else { return };
    bencher.counter(ItemsCount::new(FRAGMENTS)).bench_local(|| {
        let mut fragments = 0;
        let mut deltas =
            |delta: Delta<'_>| fragments += usize::from(matches!(delta, Delta::Text(_)));
        let mut decoder = ResponseDecoder::new(wire, origin(wire), ErrorContext::new("p"), true);
        for piece in stream.as_bytes().chunks(4096) {
            decoder.push(piece, &mut deltas).expect("a good answer");
        }
        decoder.finish(&mut deltas).expect("a good answer");
        assert!(fragments >= FRAGMENTS);
    });
}

/// A step: a call, and a result of 2 KB.
fn step(number: usize) -> Turn {
    let call = ToolCall::new(format!("call_{number}"), "add", r#"{"a":1,"b":2}"#);
    let reply = Message::new(Role::Assistant, [Part::new(Content::ToolCall(call))]);
    let exchange = ToolExchange::new(reply, [ToolResult::text("x".repeat(2048))]);
    Turn::new(TurnBody::ToolExchange(exchange.expect("one result for one call")))
        .expect("an exchange")
}

/// Writes the request after so many steps, of which all but the last were sent before.
#[divan::bench(args = [10, 100, 200], sample_count = 50, sample_size = 10)]
fn write_request_after(bencher: divan::Bencher<'_, '_>, steps: usize) {
    let wire = WireApi::OpenAiChat;
    let encoder = RequestEncoder::new(wire, origin(wire), Quirks::default());
    let prompt = Prompt::of((0..steps).map(step).collect());
    let mut request = InferenceRequest { prompt, ..InferenceRequest::default() };
    encoder.encode(&request);
    bencher.bench_local(|| {
        request.prompt.turns.push(step(steps));
        encoder.encode(&request).len()
    });
}
