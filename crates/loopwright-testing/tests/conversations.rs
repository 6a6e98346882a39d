//! What becomes of the conversations that agents really have, on every wire: a caller that speaks after whom, and
//! whatever became of calls.

use std::{collections::BTreeMap, sync::Arc};

use loopwright_core::{
    Failure, FailureKind, ToolOutcome, ToolOutput,
    messages::{
        Content, ExecutionId, InferenceRequest, Message, ModelOrigin, Part, ProviderPayload, Role,
        ToolCall, ToolExchange, ToolResult, ToolSpec, Turn, TurnBody, TurnMeta,
    },
};
use loopwright_models::{Quirks, RequestEncoder, RoleOrder, WireApi};
use loopwright_testing::recorded::request_problems;
use serde_json::{Value, json, value::RawValue};

fn origin(wire: WireApi, model: &str) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin { wire: wire.name().into(), provider: "p".into(), model: model.into() })
}

fn call(id: Option<&str>, arguments: &str) -> Part {
    let id = id.map(Arc::from);
    Part::new(Content::ToolCall(ToolCall { id, name: "f".into(), arguments: arguments.into() }))
}

fn said(message: Message) -> Turn {
    Turn::from_message(message).unwrap()
}

fn user(text: &str) -> Turn {
    said(Message::user(text))
}

/// Makes the turns of conversations, each in a step of its own.
struct Turns {
    wire: WireApi,
    step: u32,
}

impl Turns {
    fn meta(&mut self) -> TurnMeta {
        self.step += 1;
        let execution = Some(ExecutionId::from("e"));
        TurnMeta { execution, step: Some(self.step), is_trace: true }
    }

    fn answer(&mut self, text: &str) -> Turn {
        let origin = origin(self.wire, "m");
        said(Message::assistant(text).with_origin(origin))
    }

    fn called(&mut self, model: &str, parts: Vec<Part>, results: Vec<ToolResult>) -> Turn {
        let reply = Message::new(Role::Assistant, parts).with_origin(origin(self.wire, model));
        let exchange = ToolExchange::new(reply, results).unwrap();
        Turn::new(TurnBody::ToolExchange(exchange)).unwrap().with_meta(self.meta())
    }

    /// A conversation in which everything happens that may happen.
    fn all(&mut self) -> Vec<Turn> {
        let failed = ToolOutcome::Failed(Failure::new(FailureKind::Tool, "no"));
        let outcomes = [
            failed.to_result(),
            ToolOutcome::Blocked { reason: "not allowed".into() }.to_result(),
            ToolOutcome::Skipped { reason: "too late".into() }.to_result(),
            ToolOutcome::Cancelled { started: true }.to_result(),
            ToolOutcome::Unknown.to_result(),
            ToolOutcome::Returned(ToolOutput::text("")).to_result(),
            ToolResult { content: Arc::new([]), is_error: true },
            ToolResult {
                content: Arc::new([Part::text("see"), Part::image("image/png", "AAAA")]),
                is_error: false,
            },
            ToolResult { content: Arc::new([Part::image("image/png", "AAAA")]), is_error: true },
        ];
        let thought = || {
            let json = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
            Part::reasoning("t").with_provider_payload(ProviderPayload::new(json))
        };
        let one = |id: Option<&str>| vec![call(id, "{}")];
        let fine = || vec![ToolResult::text("fine")];
        let many =
            (0..outcomes.len()).map(|index| call(Some(&format!("c{index}")), "{}")).collect();
        let foreign = vec![call(Some("functions.f:0"), "{\"a\":"), call(Some("functions_f_0"), "")];
        vec![
            user("first"),
            user("second, before any answer"),
            self.called("m", many, outcomes.into()),
            user("a word in between"),
            said(Message::system("an instruction in between")),
            self.called("m", one(None), fine()),
            self.called("m", one(None), fine()),
            self.called("other", one(Some("call_0")), fine()),
            self.called("other", one(Some("call_0")), fine()),
            self.called("other", foreign, vec![ToolResult::text("a"), ToolResult::text("b")]),
            self.answer("one answer"),
            self.answer("and another, without a question"),
            self.called("m", vec![Part::text("so"), call(Some("x"), "{}")], fine()),
            said(Message::new(Role::Assistant, [thought()]).with_origin(origin(self.wire, "m"))),
            user(" "),
            said(Message::system("twice")),
            said(Message::system("instructed")),
            self.answer("the last word is the model's"),
        ]
    }
}

fn asking(turns: &[Turn], tail: &[Message]) -> InferenceRequest {
    let mut request = InferenceRequest { system: Some("s".into()), ..InferenceRequest::default() };
    let parameters = Arc::new(json!({ "type": "object" }));
    let tool = ToolSpec { name: "f".into(), description: "d".into(), parameters };
    request.tools = [tool].into_iter().collect();
    request.prompt.turns = turns.iter().cloned().collect();
    request.prompt.tail = tail.to_vec();
    request
}

/// The encoders of all wires, those of models with peculiarities included.
fn encoders() -> Vec<(WireApi, RequestEncoder)> {
    let plain = |wire: WireApi, model: &str| {
        (wire, RequestEncoder::new(wire, origin(wire, model), Quirks::default()))
    };
    let mut encoders: Vec<_> = WireApi::ALL.iter().map(|wire| plain(*wire, "m")).collect();
    let quirks = Quirks { role_order: RoleOrder::ModelAfterTools, ..Quirks::default() };
    let chat = WireApi::OpenAiChat;
    encoders.push((chat, RequestEncoder::new(chat, origin(chat, "m"), quirks)));
    encoders.extend(["claude-opus-5", "claude-sonnet-4-5"].map(|it| plain(WireApi::Anthropic, it)));
    encoders.push(plain(WireApi::Gemini, "gemini-3-flash"));
    encoders
}

#[test]
fn no_wire_writes_a_conversation_that_its_provider_refuses() {
    for (wire, encoder) in encoders() {
        let all = Turns { wire, step: 0 }.all();
        // Conversations end anywhere, and some begin in the middle: what was before is summarised.
        let is_long = std::env::var_os("LOOPWRIGHT_LONG").is_some();
        let ends = (1..=all.len()).map(|end| (0, end));
        let begins = (1..all.len()).flat_map(|begin| {
            let first = if is_long { begin + 1 } else { all.len() };
            (first..=all.len()).map(move |end| (begin, end))
        });
        for (begin, end) in ends.chain(begins) {
            for tail in [&[][..], &[Message::user("now")], &[Message::system("now")]] {
                let body = encoder.encode(&asking(&all[begin..end], tail));
                let body: Value = serde_json::from_slice(&body).unwrap();
                let problems = request_problems(wire.name(), &body);
                assert!(problems.is_empty(), "{wire} {begin}..{end}: {problems:?}\n{body:#}");
            }
        }
    }
}

/// Returns a body up to the end of its last turn, without brackets and without the filler message that the user
/// says last. The list of turns is the last field of a body.
fn turns_of(body: &[u8]) -> &[u8] {
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_slice(body).unwrap();
    let start = |json: &RawValue| json.get().as_ptr().addr() - body.as_ptr().addr();
    let turns = fields.values().max_by_key(|field| start(field)).unwrap();
    let turns: Vec<&RawValue> = serde_json::from_str(turns.get()).unwrap();
    let turns = match turns.last() {
        Some(last) if last.get().contains("Continue.") => &body[..start(last)],
        _ => body,
    };
    std::str::from_utf8(turns).unwrap().trim_end_matches([']', '}', ',']).as_bytes()
}

#[test]
fn every_request_begins_with_the_turns_of_the_one_before_it() {
    for (wire, encoder) in encoders() {
        // Where an instruction stands last, it may turn out to stand before the user.
        let is_plain = |turn: &Turn| !turn.message().is_system();
        let all: Vec<Turn> = Turns { wire, step: 0 }.all().into_iter().filter(is_plain).collect();
        let bodies: Vec<Vec<u8>> =
            (1..=all.len()).map(|end| encoder.encode(&asking(&all[..end], &[]))).collect();
        for (step, pair) in bodies.windows(2).enumerate() {
            let (before, after) = (turns_of(&pair[0]), &pair[1]);
            let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
            assert!(after.starts_with(before), "{wire} {step}\n{}\n{}", text(before), text(after));
        }
    }
}

#[test]
fn a_calls_outcome_is_sent_in_words_on_every_wire() {
    for (wire, encoder) in encoders() {
        let all = Turns { wire, step: 0 }.all();
        let text = String::from_utf8(encoder.encode(&asking(&all[..3], &[]))).unwrap();
        for word in
            ["Error: no", "Blocked: not allowed", "Not run: too late", "Cancelled: ", "Unknown: "]
        {
            assert!(text.contains(word), "{wire}: {word}");
        }
        assert!(text.contains("The call failed."), "{wire}: a failure without words");
    }
}
