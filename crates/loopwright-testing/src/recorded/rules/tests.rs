use serde_json::json;

use super::*;

#[track_caller]
fn refused(api: &str, body: &Value, reason: &str) {
    let problems = request_problems(api, body);
    assert!(problems.iter().any(|it| it.contains(reason)), "{reason}: {problems:?}");
}

#[track_caller]
fn accepted(api: &str, body: &Value) {
    assert_eq!(request_problems(api, body), [] as [String; 0]);
}

#[test]
fn the_messages_wire_pairs_calls_and_begins_with_the_user() {
    let api = "anthropic-messages";
    let user = json!({ "role": "user", "content": "hi" });
    let call = |id: &str| json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": "f" }] });
    let result = |id: &str| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id }] });
    let of = |messages: Vec<&Value>| json!({ "messages": messages });
    accepted(api, &of(vec![&user, &user, &call("1"), &result("1"), &user]));
    refused(api, &of(vec![&call("1"), &result("1")]), "must not begin");
    refused(api, &of(vec![&user, &call("1"), &user]), "no result right after");
    refused(api, &of(vec![&user, &result("1")]), "no call right before");
    let twice = json!({ "type": "tool_use", "id": "1", "name": "f" });
    let twice = json!({ "role": "assistant", "content": [twice, twice] });
    refused(api, &of(vec![&user, &twice, &result("1")]), "used twice");
    let system = json!({ "role": "system", "content": "s" });
    accepted(api, &of(vec![&user, &system]));
    refused(api, &of(vec![&user, &system, &user]), "must follow the system");
    let thought = json!({ "role": "assistant", "content": [{ "type": "thinking" }] });
    refused(api, &of(vec![&user, &thought]), "ends with thinking");
    let blank = json!({ "role": "user", "content": [{ "type": "text", "text": " \n" }] });
    refused(api, &of(vec![&blank]), "blank");
}

#[test]
fn the_converse_wire_lets_user_and_model_take_turns() {
    let api = "bedrock-converse";
    let said = |role: &str| json!({ "role": role, "content": [{ "text": "a" }] });
    let of = |messages: Vec<Value>| json!({ "messages": messages });
    accepted(api, &of(vec![said("user"), said("assistant"), said("user")]));
    refused(api, &of(vec![said("user"), said("user")]), "take turns");
    refused(api, &of(vec![said("assistant")]), "take turns");
    refused(api, &of(vec![said("user"), said("assistant")]), "last");
    let call = json!({ "role": "assistant", "content": [{ "toolUse": { "toolUseId": "1" } }] });
    let result = json!({ "role": "user", "content": [{ "toolResult": { "toolUseId": "1" } }] });
    refused(api, &of(vec![said("user"), call.clone(), result.clone()]), "no tools are offered");
    refused(api, &of(vec![said("user"), call, said("user")]), "results after them differ");
    refused(api, &of(vec![result]), "calls before them differ");
}

#[test]
fn chat_completions_answer_each_call_once() {
    let api = "openai-chat";
    let call =
        |id: &str| json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": id }] });
    let result = json!({ "role": "tool", "tool_call_id": "1", "content": "" });
    let user = json!({ "role": "user", "content": "hi" });
    let of = |messages: Vec<&Value>| json!({ "messages": messages });
    accepted(api, &of(vec![&user, &call("1"), &result, &user]));
    refused(api, &of(vec![&call("1"), &user]), "no result right after");
    refused(api, &of(vec![&call("1")]), "no result");
    refused(api, &of(vec![&result]), "no call");
    refused(api, &of(vec![&call("")]), "no ids");
    let nothing = json!({ "role": "assistant", "content": null });
    refused(api, &of(vec![&nothing]), "says nothing");
    accepted(api, &json!({ "messages": [{ "role": "assistant", "content": "a" }] }));
    refused(
        "cohere-chat",
        &json!({ "messages": [{ "role": "assistant", "content": "a" }] }),
        "last",
    );
}

#[test]
fn responses_gemini_and_ollama_pair_calls() {
    let call = json!({ "type": "function_call", "call_id": "1" });
    let output = json!({ "type": "function_call_output", "call_id": "1" });
    accepted("openai-responses", &json!({ "input": [call, output] }));
    refused("openai-responses", &json!({ "input": [call] }), "no output");
    refused("openai-responses", &json!({ "input": [output, call] }), "no call before");

    let user = json!({ "role": "user", "parts": [{ "text": "a" }] });
    let call = json!({ "role": "model", "parts": [{ "functionCall": { "name": "f" } }] });
    let result = json!({ "role": "user", "parts": [{ "functionResponse": { "name": "f" } }] });
    let model = json!({ "role": "model", "parts": [{ "text": "a" }] });
    let of = |contents: Vec<&Value>| json!({ "contents": contents });
    accepted("gemini-generate", &of(vec![&user, &call, &result, &user]));
    refused("gemini-generate", &of(vec![&call, &result]), "must follow the user");
    refused("gemini-generate", &of(vec![&user, &model, &call, &result]), "must follow the user");
    refused("gemini-generate", &of(vec![&user, &call, &user]), "results after them differ");
    refused("gemini-generate", &of(vec![&user, &model]), "last");

    let call = json!({ "role": "assistant", "content": "", "tool_calls": [{}] });
    let result = json!({ "role": "tool", "content": "" });
    accepted("ollama-chat", &json!({ "messages": [call, result] }));
    refused("ollama-chat", &json!({ "messages": [result] }), "no call");
    refused("ollama-chat", &json!({ "messages": [call, call, result] }), "no result");
}
