//! Encodes the fields of a request except its items.

use loopwright_core::messages::{ReasoningEffort, ResponseFormat, ToolChoice, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{json::Fields, wire::EncodeInput};

/// Fields that no passthrough may replace, and those that are made of ours and the user's.
const RESERVED: [&str; 6] = ["model", "input", "stream", "include", "reasoning", "text"];

/// What makes the provider send its reasoning in a form that it understands again.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";

/// Writes the fields before the items.
pub(super) fn write(out: &mut Vec<u8>, question: &EncodeInput<'_>) {
    let request = question.request;
    let options = &request.options;
    let mut fields = Fields { out, extra: &options.extra };
    fields.always("model", question.model());
    if let Some(system) = request.system.as_deref().filter(|it| !it.is_empty()) {
        fields.put("instructions", system);
    }
    if !request.tools.is_empty() {
        let tools: Vec<_> = request.tools.iter().map(WireTool::of).collect();
        fields.put("tools", &tools);
        tool_choice(&mut fields, &request.tool_choice);
        fields.maybe("parallel_tool_calls", request.parallel_tool_calls.as_ref());
    }
    let format = request.response_format.as_ref().map(format);
    merged(&mut fields, "text", "format", format);
    let effort = options.reasoning_effort.map(|it| effort(it).into());
    merged(&mut fields, "reasoning", "effort", effort);
    // A job in the background is kept until it has been asked for.
    let is_job = options.extra.get("background") == Some(&Value::Bool(true));
    fields.put("store", &is_job);
    include(&mut fields, question);
    fields.always("stream", &question.streams());
    fields.maybe("max_output_tokens", options.max_output_tokens.as_ref());
    fields.maybe("temperature", options.temperature.as_ref());
    fields.maybe("top_p", options.top_p.as_ref());
    fields.pass_through(&RESERVED);
}

/// Writes an object with a value of ours beside the values that the user passes through, which win.
fn merged(fields: &mut Fields<'_>, name: &str, key: &str, ours: Option<Value>) {
    let mut object: Map<String, Value> = ours.map(|it| (key.to_owned(), it)).into_iter().collect();
    match fields.extra.get(name) {
        Some(Value::Object(user)) => object.extend(user.clone()),
        Some(other) => return fields.always(name, other),
        None => {}
    }
    if !object.is_empty() {
        fields.always(name, &object);
    }
}

/// Asks for encrypted reasoning beside whatever the user asks for: nothing is stored, so reasoning
/// without it could not be sent back.
fn include(fields: &mut Fields<'_>, question: &EncodeInput<'_>) {
    let mut include: Vec<Value> = match fields.extra.get("include") {
        Some(Value::Array(user)) => user.clone(),
        Some(other) => return fields.always("include", other),
        None => Vec::new(),
    };
    let ours = Value::from(ENCRYPTED_REASONING);
    let may_reason = question.quirks.encrypted_reasoning && !is_plain(question.model());
    if may_reason && !include.contains(&ours) {
        include.push(ours);
    }
    if !include.is_empty() {
        fields.always("include", &include);
    }
}

/// Returns `true` if a model of `OpenAI`'s does not reason: asked for encrypted reasoning, such models
/// refuse the request.
fn is_plain(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gpt-3", "gpt-4", "chatgpt-"].iter().any(|it| name.starts_with(it))
        || (name.starts_with("gpt-5") && name.contains("-chat"))
}

fn tool_choice(fields: &mut Fields<'_>, choice: &ToolChoice) {
    match choice {
        ToolChoice::Required => fields.put("tool_choice", "required"),
        ToolChoice::None => fields.put("tool_choice", "none"),
        ToolChoice::Tool(name) => {
            fields.put("tool_choice", &json!({ "type": "function", "name": name }));
        }
        _ => {}
    }
}

fn format(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::JsonSchema { name, schema, strict } => {
            json!({ "type": "json_schema", "name": name, "schema": schema, "strict": strict })
        }
        ResponseFormat::JsonObject => json!({ "type": "json_object" }),
        _ => json!({ "type": "text" }),
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Value,
    /// Strict is this wire's default, and would make optional arguments required.
    strict: bool,
}

impl<'a> WireTool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let (name, description) = (&*tool.name, &*tool.description);
        Self { kind: "function", name, description, parameters: &tool.parameters, strict: false }
    }
}

fn effort(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low => "low",
        ReasoningEffort::High => "high",
        _ => "medium",
    }
}
