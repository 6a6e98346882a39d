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
