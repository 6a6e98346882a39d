//! Requests of the messages wire.

use serde_json::Value;

use super::{Canon, CanonTool, Item, keep_options, list, owned, text, words};

const OPTIONS: [&str; 8] = [
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "thinking",
    "output_config",
    "output_format",
];

pub(super) fn read(body: &Value, canon: &mut Canon) {
    match &body["system"] {
        Value::String(text) => canon.system.push(text.clone()),
        parts => canon.system.extend(list(parts).iter().map(|it| text(it, "text").to_owned())),
    }
    for message in list(&body["messages"]) {
        let role = text(message, "role");
        match &message["content"] {
            Value::String(text) => canon.items.push(Item::text(role, text.as_str())),
            blocks => canon.items.extend(list(blocks).iter().map(|it| item(role, it))),
        }
    }
    for tool in list(&body["tools"]) {
        canon.tools.push(CanonTool {
            name: text(tool, "name").to_owned(),
            description: text(tool, "description").to_owned(),
            schema: tool["input_schema"].clone(),
            kind: owned(&tool["type"]).unwrap_or_else(|| "custom".to_owned()),
        });
    }
    keep_options(body, canon, &OPTIONS);
    canon.container = owned(&body["container"]).or_else(|| owned(&body["container"]["id"]));
}

fn item(role: &str, block: &Value) -> Item {
    match text(block, "type") {
        "text" => Item::text(role, text(block, "text")),
        "tool_use" => Item::call(&block["id"], &block["name"], block["input"].clone()),
        "tool_result" => {
            let is_error = block["is_error"] == true;
            let said = words(&block["content"]);
            Item::result(&block["tool_use_id"], None, said, is_error)
                .showing(&block["content"], |part| Some(item(role, part)))
        }
        "thinking" | "redacted_thinking" => {
            let opaque = owned(&block["signature"]).or_else(|| owned(&block["data"]));
            Item::reasoning("assistant", text(block, "thinking"), opaque.into_iter().collect())
        }
        kind @ ("image" | "document") => Item::other(role, kind, block["source"].clone()),
        _ => Item::other(role, "other", block.clone()),
    }
}
