//! Writes what a request says besides its messages.

use loopwright_core::messages::{
    InferenceRequest, ReasoningEffort, ResponseFormat, ToolChoice, ToolSpec,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::encode::value;
use crate::preset::{MaxTokensField, Quirks};

/// Fields that no passthrough may replace: the answer would not be what is expected.
const RESERVED: [&str; 3] = ["model", "messages", "stream"];

/// Writes the fields before the messages.
pub(super) fn write(body: &mut Vec<u8>, model: &str, quirks: Quirks, request: &InferenceRequest) {
    let options = &request.options;
    let mut fields = Fields { body, extra: &options.extra };
    fields.always("model", model);
    if !request.tools.is_empty() {
        let tools: Vec<_> = request.tools.iter().map(WireTool::of).collect();
        fields.put("tools", &tools);
        fields.tool_choice(&request.tool_choice);
        fields.maybe("parallel_tool_calls", request.parallel_tool_calls.as_ref());
    }
    match &request.response_format {
        None => {}
        Some(ResponseFormat::JsonSchema { name, schema, strict }) => {
            let json_schema = JsonSchema { name, schema, strict: *strict };
            let format = WireFormat { kind: "json_schema", json_schema: Some(json_schema) };
            fields.put("response_format", &format);
        }
        Some(ResponseFormat::JsonObject) => {
            let format = WireFormat { kind: "json_object", json_schema: None };
            fields.put("response_format", &format);
        }
        Some(_) => {
            fields.put("response_format", &WireFormat { kind: "text", json_schema: None });
        }
    }
    let stream = options.stream.unwrap_or(true);
    fields.always("stream", &stream);
    if stream {
        fields.put("stream_options", &StreamOptions { include_usage: true });
    }
    let most = match quirks.max_tokens {
        MaxTokensField::MaxTokens => "max_tokens",
        MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
    };
    fields.maybe(most, options.max_output_tokens.as_ref());
    fields.maybe("temperature", options.temperature.as_ref());
    fields.maybe("top_p", options.top_p.as_ref());
    fields.maybe("stop", Some(&options.stop).filter(|it| !it.is_empty()));
    fields.maybe("seed", options.seed.as_ref());
    fields.maybe("reasoning_effort", options.reasoning_effort.map(effort).as_ref());
    for (name, value) in options.extra.iter().filter(|it| !RESERVED.contains(&it.0.as_str())) {
        fields.always(name, value);
    }
}

/// Fields with commas between them, and those that replace them.
struct Fields<'a> {
    body: &'a mut Vec<u8>,
    extra: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn always(&mut self, name: &str, content: &(impl Serialize + ?Sized)) {
        if self.body.len() > 1 {
            self.body.push(b',');
        }
        value(self.body, name);
        self.body.push(b':');
        value(self.body, content);
    }

    /// Writes a field unless the passthrough has one of that name.
    fn put(&mut self, name: &str, content: &(impl Serialize + ?Sized)) {
        if !self.extra.contains_key(name) {
            self.always(name, content);
        }
    }

    fn maybe(&mut self, name: &str, content: Option<&impl Serialize>) {
        if let Some(content) = content {
            self.put(name, content);
        }
    }

    fn tool_choice(&mut self, choice: &ToolChoice) {
        match choice {
            ToolChoice::Required => self.put("tool_choice", "required"),
            ToolChoice::None => self.put("tool_choice", "none"),
            ToolChoice::Tool(name) => {
                let choice = WireChoice { kind: "function", function: Named { name } };
                self.put("tool_choice", &choice);
            }
            _ => {}
        }
    }
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> WireTool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let (name, description) = (&*tool.name, &*tool.description);
        let function = WireFunction { name, description, parameters: &tool.parameters };
        Self { kind: "function", function }
    }
}

#[derive(Serialize)]
struct WireChoice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Named<'a>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct WireFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<JsonSchema<'a>>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'a str,
    schema: &'a Value,
    strict: bool,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

fn effort(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low => "low",
        ReasoningEffort::High => "high",
        _ => "medium",
    }
}
