use std::sync::Arc;

use loopwright_core::messages::{
    Content, InferenceRequest, Media, MediaSource, ModelOrigin, Part, Prompt, ProviderPayload,
    ReasoningEffort, ResponseFormat, ToolCall, ToolChoice, ToolResult, ToolSpec, Transcript, Turn,
    TurnBody,
};
use serde_json::{Value, json};

use super::*;
use crate::{CallIds, MaxTokensField, Quirks, RequestEncoder, SeedField, WireApi};

fn origin(model: &str) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin { wire: "openai-chat".into(), provider: "p".into(), model: model.into() })
}

fn encoder() -> RequestEncoder {
    RequestEncoder::new(WireApi::OpenAiChat, origin("m"), Quirks::default())
}

fn body(request: &InferenceRequest) -> Value {
    serde_json::from_slice(&encoder().encode(request)).unwrap()
}

fn asking(turns: impl IntoIterator<Item = Turn>) -> InferenceRequest {
    let prompt = Prompt::of(turns.into_iter().collect());
    InferenceRequest { prompt, ..InferenceRequest::default() }
}

fn messages(turns: impl IntoIterator<Item = Turn>) -> Value {
    body(&asking(turns))["messages"].clone()
}

fn said(message: Message) -> Turn {
    Turn::from_message(message).unwrap()
}

fn call(id: Option<&str>, arguments: &str) -> Part {
    let id = id.map(Arc::from);
    Part::new(Content::ToolCall(ToolCall { id, name: "f".into(), arguments: arguments.into() }))
}

fn exchange(parts: Vec<Part>, results: Vec<ToolResult>) -> Turn {
    let reply = Message::new(Role::Assistant, parts);
    Turn::new(TurnBody::ToolExchange(ToolExchange::new(reply, results).unwrap())).unwrap()
}

#[test]
fn messages_come_last_and_in_order() {
    let mut request = asking([said(Message::user("b"))]);
    request.system = Some("a".into());
    request.prompt.head = [said(Message::system("h"))].into_iter().collect();
    request.prompt.tail = vec![Message::user("c")];
    let text = String::from_utf8(encoder().encode(&request)).unwrap();
    assert_eq!(
        text,
        "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"messages\":[\
         {\"role\":\"system\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"h\"},\
         {\"role\":\"user\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}]}"
    );
}

#[test]
fn settings_that_are_not_set_are_not_sent() {
    let keys = |body: &Value| body.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut request = asking([]);
    request.tool_choice = ToolChoice::Required;
    request.parallel_tool_calls = Some(false);
    assert_eq!(keys(&body(&request)), ["messages", "model", "stream", "stream_options"]);
}

#[test]
fn settings_are_written_as_the_wire_calls_them() {
    let mut request = asking([]);
    let parameters = Arc::new(json!({ "type": "object" }));
    let spec = |description: &str| ToolSpec {
        name: "f".into(),
        description: description.into(),
        parameters: Arc::clone(&parameters),
    };
    request.tools = [spec("d"), spec("")].into_iter().collect();
    request.tool_choice = ToolChoice::Tool("f".into());
    request.parallel_tool_calls = Some(false);
    request.response_format = Some(ResponseFormat::json_schema("s", json!({})));
    let options = &mut request.options;
    options.max_output_tokens = Some(9);
    options.temperature = Some(0.5);
    options.top_p = Some(1.0);
    options.stop = vec!["x".into()];
    options.seed = Some(3);
    options.reasoning_effort = Some(ReasoningEffort::Low);
    options.stream = Some(false);
    let tool = |description: Option<&str>| {
        let mut function = json!({ "name": "f", "parameters": { "type": "object" } });
        if let Some(description) = description {
            function["description"] = description.into();
        }
        json!({ "type": "function", "function": function })
    };
    assert_eq!(
        body(&request),
        json!({
            "model": "m", "tools": [tool(Some("d")), tool(None)],
            "tool_choice": { "type": "function", "function": { "name": "f" } },
            "parallel_tool_calls": false,
            "response_format": { "type": "json_schema",
                "json_schema": { "name": "s", "schema": {}, "strict": true } },
            "stream": false, "max_tokens": 9, "temperature": 0.5, "top_p": 1.0, "stop": ["x"],
            "seed": 3, "reasoning_effort": "low", "messages": [],
        })
    );
}

#[test]
fn quirks_change_names() {
    let quirks = Quirks {
        max_tokens: MaxTokensField::MaxCompletionTokens,
        developer_role: true,
        ..Quirks::default()
    };
    let mut request = asking([said(Message::new(Role::Developer, [Part::text("d")]))]);
    request.options.max_output_tokens = Some(9);
    let bytes = RequestEncoder::new(WireApi::OpenAiChat, origin("m"), quirks).encode(&request);
    let body_of: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (&body_of["max_completion_tokens"], &body_of["max_tokens"]),
        (&json!(9), &Value::Null)
    );
    assert_eq!(body_of["messages"][0]["role"], "developer");
    // The bytes kept beside the turn are those of the other encoder: they must not be taken.
    assert_eq!(body(&request)["messages"][0]["role"], "system");
}

#[test]
fn settings_that_a_provider_refuses_are_not_sent() {
    let quirks = Quirks {
        stream_options: false,
        json_schema: false,
        seed: SeedField::RandomSeed,
        call_ids: CallIds::Nine,
        ..Quirks::default()
    };
    let reply = exchange(vec![call(Some("call_1"), "{}")], vec![ToolResult::text("r")]);
    let mut request = asking([reply]);
    request.system = Some("s".into());
    request.response_format = Some(ResponseFormat::json_schema("s", json!({ "type": "object" })));
    request.options.seed = Some(3);
    let bytes = RequestEncoder::new(WireApi::OpenAiChat, origin("m"), quirks).encode(&request);
    let schema = "s\n\nAnswer with a JSON object that fits this JSON schema: {\"type\":\"object\"}";
    let function = json!({ "name": "f", "arguments": "{}" });
    let expect = json!({
        "model": "m", "response_format": { "type": "json_object" }, "stream": true, "random_seed": 3,
        "messages": [
            { "role": "system", "content": schema },
            { "role": "assistant", "content": null, "tool_calls":
                [{ "id": "9gD2Dimct", "type": "function", "function": function }] },
            { "role": "tool", "tool_call_id": "9gD2Dimct", "content": "r" },
        ],
    });
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expect);
}

#[test]
fn passthrough_replaces_settings_but_not_what_the_answer_depends_on() {
    let mut request = asking([]);
    request.options.temperature = Some(0.5);
    for (name, value) in [
        ("temperature", json!(1)),
        ("n", json!(2)),
        ("model", json!("x")),
        ("messages", json!([1])),
        ("stream", json!(false)),
    ] {
        request.options.extra.insert(name.into(), value);
    }
    let text = String::from_utf8(encoder().encode(&request)).unwrap();
    assert_eq!(text.matches("\"temperature\"").count(), 1);
    assert_eq!(text.matches("\"stream\"").count(), 1);
    assert!(text.contains("\"n\":2,\"temperature\":1,\"messages\":[]}"), "{text}");
    assert!(text.contains("\"model\":\"m\""), "{text}");
}

#[test]
fn an_exchange_is_a_reply_and_one_message_per_result() {
    let turn = exchange(
        vec![Part::text("t"), call(Some("a"), "{ \"x\":1}"), call(Some("b"), "")],
        vec![ToolResult::text("1"), ToolResult::error("2")],
    );
    let wire = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": arguments } });
    assert_eq!(
        messages([turn]),
        json!([
            { "role": "assistant", "content": "t",
                "tool_calls": [wire("a", "{ \"x\":1}"), wire("b", "{}")] },
            { "role": "tool", "tool_call_id": "a", "content": "1" },
            { "role": "tool", "tool_call_id": "b", "content": "2" },
        ])
    );
}

#[test]
fn content_is_null_beside_calls() {
    let turn = exchange(vec![call(Some("a"), "{}")], vec![ToolResult::text("1")]);
    let messages = messages([turn, said(Message::new(Role::Assistant, []))]);
    assert_eq!(messages[0]["content"], Value::Null);
    assert!(messages[0].as_object().unwrap().contains_key("content"));
    assert_eq!(messages[2]["content"], "");
}

#[test]
fn ids_are_there_and_unique() {
    let ids = [None, Some("a"), Some("a"), Some(""), Some("a_2")];
    let calls = ids.map(|id| call(id, "{}")).to_vec();
    let turn = exchange(calls, vec![ToolResult::text("1"); 5]);
    let meta = TurnMeta { step: Some(3), ..TurnMeta::default() };
    let messages = messages([turn.with_meta(meta)]);
    let calls = messages[0]["tool_calls"].as_array().unwrap();
    let asked: Vec<_> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
    assert_eq!(asked, ["call_3_0", "a", "a_3", "call_3_3", "a_2"]);
    let results = messages.as_array().unwrap()[1..].iter();
    assert_eq!(results.map(|it| it["tool_call_id"].as_str().unwrap()).collect::<Vec<_>>(), asked);
}

#[test]
fn pictures_and_files_are_parts() {
    let file = |source| {
        let name = Some("n.pdf".into());
        Part::new(Content::Document(Media { mime: "application/pdf".into(), source, name }))
    };
    let parts = [
        Part::text("t"),
        Part::image("image/png", "AAA"),
        file(MediaSource::Base64("BBB".into())),
        file(MediaSource::File("id".into())),
    ];
    assert_eq!(
        messages([said(Message::new(Role::User, parts))])[0]["content"],
        json!([
            { "type": "text", "text": "t" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAA" } },
            { "type": "file", "file": { "filename": "n.pdf",
                "file_data": "data:application/pdf;base64,BBB" } },
            { "type": "file", "file": { "filename": "n.pdf", "file_id": "id" } },
        ])
    );
}

#[test]
fn pictures_of_tools_follow_as_a_message_of_the_user() {
    let content = Arc::new([Part::text("done"), Part::image("image/png", "AAA")]);
    let picture = ToolResult { content, is_error: false };
    let calls = vec![call(Some("a"), "{}"), call(Some("b"), "{}")];
    let turn = exchange(calls, vec![picture, ToolResult::text("1")]);
    let messages = messages([turn]);
    let told = messages[1]["content"].as_str().unwrap();
    let label = told.strip_prefix("done\nSee file ").unwrap();
    assert_eq!(messages[2]["content"], "1");
    assert_eq!(
        messages[3],
        json!({ "role": "user", "content": [
            { "type": "text", "text": format!("This is file {label}:") },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAA" } },
        ] })
    );
}

#[test]
fn answers_return_to_their_model_unchanged() {
    let reply = |origin: Arc<ModelOrigin>| {
        let reasoning = r#"{"reasoning_details":[{"data":"d"}]}"#;
        let call = call(Some("a"), "{}")
            .with_provider_payload(ProviderPayload::new(r#"{"extra_content":{"s":1}}"#));
        let parts =
            [Part::reasoning("r").with_provider_payload(ProviderPayload::new(reasoning)), call];
        let reply = Message::new(Role::Assistant, parts).with_origin(origin);
        let exchange = ToolExchange::new(reply, [ToolResult::text("1")]).unwrap();
        messages([Turn::new(TurnBody::ToolExchange(exchange)).unwrap()])[0].clone()
    };
    let own = reply(origin("m"));
    assert_eq!(own["reasoning_details"], json!([{ "data": "d" }]));
    assert_eq!(own["tool_calls"][0]["extra_content"], json!({ "s": 1 }));
    let foreign = reply(origin("other"));
    assert_eq!(
        foreign.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["content", "role", "tool_calls"]
    );
    assert!(foreign["tool_calls"][0].get("extra_content").is_none());
}

#[test]
fn unknown_payloads_are_let_go() {
    let parts = ["{\"x\":1}", "nonsense", "[]", "\"s\""]
        .map(|opaque| Part::text("t").with_provider_payload(ProviderPayload::new(opaque)));
    let message = Message::new(Role::Assistant, parts).with_origin(origin("m"));
    assert_eq!(messages([said(message)]), json!([{ "role": "assistant", "content": "tttt" }]));
}

#[test]
fn thinking_within_the_content_goes_back_into_it() {
    let thinking = r#"{"type":"thinking","thinking":[{"type":"text","text":"r"}]}"#;
    let parts = [
        Part::reasoning("r").with_provider_payload(ProviderPayload::new(thinking)),
        Part::text("t"),
    ];
    let message =
        |model: &str| Message::new(Role::Assistant, parts.clone()).with_origin(origin(model));
    let messages = messages([said(message("m")), said(message("other"))]);
    let thinking: Value = serde_json::from_str(thinking).unwrap();
    assert_eq!(messages[0]["content"], json!([thinking, { "type": "text", "text": "t" }]));
    assert_eq!(messages[1]["content"], "t");
}

#[test]
fn a_refusal_goes_back_as_one_or_as_words() {
    let parts = [Part::new(Content::Refusal("no".into()))];
    let message =
        |model: &str| Message::new(Role::Assistant, parts.clone()).with_origin(origin(model));
    assert_eq!(
        messages([said(message("m")), said(message("other"))]),
        json!([
            { "role": "assistant", "content": null, "refusal": "no" },
            { "role": "assistant", "content": "no" },
        ])
    );
}

#[test]
fn a_request_begins_with_the_one_before() {
    let mut transcript = Transcript::new();
    transcript.push_message(Message::user("a")).unwrap();
    let mut request = InferenceRequest { prompt: Prompt::of(transcript), ..Default::default() };
    let mut before = encoder().encode(&request);
    for step in 0..3 {
        let result = ToolResult::text(step.to_string());
        request.prompt.turns.push(exchange(vec![call(None, "{}")], vec![result]));
        request.prompt.tail = vec![];
        let now = encoder().encode(&request);
        assert!(now.starts_with(&before[..before.len() - 2]));
        request.prompt.tail = vec![Message::user("now")];
        assert!(encoder().encode(&request).starts_with(&now[..now.len() - 2]));
        before = now;
    }
}

#[test]
fn a_turn_is_encoded_once() {
    let request = asking([said(Message::user("a"))]);
    let turn = request.prompt.turns.iter().next().unwrap();
    let first = encoder().encode(&request);
    let (origin, quirks) = (origin("m"), Quirks::default());
    let (origin, request) = (&*origin, &request);
    let key = EncodeInput { origin, quirks, request, now: None, continuation: None }.cache_key();
    turn.encoded().get_or_encode(key, || panic!("the bytes are kept"));
    assert_eq!(encoder().encode(request), first);
}

#[test]
fn in_words_an_exchange_is_thought_action_and_observation() {
    let calls = vec![Part::text("t"), call(Some("a"), "{}"), call(None, "")];
    let content = Arc::new([Part::image("image/png", "AAA")]);
    let picture = ToolResult { content, is_error: false };
    let mut request = asking([
        exchange(calls.clone(), vec![ToolResult::text("1"), ToolResult::text("2")]),
        exchange(calls, vec![ToolResult::text("1"), picture]),
    ]);
    request.prompt.dialect = ToolCallFormat::Text;
    let messages = &body(&request)["messages"];
    assert_eq!(
        messages[0]["content"],
        "Thought: t\nAction: f\nAction Input: {}\nAction: f\nAction Input: {}"
    );
    assert_eq!(messages[1], json!({ "role": "user", "content": "Observation: 1\nObservation: 2" }));
    assert_eq!(messages[3]["content"][1]["type"], "image_url");
}

#[test]
fn a_refusal_beside_words_goes_back_beside_them() {
    let parts = || [Part::text("I can't."), Part::new(Content::Refusal("It is unsafe.".into()))];
    let reply = |model| said(Message::new(Role::Assistant, parts()).with_origin(origin(model)));
    let messages = messages([reply("m"), reply("other")]);
    let own = json!({ "role": "assistant", "content": "I can't.", "refusal": "It is unsafe." });
    let foreign = json!({ "role": "assistant", "content": "I can't.\nIt is unsafe." });
    assert_eq!(messages, json!([own, foreign]));
}

#[test]
fn unknown_fields_of_a_message_return_with_it() {
    let signed = |part: Part, json: &str| part.with_provider_payload(ProviderPayload::new(json));
    let provider = || Part::new(Content::Provider { kind: "extra_content".into() });
    let reply = |model| {
        let parts = [
            signed(Part::text("a"), r#"{"extra_content":{"google":{"thought_signature":"S"}}}"#),
            signed(
                call(Some("1"), "{}"),
                r#"{"extra_content":{"google":{"thought_signature":"C"}}}"#,
            ),
        ];
        let reply = Message::new(Role::Assistant, parts).with_origin(origin(model));
        Turn::new(TurnBody::ToolExchange(
            ToolExchange::new(reply, [ToolResult::text("r")]).unwrap(),
        ))
        .unwrap()
    };
    let alone = Message::new(Role::Assistant, [signed(provider(), r#"{"thought_signature":"T"}"#)]);
    let messages = messages([reply("m"), reply("other"), said(alone.with_origin(origin("m")))]);
    let signature = |text: &str| json!({ "google": { "thought_signature": text } });
    assert_eq!(messages[0]["extra_content"], signature("S"));
    assert_eq!(messages[0]["tool_calls"][0]["extra_content"], signature("C"));
    assert!(!messages[2].to_string().contains("extra_content"), "{}", messages[2]);
    assert_eq!(messages[4]["thought_signature"], "T");
}

#[test]
fn an_assistant_note_stands_between_tool_results_and_a_user_message() {
    let quirks = Quirks { role_order: RoleOrder::ModelAfterTools, ..Quirks::default() };
    let encoder = RequestEncoder::new(WireApi::OpenAiChat, origin("m"), quirks);
    let roles = |turns: Vec<Turn>, tail: Vec<Message>| {
        let mut request = asking(turns);
        request.prompt.tail = tail;
        let body: Value = serde_json::from_slice(&encoder.encode(&request)).unwrap();
        let role = |it: &Value| it["role"].as_str().unwrap().to_owned();
        body["messages"].as_array().unwrap().iter().map(role).collect::<Vec<_>>()
    };
    let user = || said(Message::user("u"));
    let called = || exchange(vec![call(Some("1"), "{}")], vec![ToolResult::text("r")]);
    assert_eq!(roles(vec![user(), called()], vec![]), ["user", "assistant", "tool"]);
    let noted = ["user", "assistant", "tool", "assistant", "user"];
    assert_eq!(roles(vec![user(), called(), user()], vec![]), noted);
    assert_eq!(roles(vec![user(), called()], vec![Message::user("t")]), noted);
    let shown =
        ToolResult { content: Arc::new([Part::image("image/png", "AA==")]), is_error: false };
    let shown = exchange(vec![call(Some("1"), "{}")], vec![shown]);
    assert_eq!(roles(vec![user(), shown], vec![]), noted);
    let answered = vec![user(), said(Message::assistant("a"))];
    assert_eq!(roles(answered, vec![]), ["user", "assistant", "user"]);
}

#[test]
fn each_effort_has_its_word() {
    use ReasoningEffort::{High, Low, Medium, Minimal};
    for (effort, word) in [(Minimal, "minimal"), (Low, "low"), (Medium, "medium"), (High, "high")] {
        let mut request = asking([]);
        request.options.reasoning_effort = Some(effort);
        assert_eq!(body(&request)["reasoning_effort"], word);
    }
}

#[test]
fn a_recording_is_named_in_words() {
    let source = MediaSource::Base64("aGk=".into());
    let heard = Content::Document(Media { mime: "audio/wav".into(), source, name: None });
    let parts = [Part::text("Listen."), Part::new(heard)];
    let told = messages([said(Message::new(Role::User, parts))]);
    assert_eq!(
        told[0]["content"],
        json!([
            {"type": "text", "text": "Listen."},
            {"type": "text", "text": "[audio: omitted, because this provider does not accept it]"},
        ])
    );
}
