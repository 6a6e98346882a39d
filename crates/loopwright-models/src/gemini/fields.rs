//! Encodes the fields of a request except its contents.

use loopwright_core::messages::{Message, Part, ResponseFormat, ToolChoice, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::model::Gemini;
use crate::{json::Fields, wire::EncodeInput};

/// Fields that no passthrough may replace, and those that it has a share in.
const RESERVED: [&str; 5] =
    ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig"];

/// Writes the fields before the contents.
pub(super) fn write(out: &mut Vec<u8>, question: &EncodeInput<'_>, instructions: &[&Message]) {
    let request = question.request;
    let extra = &request.options.extra;
    let mut fields = Fields { out, extra };
    write_tools(&mut fields, question);
    let said = instructions.iter().flat_map(|it| it.parts()).filter_map(Part::as_text);
    let texts: Vec<_> = request.system.as_deref().into_iter().chain(said).collect();
    let texts: Vec<_> =
        texts.into_iter().filter(|it| !it.is_empty()).map(|text| Text { text }).collect();
    if let Some(own) = extra.get("systemInstruction") {
        fields.always("systemInstruction", own);
    } else if !texts.is_empty() {
        fields.always("systemInstruction", &Instruction { parts: texts });
    }
    let config = with_own(generation_config(question), extra.get("generationConfig"));
    if !config.is_empty() {
        fields.always("generationConfig", &config);
    }
    fields.pass_through(&RESERVED);
}

/// Writes the functions on offer, and beside them the user's own tools, which the provider runs.
fn write_tools(fields: &mut Fields<'_>, question: &EncodeInput<'_>) {
    let request = question.request;
    let mut tools = Vec::new();
    if !request.tools.is_empty() {
        let function_declarations = request.tools.iter().map(Function::of).collect();
        tools.push(Tool::Functions(Functions { function_declarations }));
    }
    match fields.extra.get("tools") {
        Some(Value::Array(own)) => tools.extend(own.iter().map(Tool::Own)),
        Some(own) => tools.push(Tool::Own(own)),
        None => {}
    }
    if !tools.is_empty() {
        fields.always("tools", &tools);
    }
    let choice = if request.tools.is_empty() { &ToolChoice::Auto } else { &request.tool_choice };
    let config = with_own(tool_config(choice), fields.extra.get("toolConfig"));
    if !config.is_empty() {
        fields.always("toolConfig", &config);
    }
}

fn tool_config(choice: &ToolChoice) -> Map<String, Value> {
    let calling = match choice {
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::None => json!({ "mode": "NONE" }),
        ToolChoice::Tool(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
        _ => return Map::new(),
    };
    [("functionCallingConfig".to_owned(), calling)].into_iter().collect()
}

fn generation_config(question: &EncodeInput<'_>) -> Map<String, Value> {
    let options = &question.request.options;
    let mut config = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(name.to_owned(), value);
        }
    };
    put("maxOutputTokens", options.max_output_tokens.map(Value::from));
    put("temperature", options.temperature.map(Value::from));
    put("topP", options.top_p.map(Value::from));
    put("stopSequences", (!options.stop.is_empty()).then(|| options.stop.clone().into()));
    // Seeds have 31 bits here.
    put("seed", options.seed.map(|seed| (seed & 0x7FFF_FFFF).into()));
    let gemini = Gemini::named(question.model());
    let thinking = options.reasoning_effort.and_then(|effort| gemini?.thinking(effort));
    put("thinkingConfig", thinking);
    match &question.request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            put("responseMimeType", Some("application/json".into()));
            put("responseJsonSchema", Some((**schema).clone()));
        }
        Some(ResponseFormat::JsonObject) => {
            put("responseMimeType", Some("application/json".into()));
        }
        _ => {}
    }
    config
}

/// Adds the user's own fields, which win.
fn with_own(mut config: Map<String, Value>, own: Option<&Value>) -> Map<String, Value> {
    if let Some(Value::Object(own)) = own {
        config.extend(own.clone());
    }
    config
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<Text<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Functions(Functions<'a>),
    Own(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Functions<'a> {
    function_declarations: Vec<Function<'a>>,
}

/// A function, whose schema may use all of JSON Schema that the provider knows; its own dialect of
/// schemas knows less.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters_json_schema: &'a Value,
}

impl<'a> Function<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let (name, description) = (&*tool.name, &*tool.description);
        Self { name, description, parameters_json_schema: &tool.parameters }
    }
}
