use std::sync::Arc;

use loopwright_core::messages::{
    InferenceRequest, Media, MediaSource, ModelOrigin, Part, Prompt, ProviderPayload,
    ReasoningEffort, ResponseFormat, ToolCall, ToolChoice, ToolResult, ToolSpec,
};
use serde_json::{Value, json};

use super::*;
use crate::{Quirks, RequestEncoder, WireApi};

fn origin(model: &str) -> Arc<ModelOrigin> {
    Arc::new(ModelOrigin {
        wire: WireApi::Anthropic.name().into(),
        provider: "p".into(),
        model: model.into(),
    })
}

fn encode_for(model: &str, request: &InferenceRequest) -> Vec<u8> {
    RequestEncoder::new(WireApi::Anthropic, origin(model), Quirks::default()).encode(request)
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

fn call(id: &str, arguments: &str) -> Part {
    Part::new(Content::ToolCall(ToolCall::new(id, "f", arguments)))
}

fn exchange(reply: Message, results: Vec<ToolResult>) -> Turn {
    Turn::new(TurnBody::ToolExchange(ToolExchange::new(reply, results).unwrap())).unwrap()
}

fn assistant(parts: Vec<Part>) -> Message {
    Message::new(Role::Assistant, parts)
}

fn words(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn tool(name: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: "".into(), parameters: Arc::new(parameters) }
}

#[test]
fn messages_come_last_and_in_order() {
    let mut request = asking([said(Message::user("b")), said(Message::assistant("c"))]);
    request.system = Some("a".into());
    let text = String::from_utf8(encode_for("m", &request)).unwrap();
    assert_eq!(
        text,
        "{\"model\":\"m\",\"max_tokens\":8192,\
         \"system\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}}],\
         \"stream\":true,\"cache_control\":{\"type\":\"ephemeral\"},\"messages\":[\
         {\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},\
         {\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]}]}"
    );
}

#[test]
fn settings_are_written_as_the_wire_calls_them() {
    let mut request = asking([]);
    let parameters = json!({ "type": "object" });
    request.tools = [tool("f", parameters), tool("g", json!({}))].into_iter().collect();
    request.tool_choice = ToolChoice::Tool("f".into());
    request.parallel_tool_calls = Some(false);
    request.response_format = Some(ResponseFormat::json_schema("s", json!({ "x": 1 })));
    let options = &mut request.options;
    options.max_output_tokens = Some(9);
    options.temperature = Some(0.5);
    options.top_p = Some(1.0);
    options.stop = vec!["x".into()];
    options.seed = Some(3);
    options.stream = Some(false);
    options.extra.insert("top_k".into(), json!(4));
    let ephemeral = json!({ "type": "ephemeral" });
    assert_eq!(
        body(&request),
        json!({
            "model": "m", "max_tokens": 9, "stream": false, "temperature": 0.5, "top_p": 1.0,
            "stop_sequences": ["x"], "top_k": 4, "cache_control": ephemeral,
            "tools": [
                { "name": "f", "input_schema": { "type": "object" } },
                { "name": "g", "input_schema": { "type": "object" }, "cache_control": ephemeral },
            ],
            "tool_choice": { "type": "tool", "name": "f", "disable_parallel_tool_use": true },
            "output_config": { "format": { "type": "json_schema", "schema": { "x": 1 } } },
            "messages": [],
        })
    );
}

#[test]
fn the_choice_of_tools_is_written_if_it_is_not_the_usual_one() {
    let choice = |choice, parallel| {
        let mut request = asking([]);
        request.tools = [tool("f", json!({}))].into_iter().collect();
        request.tool_choice = choice;
        request.parallel_tool_calls = parallel;
        body(&request)["tool_choice"].clone()
    };
    assert_eq!(choice(ToolChoice::Auto, Some(true)), Value::Null);
    let single = json!({ "type": "auto", "disable_parallel_tool_use": true });
    assert_eq!(choice(ToolChoice::Auto, Some(false)), single);
    assert_eq!(choice(ToolChoice::Required, None), json!({ "type": "any" }));
    assert_eq!(choice(ToolChoice::None, Some(false)), json!({ "type": "none" }));
}

#[test]
fn effort_is_written_as_the_model_understands_it() {
    let fields = |model, effort, most| {
        let mut request = asking([]);
        request.options.reasoning_effort = Some(effort);
        request.options.max_output_tokens = most;
        let body = body_for(model, &request);
        (body["thinking"].clone(), body["output_config"].clone())
    };
    let adaptive = json!({ "type": "adaptive", "display": "summarized" });
    let budget = |tokens| json!({ "type": "enabled", "budget_tokens": tokens });
    let effort = |effort| json!({ "effort": effort });
    let (low, high) = (ReasoningEffort::Low, ReasoningEffort::High);
    for (model, asked, most, expect) in [
        ("claude-opus-5", high, None, (adaptive.clone(), effort("high"))),
        ("claude-opus-5", ReasoningEffort::Minimal, None, (Value::Null, effort("low"))),
        ("claude-sonnet-4-5", high, None, (budget(16_000), Value::Null)),
        ("claude-sonnet-4-5", low, Some(3000), (budget(1500), Value::Null)),
        ("claude-sonnet-4-5", low, Some(2000), (Value::Null, Value::Null)),
        ("claude-3-haiku", high, None, (Value::Null, Value::Null)),
    ] {
        assert_eq!(fields(model, asked, most), expect, "{model} {asked:?} {most:?}");
    }
    let mut forced = asking([]);
    forced.options.reasoning_effort = Some(high);
    forced.tools = [tool("f", json!({}))].into_iter().collect();
    forced.tool_choice = ToolChoice::Required;
    let body = body_for("claude-opus-5", &forced);
    assert_eq!((&body["thinking"], &body["output_config"]), (&Value::Null, &effort("high")));
}

#[test]
fn forms_that_the_wire_has_no_field_for_are_asked_for_in_words() {
    let asked = |format| {
        let mut request = asking([]);
        request.response_format = Some(format);
        let body = body(&request);
        (body["system"][0]["text"].clone(), body["output_config"].clone())
    };
    let (said, config) = asked(ResponseFormat::JsonObject);
    assert_eq!(
        (said, config),
        (json!("Answer with one JSON object and nothing else."), Value::Null)
    );
    let schema = Arc::new(json!({ "x": 1 }));
    let (said, config) =
        asked(ResponseFormat::JsonSchema { name: "s".into(), schema, strict: false });
    let expect = "Answer with JSON that matches this schema and nothing else:\n{\"x\":1}";
    assert_eq!((said, config), (json!(expect), Value::Null));
}

#[test]
fn passthrough_adds_to_lists_and_replaces_settings() {
    let mut request = asking([]);
    request.tools = [tool("f", json!({ "type": "object" }))].into_iter().collect();
    request.response_format = Some(ResponseFormat::json_schema("s", json!({})));
    request.options.max_output_tokens = Some(1);
    for (name, value) in [
        ("tools", json!([{ "type": "web_search_20250305", "name": "web_search" }])),
        ("output_config", json!({ "effort": "max" })),
        ("thinking", json!({ "type": "disabled" })),
        ("max_tokens", json!(7)),
        ("cache_control", Value::Null),
        ("model", json!("x")),
        ("messages", json!([1])),
        ("stream", json!(false)),
    ] {
        request.options.extra.insert(name.into(), value);
    }
    let text = String::from_utf8(encode_for("m", &request)).unwrap();
    assert_eq!(
        text,
        "{\"model\":\"m\",\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}},\
         {\"name\":\"web_search\",\"type\":\"web_search_20250305\"}],\"stream\":true,\
         \"output_config\":{\"effort\":\"max\",\"format\":{\"schema\":{},\"type\":\"json_schema\"}},\
         \"max_tokens\":7,\"thinking\":{\"type\":\"disabled\"},\"messages\":[]}"
    );
}

#[test]
fn instructions_lead_the_request_or_are_marked_in_the_conversation() {
    let system = |text: &str| said(Message::system(text));
    let developer = Message::new(Role::Developer, [Part::text("c")]);
    let mut request = asking([system("b"), said(Message::user("u")), said(developer)]);
    request.system = Some("a".into());
    let body = body(&request);
    assert_eq!(body["system"][0]["text"], "a");
    assert_eq!(body["system"][1]["text"], "b");
    assert_eq!(
        body["messages"],
        json!([
            { "role": "user", "content": [words("u")] },
            { "role": "user", "content": [words("<system>\nc\n</system>")] },
        ])
    );
}

#[test]
fn answers_return_verbatim_to_their_own_model_and_converted_to_others() {
    let reply = |model| {
        let opaque =
            |part: Part, json: &str| part.with_provider_payload(ProviderPayload::new(json));
        assistant(vec![
            opaque(Part::reasoning("t"), r#"{"type":"thinking", "signature":"S"}"#),
            opaque(Part::text("a"), r#"{"citations":[ 1 ]}"#),
            opaque(Part::new(Content::Provider { kind: "k".into() }), r#"{"type":"k"}"#),
            Part::text(" \n"),
            opaque(call("x.1", "{}"), r#"{"id":"x.1"}"#),
            opaque(call("x2", "{ \"a\": 1 }"), r#"{"id":"x2"}"#),
        ])
        .with_origin(origin(model))
    };
    let turn = |model| exchange(reply(model), vec![ToolResult::text("1"), ToolResult::text("2")]);
    let own = String::from_utf8(encode_for("m", &asking([turn("m")]))).unwrap();
    let expect = "[{\"type\":\"thinking\", \"signature\":\"S\"},{\"citations\":[ 1 ]},{\"type\":\"k\"},\
         {\"id\":\"x.1\"},{\"id\":\"x2\"}]";
    assert!(own.contains(expect), "{own}");
    let foreign = String::from_utf8(encode_for("m", &asking([turn("other")]))).unwrap();
    let expect = "[{\"type\":\"text\",\"text\":\"a\"},\
         {\"type\":\"tool_use\",\"id\":\"x_1\",\"name\":\"f\",\"input\":{}},\
         {\"type\":\"tool_use\",\"id\":\"x2\",\"name\":\"f\",\"input\":{ \"a\": 1 }}]";
    assert!(foreign.contains(expect), "{foreign}");
    assert!(foreign.contains("{\"type\":\"tool_result\",\"tool_use_id\":\"x_1\""), "{foreign}");
}

#[test]
fn results_stand_in_one_message_and_what_failures_show_follows_them() {
    let image = |mime: &str| Part::image(mime, "QUI=");
    let result = |parts: Vec<Part>, is_error| ToolResult { content: parts.into(), is_error };
    let calls = (1..=4).map(|number| call(&number.to_string(), "")).collect();
    let results = vec![
        result(vec![Part::text("a"), image("image/png")], false),
        result(vec![image("image/png")], true),
        result(vec![], false),
        result(vec![image("image/tiff")], false),
    ];
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "QUI=" });
    let picture = json!({ "type": "image", "source": source });
    let note = words("[image: omitted, because this provider does not accept it]");
    assert_eq!(
        messages([exchange(assistant(calls), results)])[1],
        json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "1", "content": [words("a"), picture] },
            { "type": "tool_result", "tool_use_id": "2", "content": [words("The call failed.")],
              "is_error": true },
            { "type": "tool_result", "tool_use_id": "3" },
            { "type": "tool_result", "tool_use_id": "4", "content": [note] },
            picture,
        ]})
    );
}

#[test]
fn inputs_are_objects_whatever_the_model_wrote() {
    let input = |arguments: &str| {
        let turn = exchange(assistant(vec![call("1", arguments)]), vec![ToolResult::text("r")]);
        messages([turn])[0]["content"][0]["input"].clone()
    };
    for (arguments, expect) in [
        ("", json!({})),
        ("null", json!({})),
        (" {\"a\":1}\n", json!({ "a": 1 })),
        ("{\"a\":", json!({ "invalid_arguments": "{\"a\":" })),
        ("[1]", json!({ "invalid_arguments": "[1]" })),
    ] {
        assert_eq!(input(arguments), expect, "{arguments}");
    }
}

#[test]
fn files_are_written_as_the_wire_takes_them() {
    let media = |mime: &str, source, name: Option<&str>| Media {
        mime: mime.into(),
        source,
        name: name.map(Into::into),
    };
    let base64 = |data: &str| MediaSource::Base64(data.into());
    let parts = [
        Content::Document(media("application/pdf", base64("QUI="), Some("n"))),
        Content::Document(media("text/csv", base64("YSxi"), None)),
        Content::Document(media("application/zip", base64("gICA"), None)),
        Content::Document(media("text/plain", MediaSource::File("file_1".into()), None)),
        Content::Document(media("text/plain", MediaSource::File("file-1".into()), None)),
        Content::Image(media("image/png", MediaSource::Url("https://x/y".into()), None)),
        Content::Image(media("", MediaSource::Url("data:image/gif;base64,QUI=".into()), None)),
    ];
    let turn = said(Message::new(Role::User, parts.map(Part::new)));
    let document = |source: Value| json!({ "type": "document", "source": source });
    let pdf = json!({ "type": "base64", "media_type": "application/pdf", "data": "QUI=" });
    let note = words("[document: omitted, because this provider does not accept it]");
    let gif = json!({ "type": "base64", "media_type": "image/gif", "data": "QUI=" });
    assert_eq!(
        messages([turn])[0]["content"],
        json!([
            { "type": "document", "source": pdf, "title": "n" },
            document(json!({ "type": "text", "media_type": "text/plain", "data": "a,b" })),
            note,
            document(json!({ "type": "file", "file_id": "file_1" })),
            note,
            { "type": "image", "source": { "type": "url", "url": "https://x/y" } },
            { "type": "image", "source": gif },
        ])
    );
}

#[test]
fn messages_that_say_nothing_are_not_sent() {
    let foreign = assistant(vec![Part::reasoning("t")]).with_origin(origin("other"));
    let turns = [
        said(Message::user("a")),
        said(assistant(vec![])),
        said(foreign),
        said(Message::user("b")),
    ];
    let user = |text: &str| json!({ "role": "user", "content": [words(text)] });
    assert_eq!(messages(turns), json!([user("a"), user("b")]));
}

#[test]
fn exchanges_in_words_are_a_reply_and_observations() {
    let reply = assistant(vec![Part::text("I add."), call("1", "{}")]);
    let shown = ToolResult {
        content: Arc::new([Part::text("3"), Part::image("image/png", "QUI=")]),
        is_error: false,
    };
    let mut request = asking([exchange(reply, vec![shown])]);
    request.prompt.dialect = ToolCallFormat::Text;
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "QUI=" });
    assert_eq!(
        without_begin(body(&request)["messages"].clone()),
        json!([
            { "role": "assistant",
              "content": [words("Thought: I add.\nAction: f\nAction Input: {}")] },
            { "role": "user",
              "content": [words("Observation: 3"), { "type": "image", "source": source }] },
        ])
    );
}

#[test]
fn a_request_begins_with_the_one_before_it() {
    let called = || exchange(assistant(vec![call("1", "{}")]), vec![ToolResult::text("r")]);
    let mut request = asking([said(Message::user("a"))]);
    let mut before = encode_for("m", &request);
    for turn in [called(), said(assistant(vec![])), said(Message::assistant("b")), called()] {
        request.prompt.turns.push(turn);
        let now = encode_for("m", &request);
        assert!(now.starts_with(&before[..before.len() - 2]));
        before = now;
    }
}

#[test]
fn a_tail_is_not_cached_and_what_is_before_it_is() {
    let mut request = asking([said(Message::user("a")), said(Message::assistant("b"))]);
    request.prompt.tail = vec![Message::user("t")];
    let text = String::from_utf8(encode_for("m", &request)).unwrap();
    assert_eq!(
        text,
        "{\"model\":\"m\",\"max_tokens\":8192,\"stream\":true,\"messages\":[\
         {\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\
         \"cache_control\":{\"type\":\"ephemeral\"}}]},\
         {\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},\
         {\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"t\"}]}]}"
    );
}

#[test]
fn nothing_is_marked_where_marks_are_not_known() {
    let quirks = Quirks { cache_marks: false, ..Quirks::default() };
    let mut request = asking([said(Message::user("a"))]);
    request.system = Some("s".into());
    let bytes = RequestEncoder::new(WireApi::Anthropic, origin("m"), quirks).encode(&request);
    let text = String::from_utf8(bytes).unwrap();
    assert!(!text.contains("cache_control"), "{text}");
}

fn ran_in(container: &str, model: &str) -> Turn {
    let kind = Content::Provider { kind: "container".into() };
    let parts = vec![
        Part::text("a"),
        Part::new(kind).with_provider_payload(ProviderPayload::new(container)),
    ];
    said(assistant(parts).with_origin(origin(model)))
}

#[test]
fn the_last_container_goes_back_after_the_messages_and_never_to_another_model() {
    let turns = || {
        [
            said(Message::user("q")),
            ran_in(r#"{"id":"c1"}"#, "m"),
            ran_in(r#"{"id":"c2"}"#, "m"),
            ran_in(r#"{"id":"c3"}"#, "other"),
            said(Message::user("r")),
        ]
    };
    let text = String::from_utf8(encode_for("m", &asking(turns()))).unwrap();
    assert!(text.ends_with("]}],\"container\":\"c2\"}"), "{text}");
    assert_eq!(text.matches("c2").count(), 1, "it is no block of a message: {text}");
    assert_eq!(body_for("third", &asking(turns())).get("container"), None);

    let mut request = asking(turns());
    let before = encode_for("m", &request);
    request.prompt.turns.push(said(Message::assistant("b")));
    let end = before.len() - b"],\"container\":\"c2\"}".len();
    assert!(encode_for("m", &request).starts_with(&before[..end]));
}

#[test]
fn the_users_own_container_wins_and_is_completed() {
    let with = |own: Value| {
        let mut request = asking([said(Message::user("q")), ran_in(r#"{"id":"c1"}"#, "m")]);
        request.options.extra.insert("container".into(), own);
        body(&request)["container"].clone()
    };
    assert_eq!(with(json!("mine")), json!("mine"));
    assert_eq!(with(json!({ "skills": [1] })), json!({ "id": "c1", "skills": [1] }));
    assert_eq!(with(json!({ "id": "mine" })), json!({ "id": "mine" }));
}

#[test]
fn an_expired_container_is_not_sent() {
    let container = r#"{"id":"c1","expires_at":"2026-04-24T11:13:36.730129Z"}"#;
    let request = asking([said(Message::user("q")), ran_in(container, "m")]);
    let at = |now: &str| {
        let encoder = RequestEncoder::new(WireApi::Anthropic, origin("m"), Quirks::default());
        let (body, _) = encoder.encode_after(&request, None, Some(now.parse().unwrap()));
        let body: Value = serde_json::from_slice(&body).unwrap();
        body.get("container").cloned()
    };
    assert_eq!(at("2026-04-24T11:13:36Z"), Some("c1".into()));
    assert_eq!(at("2026-04-24T11:13:37Z"), None);
}

#[test]
fn an_instruction_is_the_systems_where_the_model_accepts_that() {
    let model = "claude-opus-4-8";
    let roles = |model: &str, turns: Vec<Turn>, tail: Vec<Message>| {
        let mut request = asking(turns);
        request.prompt.tail = tail;
        let messages = body_for(model, &request)["messages"].clone();
        let role = |it: &Value| it["role"].as_str().unwrap().to_owned();
        messages.as_array().unwrap().iter().map(role).collect::<Vec<_>>()
    };
    let user = || said(Message::user("u"));
    let system = || said(Message::system("i"));
    let called = || exchange(assistant(vec![call("1", "{}")]), vec![ToolResult::text("r")]);
    let own = |turns: Vec<Turn>| roles(model, turns, vec![]);
    assert_eq!(own(vec![user(), system()]), ["user", "system"]);
    assert_eq!(
        own(vec![user(), system(), called(), system(), said(Message::assistant("a")), user()]),
        ["user", "system", "assistant", "user", "system", "assistant", "user"]
    );
    // Not twice, not before the user's words, not after the model's.
    assert_eq!(own(vec![user(), system(), system()]), ["user"; 3]);
    assert_eq!(own(vec![user(), system(), user()]), ["user"; 3]);
    assert_eq!(roles(model, vec![user(), system()], vec![Message::user("t")]), ["user"; 3]);
    let after_answer = vec![user(), said(Message::assistant("a")), system()];
    assert_eq!(own(after_answer), ["user", "assistant", "user"]);
    for older in ["claude-opus-4-7", "claude-sonnet-4-5", "claude-mythos-preview", "glm-4.6"] {
        assert_eq!(roles(older, vec![user(), system()], vec![]), ["user"; 2], "{older}");
    }
}

#[test]
fn a_conversation_begins_and_ends_with_the_user_unless_the_model_goes_on_itself() {
    let newest = "claude-opus-5";
    let shown = |model: &str, turns: Vec<Turn>| {
        let messages = body_for(model, &asking(turns))["messages"].clone();
        let text = |it: &Value| it["content"][0]["text"].as_str().unwrap_or("-").to_owned();
        messages.as_array().unwrap().iter().map(text).collect::<Vec<_>>()
    };
    let user = || said(Message::user("u"));
    let answer = |text: &str| said(Message::assistant(text));
    assert_eq!(shown(newest, vec![answer("a"), user()]), ["Begin.", "a", "u"]);
    assert_eq!(shown(newest, vec![user(), answer("a")]), ["u", "a", "Continue."]);
    let twice = vec![user(), answer("a"), answer("b")];
    assert_eq!(shown(newest, twice), ["u", "a", "Continue.", "b", "Continue."]);
    // Older models go on with what they said, unless it ends with a blank.
    assert_eq!(shown("claude-sonnet-4-5", vec![user(), answer("a")]), ["u", "a"]);
    assert_eq!(shown("claude-sonnet-4-5", vec![user(), answer("a ")]), ["u", "a ", "Continue."]);
    let searching = Part::new(Content::Provider { kind: "server_tool_use".into() })
        .with_provider_payload(ProviderPayload::new(r#"{"type":"server_tool_use"}"#));
    let paused = || {
        let parts = vec![Part::text("a"), searching.clone()];
        said(assistant(parts).with_origin(origin(newest)))
    };
    assert_eq!(shown(newest, vec![user(), paused()]), ["u", "a"]);
    assert_eq!(shown(newest, vec![user(), paused(), answer("b")]), ["u", "a", "b", "Continue."]);
}

#[test]
fn no_message_ends_with_reasoning() {
    let signed = || {
        Part::reasoning("t").with_provider_payload(ProviderPayload::new(r#"{"type":"thinking"}"#))
    };
    let own = |parts: Vec<Part>| said(assistant(parts).with_origin(origin("m")));
    let turns = [
        said(Message::user("a")),
        own(vec![signed()]),
        own(vec![signed(), Part::text("b"), signed()]),
        said(Message::user("c")),
    ];
    let said = json!([{ "type": "thinking" }, words("b")]);
    let expect = json!([
        { "role": "user", "content": [words("a")] },
        { "role": "assistant", "content": said },
        { "role": "user", "content": [words("c")] },
    ]);
    assert_eq!(messages(turns), expect);
}

#[test]
fn settings_that_the_model_refuses_are_not_sent() {
    let sent = |model: &str, effort: Option<ReasoningEffort>| {
        let mut request = asking([]);
        request.options.temperature = Some(0.5);
        request.options.top_p = Some(0.5);
        request.options.reasoning_effort = effort;
        let body = body_for(model, &request);
        [body.get("temperature").is_some(), body.get("top_p").is_some()]
    };
    assert_eq!(sent("claude-opus-4-7", None), [false; 2]);
    assert_eq!(sent("claude-haiku-4-5", None), [true; 2]);
    assert_eq!(sent("claude-haiku-4-5", Some(ReasoningEffort::High)), [false; 2]);
}
