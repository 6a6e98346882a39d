//! Encodes the fields of a request except its messages.

use loopwright_core::messages::{
    ReasoningEffort, ResponseFormat, ToolCallFormat, ToolChoice, ToolSpec, Turn, TurnBody,
};
use serde_json::{Map, Value, json};

use crate::{
    claude::{self, Sampling},
    json::Fields,
    wire::EncodeInput,
};

/// Fields that no passthrough may replace, or that were written together with what is in it.
const RESERVED: [&str; 5] =
    ["messages", "inferenceConfig", "toolConfig", "outputConfig", "additionalModelRequestFields"];

/// Writes the fields before the messages. `instructions` stand at the beginning of the conversation.
pub(super) fn write(
    out: &mut Vec<u8>,
    question: &EncodeInput<'_>,
    instructions: &[String],
    turns: &[&Turn],
) {
    let mut fields = Fields { out, extra: &question.request.options.extra };
    for (name, config) in [
        ("toolConfig", tool_config(question, turns)),
        ("outputConfig", output_config(question)),
        ("inferenceConfig", inference_config(question)),
        ("additionalModelRequestFields", model_fields(question)),
    ] {
        merge(&mut fields, name, config);
    }
    system(&mut fields, question, instructions);
    fields.pass_through(&RESERVED);
}

/// Writes an object with the user's own fields in it, which win.
fn merge(fields: &mut Fields<'_>, name: &str, mut config: Map<String, Value>) {
    match fields.extra.get(name) {
        Some(Value::Object(own)) => config.extend(own.clone()),
        Some(other) => return fields.always(name, other),
        None => {}
    }
    if !config.is_empty() {
        fields.always(name, &config);
    }
}

fn system(fields: &mut Fields<'_>, question: &EncodeInput<'_>, instructions: &[String]) {
    let format = question.format_in_words();
    let system = question.request.system.as_deref().into_iter();
    let texts = system.chain(instructions.iter().map(String::as_str)).chain(format.as_deref());
    let texts = texts.filter(|it| !it.trim().is_empty());
    let mut blocks: Vec<_> = texts.map(|text| json!({ "text": text })).collect();
    if blocks.is_empty() {
        return;
    }
    blocks.extend(cache_point(question));
    fields.put("system", &blocks);
}

/// Returns the mark for what may be cached, if the model is known to understand it.
fn cache_point(question: &EncodeInput<'_>) -> Option<Value> {
    let is_marked = question.quirks.cache_marks && claude::can_think(question.model());
    is_marked.then(|| json!({ "cachePoint": { "type": "default" } }))
}

/// Returns the tools. A conversation that shows calls must have some: they are then kept although
/// they must not be called, and those that are no longer offered stand for themselves.
fn tool_config(question: &EncodeInput<'_>, turns: &[&Turn]) -> Map<String, Value> {
    let request = question.request;
    let is_called =
        || request.prompt.dialect == ToolCallFormat::Native && turns.iter().any(|it| calls(it));
    let mut config = Map::new();
    let mut tools: Vec<Value> = request.tools.iter().map(tool).collect();
    if tools.is_empty() || request.tool_choice == ToolChoice::None {
        if !is_called() {
            return config;
        }
        if tools.is_empty() {
            tools = called(turns);
        }
    }
    tools.extend(cache_point(question));
    config.insert("tools".to_owned(), tools.into());
    let choice = match &request.tool_choice {
        ToolChoice::Required => json!({ "any": {} }),
        ToolChoice::Tool(name) => json!({ "tool": { "name": name } }),
        _ => return config,
    };
    config.insert("toolChoice".to_owned(), choice);
    config
}

fn tool(tool: &ToolSpec) -> Value {
    let mut schema = (*tool.parameters).clone();
    if let Value::Object(fields) = &mut schema {
        fields.entry("type").or_insert_with(|| "object".into());
    }
    let mut spec = json!({ "name": tool.name, "inputSchema": { "json": schema } });
    if !tool.description.is_empty() {
        spec["description"] = (*tool.description).into();
    }
    json!({ "toolSpec": spec })
}

fn calls(turn: &Turn) -> bool {
    matches!(turn.body(), TurnBody::ToolExchange(_))
}

/// Returns the tools that the conversation shows, each once.
fn called(turns: &[&Turn]) -> Vec<Value> {
    let names = turns.iter().flat_map(|turn| turn.message().tool_calls().map(|call| &*call.name));
    let names: std::collections::BTreeSet<&str> = names.collect();
    let schema = json!({ "json": { "type": "object" } });
    let tool = |name| {
        json!({ "toolSpec": {
            "name": name, "description": "This tool is no longer offered.", "inputSchema": schema,
        }})
    };
    names.into_iter().map(tool).collect()
}

fn inference_config(question: &EncodeInput<'_>) -> Map<String, Value> {
    let options = &question.request.options;
    let most = options.max_output_tokens.or_else(|| {
        // A budget for thinking must be below a limit, which must then be told.
        let has_budget = thinking(question).is_some_and(|it| it.get("budget_tokens").is_some());
        has_budget.then(|| claude::most_tokens(question.model()))
    });
    let stop = Some(&options.stop).filter(|it| !it.is_empty());
    let wanted = Sampling { temperature: options.temperature, top_p: options.top_p };
    let sampling = claude::sampling(question.model(), thinking(question).is_some(), wanted);
    let fields = [
        ("maxTokens", most.map(Value::from)),
        ("temperature", sampling.temperature.map(Value::from)),
        ("topP", sampling.top_p.map(Value::from)),
        ("stopSequences", stop.map(|it| json!(it))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Returns what is meant for the model's maker.
fn model_fields(question: &EncodeInput<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    let model = question.model();
    let Some(effort) = question.request.options.reasoning_effort else { return fields };
    let word = match effort {
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
        ReasoningEffort::High => "high",
        _ => "medium",
    };
    if let Some(thinking) = thinking(question) {
        fields.insert("thinking".to_owned(), thinking);
    }
    if claude::can_think(model) {
        if let Some(word) = claude::effort_word(model, effort) {
            fields.insert("output_config".to_owned(), json!({ "effort": word }));
        }
    } else if model.contains("openai.") {
        fields.insert("reasoning_effort".to_owned(), word.into());
    } else if model.contains("nova-2") && effort != ReasoningEffort::Minimal {
        let config = json!({ "type": "enabled", "maxReasoningEffort": word });
        fields.insert("reasoningConfig".to_owned(), config);
    }
    fields
}

/// A forced call excludes thinking.
fn thinking(question: &EncodeInput<'_>) -> Option<Value> {
    let (model, options) = (question.model(), &question.request.options);
    let is_forced =
        matches!(question.request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    if is_forced || !claude::can_think(model) {
        return None;
    }
    let most = options.max_output_tokens.unwrap_or_else(|| claude::most_tokens(model));
    claude::thinking_field(model, options.reasoning_effort?, most)
}

fn output_config(question: &EncodeInput<'_>) -> Map<String, Value> {
    let mut config = Map::new();
    if let Some(ResponseFormat::JsonSchema { name, schema, strict: true }) =
        &question.request.response_format
        && question.quirks.json_schema
    {
        // The schema is a text of its own.
        let schema = json!({ "name": name, "schema": schema.to_string() });
        let format = json!({ "type": "json_schema", "structure": { "jsonSchema": schema } });
        config.insert("textFormat".to_owned(), format);
    }
    config
}
