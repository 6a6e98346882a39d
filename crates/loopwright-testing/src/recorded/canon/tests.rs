use serde_json::json;

use super::*;

/// One conversation: a question, thinking and a call, its result, and another question.
fn conversation(id: Option<&str>) -> Vec<Item> {
    let id = json!(id);
    vec![
        Item::text("user", "hi"),
        Item::reasoning("assistant", "hm", vec!["sig".to_owned()]),
        Item::call(&id, &json!("look"), json!({ "a": 1 })),
        Item::result(&id, Some("look".to_owned()), "3".to_owned(), false),
        Item::text("user", "and\nnow?"),
    ]
}

#[track_caller]
fn check(api: &str, body: &Value, items: &[Item]) {
    let canon = canon(api, body).unwrap();
    assert_eq!(canon.items, items);
    assert_eq!(canon.system, ["Be brief."]);
    let names: Vec<_> = canon.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["look"]);
    assert!(canon.tools[0].is_function());
}

#[test]
fn requests_of_every_wire_are_read() {
    for wire in loopwright_models::WireApi::ALL {
        assert!(canon(wire.name(), &json!({})).is_some(), "{wire}");
    }
}

#[test]
fn the_messages_wire_is_read() {
    let body = json!({
        "system": [{ "type": "text", "text": "Be brief." }],
        "messages": [
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "sig" },
                { "type": "tool_use", "id": "1", "name": "look", "input": { "a": 1 } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "1", "content": [{ "type": "text", "text": "3" }] },
                { "type": "text", "text": "and" },
                { "type": "text", "text": "now?" },
            ] },
        ],
        "tools": [{ "name": "look", "input_schema": { "type": "object" } }],
    });
    check("anthropic-messages", &body, &conversation(Some("1")));
}

#[test]
fn the_responses_wire_is_read() {
    let body = json!({
        "instructions": "Be brief.",
        "input": [
            { "role": "user", "content": [{ "type": "input_text", "text": "hi" }] },
            { "type": "reasoning", "summary": [{ "text": "hm" }], "encrypted_content": "sig" },
            { "type": "function_call", "call_id": "1", "name": "look", "arguments": "{\"a\":1}" },
            { "type": "function_call_output", "call_id": "1", "output": "3" },
            { "role": "user", "content": "and\nnow?" },
        ],
        "tools": [{ "type": "function", "name": "look", "parameters": { "type": "object" } }],
    });
    check("openai-responses", &body, &conversation(Some("1")));
}

#[test]
fn chat_completions_are_read() {
    let body = json!({
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }], "signature": "sig" },
              ], "tool_calls": [{ "id": "1", "function": { "name": "look", "arguments": "{\"a\":1}" } }] },
            { "role": "tool", "tool_call_id": "1", "content": "3" },
            { "role": "user", "content": "and\nnow?" },
        ],
        "tools": [{ "type": "function", "function": { "name": "look" } }],
    });
    check("openai-chat", &body, &conversation(Some("1")));
}

#[test]
fn the_gemini_wire_is_read() {
    let body = json!({
        "system_instruction": { "parts": [{ "text": "Be brief." }] },
        "contents": [
            { "role": "user", "parts": [{ "text": "hi" }] },
            { "role": "model", "parts": [
                { "text": "hm", "thought": true, "thoughtSignature": "sig" },
                { "functionCall": { "name": "look", "args": { "a": 1 } } },
            ] },
            { "role": "user", "parts": [
                { "functionResponse": { "name": "look", "response": { "result": "3" } } },
                { "text": "and\nnow?" },
            ] },
        ],
        "tools": [{ "functionDeclarations": [{ "name": "look" }] }],
    });
    check("gemini-generate", &body, &conversation(None));
}

#[test]
fn the_converse_wire_is_read() {
    let body = json!({
        "system": [{ "text": "Be brief." }, { "cachePoint": { "type": "default" } }],
        "messages": [
            { "role": "user", "content": [{ "text": "hi" }] },
            { "role": "assistant", "content": [
                { "reasoningContent": { "reasoningText": { "text": "hm", "signature": "sig" } } },
                { "toolUse": { "toolUseId": "1", "name": "look", "input": { "a": 1 } } },
            ] },
            { "role": "user", "content": [
                { "toolResult": { "toolUseId": "1", "content": [{ "json": { "result": "3" } }] } },
                { "text": "and" },
                { "text": "now?" },
            ] },
        ],
        "toolConfig": { "tools": [{ "toolSpec": { "name": "look" } }] },
    });
    check("bedrock-converse", &body, &conversation(Some("1")));
}

#[test]
fn no_body_makes_it_fail() {
    for api in [
        "openai-chat",
        "openai-responses",
        "anthropic-messages",
        "gemini-generate",
        "bedrock-converse",
    ] {
        for body in
            [json!(null), json!([]), json!({ "messages": 1, "input": [{}], "contents": [[]] })]
        {
            assert!(canon(api, &body).is_some(), "{api} {body}");
        }
    }
    assert!(canon("mixed", &json!({})).is_none());
}

/// The kinds of the items, and what pictures and documents are in results.
fn kinds(api: &str, body: &Value) -> Vec<String> {
    let items = canon(api, body).unwrap().items;
    let kind = |item: &Item| match &item.content {
        ItemContent::Result { media, text, .. } => format!("result {text} {}", media.len()),
        ItemContent::Text(text) => format!("text {text}"),
        _ => item.kind().to_owned(),
    };
    items.iter().map(kind).collect()
}

#[test]
fn a_container_is_read_however_it_is_written() {
    let container = |body: Value| canon("anthropic-messages", &body).unwrap().container;
    assert_eq!(container(json!({ "container": "c1" })).as_deref(), Some("c1"));
    assert_eq!(
        container(json!({ "container": { "id": "c1", "skills": [] } })).as_deref(),
        Some("c1")
    );
    assert_eq!(container(json!({ "container": null })), None);
}

#[test]
fn images_of_tools_are_part_of_their_results() {
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "AAAA" });
    let content = json!([{ "type": "text", "text": "see" }, { "type": "image", "source": source }]);
    let result = json!({ "type": "tool_result", "tool_use_id": "1", "content": content });
    let body = json!({ "messages": [{ "role": "user", "content": [result] }] });
    assert_eq!(kinds("anthropic-messages", &body), ["result see 1"]);

    let image = json!({ "image": { "format": "png", "source": { "bytes": "AAAA" } } });
    let result =
        json!({ "toolResult": { "toolUseId": "1", "content": [{ "text": "see" }, image] } });
    let body = json!({ "messages": [{ "role": "user", "content": [result] }] });
    assert_eq!(kinds("bedrock-converse", &body), ["result see 1"]);

    let shown = json!({ "type": "input_image", "image_url": "data:image/png;base64,AAAA" });
    let output = json!([{ "type": "input_text", "text": "see" }, shown]);
    let item = json!({ "type": "function_call_output", "call_id": "1", "output": output });
    assert_eq!(kinds("openai-responses", &json!({ "input": [item] })), ["result see 1"]);

    let data = json!({ "inlineData": { "mimeType": "image/png", "data": "AAAA" } });
    let response = json!({ "name": "f", "response": { "output": "see" }, "parts": [data] });
    let body =
        json!({ "contents": [{ "role": "user", "parts": [{ "functionResponse": response }] }] });
    assert_eq!(kinds("gemini-generate", &body), ["result see 1"]);
}

#[test]
fn refusals_of_chat_completions_are_text() {
    let message = json!({ "role": "assistant", "content": "Hm.", "refusal": "No." });
    let body = json!({ "messages": [message] });
    assert_eq!(kinds("openai-chat", &body), ["text Hm.\nNo."]);
}

#[test]
fn tools_of_the_provider_are_no_calls_of_the_client() {
    let server =
        json!({ "toolUseId": "1", "name": "search", "type": "server_tool_use", "input": {} });
    let body = json!({ "messages": [{ "role": "assistant", "content": [
        { "toolUse": server },
        { "toolResult": { "toolUseId": "1", "content": [] } },
        { "toolUse": { "toolUseId": "2", "name": "f", "input": {} } },
    ] }] });
    assert_eq!(kinds("bedrock-converse", &body), ["toolUse", "toolResult", "tool_call"]);
    let body = json!({ "input": [
        { "type": "web_search_call", "id": "ws_1" },
        { "type": "shell_call", "call_id": "1", "action": { "commands": ["ls"] } },
        { "type": "shell_call_output", "call_id": "1", "output": "a" },
    ] });
    assert_eq!(kinds("openai-responses", &body), ["other", "tool_call", "result a 0"]);
}
