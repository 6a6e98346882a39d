use loopwright_core::DiscardDeltas;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{ResponseDecoder, WireApi};

type Answered = Result<InferenceResponse, ModelError>;

fn read(body: &[u8], is_streamed: bool, deltas: &mut dyn DeltaSink) -> Answered {
    let origin = ModelOrigin { wire: "w".into(), provider: "p".into(), model: "m".into() };
    let context = ErrorContext::new("p");
    let mut decoder = ResponseDecoder::new(WireApi::Ollama, Arc::new(origin), context, is_streamed);
    for byte in body.chunks(1) {
        decoder.push(byte, deltas)?;
    }
    decoder.finish(deltas)
}

fn said(message: &Value) -> Value {
    json!({ "message": message, "done": false })
}

fn done(reason: &str) -> Value {
    let message = json!({ "role": "assistant", "content": "" });
    json!({
        "message": message, "done": true, "done_reason": reason,
        "prompt_eval_count": 7, "eval_count": 3,
    })
}

fn lines(lines: &[Value]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
    lines.concat()
}

fn streamed(all: &[Value]) -> Answered {
    read(lines(all).as_bytes(), true, &mut DiscardDeltas)
}

fn call() -> Value {
    json!({ "content": "", "tool_calls": [{ "function": { "name": "f", "arguments": { "a": 1 } } }] })
}

/// Returns lines with a call before the last text.
fn called_in_between() -> Vec<Value> {
    vec![
        said(&json!({ "content": "", "thinking": "hm" })),
        said(&json!({ "content": "a" })),
        said(&call()),
        said(&json!({ "content": "b" })),
        done("stop"),
    ]
}

#[test]
fn lines_become_an_answer() {
    let answer = streamed(&called_in_between()).unwrap();
    let call = ToolCall { id: None, name: "f".into(), arguments: "{\"a\":1}".into() };
    let parts = [Part::reasoning("hm"), Part::text("ab"), Part::new(Content::ToolCall(call))];
    assert_eq!(answer.message.parts(), parts);
    assert_eq!((answer.finish_reason, answer.usage), (FinishReason::ToolCalls, Usage::new(7, 3)));
}

#[test]
fn a_whole_answer_is_one_line() {
    let mut body = done("stop");
    body["message"] = json!({ "content": "a", "thinking": "hm" });
    let answer = read(body.to_string().as_bytes(), false, &mut DiscardDeltas).unwrap();
    assert_eq!(answer.message.parts(), [Part::reasoning("hm"), Part::text("a")]);
    assert_eq!(answer.finish_reason, FinishReason::Stop);
}

#[test]
fn reasons_to_finish_are_told_in_our_words() {
    let check = |lines: &[Value], expect: FinishReason| {
        assert_eq!(streamed(lines).unwrap().finish_reason, expect);
    };
    check(&[said(&json!({ "content": "a" })), done("length")], FinishReason::Length);
    check(&[said(&call()), done("length")], FinishReason::Length);
    check(&[said(&call()), done("")], FinishReason::ToolCalls);
    check(&[done("")], FinishReason::Other("unknown".into()));
    check(&[done("load")], FinishReason::Other("load".into()));
}

#[test]
fn an_error_in_the_middle_is_an_error() {
    let error = json!({ "error": "an error was encountered while running the model" });
    let failed = streamed(&[said(&json!({ "content": "a" })), error]).unwrap_err();
    assert_eq!(failed.kind, ModelErrorKind::Unavailable);
    let long = json!({ "error": "the input length exceeds the context length" });
    let origin = ModelOrigin { wire: "w".into(), provider: "p".into(), model: "m".into() };
    let context =
        ErrorContext::new("p").with_head(200, |_| None, loopwright_core::Timestamp::default());
    let mut decoder = ResponseDecoder::new(WireApi::Ollama, Arc::new(origin), context, true);
    let failed = decoder.push(format!("{long}\n").as_bytes(), &mut DiscardDeltas).unwrap_err();
    assert_eq!(failed.kind, ModelErrorKind::ContextLength);
}

#[test]
fn a_call_without_a_name_is_an_error() {
    let call = json!({ "tool_calls": [{ "function": { "arguments": {} } }] });
    let failed = streamed(&[said(&call), done("stop")]).unwrap_err();
    assert_eq!(failed.message, "p: the response calls a tool without a name");
}

#[test]
fn a_cut_stream_is_never_a_shorter_answer() {
    let body = lines(&called_in_between());
    let all = streamed(&called_in_between()).unwrap();
    for cut in 0..body.len() {
        match read(&body.as_bytes()[..cut], true, &mut DiscardDeltas) {
            Ok(answer) => assert_eq!(answer, all, "cut at {cut}"),
            Err(error) => assert_eq!(error.kind, ModelErrorKind::Protocol, "cut at {cut}"),
        }
    }
}

#[test]
fn a_whole_answer_that_is_not_done_is_none() {
    let body = said(&json!({ "content": "a" })).to_string();
    let failed = read(body.as_bytes(), false, &mut DiscardDeltas).unwrap_err();
    assert_eq!(failed.kind, ModelErrorKind::Protocol);
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
    let mut seen = Seen::default();
    read(lines(&called_in_between()).as_bytes(), true, &mut seen).unwrap();
    let usage = format!("{:?}", Delta::Usage(Usage::new(7, 3)));
    let expect = [
        r#"Reasoning("hm")"#,
        r#"Text("a")"#,
        r#"ToolCall { index: 0, id: None, name: "f" }"#,
        r#"ToolArguments { index: 0, fragment: "{\"a\":1}" }"#,
        r#"Text("b")"#,
        usage.as_str(),
        "End",
    ];
    assert_eq!(seen.0, expect);
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut body = lines(&called_in_between()).into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        drop(read(&body, true, &mut DiscardDeltas));
    }
}
