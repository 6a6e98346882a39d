//! What the model says: the body of an answer, whole or as events.

use std::fmt::Write as _;

use crate::plan::Plan;

/// What padding repeats, as it stands in JSON.
const LINE: &str = "The quick brown fox jumps over the lazy dog, line 0042.\n";

/// How many pieces a streamed text comes in.
const PIECES: usize = 8;

const ENVELOPE: &str = r#""id":"chatcmpl-mock","created":1700000000,"model":"mock""#;
const USAGE: &str = r#""usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}"#;

/// The answer as one object.
pub(crate) fn whole(plan: &Plan) -> String {
    let text = text(plan);
    let content = if text.is_empty() { "null".to_owned() } else { quoted(&text) };
    let calls = if plan.is_done() { String::new() } else { calls(plan) };
    let reason = reason(plan);
    format!(
        r#"{{{ENVELOPE},"object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":{content}{calls},"refusal":null}},"logprobs":null,"finish_reason":{reason}}}],{USAGE}}}"#
    )
}

/// The answer as events, each with the empty line that ends it.
pub(crate) fn events(plan: &Plan) -> Vec<String> {
    let mut events = vec![delta(r#""role":"assistant","content":"""#, "null")];
    let text = text(plan);
    let piece = text.len().div_ceil(PIECES).max(1);
    for piece in text.as_bytes().chunks(piece) {
        let content = quoted(&String::from_utf8_lossy(piece));
        events.push(delta(&format!(r#""content":{content}"#), "null"));
    }
    if !plan.is_done() {
        for index in 0..plan.par {
            let (id, [begin, end]) = (id(plan, index), arguments(plan, index));
            let mut call = |rest: String| {
                let call = format!(r#""tool_calls":[{{"index":{index},{rest}}}]"#);
                events.push(delta(&call, "null"));
            };
            call(format!(
                r#""id":"{id}","type":"function","function":{{"name":"add","arguments":""}}"#
            ));
            call(format!(r#""function":{{"arguments":"{begin}"}}"#));
            call(format!(r#""function":{{"arguments":"{end}"}}"#));
        }
    }
    events.push(delta("", reason(plan)));
    if plan.tells_usage {
        events.push(format!(
            "data: {{{ENVELOPE},\"object\":\"chat.completion.chunk\",\"choices\":[],{USAGE}}}\n\n"
        ));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn text(plan: &Plan) -> String {
    if plan.is_done() {
        format!("DONE steps={}", plan.steps)
    } else {
        LINE.chars().cycle().take(plan.pad).collect()
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\n', "\\n"))
}

fn reason(plan: &Plan) -> &'static str {
    if plan.is_done() { r#""stop""# } else { r#""tool_calls""# }
}

fn id(plan: &Plan, index: u64) -> String {
    format!("call_{}_{index}", plan.step)
}

/// The arguments of a call as they stand in JSON, in two parts.
fn arguments(plan: &Plan, index: u64) -> [String; 2] {
    [format!(r#"{{\"a\":{}"#, plan.step), format!(r#",\"b\":{index}}}"#)]
}

fn calls(plan: &Plan) -> String {
    let mut calls = String::from(r#","tool_calls":["#);
    for index in 0..plan.par {
        let comma = if index == 0 { "" } else { "," };
        let (id, [begin, end]) = (id(plan, index), arguments(plan, index));
        // Writing to a string does not fail.
        _ = write!(
            calls,
            r#"{comma}{{"id":"{id}","type":"function","function":{{"name":"add","arguments":"{begin}{end}"}}}}"#
        );
    }
    calls + "]"
}

fn delta(fields: &str, reason: &str) -> String {
    format!(
        "data: {{{ENVELOPE},\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\"delta\":{{{fields}}},\"logprobs\":null,\"finish_reason\":{reason}}}]}}\n\n"
    )
}
