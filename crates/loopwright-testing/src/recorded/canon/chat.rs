//! Requests of chat completions and similar wires.

use serde_json::Value;

use super::{Canon, CanonTool, Item, arguments, flat, keep_options, list, owned, part, text};

const OPTIONS: [&str; 23] = [
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "n",
    "response_format",
    "reasoning_effort",
    "parallel_tool_calls",
    "stream_options",
    "logprobs",
    "top_logprobs",
    "format",
    "think",
    "options",
    "p",
    "thinking",
    "reasoning",
    "stop_sequences",
    "k",
    "keep_alive",
    "strict_tools",
];

pub(super) fn read(body: &Value, canon: &mut Canon) {
    for message in list(&body["messages"]) {
        match text(message, "role") {
            "system" | "developer" => canon.system.push(flat(&message["content"])),
            "tool" => {
                let name = owned(&message["name"]).or_else(|| owned(&message["tool_name"]));
                let said = flat(&message["content"]);
                canon.items.push(Item::result(&message["tool_call_id"], name, said, false));
            }
            role => read_message(role, message, &mut canon.items),
        }
    }
    for tool in list(&body["tools"]) {
        let function = if tool["function"].is_object() { &tool["function"] } else { tool };
        canon.tools.push(CanonTool {
            name: owned(&function["name"]).unwrap_or_else(|| text(tool, "type").to_owned()),
            description: text(function, "description").to_owned(),
            schema: function["parameters"].clone(),
            kind: text(tool, "type").to_owned(),
        });
    }
    keep_options(body, canon, &OPTIONS);
}

fn read_message(role: &str, message: &Value, items: &mut Vec<Item>) {
    let reasoning = ["reasoning_content", "reasoning", "thinking"];
    if let Some(text) = reasoning.iter().find_map(|name| owned(&message[*name])) {
        items.push(Item::reasoning(role, text, Vec::new()));
    }
    let details = list(&message["reasoning_details"]).iter();
    let opaque = details.flat_map(|it| [owned(&it["signature"]), owned(&it["data"])]);
    let signatures = ["/extra_content/google/thought_signature", "/thought_signature"];
    let signatures = signatures.iter().filter_map(|at| owned(message.pointer(at)?));
    let opaque: Vec<String> = opaque.flatten().chain(signatures).collect();
    if !opaque.is_empty() {
        items.push(Item::reasoning(role, "", opaque));
    }
    match &message["content"] {
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => items.push(Item::text(role, text.as_str())),
        parts => items.extend(list(parts).iter().map(|it| part(role, it))),
    }
    items.extend(owned(&message["refusal"]).map(|refusal| Item::text(role, refusal)));
    // Pictures are plain base64 here.
    let image = |it: &Value| Item::other(role, "image", serde_json::json!({ "data": it }));
    items.extend(list(&message["images"]).iter().map(image));
    for call in list(&message["tool_calls"]) {
        let function = [&call["function"], &call["custom"]];
        let function = function.into_iter().find(|it| it.is_object()).unwrap_or(&Value::Null);
        let given = function.get("arguments").unwrap_or(&function["input"]);
        let signature = call.pointer("/extra_content/google/thought_signature");
        let item = Item::call(&call["id"], &function["name"], arguments(given));
        items.push(item.with_opaque(signature.and_then(Value::as_str)));
    }
}
