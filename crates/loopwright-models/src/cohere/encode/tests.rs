use std::sync::Arc;

use loopwright_core::messages::{
    Content, InferenceRequest, Media, MediaSource, ModelOrigin, Part, Prompt, ProviderPayload,
    ReasoningEffort, ResponseFormat, ToolCall, ToolChoice, ToolResult, ToolSpec, Turn, TurnBody,
};
use serde_json::{Value, json};

use super::*;
use crate::{Quirks, RequestEncoder, WireApi};

fn origin(model: &str) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin { wire: "cohere-chat".into(), provider: "p".into(), model: model.into() })
}

fn encode(request: &InferenceRequest) -> String {
    let encoder = RequestEncoder::new(WireApi::Cohere, origin("m"), Quirks::default());
    String::from_utf8(encoder.encode(request)).unwrap()
}

fn body(request: &InferenceRequest) -> Value {
    serde_json::from_str(&encode(request)).unwrap()
}

fn asking(turns: impl IntoIterator<Item = Turn>) -> InferenceRequest {
    let prompt = Prompt::of(turns.into_iter().collect());
    InferenceRequest { prompt, ..InferenceRequest::default() }
}

fn messages(turns: impl IntoIterator<Item = Turn>) -> Value {
    without_begin(body(&asking(turns))["messages"].clone())
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

fn reply(parts: impl IntoIterator<Item = Part>) -> Message {
    Message::new(Role::Assistant, parts)
}

fn exchange(reply: Message, results: Vec<ToolResult>) -> Turn {
    Turn::new(TurnBody::ToolExchange(ToolExchange::new(reply, results).unwrap())).unwrap()
}

fn call(arguments: &str) -> Part {
    Part::new(Content::ToolCall(ToolCall::new("c", "f", arguments)))
}

fn wire_call(arguments: &str) -> Value {
    let function = json!({ "name": "f", "arguments": arguments });
    json!({ "id": "c", "type": "function", "function": function })
}

#[test]
fn messages_come_last_and_in_order() {
    let mut request = asking([said(Message::user("b"))]);
    request.system = Some("a".into());
    request.prompt.head = [said(Message::system("h"))].into_iter().collect();
    request.prompt.tail = vec![Message::user("c")];
    assert_eq!(
        encode(&request),
        "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"system\",\"content\":\"a\"},\
         {\"role\":\"system\",\"content\":\"h\"},{\"role\":\"user\",\"content\":\"b\"},\
         {\"role\":\"user\",\"content\":\"c\"}]}"
    );
}

#[test]
fn a_request_is_the_beginning_of_the_next() {
    let turns = [
        said(Message::user("a")),
        exchange(reply([call("{}")]), vec![ToolResult::text("x")]),
        said(Message::assistant("b")),
    ];
    let bodies: Vec<String> =
        (1..=3).map(|count| encode(&asking(turns[..count].to_vec()))).collect();
    for pair in bodies.windows(2) {
        assert!(pair[1].starts_with(&pair[0][..pair[0].len() - 2]), "{pair:?}");
    }
}

#[test]
fn settings_are_written_as_the_wire_calls_them() {
    let mut request = asking([]);
    let schema = json!({ "type": "object" });
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "d".into(),
        parameters: Arc::new(schema.clone()),
    };
    request.tools = [tool("f"), tool("g")].into_iter().collect();
    request.tool_choice = ToolChoice::Tool("g".into());
    request.response_format = Some(ResponseFormat::json_schema("s", schema.clone()));
    request.options = std::mem::take(&mut request.options)
        .with_max_output_tokens(9)
        .with_temperature(0.5)
        .with_reasoning_effort(ReasoningEffort::Low)
        .with_stream(false)
        .with_seed(1)
        .with_extra("safety_mode", json!("OFF"))
        .with_extra("messages", json!("no"));
    request.options.top_p = Some(0.25);
    request.options.stop = vec!["x".into()];
    let function = json!({ "name": "g", "description": "d", "parameters": schema });
    assert_eq!(
        body(&request),
        json!({
            "model": "m", "stream": false, "messages": [], "tool_choice": "REQUIRED",
            "tools": [{ "type": "function", "function": function }],
            "response_format": { "type": "json_object", "json_schema": schema },
            "max_tokens": 9, "temperature": 0.5, "p": 0.25, "stop_sequences": ["x"], "seed": 1,
            "thinking": { "type": "enabled", "token_budget": 1024 }, "safety_mode": "OFF",
        })
    );
}

#[test]
fn tools_are_required_or_forbidden() {
    let choice = |tool_choice| {
        let mut request = asking([]);
        let parameters = Arc::new(json!({}));
        let tool = ToolSpec { name: "f".into(), description: "".into(), parameters };
        (request.tools, request.tool_choice) = ([tool].into_iter().collect(), tool_choice);
        body(&request).get("tool_choice").cloned()
    };
    assert_eq!(choice(ToolChoice::Auto), None);
    assert_eq!(choice(ToolChoice::Required), Some("REQUIRED".into()));
    assert_eq!(choice(ToolChoice::None), Some("NONE".into()));
}

#[test]
fn plans_thoughts_and_citations_go_back_to_their_own_model_only() {
    let part = |content, opaque: &str| {
        Part::new(content).with_provider_payload(ProviderPayload::new(opaque))
    };
    let parts = [
        part(Content::Reasoning("Hm".into()), r#"{"type":"thinking","thinking":"Hm"}"#),
        part(Content::Provider { kind: "tool_plan".into() }, r#"{"tool_plan":"I will"}"#),
        part(Content::Text("Hi".into()), r#"{"citations":[{"start":0}]}"#),
        call(""),
    ];
    let asked = |model: &str| {
        let message = reply(parts.clone()).with_origin(origin(model));
        messages([exchange(message, vec![ToolResult::text("x")])])
    };
    let result = json!({ "role": "tool", "tool_call_id": "c", "content": "x" });
    let thought = json!({ "type": "thinking", "thinking": "Hm" });
    assert_eq!(
        asked("m"),
        json!([
            {
                "role": "assistant", "tool_plan": "I will",
                "content": [thought, { "type": "text", "text": "Hi" }],
                "tool_calls": [wire_call("{}")], "citations": [{ "start": 0 }],
            },
            result,
        ])
    );
    assert_eq!(
        asked("n"),
        json!([
            { "role": "assistant", "content": "Hi", "tool_calls": [wire_call("{}")] },
            result,
        ])
    );
}

#[test]
fn arguments_that_are_none_are_an_empty_object() {
    for arguments in ["", " ", "null"] {
        let turn = exchange(reply([call(arguments)]), vec![ToolResult::text("x")]);
        assert_eq!(messages([turn])[0]["tool_calls"], json!([wire_call("{}")]));
    }
}

#[test]
fn content_without_meaning_on_this_wire_is_not_sent() {
    let thought = reply([Part::reasoning("Hm")]);
    assert_eq!(messages([said(thought)]), json!([]));
}

#[test]
fn pictures_that_tools_show_follow_in_the_users_words() {
    let file = Media { mime: "a/b".into(), source: MediaSource::File("id".into()), name: None };
    let content = [
        Part::text("Look"),
        Part::image("image/png", "AA=="),
        Part::new(Content::Image(file.clone())),
        Part::new(Content::Document(file)),
        Part::text("done"),
    ];
    let result = ToolResult { content: Arc::new(content), is_error: false };
    let text = "Look\n[image: shown in the next message]\n\
                [image: omitted, because this provider does not accept it]\n\
                [document: omitted, because this provider does not accept it]\ndone";
    let image = json!({ "url": "data:image/png;base64,AA==" });
    assert_eq!(
        messages([exchange(reply([call("{}")]), vec![result])]),
        json!([
            { "role": "assistant", "tool_calls": [wire_call("{}")] },
            { "role": "tool", "tool_call_id": "c", "content": text },
            { "role": "user", "content": [{ "type": "image_url", "image_url": image }] },
        ])
    );
}

#[test]
fn users_show_pictures_and_what_cannot_be_shown_is_announced() {
    let media = |source| Media { mime: "a/b".into(), source, name: None };
    let message = Message::new(
        Role::User,
        [
            Part::text("Look"),
            Part::new(Content::Image(media(MediaSource::Url("https://e/x".into())))),
            Part::new(Content::Document(media(MediaSource::Base64("AA==".into())))),
        ],
    );
    let document = "[document: omitted, because this provider does not accept it]";
    assert_eq!(
        messages([said(message)])[0]["content"],
        json!([
            { "type": "text", "text": "Look" },
            { "type": "image_url", "image_url": { "url": "https://e/x" } },
            { "type": "text", "text": document },
        ])
    );
}

#[test]
fn the_text_dialect_calls_no_tools() {
    let mut request = asking([exchange(reply([call("{}")]), vec![ToolResult::text("x")])]);
    request.prompt.dialect = ToolCallFormat::Text;
    let expect = json!([
        { "role": "assistant", "content": "Action: f\nAction Input: {}" },
        { "role": "user", "content": "Observation: x" },
    ]);
    assert_eq!(without_begin(body(&request)["messages"].clone()), expect);
}
