use std::sync::Arc;

use loopwright_core::messages::{
    Content, InferenceRequest, Media, MediaSource, ModelOrigin, Part, Prompt, ReasoningEffort,
    ResponseFormat, ToolChoice, ToolResult, ToolSpec, Turn, TurnBody,
};

use serde_json::{Value, json};

use super::*;
use crate::{Quirks, RequestEncoder, WireApi};

fn text_for(model: &str, request: &InferenceRequest) -> String {
    let origin =
        ModelOrigin { wire: "ollama-chat".into(), provider: "p".into(), model: model.into() };
    let encoder = RequestEncoder::new(WireApi::Ollama, Arc::new(origin), Quirks::default());
    String::from_utf8(encoder.encode(request)).unwrap()
}

fn body(request: &InferenceRequest) -> Value {
    serde_json::from_str(&text_for("m", request)).unwrap()
}

fn asking(turns: impl IntoIterator<Item = Turn>) -> InferenceRequest {
    let prompt = Prompt::of(turns.into_iter().collect());
    InferenceRequest { prompt, ..InferenceRequest::default() }
}

fn said(message: Message) -> Turn {
    Turn::from_message(message).unwrap()
}

fn call(arguments: &str) -> Part {
    Part::new(Content::ToolCall(ToolCall {
        id: None,
        name: "f".into(),
        arguments: arguments.into(),
    }))
}

fn exchange(parts: Vec<Part>, results: Vec<ToolResult>) -> Turn {
    let reply = Message::new(Role::Assistant, parts);
    Turn::new(TurnBody::ToolExchange(ToolExchange::new(reply, results).unwrap())).unwrap()
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: "d".into(), parameters: Arc::new(json!({})) }
}

#[test]
fn messages_come_last_and_prompts_are_not_cut_in_silence() {
    let mut request = asking([said(Message::user("b"))]);
    request.system = Some("a".into());
    request.prompt.tail = vec![Message::user("c")];
    assert_eq!(
        text_for("m", &request),
        "{\"model\":\"m\",\"stream\":true,\"truncate\":false,\"shift\":false,\"messages\":[\
         {\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"},\
         {\"role\":\"user\",\"content\":\"c\"}]}"
    );
}

#[test]
fn settings_are_written_as_the_wire_calls_them() {
    let mut request = asking([]);
    request.tools = [tool("f")].into_iter().collect();
    request.response_format = Some(ResponseFormat::json_schema("s", json!({ "type": "string" })));
    request.options.stream = Some(false);
    request.options.max_output_tokens = Some(5);
    request.options.temperature = Some(0.5);
    request.options.top_p = Some(0.25);
    request.options.stop = vec!["x".into()];
    request.options.seed = Some(9);
    request.options.reasoning_effort = Some(ReasoningEffort::High);
    request.options.extra.insert("options".into(), json!({ "num_ctx": 32_768, "seed": 1 }));
    request.options.extra.insert("keep_alive".into(), "10m".into());
    request.options.extra.insert("truncate".into(), true.into());
    let expect = json!({
        "model": "m",
        "tools": [{
            "type": "function",
            "function": { "name": "f", "description": "d", "parameters": {} },
        }],
        "stream": false, "format": { "type": "string" }, "think": true, "truncate": true,
        "shift": false, "keep_alive": "10m",
        "options": {
            "num_predict": 5, "temperature": 0.5, "top_p": 0.25, "stop": ["x"], "seed": 1,
            "num_ctx": 32_768,
        },
        "messages": [],
    });
    assert_eq!(body(&request), expect);
    request.options.extra.clear();
    assert_eq!(body(&request)["options"]["seed"], 9);
}

#[test]
fn a_json_object_is_a_format() {
    let mut request = asking([]);
    request.response_format = Some(ResponseFormat::JsonObject);
    assert_eq!(body(&request)["format"], "json");
}

#[test]
fn efforts_are_levels_for_models_that_have_them() {
    use ReasoningEffort::{High, Low, Medium, Minimal};
    let think = |model: &str| {
        [Minimal, Low, Medium, High].map(|effort| {
            let mut request = asking([]);
            request.options.reasoning_effort = Some(effort);
            serde_json::from_str::<Value>(&text_for(model, &request)).unwrap()["think"].clone()
        })
    };
    assert_eq!(think("qwen3:4b"), [false, true, true, true]);
    assert_eq!(think("gpt-oss:20b"), ["low", "low", "medium", "high"]);
}

#[test]
fn only_tools_that_may_be_called_are_offered() {
    let offered = |choice: ToolChoice| {
        let mut request = asking([]);
        request.tools = [tool("f"), tool("g")].into_iter().collect();
        request.tool_choice = choice;
        let tools = body(&request)["tools"].clone();
        tools.as_array().into_iter().flatten().map(|it| it["function"]["name"].clone()).collect()
    };
    let check = |choice, expect: &[&str]| {
        let offered: Vec<Value> = offered(choice);
        assert_eq!(offered, expect);
    };
    check(ToolChoice::Auto, &["f", "g"]);
    check(ToolChoice::Required, &["f", "g"]);
    check(ToolChoice::Tool("g".into()), &["g"]);
    check(ToolChoice::None, &[]);
}

#[test]
fn exchanges_are_calls_and_results_in_order() {
    let parts = vec![
        Part::reasoning("hm"),
        Part::text("a"),
        call("{\"a\": 1.0}"),
        call(""),
        call("{\"a\":"),
    ];
    let results = ["x", "y", "z"].map(ToolResult::text).to_vec();
    let text = text_for("m", &asking([exchange(parts, results)]));
    let call = |arguments: &str| {
        format!(r#"{{"type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#)
    };
    let calls = [call("{\"a\": 1.0}"), call("{}"), call(r#"{"arguments":"{\"a\":"}"#)].join(",");
    let result = |text: &str| format!(r#"{{"role":"tool","tool_name":"f","content":"{text}"}}"#);
    let messages = [
        format!(r#"{{"role":"assistant","content":"a","thinking":"hm","tool_calls":[{calls}]}}"#),
        result("x"),
        result("y"),
        result("z"),
    ];
    assert!(text.ends_with(&format!("\"messages\":[{}]}}", messages.join(","))), "{text}");
}

#[test]
fn pictures_are_sent_in_base64_only() {
    let url = Media {
        mime: "image/png".into(),
        source: MediaSource::Url("https://a.example".into()),
        name: None,
    };
    let message = Message::new(
        Role::User,
        [
            Part::text("look: "),
            Part::image("image/png", "AAAA"),
            Part::new(Content::Image(url.clone())),
            Part::new(Content::Document(url)),
        ],
    );
    let expect = json!([{
        "role": "user",
        "content": "look: [image: omitted, because this provider does not accept it]\
                    [document: omitted, because this provider does not accept it]",
        "images": ["AAAA"],
    }]);
    assert_eq!(body(&asking([said(message)]))["messages"], expect);
}

#[test]
fn images_of_tools_are_sent_as_user_content() {
    let shown = [Part::text("look"), Part::image("image/png", "AAAA")];
    let result = ToolResult { content: Arc::new(shown), is_error: false };
    let messages = body(&asking([exchange(vec![call("{}")], vec![result])]))["messages"].clone();
    assert_eq!(messages[1], json!({ "role": "tool", "tool_name": "f", "content": "look" }));
    let shown = json!({ "role": "user", "content": "Shown by f:", "images": ["AAAA"] });
    assert_eq!(messages[2], shown);
}

#[test]
fn tool_exchanges_can_be_sent_as_text() {
    let mut request = asking([exchange(vec![call("{}")], vec![ToolResult::text("x")])]);
    request.prompt.dialect = ToolCallFormat::Text;
    let expect = json!([
        { "role": "assistant", "content": "Action: f\nAction Input: {}" },
        { "role": "user", "content": "Observation: x" },
    ]);
    assert_eq!(body(&request)["messages"], expect);
}

#[test]
fn a_request_begins_with_the_one_before_it() {
    let mut request = asking([said(Message::user("a"))]);
    let first = text_for("m", &request);
    request.prompt.turns.push(exchange(vec![call("{}")], vec![ToolResult::text("x")]));
    let second = text_for("m", &request);
    assert!(second.starts_with(&first[..first.len() - 2]));
}

#[test]
fn ids_go_back_where_the_server_gave_them() {
    let with = |id: Option<&str>| {
        let id = id.map(Into::into);
        Part::new(Content::ToolCall(ToolCall { id, name: "f".into(), arguments: "{}".into() }))
    };
    let sent = |ids: [Option<&str>; 2]| {
        let results = vec![ToolResult::text("x"), ToolResult::text("y")];
        let turn = exchange(ids.map(with).to_vec(), results);
        let messages = body(&asking([turn]))["messages"].clone();
        let calls = [&messages[0]["tool_calls"][0]["id"], &messages[0]["tool_calls"][1]["id"]];
        assert_eq!([&messages[1]["tool_name"], &messages[2]["tool_name"]], ["f", "f"]);
        calls.map(Value::clone)
    };
    assert_eq!(sent([Some("call_a"), Some("call_b")]), ["call_a", "call_b"].map(Value::from));
    assert_eq!(sent([Some("call_a"), Some("call_a")]), ["call_a", "call_a_2"].map(Value::from));
    assert_eq!(sent([Some("call_a"), None]), [Value::Null, Value::Null]);
}
