//! Encodes the fields of a request except its messages.

use std::borrow::Cow;

use loopwright_core::messages::{ReasoningEffort, ResponseFormat, ToolChoice};
use serde::Serialize;
use serde_json::Value;

use crate::{
    function_tool::FunctionTool,
    json::Fields,
    quirks::{MaxTokensField, SeedField},
    wire::EncodeInput,
};

/// Fields that no passthrough may replace: the answer would not be what is expected.
const RESERVED: [&str; 3] = ["model", "messages", "stream"];

/// Writes the fields before the messages.
pub(super) fn write(out: &mut Vec<u8>, question: &EncodeInput<'_>) {
    let request = question.request;
    let (options, quirks) = (&request.options, question.quirks);
    let mut fields = Fields { out, extra: &options.extra };
    fields.always("model", question.model());
    if !request.tools.is_empty() {
        let tools: Vec<_> = request.tools.iter().map(FunctionTool::of).collect();
        fields.put("tools", &tools);
        tool_choice(&mut fields, &request.tool_choice);
        fields.maybe("parallel_tool_calls", request.parallel_tool_calls.as_ref());
    }
    match &request.response_format {
        None => {}
        Some(ResponseFormat::JsonSchema { name, schema, strict }) if quirks.json_schema => {
            let json_schema = JsonSchema { name, schema, strict: *strict };
            let format = WireFormat { kind: "json_schema", json_schema: Some(json_schema) };
            fields.put("response_format", &format);
        }
        Some(ResponseFormat::JsonObject | ResponseFormat::JsonSchema { .. }) => {
            let format = WireFormat { kind: "json_object", json_schema: None };
            fields.put("response_format", &format);
        }
        Some(_) => {
            fields.put("response_format", &WireFormat { kind: "text", json_schema: None });
        }
    }
    fields.always("stream", &question.streams());
    if question.streams() && quirks.stream_options {
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
    let seed = match quirks.seed {
        SeedField::Seed => "seed",
        SeedField::RandomSeed => "random_seed",
    };
    fields.maybe(seed, options.seed.as_ref());
    fields.maybe("reasoning_effort", options.reasoning_effort.map(effort).as_ref());
    fields.pass_through(&RESERVED);
}

/// Returns the instructions, and with them the schema of the answer if the provider cannot be held
/// to it.
pub(super) fn instructions<'a>(question: &EncodeInput<'a>) -> Option<Cow<'a, str>> {
    let request = question.request;
    let system = request.system.as_deref().filter(|it| !it.is_empty());
    match &request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) if !question.quirks.json_schema => {
            let words = format!("Answer with a JSON object that fits this JSON schema: {schema}");
            Some(system.map_or(words.clone(), |system| format!("{system}\n\n{words}")).into())
        }
        _ => system.map(Cow::Borrowed),
    }
}

fn tool_choice(fields: &mut Fields<'_>, choice: &ToolChoice) {
    match choice {
        ToolChoice::Required => fields.put("tool_choice", "required"),
        ToolChoice::None => fields.put("tool_choice", "none"),
        ToolChoice::Tool(name) => {
            let choice = WireChoice { kind: "function", function: Named { name } };
            fields.put("tool_choice", &choice);
        }
        _ => {}
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
