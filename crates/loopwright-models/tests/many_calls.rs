//! An answer has a limited number of calls, on every wire, streamed and whole.

use std::sync::Arc;

use loopwright_core::{
    DiscardDeltas,
    messages::{Content, ModelOrigin},
};
use loopwright_models::{ErrorContext, ResponseDecoder, WireApi};
use serde_json::{Value, json};

const MAX: usize = 1024;

fn sse(events: impl IntoIterator<Item = Value>) -> String {
    let line = |it: Value| match it["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {it}\n\n"),
        None => format!("data: {it}\n\n"),
    };
    events.into_iter().map(line).collect()
}

fn openai_call(index: usize) -> Value {
    json!({
        "index": index, "id": format!("c{index}"), "type": "function",
        "function": { "name": "f", "arguments": "{}" },
    })
}

fn chat(calls: usize) -> [String; 2] {
    let all: Vec<Value> = (0..calls).map(openai_call).collect();
    let choice = |said: &str, value: Value, reason: Value| json!({ "id": "a", "choices": [{ "index": 0, said: value, "finish_reason": reason }] });
    let whole =
        choice("message", json!({ "role": "assistant", "tool_calls": all }), "tool_calls".into());
    let pieces =
        all.into_iter().map(|it| choice("delta", json!({ "tool_calls": [it] }), Value::Null));
    let last = choice("delta", json!({}), "tool_calls".into());
    [whole.to_string(), sse(pieces.chain([last])) + "data: [DONE]\n\n"]
}

fn responses(calls: usize) -> [String; 2] {
    let item = |index: usize| {
        json!({
            "type": "function_call", "id": format!("i{index}"), "call_id": format!("c{index}"),
            "name": "f", "arguments": "{}", "status": "completed",
        })
    };
    let response = |output: Vec<Value>| json!({ "id": "r", "object": "response", "status": "completed", "output": output });
    let whole = response((0..calls).map(item).collect());
    let pieces = (0..calls).flat_map(|index| {
        ["added", "done"].map(|what| {
            json!({
                "type": format!("response.output_item.{what}"), "output_index": index,
                "item": item(index),
            })
        })
    });
    let last = json!({ "type": "response.completed", "response": whole });
    let streamed = sse(pieces.chain([last]));
    [whole.to_string(), streamed]
}

fn anthropic(calls: usize) -> [String; 2] {
    let block = |index: usize| json!({ "type": "tool_use", "id": format!("c{index}"), "name": "f", "input": {} });
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let message = |content: Vec<Value>, reason: Value| {
        json!({
            "id": "m", "type": "message", "role": "assistant", "model": "x", "content": content,
            "stop_reason": reason, "usage": usage,
        })
    };
    let whole = message((0..calls).map(block).collect(), "tool_use".into());
    let start = json!({ "type": "message_start", "message": message(Vec::new(), Value::Null) });
    let pieces = (0..calls).flat_map(|index| {
        [
            json!({ "type": "content_block_start", "index": index, "content_block": block(index) }),
            json!({ "type": "content_block_stop", "index": index }),
        ]
    });
    let end = [
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": usage }),
        json!({ "type": "message_stop" }),
    ];
    [whole.to_string(), sse([start].into_iter().chain(pieces).chain(end))]
}

fn gemini(calls: usize) -> [String; 2] {
    let part = |_| json!({ "functionCall": { "name": "f", "args": {} } });
    let chunk = |parts: Vec<Value>, reason: Value| {
        json!({
            "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": reason }],
        })
    };
    let whole = chunk((0..calls).map(part).collect(), "STOP".into());
    let pieces = (0..calls).map(|index| chunk(vec![part(index)], Value::Null));
    let streamed = sse(pieces.chain([chunk(Vec::new(), "STOP".into())]));
    [whole.to_string(), streamed]
}

fn ollama(calls: usize) -> [String; 2] {
    let call = |_| json!({ "function": { "name": "f", "arguments": {} } });
    let message = |calls: Vec<Value>, done: bool| {
        json!({
            "model": "x", "message": { "role": "assistant", "content": "", "tool_calls": calls },
            "done": done, "done_reason": if done { "stop".into() } else { Value::Null },
        })
    };
    let whole = message((0..calls).map(call).collect(), true);
    let pieces = (0..calls).map(|index| message(vec![call(index)], false));
    let lines = pieces.chain([message(Vec::new(), true)]).map(|it| format!("{it}\n"));
    [whole.to_string(), lines.collect()]
}

fn cohere(calls: usize) -> [String; 2] {
    let call = |index: usize| json!({ "id": format!("c{index}"), "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let whole = json!({
        "id": "a", "finish_reason": "TOOL_CALL",
        "message": { "role": "assistant", "tool_calls": (0..calls).map(call).collect::<Vec<_>>() },
    });
    let pieces = (0..calls).flat_map(|index| {
        [
            json!({
                "type": "tool-call-start", "index": index,
                "delta": { "message": { "tool_calls": call(index) } },
            }),
            json!({ "type": "tool-call-end", "index": index }),
        ]
    });
    let start = json!({ "type": "message-start", "id": "a", "delta": { "message": { "role": "assistant" } } });
    let end = json!({ "type": "message-end", "delta": { "finish_reason": "TOOL_CALL" } });
    [whole.to_string(), sse([start].into_iter().chain(pieces).chain([end]))]
}

/// Reads an answer, and returns how many calls it has.
fn read(wire: WireApi, text: &str, is_streamed: bool) -> Result<usize, String> {
    let origin =
        Arc::new(ModelOrigin { wire: wire.name().into(), provider: "p".into(), model: "m".into() });
    let mut decoder = ResponseDecoder::new(wire, origin, ErrorContext::new("p"), is_streamed);
    let read = text
        .as_bytes()
        .chunks(1 << 16)
        .try_for_each(|bytes| decoder.push(bytes, &mut DiscardDeltas))
        .and_then(|()| decoder.finish(&mut DiscardDeltas));
    let answer = read.map_err(|error| error.to_string())?;
    let parts = answer.message.parts().iter();
    Ok(parts.filter(|it| matches!(it.content(), Content::ToolCall(_))).count())
}

/// Returns answers of a wire with so many calls, whole and streamed; `None` for a wire whose streams are not text.
fn answers(wire: WireApi, calls: usize) -> Option<[String; 2]> {
    Some(match wire {
        WireApi::OpenAiChat => chat(calls),
        WireApi::OpenAiResponses => responses(calls),
        WireApi::Anthropic => anthropic(calls),
        WireApi::Gemini => gemini(calls),
        WireApi::Ollama => ollama(calls),
        WireApi::Cohere => cohere(calls),
        #[cfg(feature = "bedrock")]
        WireApi::BedrockConverse => return None,
        _ => panic!("`{wire}` has no answers in this test"),
    })
}

#[test]
fn an_answer_has_at_most_1024_calls_on_every_wire() {
    for wire in WireApi::ALL.iter().copied() {
        let Some((few, many)) = answers(wire, MAX).zip(answers(wire, MAX + 1)) else { continue };
        for (is_streamed, (few, many)) in [false, true].into_iter().zip(few.into_iter().zip(many)) {
            assert_eq!(read(wire, &few, is_streamed), Ok(MAX), "{wire} {is_streamed}");
            let error = read(wire, &many, is_streamed).unwrap_err();
            assert!(
                error.contains("too many tool calls; a response may have at most 1024"),
                "{wire} {is_streamed}: {error}"
            );
        }
    }
}

#[test]
fn a_hundred_thousand_calls_in_one_event_are_refused_at_once() {
    // Each of them would be looked for among those before.
    let calls: Vec<Value> = (0..100_000).map(openai_call).collect();
    let chunk = json!({ "id": "a", "choices": [{ "index": 0, "delta": { "tool_calls": calls } }] });
    let error = read(WireApi::OpenAiChat, &sse([chunk]), true).unwrap_err();
    assert!(error.contains("too many tool calls"), "{error}");
}
