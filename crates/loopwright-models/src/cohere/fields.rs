//! Encodes the fields of a request except its messages.

use loopwright_core::messages::{ReasoningEffort, ResponseFormat, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use crate::{function_tool::FunctionTool, json::Fields, wire::EncodeInput};

/// Fields that no passthrough may replace: the answer would not be what is expected.
const RESERVED: [&str; 3] = ["model", "messages", "stream"];

/// Writes the fields before the messages.
pub(super) fn write(out: &mut Vec<u8>, question: &EncodeInput<'_>) {
    let request = question.request;
    let options = &request.options;
    let mut fields = Fields { out, extra: &options.extra };
    fields.always("model", question.model());
    if !request.tools.is_empty() {
        let is_offered = |tool: &&ToolSpec| match &request.tool_choice {
            ToolChoice::Tool(name) => tool.name == *name,
            _ => true,
        };
        let tools: Vec<_> = request.tools.iter().filter(is_offered).map(FunctionTool::of).collect();
        fields.put("tools", &tools);
        match &request.tool_choice {
            ToolChoice::Required | ToolChoice::Tool(_) => fields.put("tool_choice", "REQUIRED"),
            ToolChoice::None => fields.put("tool_choice", "NONE"),
            _ => {}
        }
    }
    match &request.response_format {
        None => {}
        Some(ResponseFormat::JsonSchema { schema, .. }) => {
            let format = json!({ "type": "json_object", "json_schema": schema });
            fields.put("response_format", &format);
        }
        Some(ResponseFormat::JsonObject) => {
            fields.put("response_format", &json!({ "type": "json_object" }));
        }
        Some(_) => fields.put("response_format", &json!({ "type": "text" })),
    }
    fields.always("stream", &question.streams());
    fields.maybe("max_tokens", options.max_output_tokens.as_ref());
    fields.maybe("temperature", options.temperature.as_ref());
    fields.maybe("p", options.top_p.as_ref());
    fields.maybe("stop_sequences", Some(&options.stop).filter(|it| !it.is_empty()));
    fields.maybe("seed", options.seed.as_ref());
    fields.maybe("thinking", options.reasoning_effort.map(thinking).as_ref());
    fields.pass_through(&RESERVED);
}

/// Returns how much may be thought, in tokens: the wire has no words for it.
fn thinking(effort: ReasoningEffort) -> Value {
    match effort {
        ReasoningEffort::Minimal => json!({ "type": "disabled" }),
        ReasoningEffort::Low => json!({ "type": "enabled", "token_budget": 1024 }),
        ReasoningEffort::High => json!({ "type": "enabled" }),
        _ => json!({ "type": "enabled", "token_budget": 8192 }),
    }
}
