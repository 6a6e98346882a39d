//! Requests of the Responses wire.

use serde_json::Value;

use super::{
    Canon, CanonTool, Item, arguments, flat, keep_options, list, owned, part, text, words,
};

const OPTIONS: [&str; 11] = [
    "max_output_tokens",
    "temperature",
    "top_p",
    "text",
    "reasoning",
    "include",
    "store",
    "previous_response_id",
    "conversation",
    "parallel_tool_calls",
    "truncation",
];

pub(super) fn read(body: &Value, canon: &mut Canon) {
    canon.system.extend(owned(&body["instructions"]));
    match &body["input"] {
        Value::String(text) => canon.items.push(Item::text("user", text.as_str())),
        items => list(items).iter().for_each(|item| read_item(item, canon)),
    }
    for tool in list(&body["tools"]) {
        canon.tools.push(CanonTool {
            name: owned(&tool["name"]).unwrap_or_else(|| text(tool, "type").to_owned()),
            description: text(tool, "description").to_owned(),
            schema: tool["parameters"].clone(),
            kind: text(tool, "type").to_owned(),
        });
    }
    keep_options(body, canon, &OPTIONS);
}

fn read_item(item: &Value, canon: &mut Canon) {
    let items = &mut canon.items;
    match text(item, "type") {
        "" | "message" => {
            let (role, content) = (text(item, "role"), &item["content"]);
            match content {
                _ if matches!(role, "system" | "developer") => canon.system.push(flat(content)),
                Value::String(text) => items.push(Item::text(role, text.as_str())),
                parts => items.extend(list(parts).iter().map(|it| part(role, it))),
            }
        }
        "function_call" | "custom_tool_call" => {
            let given = item.get("arguments").unwrap_or(&item["input"]);
            items.push(Item::call(&item["call_id"], &item["name"], arguments(given)));
        }
        // Others' calls are run by the provider.
        kind @ ("local_shell_call" | "shell_call" | "computer_call" | "apply_patch_call") => {
            let given = [&item["action"], &item["operation"], &item["actions"]];
            let given = given.into_iter().find(|it| !it.is_null()).unwrap_or(&Value::Null);
            items.push(Item::call(&item["call_id"], &kind.into(), arguments(given)));
        }
        kind if kind.ends_with("_call_output") => {
            let result = Item::result(&item["call_id"], None, words(&item["output"]), false);
            items.push(result.showing(&item["output"], |it| Some(part("user", it))));
        }
        "reasoning" => {
            let summary = list(&item["summary"]).iter().map(|it| text(it, "text"));
            let opaque = owned(&item["encrypted_content"]).into_iter().collect();
            items.push(Item::reasoning("assistant", summary.collect::<String>(), opaque));
        }
        _ => items.push(Item::other("assistant", "other", item.clone())),
    }
}
