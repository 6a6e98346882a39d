use super::*;

const CHAT: &str = "openai-chat";

fn request() -> Value {
    json!({
        "model": "m",
        "max_tokens": 5,
        "messages": [
            { "role": "system", "content": "Be  brief." },
            { "role": "user", "content": "hi" },
            { "role": "assistant", "content": "", "reasoning_details": [{ "signature": "a-b" }],
              "tool_calls": [{ "id": "1", "function": { "name": "look", "arguments": "{\"a\":1}" } }] },
            { "role": "tool", "tool_call_id": "1", "content": "{\"result\": [1.0]}" },
        ],
        "tools": [{ "type": "function", "function": { "name": "look", "parameters": {
            "type": "object", "title": "Look", "required": ["b", "a"] } } }],
    })
}

/// Returns the points that differ after a change: hard ones and soft ones.
fn after(change: impl FnOnce(&mut Value)) -> (Vec<String>, Vec<String>) {
    let mut received = request();
    change(&mut received);
    let found = compare(CHAT, &request(), &received);
    let (hard, soft): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|it| it.severity == Severity::Hard);
    let points = |all: Vec<Difference>| all.into_iter().map(|it| it.what).collect();
    (points(hard), points(soft))
}

#[track_caller]
fn is_hard(point: &str, change: impl FnOnce(&mut Value)) {
    assert_eq!(after(change), (vec![point.to_owned()], Vec::new()));
}

#[test]
fn requests_must_have_the_same_meaning() {
    is_hard("system", |it| it["messages"][0]["content"] = json!("Be long."));
    is_hard("text", |it| it["messages"][1]["content"] = json!("ho"));
    is_hard("tool calls", |it| it["messages"][2]["tool_calls"][0]["function"]["name"] = json!("x"));
    is_hard("tool calls", |it| {
        it["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!("{\"a\":2}");
    });
    is_hard("tool calls", |it| it["messages"][2]["tool_calls"][0]["id"] = json!("2"));
    is_hard("tool results", |it| it["messages"][3]["content"] = json!("[2]"));
    is_hard("tool results", |it| it["messages"][3]["tool_call_id"] = json!("2"));
    is_hard("tool names", |it| it["tools"][0]["function"]["name"] = json!("x"));
    is_hard("opaque handles that were not sent back", |it| {
        it["messages"][2]["reasoning_details"] = json!([]);
    });
}

#[test]
fn blanks_wrappers_and_alphabets_do_not_matter() {
    let nothing = (Vec::new(), Vec::new());
    assert_eq!(after(|_| ()), nothing);
    assert_eq!(after(|it| it["messages"][0]["content"] = json!("Be\nbrief.")), nothing);
    assert_eq!(after(|it| it["messages"][3]["content"] = json!("[1]")), nothing);
    assert_eq!(
        after(|it| it["messages"][2]["reasoning_details"][0]["signature"] = json!("a+b")),
        nothing
    );
    assert_eq!(
        after(|it| {
            it["tools"][0]["function"]["parameters"] =
                json!({ "type": "OBJECT", "required": ["a", "b"] });
        }),
        nothing
    );
}

#[test]
fn arguments_that_are_null_are_none() {
    let request = |arguments: &str| {
        json!({ "messages": [{ "role": "assistant", "tool_calls": [
            { "id": "1", "function": { "name": "look", "arguments": arguments } }] }] })
    };
    assert_eq!(compare(CHAT, &request("{}"), &request("null")), []);
    assert_eq!(compare(CHAT, &request("{}"), &request("0")).len(), 1);
}

#[test]
fn defaults_and_schemas_may_differ_and_are_told() {
    let (hard, soft) = after(|it| {
        it["max_tokens"] = json!(6);
        it["stream"] = json!(true);
        it["tools"][0]["function"]["description"] = json!("Looks.");
        it["tools"][0]["function"]["parameters"] = json!({ "type": "object" });
    });
    assert!(hard.is_empty());
    assert_eq!(soft, ["stream", "schema of look", "description of look", "option max_tokens"]);
}

#[test]
fn a_wire_that_is_not_known_is_a_difference() {
    let found = compare("carrier-pigeon", &request(), &request());
    assert_eq!(found[0].severity, Severity::Hard);
}
