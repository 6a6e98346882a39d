use std::sync::Arc;

use loopwright_core::messages::{
    Content, InferenceRequest, Media, MediaSource, ModelOrigin, Part, Prompt, ProviderPayload,
    ReasoningEffort, ResponseFormat, ToolCall, ToolChoice, ToolResult, ToolSpec, Turn, TurnBody,
};
use serde_json::{Value, json};

use super::*;
use crate::{Quirks, RequestEncoder, WireApi};

fn origin(model: &str) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin {
        wire: "openai-responses".into(),
        provider: "p".into(),
        model: model.into(),
    })
}

fn encode(model: &str, request: &InferenceRequest) -> String {
    let encoder = RequestEncoder::new(WireApi::OpenAiResponses, origin(model), Quirks::default());
    String::from_utf8(encoder.encode(request)).unwrap()
}

fn body(request: &InferenceRequest) -> Value {
    serde_json::from_str(&encode("m", request)).unwrap()
}

fn asking(turns: impl IntoIterator<Item = Turn>) -> InferenceRequest {
    let prompt = Prompt::of(turns.into_iter().collect());
    InferenceRequest { prompt, ..InferenceRequest::default() }
}

fn input(turns: impl IntoIterator<Item = Turn>) -> Value {
    body(&asking(turns))["input"].clone()
}

fn said(message: Message) -> Turn {
    Turn::from_message(message).unwrap()
}

fn call(id: &str, arguments: &str) -> Part {
    Part::new(Content::ToolCall(ToolCall::new(id, "f", arguments)))
}

fn exchange(reply: Message, results: Vec<ToolResult>) -> Turn {
    Turn::new(TurnBody::ToolExchange(ToolExchange::new(reply, results).unwrap())).unwrap()
}

fn reply(parts: impl IntoIterator<Item = Part>) -> Message {
    Message::new(Role::Assistant, parts)
}

fn of_user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": text })
}

fn of_model(text: &str) -> Value {
    json!({ "type": "message", "role": "assistant", "content": text })
}

#[test]
fn items_come_last_and_in_order() {
    let mut request = asking([said(Message::user("b"))]);
    request.system = Some("a".into());
    request.prompt.head = [said(Message::system("h"))].into_iter().collect();
    request.prompt.tail = vec![Message::user("c")];
    assert_eq!(
        encode("m", &request),
        "{\"model\":\"m\",\"instructions\":\"a\",\"store\":false,\
         \"include\":[\"reasoning.encrypted_content\"],\"stream\":true,\"input\":[\
         {\"type\":\"message\",\"role\":\"system\",\"content\":\"h\"},\
         {\"type\":\"message\",\"role\":\"user\",\"content\":\"b\"},\
         {\"type\":\"message\",\"role\":\"user\",\"content\":\"c\"}]}"
    );
}

#[test]
fn a_request_is_the_beginning_of_the_next() {
    let turns = [
        said(Message::user("a")),
        exchange(reply([call("1", "{}")]), vec![ToolResult::text("x")]),
        said(Message::assistant("b")),
    ];
    let bodies: Vec<String> =
        (1..=3).map(|count| encode("m", &asking(turns[..count].to_vec()))).collect();
    for pair in bodies.windows(2) {
        assert!(pair[1].starts_with(&pair[0][..pair[0].len() - 2]), "{pair:?}");
    }
}

#[test]
fn settings_are_written_as_the_wire_calls_them() {
    let mut request = asking([]);
    let parameters = Arc::new(json!({ "type": "object" }));
    let tool = ToolSpec { name: "f".into(), description: "d".into(), parameters };
    request.tools = [tool].into_iter().collect();
    request.tool_choice = ToolChoice::Tool("f".into());
    request.parallel_tool_calls = Some(false);
    request.response_format = Some(ResponseFormat::json_schema("s", json!({ "type": "object" })));
    request.options = std::mem::take(&mut request.options)
        .with_max_output_tokens(9)
        .with_temperature(0.5)
        .with_reasoning_effort(ReasoningEffort::Low)
        .with_stream(false)
        .with_seed(1);
    let body = body(&request);
    assert_eq!(
        body,
        json!({
            "model": "m", "stream": false, "store": false, "input": [],
            "include": ["reasoning.encrypted_content"],
            "tools": [{
                "type": "function", "name": "f", "description": "d", "strict": false,
                "parameters": { "type": "object" },
            }],
            "tool_choice": { "type": "function", "name": "f" },
            "parallel_tool_calls": false,
            "text": { "format": {
                "type": "json_schema", "name": "s", "schema": { "type": "object" }, "strict": true,
            } },
            "reasoning": { "effort": "low" }, "max_output_tokens": 9, "temperature": 0.5,
        })
    );
}

#[test]
fn the_users_extra_fields_are_added_and_win() {
    let mut request = asking([]);
    request.response_format = Some(ResponseFormat::JsonObject);
    request.options = std::mem::take(&mut request.options)
        .with_reasoning_effort(ReasoningEffort::Low)
        .with_extra("reasoning", json!({ "summary": "auto", "effort": "xhigh" }))
        .with_extra("text", json!({ "verbosity": "low" }))
        .with_extra("include", json!(["web_search_call.action.sources"]))
        .with_extra("store", json!(true))
        .with_extra("input", json!("no"));
    let body = body(&request);
    assert_eq!(body["reasoning"], json!({ "summary": "auto", "effort": "xhigh" }));
    let text = json!({ "verbosity": "low", "format": { "type": "json_object" } });
    assert_eq!(body["text"], text);
    let include = json!(["web_search_call.action.sources", "reasoning.encrypted_content"]);
    assert_eq!(body["include"], include);
    assert_eq!((&body["store"], &body["input"]), (&json!(true), &json!([])));
}

#[test]
fn models_that_do_not_reason_are_not_asked_for_their_reasoning() {
    let asks = |model: &str| encode(model, &asking([])).contains("reasoning.encrypted_content");
    for model in ["gpt-5.2", "o3", "openai/gpt-5-mini", "grok-4", "deepseek-v4-flash"] {
        assert!(asks(model), "{model}");
    }
    for model in ["gpt-4o", "openai/gpt-4.1-mini", "gpt-5-chat-latest", "chatgpt-4o-latest"] {
        assert!(!asks(model), "{model}");
    }
    let quirks = Quirks { encrypted_reasoning: false, ..Quirks::default() };
    let encoder = RequestEncoder::new(WireApi::OpenAiResponses, origin("o3"), quirks);
    let body: Value = serde_json::from_slice(&encoder.encode(&asking([]))).unwrap();
    assert_eq!(body.get("include"), None);
}

#[test]
fn own_items_go_back_byte_for_byte() {
    let items = [
        r#"{"type":"reasoning", "id":"rs_1","encrypted_content":"E=="}"#,
        r#"{"type":"web_search_call","id":"ws_1" }"#,
        r#"{"type":"message","id":"msg_1","phase":"commentary","content":[]}"#,
        r#"{"type":"custom_tool_call","id":"ctc_1","call_id":"c1","name":"f","input":"x"}"#,
    ];
    let contents = [
        Content::Reasoning("".into()),
        Content::Provider { kind: "web_search_call".into() },
        Content::Text("Hi".into()),
        Content::ToolCall(ToolCall::new("c1", "f", "x")),
    ];
    let parts = contents.into_iter().zip(items);
    let parts: Vec<Part> = parts
        .map(|(content, item)| Part::new(content).with_provider_payload(ProviderPayload::new(item)))
        .collect();
    let asked = |model: &str| {
        let message = reply(parts.clone()).with_origin(origin("m"));
        encode(model, &asking([exchange(message, vec![ToolResult::text("y")])]))
    };
    let output = "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c1\",\"output\":\"y\"}";
    let own = asked("m");
    assert!(own.ends_with(&format!("\"input\":[{},{output}]}}", items.join(","))), "{own}");
    let other: Value = serde_json::from_str(&asked("n")).unwrap();
    assert_eq!(
        other["input"],
        json!([
            of_model("Hi"),
            { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "x" },
            { "type": "function_call_output", "call_id": "c1", "output": "y" },
        ])
    );
}

#[test]
fn calls_get_ids_where_they_have_none_or_share_one() {
    let item = r#"{"type":"function_call","call_id":"c","name":"f","arguments":""}"#;
    let own = || call("c", "").with_provider_payload(ProviderPayload::new(item));
    let nameless = Part::new(Content::ToolCall(ToolCall {
        id: None,
        name: "f".into(),
        arguments: "{}".into(),
    }));
    let message = reply([own(), own(), nameless]).with_origin(origin("m"));
    let results = vec![ToolResult::text("1"), ToolResult::text("2"), ToolResult::text("3")];
    let called = |id: &str, arguments: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": arguments });
    let output = |id: &str, output: &str| json!({ "type": "function_call_output", "call_id": id, "output": output });
    assert_eq!(
        input([exchange(message, results)]),
        json!([
            called("c", ""),
            called("c_2", "{}"),
            called("call_0_2", "{}"),
            output("c", "1"),
            output("c_2", "2"),
            output("call_0_2", "3"),
        ])
    );
}

#[test]
fn each_kind_of_call_is_answered_in_its_form() {
    let picture = Part::image("image/png", "AA==");
    let ok = |part: Part| ToolResult { content: Arc::new([part]), is_error: false };
    for (kind, result, answer) in [
        (
            "local_shell_call",
            ToolResult::text("t"),
            json!({ "type": "local_shell_call_output", "call_id": "c", "output": "t" }),
        ),
        (
            "shell_call",
            ToolResult::error("t"),
            json!({
                "type": "shell_call_output", "call_id": "c",
                "output": [{
                    "stdout": "t", "stderr": "", "outcome": { "type": "exit", "exit_code": 1 },
                }],
            }),
        ),
        (
            "apply_patch_call",
            ToolResult::error("t"),
            json!({
                "type": "apply_patch_call_output", "call_id": "c", "status": "failed",
                "output": "t",
            }),
        ),
        (
            "computer_call",
            ok(picture),
            json!({
                "type": "computer_call_output", "call_id": "c",
                "output": {
                    "type": "computer_screenshot", "image_url": "data:image/png;base64,AA==",
                },
            }),
        ),
        (
            "tool_search_call",
            ToolResult::text("[{\"type\":\"function\"}]"),
            json!({
                "type": "tool_search_output", "call_id": "c", "execution": "client",
                "tools": [{ "type": "function" }],
            }),
        ),
    ] {
        let item = json!({ "type": kind, "call_id": "c" }).to_string();
        let part = call("c", "{}").with_provider_payload(ProviderPayload::new(item));
        let turn = exchange(reply([part]).with_origin(origin("m")), vec![result]);
        assert_eq!(input([turn])[1], answer);
    }
}

#[test]
fn pictures_and_files_are_sent_in_the_form_of_their_source() {
    let media = |mime: &str, source| Media { mime: mime.into(), source, name: None };
    let png = |source| Part::new(Content::Image(media("image/png", source)));
    let pdf = |source| Part::new(Content::Document(media("application/pdf", source)));
    let sources = || {
        [
            MediaSource::Base64("AA==".into()),
            MediaSource::Url("https://e/x".into()),
            MediaSource::File("file_1".into()),
        ]
    };
    let parts = [Part::text("Look")].into_iter();
    let parts: Vec<Part> = parts.chain(sources().map(png)).chain(sources().map(pdf)).collect();
    let list = json!([
        { "type": "input_text", "text": "Look" },
        { "type": "input_image", "image_url": "data:image/png;base64,AA==" },
        { "type": "input_image", "image_url": "https://e/x" },
        { "type": "input_image", "file_id": "file_1" },
        {
            "type": "input_file", "filename": "document",
            "file_data": "data:application/pdf;base64,AA==",
        },
        { "type": "input_file", "file_url": "https://e/x" },
        { "type": "input_file", "file_id": "file_1" },
    ]);
    let message = said(Message::new(Role::User, parts.clone()));
    assert_eq!(input([message])[0]["content"], list);
    let result = ToolResult { content: parts.into(), is_error: false };
    let turn = exchange(reply([call("1", "{}")]), vec![result]);
    assert_eq!(input([turn])[1]["output"], list);
}

#[test]
fn images_of_another_model_are_announced_and_its_reasoning_is_omitted() {
    let message = reply([
        Part::reasoning("Hm").with_provider_payload(ProviderPayload::new("{}")),
        Part::text("Look"),
        Part::image("image/png", "AA=="),
        Part::new(Content::Refusal("No".into())),
    ]);
    assert_eq!(
        input([said(Message::user("a")), said(message)]),
        json!([
            of_user("a"),
            of_model("Look"),
            of_model("[image: omitted, because this provider does not accept it]"),
            of_model("No"),
        ])
    );
}

#[test]
fn the_text_dialect_calls_no_tools() {
    let mut request = asking([exchange(reply([call("1", "{}")]), vec![ToolResult::text("x")])]);
    request.prompt.dialect = ToolCallFormat::Text;
    let expect = json!([of_model("Action: f\nAction Input: {}"), of_user("Observation: x")]);
    assert_eq!(body(&request)["input"], expect);
}

#[test]
fn words_and_a_refusal_of_one_item_go_back_as_that_item() {
    let item = r#"{"type":"message","id":"msg_1","phase":"final","content":[]}"#;
    let parts = || {
        [
            Part::text("I can't.").with_provider_payload(ProviderPayload::new(item)),
            Part::new(Content::Refusal("It is unsafe.".into())),
        ]
    };
    let turn = |model: &str| said(reply(parts()).with_origin(origin(model)));
    let own: Value = serde_json::from_str(item).unwrap();
    assert_eq!(input([turn("m")]), json!([own]));
    let foreign = json!([of_model("I can't."), of_model("It is unsafe.")]);
    assert_eq!(input([turn("other")]), foreign);
}

#[test]
fn a_job_in_the_background_is_stored_until_it_is_asked_for() {
    let mut request = asking([]);
    assert_eq!(body(&request)["store"], false);
    request.options.extra.insert("background".into(), true.into());
    assert_eq!(
        (&body(&request)["store"], &body(&request)["background"]),
        (&json!(true), &json!(true))
    );
    request.options.extra.insert("store".into(), false.into());
    assert_eq!(body(&request)["store"], false, "the user's own wins");
}

#[test]
fn trailing_reasoning_is_not_sent() {
    let thought = || {
        Part::reasoning("t").with_provider_payload(ProviderPayload::new(r#"{"type":"reasoning"}"#))
    };
    let own = |parts: Vec<Part>| said(reply(parts).with_origin(origin("m")));
    let turns = [
        said(Message::user("a")),
        own(vec![thought()]),
        own(vec![thought(), Part::text("b"), thought()]),
    ];
    assert_eq!(input(turns), json!([of_user("a"), { "type": "reasoning" }, of_model("b")]));
}

#[test]
fn the_developer_speaks_as_such_where_the_provider_tells_roles_apart() {
    let request = asking([said(Message::new(Role::Developer, [Part::text("d")]))]);
    for (developer_role, role) in [(false, "system"), (true, "developer")] {
        let quirks = Quirks { developer_role, ..Quirks::default() };
        let body =
            RequestEncoder::new(WireApi::OpenAiResponses, origin("m"), quirks).encode(&request);
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expect = json!([{ "type": "message", "role": role, "content": "d" }]);
        assert_eq!(body["input"], expect);
    }
}
