//! Encodes the fields of a request except its messages.

use loopwright_core::messages::{ReasoningEffort, ResponseFormat, ToolChoice, ToolSpec};
use serde_json::{Map, Value};

use crate::{function_tool::FunctionTool, json::Fields, wire::EncodeInput};

/// Fields that no passthrough may replace, and one that it has a share in.
const RESERVED: [&str; 4] = ["model", "messages", "stream", "options"];

/// Writes the fields before the messages.
pub(super) fn write(out: &mut Vec<u8>, question: &EncodeInput<'_>) {
    let request = question.request;
    let options = &request.options;
    let mut fields = Fields { out, extra: &options.extra };
    fields.always("model", question.model());
    let is_offered = |tool: &&ToolSpec| match &request.tool_choice {
        ToolChoice::None => false,
        ToolChoice::Tool(name) => tool.name == *name,
        _ => true,
    };
    let tools: Vec<_> = request.tools.iter().filter(is_offered).map(FunctionTool::of).collect();
    if !tools.is_empty() {
        fields.put("tools", &tools);
    }
    fields.always("stream", &question.streams());
    match &request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) => fields.put("format", &**schema),
        Some(ResponseFormat::JsonObject) => fields.put("format", "json"),
        _ => {}
    }
    let thinking = options.reasoning_effort.map(|effort| thinking(question.model(), effort));
    fields.maybe("think", thinking.as_ref());
    fields.put("truncate", &false);
    fields.put("shift", &false);
    let settings = settings(question);
    if !settings.is_empty() {
        fields.always("options", &settings);
    }
    fields.pass_through(&RESERVED);
}

/// Returns how much to think: most models think or do not, those of `gpt-oss` have levels only.
fn thinking(model: &str, effort: ReasoningEffort) -> Value {
    if !model.contains("gpt-oss") {
        return (effort != ReasoningEffort::Minimal).into();
    }
    match effort {
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low".into(),
        ReasoningEffort::High => "high".into(),
        _ => "medium".into(),
    }
}

/// Returns the settings of the model, the user's own among them.
fn settings(question: &EncodeInput<'_>) -> Map<String, Value> {
    let options = &question.request.options;
    let mut settings = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            settings.insert(name.to_owned(), value);
        }
    };
    put("num_predict", options.max_output_tokens.map(Value::from));
    put("temperature", options.temperature.map(Value::from));
    put("top_p", options.top_p.map(Value::from));
    put("stop", (!options.stop.is_empty()).then(|| options.stop.clone().into()));
    put("seed", options.seed.map(Value::from));
    if let Some(Value::Object(own)) = options.extra.get("options") {
        settings.extend(own.clone());
    }
    settings
}
