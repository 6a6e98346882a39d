//! Requests of the Gemini wire, with names in either case style.

use serde_json::{Map, Value};

use super::{Canon, CanonTool, Item, flat, keep_options, list, owned, text};

pub(super) fn read(body: &Value, canon: &mut Canon) {
    let instruction = field(body, "systemInstruction", "system_instruction");
    let parts = list(&instruction["parts"]).iter();
    canon.system.extend(parts.map(|it| text(it, "text").to_owned()));
    for content in list(&body["contents"]) {
        let role = if text(content, "role") == "model" { "assistant" } else { "user" };
        canon.items.extend(list(&content["parts"]).iter().map(|part| item(role, part)));
    }
    match &body["tools"] {
        tools @ Value::Object(_) => read_tool(tools, canon),
        tools => list(tools).iter().for_each(|tool| read_tool(tool, canon)),
    }
    let config = field(body, "generationConfig", "generation_config");
    canon.options = config.as_object().cloned().unwrap_or_default();
    keep_options(body, canon, &["cachedContent", "safetySettings"]);
}

fn field<'a>(value: &'a Value, camel: &str, snake: &str) -> &'a Value {
    value.get(camel).or_else(|| value.get(snake)).unwrap_or(&Value::Null)
}

fn item(role: &str, part: &Value) -> Item {
    let signature = field(part, "thoughtSignature", "thought_signature").as_str();
    let call = field(part, "functionCall", "function_call");
    let response = field(part, "functionResponse", "function_response");
    let data = [field(part, "inlineData", "inline_data"), field(part, "fileData", "file_data")];
    if call.is_object() {
        let arguments = Some(&call["args"]).filter(|it| !it.is_null()).cloned();
        let arguments = arguments.unwrap_or_else(|| Value::Object(Map::new()));
        Item::call(&call["id"], &call["name"], arguments).with_opaque(signature)
    } else if response.is_object() {
        let name = owned(&response["name"]);
        Item::result(&response["id"], name, flat(&response["response"]), false)
            .showing(&response["parts"], |part| Some(item(role, part)))
    } else if let Some(said) = part["text"].as_str() {
        if part["thought"] == true {
            Item::reasoning(role, said, Vec::new()).with_opaque(signature)
        } else {
            Item::text(role, said).with_opaque(signature)
        }
    } else if let Some(data) = data.into_iter().find(|it| it.is_object()) {
        let mime = field(data, "mimeType", "mime_type").as_str().unwrap_or_default();
        let kind = mime.split('/').next();
        let kind = kind.filter(|it| matches!(*it, "image" | "audio" | "video"));
        let kind = kind.unwrap_or("document");
        Item::other(role, kind, data.clone())
    } else {
        Item::other(role, "other", part.clone())
    }
}

fn read_tool(tool: &Value, canon: &mut Canon) {
    let functions = field(tool, "functionDeclarations", "function_declarations");
    if functions.is_null() {
        let names = tool.as_object().into_iter().flat_map(Map::keys);
        canon.tools.extend(names.map(|name| CanonTool {
            name: name.clone(),
            description: String::new(),
            schema: Value::Null,
            kind: "builtin".to_owned(),
        }));
    }
    for function in list(functions) {
        let schema = field(function, "parametersJsonSchema", "parameters_json_schema");
        let schema = if schema.is_null() { &function["parameters"] } else { schema };
        canon.tools.push(CanonTool {
            name: text(function, "name").to_owned(),
            description: text(function, "description").to_owned(),
            schema: schema.clone(),
            kind: "function".to_owned(),
        });
    }
}
