//! Recorded traffic with real providers: every answer means what it should, however it is cut.
//!
//! The recordings are no part of this repository. They are looked for where `LOOPWRIGHT_FIXTURES`
//! says, or beside the workspace; without them these tests say so and pass.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use loopwright_core::{
    Delta, ModelError, ModelErrorKind, NoDeltas, Timestamp,
    messages::{FinishReason, InferenceResponse, Origin, ToolCall},
};
use loopwright_models::{AnswerDecoder, ErrorContext, Wire};
use serde_json::{Value, json};

/// One recorded answer and what it means.
pub(crate) struct Recorded {
    pub(crate) scenario: String,
    pub(crate) index: usize,
    pub(crate) exchange: Value,
    pub(crate) expected: Value,
}

impl Recorded {
    pub(crate) fn name(&self) -> String {
        format!("{} #{}", self.scenario, self.index)
    }

    pub(crate) fn body(&self) -> &str {
        self.exchange["response"]["body"].as_str().unwrap()
    }

    fn status(&self) -> u16 {
        u16::try_from(self.exchange["response"]["status"].as_u64().unwrap()).unwrap()
    }
}

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let named = std::env::var_os("LOOPWRIGHT_FIXTURES").map(PathBuf::from);
    let folder = named.unwrap_or(beside).join("open");
    if !folder.is_dir() {
        println!("there are no recordings here: set LOOPWRIGHT_FIXTURES to test against them");
        return None;
    }
    Some(folder)
}

/// Returns each scenario with its expectation, by name.
pub(crate) fn scenarios() -> Vec<(String, Value, Value)> {
    let Some(folder) = folder() else { return Vec::new() };
    let read = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    paths.sort();
    let scenario = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let expected = folder.join("expected").join(path.file_name().unwrap());
        (name, read(path), read(&expected))
    };
    paths.iter().map(scenario).collect()
}

pub(crate) fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for (name, scenario, expected) in scenarios() {
        let exchanges = scenario["exchanges"].as_array().unwrap().iter();
        for (index, exchange) in exchanges.enumerate() {
            if exchange.get("api").unwrap_or(&scenario["api"]) == Wire::OpenAiChat.name() {
                all.push(Recorded {
                    scenario: name.clone(),
                    index,
                    exchange: exchange.clone(),
                    expected: expected["exchanges"][index].clone(),
                });
            }
        }
    }
    all
}

/// Reads an answer from pieces, and counts the fragments that were passed on.
pub(crate) fn read<'a>(
    recorded: &Recorded,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(InferenceResponse, Fragments), ModelError> {
    let headers = &recorded.exchange["response"]["headers"];
    let head = |name: &str| headers.get(name).and_then(Value::as_str);
    let context = ErrorContext::new("test");
    let context = context.with_head(recorded.status(), head, Timestamp::default());
    if !(200..300).contains(&recorded.status()) {
        let body: Vec<u8> = pieces.into_iter().flatten().copied().collect();
        return Err(context.of_body(&body));
    }
    let mut fragments = Fragments::default();
    let mut deltas = |delta: Delta<'_>| fragments.take(delta);
    let mut decoder = AnswerDecoder::new(Wire::OpenAiChat, origin(), context, true);
    for piece in pieces {
        decoder.push(piece, &mut deltas)?;
        if decoder.is_done() {
            break;
        }
    }
    let response = decoder.finish(&mut deltas)?;
    Ok((response, fragments))
}

fn origin() -> Arc<Origin> {
    Arc::new(Origin {
        wire: Wire::OpenAiChat.name().into(),
        provider: "test".into(),
        model: "m".into(),
    })
}

/// What was passed on.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Fragments {
    text: String,
    reasoning: String,
    calls: Vec<(String, String)>,
    ends: usize,
}

impl Fragments {
    fn take(&mut self, delta: Delta<'_>) {
        assert_eq!(self.ends, 0, "something came after the end: {delta:?}");
        match delta {
            Delta::Text(text) => self.text += text,
            Delta::Reasoning(text) => self.reasoning += text,
            Delta::ToolCall { index, name, .. } => {
                assert_eq!(usize::from(index), self.calls.len());
                self.calls.push((name.to_owned(), String::new()));
            }
            Delta::ToolArguments { index, fragment } => {
                self.calls[usize::from(index)].1 += fragment;
            }
            Delta::End => self.ends += 1,
            _ => {}
        }
    }
}

/// Cuts in small and uneven pieces.
fn awkward(body: &str) -> Vec<&[u8]> {
    let (mut rest, mut pieces) = (body.as_bytes(), Vec::new());
    for size in [1, 1, 2, 3, 5, 7, 11, 13, 23].into_iter().cycle() {
        if rest.is_empty() {
            return pieces;
        }
        let (piece, left) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = left;
    }
    pieces
}

/// Returns an answer in the words of the expectations.
fn in_their_words(response: &InferenceResponse) -> Value {
    let message = &response.message;
    let usage = response.usage;
    json!({
        "text": message.text(),
        "reasoning_text": message.reasoning(),
        "refusal": message.refusal(),
        "tool_calls": message.tool_calls().map(call_in_their_words).collect::<Vec<_>>(),
        "finish_reason": match &response.finish {
            FinishReason::Other(_) => Value::Null,
            // They keep the wire's `stop` beside a refusal.
            FinishReason::Refusal => "stop".into(),
            finish => finish.as_str().into(),
        },
        "usage": [usage.input, usage.output, usage.cached, usage.cache_write, usage.reasoning],
    })
}

fn call_in_their_words(call: &ToolCall) -> Value {
    let arguments = call.parse_arguments().unwrap_or_default();
    json!({ "id": call.id, "name": call.name, "arguments": arguments })
}

fn wanted(expected: &Value) -> Value {
    let calls = expected["tool_calls"].as_array().unwrap().iter();
    let calls = calls.map(
        |call| json!({ "id": call["id"], "name": call["name"], "arguments": call["arguments"] }),
    );
    let count = |name: &str| expected["usage"].get(name).and_then(Value::as_u64).unwrap_or(0);
    let usage = ["input_total", "output_total", "cached", "cache_write", "reasoning"].map(count);
    json!({
        "text": expected["text"],
        "reasoning_text": expected["reasoning_text"],
        "refusal": expected["refusal"],
        "tool_calls": calls.collect::<Vec<_>>(),
        "finish_reason": expected["finish_reason"],
        "usage": usage,
    })
}

#[test]
fn every_recorded_answer_means_what_it_should() {
    let recorded = recorded();
    for it in &recorded {
        let name = it.name();
        let ways: [Vec<&[u8]>; 3] = [
            vec![it.body().as_bytes()],
            awkward(it.body()),
            it.body().as_bytes().chunks(1).collect(),
        ];
        for pieces in ways {
            match read(it, pieces) {
                Ok((response, fragments)) => {
                    assert!(it.expected["error"].is_null(), "{name} should be an error");
                    assert_eq!(in_their_words(&response), wanted(&it.expected), "{name}");
                    assert_eq!(fragments.ends, 1, "{name}");
                    assert_eq!(fragments.text, response.message.text(), "{name}");
                    assert_eq!(fragments.reasoning, response.message.reasoning(), "{name}");
                    let calls = response.message.tool_calls();
                    let calls: Vec<_> =
                        calls.map(|it| (it.name.to_string(), it.arguments.to_string())).collect();
                    assert_eq!(fragments.calls, calls, "{name}");
                }
                Err(error) => check_error(&name, &error, &it.expected["error"]),
            }
        }
    }
    println!("{} recorded answers", recorded.len());
}

fn check_error(name: &str, error: &ModelError, expected: &Value) {
    assert!(!expected.is_null(), "{name}: {error:?}");
    assert!(error.message.contains(expected["message"].as_str().unwrap()), "{name}: {error}");
    assert_eq!(error.status.map(u64::from), expected["status"].as_u64(), "{name}");
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let code = text(&expected["code"]).or(text(&expected["type"]));
    assert_eq!(error.code, code, "{name}");
    assert_eq!(error.request_id, text(&expected["request_id"]), "{name}");
    let kind = match (error.status, error.code.as_deref()) {
        (Some(429), _) => ModelErrorKind::RateLimited,
        (Some(404), _) => ModelErrorKind::NotFound,
        (Some(500), _) => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::InvalidRequest,
    };
    assert_eq!(error.kind, kind, "{name}");
}

/// Says what of an answer must never be less.
fn content(response: &InferenceResponse) -> Value {
    let words = in_their_words(response);
    json!([words["text"], words["reasoning_text"], words["refusal"], words["tool_calls"]])
}

#[test]
fn an_answer_that_was_cut_is_never_a_shorter_answer() {
    for it in recorded() {
        let Ok((whole, _)) = read(&it, [it.body().as_bytes()]) else { continue };
        let length = it.body().len();
        // Every byte of the end, where it is decided, and a sample of the rest.
        let cuts = (0..length).filter(|cut| cut % 509 == 0 || length - cut < 160);
        for cut in cuts {
            if let Ok((part, _)) = read(&it, [&it.body().as_bytes()[..cut]]) {
                assert_eq!(content(&part), content(&whole), "{} cut at {cut}", it.name());
                assert_eq!(part.finish, whole.finish, "{} cut at {cut}", it.name());
            }
        }
    }
}

/// Returns the first and last few numbers below `count`, and some between.
fn sample(count: usize) -> impl Iterator<Item = usize> {
    (0..count).filter(move |at| *at < 4 || count - at < 6 || at % 17 == 0)
}

#[test]
fn lost_last_events_do_not_shorten_an_answer() {
    for it in recorded() {
        let Ok((whole, _)) = read(&it, [it.body().as_bytes()]) else { continue };
        let events: Vec<&str> = it.body().split_inclusive("\n\n").collect();
        for kept in sample(events.len()) {
            let body = events[..kept].concat();
            if let Ok((part, _)) = read(&it, [body.as_bytes()]) {
                assert_eq!(content(&part), content(&whole), "{} {kept} events", it.name());
            }
        }
    }
}

#[test]
fn an_error_at_any_event_is_an_error() {
    for it in recorded().iter().filter(|it| it.body().contains("data:")) {
        let events: Vec<&str> = it.body().split_inclusive("\n\n").collect();
        let done = events.iter().position(|event| event.contains("[DONE]"));
        for at in sample(done.unwrap_or(events.len()) + 1) {
            let error = "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n";
            let body = [&events[..at].concat(), error, &events[at..].concat()].concat();
            let read = read(it, [body.as_bytes()]);
            assert!(read.is_err(), "{} with an error at {at}", it.name());
        }
    }
}

#[test]
fn hand_written_faults_are_told_from_answers() {
    let Some(folder) = folder() else { return };
    let read = |name: &str| {
        let body = fs::read(folder.with_file_name("faults").join(name)).ok()?;
        let mut decoder =
            AnswerDecoder::new(Wire::OpenAiChat, origin(), ErrorContext::new("test"), true);
        let pushed = decoder.push(&body, &mut NoDeltas);
        Some(pushed.and_then(|()| decoder.finish(&mut NoDeltas)))
    };
    for (name, calls, finish) in [
        ("c1.sse", 2, FinishReason::ToolCalls),
        ("c2.sse", 1, FinishReason::ToolCalls),
        ("c3.sse", 0, FinishReason::Stop),
        ("c4.sse", 0, FinishReason::Stop),
        ("c6.sse", 0, FinishReason::Refusal),
    ] {
        let Some(answer) = read(name) else { return };
        let answer = answer.unwrap();
        assert_eq!((answer.message.tool_calls().count(), answer.finish), (calls, finish), "{name}");
        assert!(!answer.message.is_empty(), "{name}");
        assert!(answer.usage.total() > 0, "{name}");
    }
    let signed = read("c7.sse").unwrap().unwrap().message;
    let opaque = signed.parts().iter().find_map(|part| part.opaque()).unwrap();
    assert!(opaque.as_str().contains("signature"), "{opaque:?}");
    assert_eq!(read("c5.sse").unwrap().unwrap_err().kind, ModelErrorKind::Protocol);
    assert_eq!(read("c8.sse").unwrap().unwrap_err().kind, ModelErrorKind::RateLimited);
}

#[test]
fn nothing_is_passed_on_without_need() {
    let mut decoder =
        AnswerDecoder::new(Wire::OpenAiChat, origin(), ErrorContext::new("test"), true);
    decoder.push(b"\n\n \xEF\xBB\xBF", &mut NoDeltas).unwrap();
    let error = decoder.finish(&mut NoDeltas).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Protocol);
}
