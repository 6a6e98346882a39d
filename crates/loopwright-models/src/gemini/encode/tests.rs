use std::sync::Arc;

use loopwright_core::messages::{
    InferenceRequest, Media, MediaSource, ModelOrigin, Prompt, ReasoningEffort, ResponseFormat,
    ToolChoice, ToolSpec,
};

use serde_json::{Value, json};

use super::*;
use crate::{Quirks, RequestEncoder, WireApi};

const DUMMY: &str = "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv";

fn origin(model: &str) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin {
        wire: "gemini-generate".into(),
        provider: "p".into(),
        model: model.into(),
    })
}

fn text_for(model: &str, request: &InferenceRequest) -> String {
    let body =
        RequestEncoder::new(WireApi::Gemini, origin(model), Quirks::default()).encode(request);
    String::from_utf8(body).unwrap()
}

fn body_for(model: &str, request: &InferenceRequest) -> Value {
    serde_json::from_str(&text_for(model, request)).unwrap()
}

fn asking(turns: impl IntoIterator<Item = Turn>) -> InferenceRequest {
    let prompt = Prompt::of(turns.into_iter().collect());
    InferenceRequest { prompt, ..InferenceRequest::default() }
}

fn contents(model: &str, turns: impl IntoIterator<Item = Turn>) -> Value {
    without_begin(body_for(model, &asking(turns))["contents"].clone())
}

/// Leaves out the word of the user with which a conversation begins here that really begins with the model.
fn without_begin(mut messages: Value) -> Value {
    let list = messages.as_array_mut().unwrap();
    if list.first().is_some_and(|first| first.to_string().contains("Begin.")) {
        list.remove(0);
    }
    messages
}

fn said(message: Message) -> Turn {
    Turn::from_message(message).unwrap()
}

fn call(id: Option<&str>, arguments: &str) -> Part {
    let id = id.map(Arc::from);
    Part::new(Content::ToolCall(ToolCall { id, name: "f".into(), arguments: arguments.into() }))
}

fn reply(parts: impl IntoIterator<Item = Part>) -> Message {
    Message::new(Role::Assistant, parts)
}

fn exchange(reply: Message, results: impl IntoIterator<Item = ToolResult>) -> Turn {
    Turn::new(TurnBody::ToolExchange(ToolExchange::new(reply, results).unwrap())).unwrap()
}

fn media(mime: &str, source: MediaSource) -> Part {
    Part::new(Content::Image(Media { mime: mime.into(), source, name: None }))
}

#[test]
fn contents_come_last_and_instructions_first() {
    let mut request = asking([said(Message::user("b")), said(Message::system("later"))]);
    request.system = Some("a".into());
    request.prompt.head =
        [said(Message::system("h")), said(Message::user("c"))].into_iter().collect();
    request.prompt.tail = vec![Message::user("d")];
    assert_eq!(
        text_for("gemini-2.5-flash", &request),
        "{\"systemInstruction\":{\"parts\":[{\"text\":\"a\"},{\"text\":\"h\"}]},\"contents\":[\
         {\"role\":\"user\",\"parts\":[{\"text\":\"c\"}]},{\"role\":\"user\",\"parts\":[{\"text\":\"b\"}]},\
         {\"role\":\"user\",\"parts\":[{\"text\":\"later\"}]},{\"role\":\"user\",\"parts\":[{\"text\":\"d\"}]}]}"
    );
}

#[test]
fn settings_that_are_not_set_are_not_sent() {
    let mut request = asking([]);
    request.tool_choice = ToolChoice::Required;
    request.parallel_tool_calls = Some(false);
    assert_eq!(text_for("gemini-3-flash", &request), "{\"contents\":[]}");
}

#[test]
fn settings_are_written_as_the_wire_calls_them() {
    let mut request = asking([]);
    let parameters = Arc::new(json!({ "type": "object" }));
    let tool = ToolSpec { name: "f".into(), description: "d".into(), parameters };
    request.tools = [tool].into_iter().collect();
    request.tool_choice = ToolChoice::Tool("f".into());
    request.response_format = Some(ResponseFormat::json_schema("s", json!({ "type": "string" })));
    request.options.max_output_tokens = Some(5);
    request.options.temperature = Some(0.5);
    request.options.top_p = Some(0.25);
    request.options.stop = vec!["x".into()];
    request.options.seed = Some(u64::MAX);
    request.options.reasoning_effort = Some(ReasoningEffort::Low);
    let expect = json!({
        "tools": [{ "functionDeclarations": [
            { "name": "f", "description": "d", "parametersJsonSchema": { "type": "object" } },
        ] }],
        "toolConfig": { "functionCallingConfig": { "mode": "ANY", "allowedFunctionNames": ["f"] } },
        "generationConfig": {
            "maxOutputTokens": 5, "temperature": 0.5, "topP": 0.25, "stopSequences": ["x"],
            "seed": 2_147_483_647,
            "responseMimeType": "application/json", "responseJsonSchema": { "type": "string" },
            "thinkingConfig": { "includeThoughts": true, "thinkingLevel": "low" },
        },
        "contents": [],
    });
    assert_eq!(body_for("gemini-3-pro-preview", &request), expect);
}

#[test]
fn choices_of_tools_are_modes() {
    let mut request = asking([]);
    let parameters = Arc::new(json!({}));
    request.tools =
        [ToolSpec { name: "f".into(), description: "".into(), parameters }].into_iter().collect();
    let mut check = |choice: ToolChoice, expect: Value| {
        request.tool_choice = choice;
        let body = body_for("gemini-3-flash", &request);
        assert_eq!(body["toolConfig"]["functionCallingConfig"]["mode"], expect);
    };
    check(ToolChoice::Auto, Value::Null);
    check(ToolChoice::Required, "ANY".into());
    check(ToolChoice::None, "NONE".into());
}

#[test]
fn the_users_own_fields_stand_beside_ours_and_win() {
    let mut request = asking([]);
    request.system = Some("a".into());
    request.tools =
        [ToolSpec { name: "f".into(), description: "".into(), parameters: Arc::new(json!({})) }]
            .into_iter()
            .collect();
    request.tool_choice = ToolChoice::Required;
    request.options.temperature = Some(0.5);
    for (name, own) in [
        ("contents", json!(["mine"])),
        ("tools", json!([{ "googleSearch": {} }])),
        ("toolConfig", json!({ "includeServerSideToolInvocations": true })),
        ("generationConfig", json!({ "temperature": 1, "topK": 3 })),
        ("safetySettings", json!([])),
    ] {
        request.options.extra.insert(name.into(), own);
    }
    let expect = json!({
        "systemInstruction": { "parts": [{ "text": "a" }] },
        "tools": [
            { "functionDeclarations": [{ "name": "f", "parametersJsonSchema": {} }] },
            { "googleSearch": {} },
        ],
        "toolConfig": {
            "functionCallingConfig": { "mode": "ANY" },
            "includeServerSideToolInvocations": true,
        },
        "generationConfig": { "temperature": 1, "topK": 3 },
        "safetySettings": [],
        "contents": [],
    });
    assert_eq!(body_for("gemini-3-flash", &request), expect);
}

#[test]
fn its_own_words_go_back_as_they_came() {
    let raw = |text: &str| ProviderPayload::new(text);
    let message = reply([
        Part::reasoning("hm"),
        Part::text("ab")
            .with_provider_payload(raw(r#"[{"text":"a","thoughtSignature":"S"},{"text":"b"}]"#)),
        Part::new(Content::Provider { kind: "executableCode".into() })
            .with_provider_payload(raw(r#"{"executableCode":{"code" : "1"}}"#)),
        Part::new(Content::Provider { kind: "groundingMetadata".into() })
            .with_provider_payload(raw(r#"{"webSearchQueries":[]}"#)),
        call(None, "{}")
            .with_provider_payload(raw(r#"{"thoughtSignature":"T","functionCall":{"name":"f"}}"#)),
        call(None, "{\"a\": 1}"),
    ])
    .with_origin(origin("gemini-3-flash"));
    let turn = exchange(message, [ToolResult::text("x"), ToolResult::error("y")]);
    let text = text_for("gemini-3-flash", &asking([turn]));
    let model = r#"{"role":"model","parts":[{"text":"hm","thought":true},"#.to_owned()
        + r#"{"text":"a","thoughtSignature":"S"},{"text":"b"},{"executableCode":{"code" : "1"}},"#
        + r#"{"thoughtSignature":"T","functionCall":{"name":"f"}},"#
        + r#"{"functionCall":{"name":"f","args":{"a": 1}}}]}"#;
    let user = r#"{"role":"user","parts":["#.to_owned()
        + r#"{"functionResponse":{"name":"f","response":{"output":"x"}}},"#
        + r#"{"functionResponse":{"name":"f","response":{"error":"y"}}}]}"#;
    let begin = r#"{"role":"user","parts":[{"text":"Begin."}]}"#;
    assert_eq!(text, format!("{{\"contents\":[{begin},{model},{user}]}}"));
}

#[test]
fn words_of_other_models_are_written_anew() {
    let raw = || ProviderPayload::new(r#"{"secret":1}"#);
    let message = reply([
        Part::reasoning("hm").with_provider_payload(raw()),
        Part::text("a").with_provider_payload(raw()),
        Part::new(Content::Provider { kind: "web_search".into() }).with_provider_payload(raw()),
        Part::new(Content::Refusal("no".into())),
        call(Some("1"), "").with_provider_payload(raw()),
        call(Some("2"), "{\"a\":"),
    ])
    .with_origin(origin("other"));
    let turn = exchange(message, [ToolResult::text("x"), ToolResult::text("y")]);
    let function = |id: &str, args: Value| json!({ "id": id, "name": "f", "args": args });
    let response = |id: &str, text: &str| json!({ "functionResponse": { "id": id, "name": "f", "response": { "output": text } } });
    let expect = json!([
        { "role": "model", "parts": [
            { "text": "a" },
            { "text": "no" },
            { "functionCall": function("1", json!({})), "thoughtSignature": DUMMY },
            { "functionCall": function("2", json!({ "arguments": "{\"a\":" })) },
        ] },
        { "role": "user", "parts": [response("1", "x"), response("2", "y")] },
    ]);
    assert_eq!(contents("gemini-3-flash", [turn]), expect);
}

#[test]
fn only_models_that_want_signatures_are_given_dummies() {
    let turn = || exchange(reply([call(None, "{}")]), [ToolResult::text("x")]);
    let check = |model: &str, expect: Value| {
        let contents = contents(model, [turn()]);
        assert_eq!(contents[0]["parts"][0]["thoughtSignature"], expect, "{model}");
    };
    check("gemini-2.5-pro", Value::Null);
    check("gemini-3.1-pro-preview", DUMMY.into());
    check("gemini-flash-latest", DUMMY.into());
    check("publishers/google/models/gemini-3-flash", "skip_thought_signature_validator".into());
}

#[test]
fn a_message_of_which_nothing_is_left_is_not_sent() {
    let empty = reply([Part::reasoning("hm"), Part::text("")]);
    let expect = json!([{ "role": "user", "parts": [{ "text": "a" }] }]);
    assert_eq!(contents("gemini-3-flash", [said(empty), said(Message::user("a"))]), expect);
}

#[test]
fn media_are_sent_in_every_form_that_can_be_read() {
    let url = |text: &str| MediaSource::Url(text.into());
    let file = |text: &str| MediaSource::File(text.into());
    let message = Message::new(
        Role::User,
        [
            Part::image("image/png", "AAAA"),
            media("image/png", url("https://a.example/b.png")),
            media("", file("gs://a/b")),
            media("", file("files/7")),
            media("image/png", file("file-7")),
        ],
    );
    let kept = "https://generativelanguage.googleapis.com/v1beta/files/7";
    let expect = json!([
        { "inlineData": { "mimeType": "image/png", "data": "AAAA" } },
        { "fileData": { "mimeType": "image/png", "fileUri": "https://a.example/b.png" } },
        { "fileData": { "fileUri": "gs://a/b" } },
        { "fileData": { "fileUri": kept } },
        { "text": "[image: omitted, because this provider does not accept it]" },
    ]);
    assert_eq!(contents("gemini-3-flash", [said(message)])[0]["parts"], expect);
}

#[test]
fn images_of_tools_are_within_or_beside_their_results() {
    let shown =
        [Part::text("look"), Part::image("image/png", "AAAA"), Part::image("image/gif", "BBBB")];
    let result = ToolResult { content: Arc::new(shown), is_error: false };
    let turn = || exchange(reply([call(None, "{}")]), [result.clone()]);
    let data = |mime: &str, data: &str| json!({ "inlineData": { "mimeType": mime, "data": data } });
    let said = json!({ "output": "look" });
    let expect = json!([
        { "functionResponse": { "name": "f", "response": said, "parts": [data("image/png", "AAAA")] } },
        { "text": "Shown by f:" },
        data("image/gif", "BBBB"),
    ]);
    assert_eq!(contents("gemini-3-flash", [turn()])[1]["parts"], expect);
    let expect = json!([
        { "functionResponse": { "name": "f", "response": said } },
        { "text": "Shown by f:" },
        data("image/png", "AAAA"),
        { "text": "Shown by f:" },
        data("image/gif", "BBBB"),
    ]);
    assert_eq!(contents("gemini-2.5-flash", [turn()])[1]["parts"], expect);
}

#[test]
fn tool_exchanges_can_be_sent_as_text() {
    let image =
        ToolResult { content: Arc::new([Part::image("image/png", "AAAA")]), is_error: false };
    let mut request = asking([exchange(reply([call(None, "{}")]), [image])]);
    request.prompt.dialect = ToolCallFormat::Text;
    let expect = json!([
        { "role": "model", "parts": [{ "text": "Action: f\nAction Input: {}" }] },
        { "role": "user", "parts": [
            { "text": "Observation: " },
            { "inlineData": { "mimeType": "image/png", "data": "AAAA" } },
        ] },
    ]);
    let contents = body_for("gemini-3-flash", &request)["contents"].clone();
    assert_eq!(without_begin(contents), expect);
}

#[test]
fn a_request_begins_with_the_one_before_it() {
    let mut request = asking([said(Message::user("a"))]);
    request.system = Some("s".into());
    let first = text_for("gemini-3-flash", &request);
    request.prompt.turns.push(exchange(reply([call(None, "{}")]), [ToolResult::text("x")]));
    let second = text_for("gemini-3-flash", &request);
    assert!(second.starts_with(&first[..first.len() - 2]));
}

#[test]
fn a_json_object_is_asked_for_by_its_type() {
    let mut request = asking([said(Message::user("a"))]);
    request.response_format = Some(ResponseFormat::JsonObject);
    let config = body_for("gemini-3-flash", &request)["generationConfig"].clone();
    assert_eq!(config, json!({ "responseMimeType": "application/json" }));
}

#[test]
fn a_document_is_written_like_an_image() {
    let source = MediaSource::Base64("AAAA".into());
    let file = Media { mime: "application/pdf".into(), source, name: None };
    let part = Part::new(Content::Document(file));
    let contents = contents("gemini-3-flash", [said(Message::new(Role::User, [part]))]);
    let data = json!({ "mimeType": "application/pdf", "data": "AAAA" });
    assert_eq!(contents, json!([{ "role": "user", "parts": [{ "inlineData": data }] }]));
}
