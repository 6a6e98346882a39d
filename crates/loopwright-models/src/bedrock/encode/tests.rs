use std::sync::Arc;

use loopwright_core::messages::{
    InferenceRequest, Media, MediaSource, ModelOrigin, Part, Prompt, ProviderPayload,
    ReasoningEffort, ResponseFormat, ToolCall, ToolChoice, ToolResult, ToolSpec, Turn, TurnBody,
};
use serde_json::{Value, json};

use super::*;
use crate::{Quirks, RequestEncoder, WireApi};

fn origin(model: &str) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin {
        wire: WireApi::BedrockConverse.name().into(),
        provider: "p".into(),
        model: model.into(),
    })
}

fn encode_for(model: &str, request: &InferenceRequest) -> Vec<u8> {
    RequestEncoder::new(WireApi::BedrockConverse, origin(model), Quirks::default()).encode(request)
}

fn body_for(model: &str, request: &InferenceRequest) -> Value {
    serde_json::from_slice(&encode_for(model, request)).unwrap()
}

fn body(request: &InferenceRequest) -> Value {
    body_for("m", request)
}

fn asking(turns: impl IntoIterator<Item = Turn>) -> InferenceRequest {
    let prompt = Prompt::of(turns.into_iter().collect());
    InferenceRequest { prompt, ..InferenceRequest::default() }
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

fn call(id: &str, arguments: &str) -> Part {
    Part::new(Content::ToolCall(ToolCall::new(id, "f", arguments)))
}

fn exchange(parts: Vec<Part>, results: Vec<ToolResult>) -> Turn {
    let reply = Message::new(Role::Assistant, parts).with_origin(origin("m"));
    Turn::new(TurnBody::ToolExchange(ToolExchange::new(reply, results).unwrap())).unwrap()
}

fn tool(name: &str) -> ToolSpec {
    let parameters = Arc::new(json!({ "type": "object" }));
    ToolSpec { name: name.into(), description: "d".into(), parameters }
}

fn written_tool(name: &str, description: &str) -> Value {
    let schema = json!({ "json": { "type": "object" } });
    json!({ "toolSpec": { "name": name, "description": description, "inputSchema": schema } })
}

#[test]
fn sides_take_turns_and_the_conversation_comes_last() {
    let mut request = asking([
        said(Message::system("b")),
        said(Message::user("c")),
        said(Message::user("d")),
        said(Message::assistant("e")),
        said(Message::new(Role::Developer, [Part::text("f")])),
    ]);
    request.system = Some("a".into());
    request.prompt.tail = vec![Message::user("g")];
    let text = String::from_utf8(encode_for("m", &request)).unwrap();
    assert_eq!(
        text,
        "{\"system\":[{\"text\":\"a\"},{\"text\":\"b\"}],\"messages\":[\
         {\"role\":\"user\",\"content\":[{\"text\":\"c\"},{\"text\":\"d\"}]},\
         {\"role\":\"assistant\",\"content\":[{\"text\":\"e\"}]},\
         {\"role\":\"user\",\"content\":[{\"text\":\"<system>\\nf\\n</system>\"},{\"text\":\"g\"}]}]}"
    );
    assert_eq!(String::from_utf8(encode_for("m", &asking([]))).unwrap(), "{\"messages\":[]}");
}

#[test]
fn settings_are_written_as_the_wire_calls_them() {
    let mut request = asking([]);
    request.tools = [tool("f")].into_iter().collect();
    request.tool_choice = ToolChoice::Tool("f".into());
    request.response_format = Some(ResponseFormat::json_schema("s", json!({ "x": 1 })));
    let options = &mut request.options;
    options.max_output_tokens = Some(9);
    options.temperature = Some(0.5);
    options.top_p = Some(1.0);
    options.stop = vec!["x".into()];
    options.seed = Some(3);
    options.extra.insert("inferenceConfig".into(), json!({ "topP": 0.25 }));
    options.extra.insert("guardrailConfig".into(), json!({ "trace": "enabled" }));
    options.extra.insert("additionalModelRequestFields".into(), json!({ "top_k": 4 }));
    options.extra.insert("messages".into(), json!([1]));
    let schema = json!({ "name": "s", "schema": "{\"x\":1}" });
    assert_eq!(
        body(&request),
        json!({
            "toolConfig": {
                "tools": [written_tool("f", "d")], "toolChoice": { "tool": { "name": "f" } },
            },
            "outputConfig": {
                "textFormat": { "type": "json_schema", "structure": { "jsonSchema": schema } },
            },
            "inferenceConfig": {
                "maxTokens": 9, "temperature": 0.5, "topP": 0.25, "stopSequences": ["x"],
            },
            "additionalModelRequestFields": { "top_k": 4 },
            "guardrailConfig": { "trace": "enabled" },
            "messages": [],
        })
    );
}

#[test]
fn effort_is_written_for_models_whose_own_field_is_known() {
    let fields = |model, effort, choice| {
        let mut request = asking([]);
        request.tools = [tool("f")].into_iter().collect();
        request.tool_choice = choice;
        request.options.reasoning_effort = Some(effort);
        let body = body_for(model, &request);
        (body["additionalModelRequestFields"].clone(), body["inferenceConfig"].clone())
    };
    let (low, high) = (ReasoningEffort::Low, ReasoningEffort::High);
    let budget = json!({ "thinking": { "type": "enabled", "budget_tokens": 2048 } });
    let adaptive = json!({ "thinking": { "type": "adaptive", "display": "summarized" },
                "output_config": { "effort": "high" } });
    let nova = json!({ "reasoningConfig": { "type": "enabled", "maxReasoningEffort": "low" } });
    for (model, effort, expect) in [
        ("us.anthropic.claude-sonnet-4-5-v1:0", low, (budget, json!({ "maxTokens": 32_000 }))),
        ("anthropic.claude-opus-5", high, (adaptive, Value::Null)),
        ("openai.gpt-oss-120b-1:0", high, (json!({ "reasoning_effort": "high" }), Value::Null)),
        ("amazon.nova-2-lite-v1:0", low, (nova, Value::Null)),
        ("meta.llama4", high, (Value::Null, Value::Null)),
    ] {
        assert_eq!(fields(model, effort, ToolChoice::Auto), expect, "{model}");
    }
    let forced = fields("us.anthropic.claude-sonnet-4-5", low, ToolChoice::Required);
    assert_eq!(forced, (Value::Null, Value::Null));
}

#[test]
fn a_conversation_that_shows_calls_has_tools() {
    let turn = || exchange(vec![call("1", "{}")], vec![ToolResult::text("r")]);
    let config = |turns: Vec<Turn>, tools: Vec<ToolSpec>| {
        let mut request = asking(turns);
        request.tools = tools.into_iter().collect();
        request.tool_choice = ToolChoice::None;
        body(&request)["toolConfig"].clone()
    };
    assert_eq!(config(vec![], vec![tool("g")]), Value::Null);
    assert_eq!(config(vec![turn()], vec![tool("g")]), json!({ "tools": [written_tool("g", "d")] }));
    let stub = written_tool("f", "This tool is no longer offered.");
    assert_eq!(config(vec![turn(), turn()], vec![]), json!({ "tools": [stub] }));
}

#[test]
fn forms_that_the_wire_has_no_field_for_are_asked_for_in_words() {
    let mut request = asking([]);
    request.response_format = Some(ResponseFormat::JsonObject);
    let expect = json!([{ "text": "Answer with one JSON object and nothing else." }]);
    assert_eq!(body(&request)["system"], expect);
}

#[test]
fn an_exchange_is_a_reply_and_its_results() {
    let opaque = |part: Part, json: &str| part.with_provider_payload(ProviderPayload::new(json));
    let parts = vec![
        opaque(Part::reasoning("t"), r#"{"reasoningContent": 1}"#),
        Part::reasoning("u"),
        Part::text("a"),
        call("c-1", ""),
        call("c2", "{ \"a\": 1 }"),
        call("c3", "[1]"),
    ];
    let image = Part::image("image/png", "QUI=");
    let shown = ToolResult { content: Arc::new([image]), is_error: false };
    let empty = ToolResult { content: Arc::new([]), is_error: false };
    let failed = ToolResult { content: Arc::new([]), is_error: true };
    let request = asking([exchange(parts, vec![shown, empty, failed])]);
    let called = |id: &str, input: Value| json!({ "toolUse": { "toolUseId": id, "name": "f", "input": input } });
    let image = json!({ "image": { "format": "png", "source": { "bytes": "QUI=" } } });
    let done = json!({ "text": "The call is done." });
    let failed = json!({ "text": "The call failed." });
    let foreign = json!([
        { "text": "a" },
        called("c-1", json!({})),
        called("c2", json!({ "a": 1 })),
        called("c3", json!({ "invalid_arguments": "[1]" })),
    ]);
    let mut own = foreign.clone();
    own.as_array_mut().unwrap().insert(0, json!({ "reasoningContent": 1 }));
    let results = json!({ "role": "user", "content": [
        { "toolResult": { "toolUseId": "c-1", "content": [image] } },
        { "toolResult": { "toolUseId": "c2", "content": [done] } },
        { "toolResult": { "toolUseId": "c3", "content": [failed], "status": "error" } },
    ]});
    for (model, content) in [("m", own), ("other", foreign)] {
        let expect = json!([{ "role": "assistant", "content": content }, results]);
        assert_eq!(without_begin(body_for(model, &request)["messages"].clone()), expect);
    }
}

#[test]
fn ids_go_back_as_the_model_gave_them_and_other_models_ids_in_the_form_of_the_wire() {
    let ids = |model: &str| {
        let parts = vec![call("functions.f:0", "{}"), call("functions_f_0", "{}")];
        let results = vec![ToolResult::text("a"), ToolResult::text("b")];
        let request = asking([exchange(parts, results)]);
        let messages = without_begin(body_for(model, &request)["messages"].clone());
        let id = |message: usize, block: usize, kind: &str| {
            messages[message]["content"][block][kind]["toolUseId"].as_str().unwrap().to_owned()
        };
        let called = [id(0, 0, "toolUse"), id(0, 1, "toolUse")];
        assert_eq!([id(1, 0, "toolResult"), id(1, 1, "toolResult")], called);
        called
    };
    assert_eq!(ids("m"), ["functions.f:0", "functions_f_0"]);
    assert_eq!(ids("other"), ["functions_f_0", "functions_f_0_2"]);
}

#[test]
fn files_are_written_as_the_wire_takes_them() {
    let media = |mime: &str, source, name: Option<&str>| Media {
        mime: mime.into(),
        source,
        name: name.map(Into::into),
    };
    let base64 = || MediaSource::Base64("QUI=".into());
    let url = |url: &str| MediaSource::Url(url.into());
    let parts = [
        Content::Document(media("application/pdf", base64(), Some("a/b_1 (2).pdf"))),
        Content::Document(media("text/x-rust", url("s3://x/y"), None)),
        Content::Image(media("", url("data:image/gif;base64,QUI="), None)),
    ];
    let content = |parts: Vec<Content>| {
        let message = Message::new(Role::User, parts.into_iter().map(Part::new));
        body(&asking([said(message)]))["messages"][0]["content"].clone()
    };
    let bytes = json!({ "bytes": "QUI=" });
    assert_eq!(
        content(parts.into()),
        json!([
            { "text": "See the document." },
            { "document": { "format": "pdf", "name": "a b 1 (2) pdf", "source": bytes } },
            { "document": { "format": "txt", "name": "document",
                            "source": { "s3Location": { "uri": "s3://x/y" } } } },
            { "image": { "format": "gif", "source": bytes } },
        ])
    );
    let not_sent = vec![
        Content::Document(media("application/pdf", MediaSource::File("f".into()), None)),
        Content::Image(media("image/png", url("https://x/y"), None)),
    ];
    assert_eq!(
        content(not_sent),
        json!([
            { "text": "[document: omitted, because this provider does not accept it]" },
            { "text": "[image: omitted, because this provider does not accept it]" },
        ])
    );
}

#[test]
fn exchanges_in_words_are_a_reply_and_observations() {
    let mut request = asking([exchange(
        vec![Part::text("I add."), call("1", "{}")],
        vec![ToolResult::text("3")],
    )]);
    request.prompt.dialect = ToolCallFormat::Text;
    let words = "Thought: I add.\nAction: f\nAction Input: {}";
    assert_eq!(
        without_begin(body(&request)["messages"].clone()),
        json!([
            { "role": "assistant", "content": [{ "text": words }] },
            { "role": "user", "content": [{ "text": "Observation: 3" }] },
        ])
    );
}

#[test]
fn a_request_goes_on_where_the_one_before_it_ended() {
    let called = || exchange(vec![call("1", "{}")], vec![ToolResult::text("r")]);
    let mut request = asking([said(Message::user("a")), called()]);
    let mut before = encode_for("m", &request);
    // Of messages that are joined, the end is open too.
    for (turn, open) in
        [(called(), 2), (said(Message::user("u")), 4), (said(Message::assistant("b")), 2)]
    {
        request.prompt.turns.push(turn);
        let now = encode_for("m", &request);
        assert!(now.starts_with(&before[..before.len() - open]));
        before = now;
    }
}

#[test]
fn caches_are_marked_for_models_that_understand_marks() {
    let marks = |model| {
        let mut request = asking([]);
        request.system = Some("s".into());
        request.tools = [tool("f")].into_iter().collect();
        let body = body_for(model, &request);
        (body["system"][1].clone(), body["toolConfig"]["tools"][1].clone())
    };
    let mark = json!({ "cachePoint": { "type": "default" } });
    assert_eq!(marks("us.anthropic.claude-sonnet-4-5-v1:0"), (mark.clone(), mark));
    assert_eq!(marks("amazon.nova-pro-v1:0"), (Value::Null, Value::Null));
}

#[test]
fn reasoning_without_a_signature_goes_back_to_models_that_accept_it() {
    let sent = |model: &str, asked: &str| {
        let parts = vec![Part::reasoning("t"), Part::reasoning(" "), call("1", "{}")];
        let reply = Message::new(Role::Assistant, parts).with_origin(origin(model));
        let exchange = ToolExchange::new(reply, [ToolResult::text("r")]).unwrap();
        let turn = Turn::new(TurnBody::ToolExchange(exchange)).unwrap();
        let messages =
            body_for(asked, &asking([said(Message::user("u")), turn]))["messages"].clone();
        let blocks = messages[1]["content"].as_array().unwrap().clone();
        blocks.iter().filter_map(|it| it.get("reasoningContent").cloned()).collect::<Vec<_>>()
    };
    let unsigned = json!({ "reasoningText": { "text": "t" } });
    for model in ["us.amazon.nova-2-lite-v1:0", "minimax.minimax-m2", "openai.gpt-oss-120b-1:0"] {
        assert_eq!(sent(model, model), std::slice::from_ref(&unsigned), "{model}");
    }
    for model in ["us.anthropic.claude-opus-5", "us.deepseek.r1-v1:0", "arn:aws:bedrock:profile/x"]
    {
        assert_eq!(sent(model, model), [] as [Value; 0], "{model}");
    }
    let other = sent("minimax.minimax-m2", "us.amazon.nova-2-lite-v1:0");
    assert_eq!(other, [] as [Value; 0], "only its own");
}

#[test]
fn a_conversation_begins_and_ends_with_the_user_and_no_answer_is_reasoning_only() {
    let signed = || {
        Part::reasoning("t")
            .with_provider_payload(ProviderPayload::new(r#"{"reasoningContent":{"x":1}}"#))
    };
    let own =
        |parts: Vec<Part>| said(Message::new(Role::Assistant, parts).with_origin(origin("m")));
    let shown = |turns: Vec<Turn>| {
        let messages = body(&asking(turns))["messages"].clone();
        let text = |it: &Value| {
            let blocks = it["content"].as_array().unwrap();
            let text = blocks.iter().map(|block| block["text"].as_str().unwrap_or("-"));
            format!("{}: {}", it["role"].as_str().unwrap(), text.collect::<Vec<_>>().join(" "))
        };
        messages.as_array().unwrap().iter().map(text).collect::<Vec<_>>()
    };
    let user = || said(Message::user("u"));
    let answer = |text: &str| own(vec![Part::text(text)]);
    assert_eq!(
        shown(vec![answer("a"), answer("b")]),
        ["user: Begin.", "assistant: a", "user: Continue.", "assistant: b", "user: Continue."]
    );
    assert_eq!(shown(vec![user(), own(vec![signed()]), user()]), ["user: u u"]);
    assert_eq!(
        shown(vec![user(), own(vec![signed(), Part::text("a"), signed()]), user()]),
        ["user: u", "assistant: - a", "user: u"]
    );
    let server = Part::new(Content::Provider { kind: "toolUse".into() })
        .with_provider_payload(ProviderPayload::new(r#"{"toolUse":{"type":"server_tool_use"}}"#));
    let paused = own(vec![Part::text("a"), server]);
    assert_eq!(shown(vec![user(), paused]), ["user: u", "assistant: a -"]);
}

#[test]
fn settings_that_the_model_refuses_are_not_sent() {
    let sent = |model: &str| {
        let mut request = asking([]);
        request.options.temperature = Some(0.5);
        request.options.top_p = Some(0.5);
        body_for(model, &request)["inferenceConfig"].clone()
    };
    assert_eq!(sent("us.anthropic.claude-opus-4-7-v1:0"), Value::Null);
    assert_eq!(sent("meta.llama4"), json!({ "temperature": 0.5, "topP": 0.5 }));
}

#[test]
fn every_kind_of_file_has_its_word() {
    let word = |content: fn(Media) -> Content, mime: &str| {
        let source = MediaSource::Base64("QUI=".into());
        let part = Part::new(content(Media { mime: mime.into(), source, name: None }));
        let body = body(&asking([said(Message::new(Role::User, [part]))]));
        let blocks = body["messages"][0]["content"].as_array().unwrap().clone();
        let format = |block: &Value| {
            let block = block.get("image").or(block.get("document"))?;
            block["format"].as_str().map(str::to_owned)
        };
        blocks.iter().find_map(format)
    };
    for (mime, expect) in [
        ("image/png", Some("png")),
        ("image/jpeg", Some("jpeg")),
        ("image/gif", Some("gif")),
        ("image/webp", Some("webp")),
        ("image/tiff", None),
    ] {
        assert_eq!(word(Content::Image, mime).as_deref(), expect, "{mime}");
    }
    for (mime, expect) in [
        ("application/pdf", Some("pdf")),
        ("text/csv", Some("csv")),
        ("text/html", Some("html")),
        ("text/markdown", Some("md")),
        ("text/x-rust", Some("txt")),
        ("application/msword", Some("doc")),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", Some("docx")),
        ("application/vnd.ms-excel", Some("xls")),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", Some("xlsx")),
        ("application/zip", None),
    ] {
        assert_eq!(word(Content::Document, mime).as_deref(), expect, "{mime}");
    }
}
