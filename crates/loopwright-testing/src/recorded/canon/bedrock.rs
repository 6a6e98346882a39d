//! Requests of the Converse wire.

use serde_json::Value;

use super::{Canon, CanonTool, Item, flat, keep_options, list, owned, text};

pub(super) fn read(body: &Value, canon: &mut Canon) {
    let system = list(&body["system"]).iter().filter_map(|it| it["text"].as_str());
    canon.system.extend(system.map(str::to_owned));
    for message in list(&body["messages"]) {
        let blocks = list(&message["content"]).iter();
        canon.items.extend(blocks.filter_map(|it| item(text(message, "role"), it)));
    }
    let config = &body["toolConfig"];
    for spec in list(&config["tools"]).iter().filter_map(|tool| tool.get("toolSpec")) {
        canon.tools.push(CanonTool {
            name: text(spec, "name").to_owned(),
            description: text(spec, "description").to_owned(),
            schema: spec["inputSchema"]["json"].clone(),
            kind: "function".to_owned(),
        });
    }
    let options = ["inferenceConfig", "additionalModelRequestFields", "outputConfig"];
    keep_options(body, canon, &options);
}

fn item(role: &str, block: &Value) -> Option<Item> {
    let (kind, value) = block.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "text" => Item::text(role, value.as_str().unwrap_or_default()),
        // Its provider runs it.
        "toolUse" | "toolResult" if value["type"] == "server_tool_use" => {
            Item::other(role, kind, value.clone())
        }
        "toolResult" if role == "assistant" => Item::other(role, kind, value.clone()),
        "toolUse" => Item::call(&value["toolUseId"], &value["name"], value["input"].clone()),
        "toolResult" => {
            let words = list(&value["content"]).iter();
            let words = words.map(|it| flat(it.get("text").unwrap_or(&it["json"])));
            let is_error = value["status"] == "error";
            Item::result(&value["toolUseId"], None, words.collect(), is_error)
                .showing(&value["content"], |part| item(role, part))
        }
        "reasoningContent" => {
            let shown = &value["reasoningText"];
            let opaque = [owned(&shown["signature"]), owned(&value["redactedContent"])];
            Item::reasoning(
                "assistant",
                text(shown, "text"),
                opaque.into_iter().flatten().collect(),
            )
        }
        "cachePoint" => return None,
        _ => Item::other(role, kind, value.clone()),
    })
}
