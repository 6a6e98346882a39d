//! What a server asks and reports while it works, in the revisions before 2026-07-28.

use serde_json::{Value, json};

use super::{Server, answer, read_message, response_to, text, write, writeln_stderr};

/// A question to a model.
pub(super) fn question() -> Value {
    json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "What is 6 x 7?\u{1b}[2J"}}],
        "systemPrompt": "Count.",
        "maxTokens": 100,
        "temperature": 0.5,
        "stopSequences": ["END"],
        "modelPreferences": {"hints": [{"name": "another"}]},
    })
}

/// A question whose conversation has a call, and which offers a tool.
pub(super) fn question_with_tools() -> Value {
    json!({
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "How warm is it?"},
                {"type": "image", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==", "mimeType": "image/png"},
            ]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "one", "name": "look", "input": {"place": "here"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "toolUseId": "one", "content": [{"type": "text", "text": "20"}]},
            ]},
        ],
        "maxTokens": 10,
        "tools": [{"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}],
        "toolChoice": {"mode": "required"},
    })
}

pub(super) fn send_question(params: &Value) {
    write(
        &json!({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": params}),
    );
}

/// Asks a model, and answers with what the client says.
pub(super) fn ask_model(id: &Value, params: &Value) {
    send_question(params);
    answer(id, &text(&response_to("s")));
}

/// A question to the user.
pub(super) fn user_question(id: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"message": "Your name?", "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

pub(super) fn log_message() -> Value {
    let params = json!({"level": "info", "data": "x".repeat(1_000)});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
}

/// Says the same again and again, and then answers.
pub(super) fn flood(id: &Value, message: &Value) {
    for _ in 0..5_000 {
        write(message);
    }
    answer(id, &text("flooded"));
}

/// Says more and more, with long ids that each response repeats, and reads nothing.
pub(super) fn forever(message: &dyn Fn(&str) -> Value) {
    for n in 0_u64.. {
        write(&message(&format!("{n:01000}")));
    }
}

/// Asks the user, does not wait, and says what the client then answers.
pub(super) fn ask_and_give_up(id: &Value) {
    write(&user_question("e"));
    let params = json!({"requestId": "e"});
    write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    answer(id, &text("never mind"));
}

/// Waits until the client cancels the call, and tells its log so.
pub(super) fn wait_for_cancel(id: &Value) {
    writeln_stderr("called");
    let message: Value = serde_json::from_str(&read_message()).unwrap_or_default();
    let is_this = message["params"]["requestId"] == *id;
    writeln_stderr(&format!("{} {is_this}", message["method"].as_str().unwrap_or_default()));
}

/// Sends log messages, and answers with the levels that the client has set.
pub(super) fn log(id: &Value, levels: &[Value]) {
    for (level, data) in [("warning", json!("low on\u{1b}[2J ink")), ("info", json!({"page": 1}))] {
        let params = json!({"level": level, "data": data});
        write(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
    }
    answer(id, &text(&json!(levels).to_string()));
}

/// Completes with what was typed, and with what was typed before.
pub(super) fn complete(id: &Value, params: &Value) {
    let argument = &params["argument"];
    let typed = argument["value"].as_str().unwrap_or_default();
    let of = params["ref"]["name"].as_str().or(params["ref"]["uri"].as_str()).unwrap_or_default();
    let others = params["context"]["arguments"].to_string();
    let values = [format!("{typed}da"), format!("{of} {others}"), "bad\u{1b}[2J".to_owned()];
    answer(id, &json!({"completion": {"values": values}}));
}

impl Server {
    /// Reports a change of a resource as soon as it is subscribed to.
    pub(super) fn subscribe(id: &Value, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default();
        writeln_stderr(method);
        answer(id, &json!({}));
        if method == "resources/subscribe" {
            for uri in [&json!("note:///other"), &message["params"]["uri"]] {
                let params = json!({"uri": uri});
                write(
                    &json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}),
                );
            }
        }
    }
}
