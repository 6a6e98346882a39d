//! The requests that a script describes.

use std::sync::Arc;

use loopwright_core::messages::{
    InferenceOptions, InferenceRequest, Message, Prompt, ReasoningEffort, ResponseFormat,
    ToolChoice, ToolSpec, ToolSpecs, Transcript, Turn,
};
use serde_json::{Map, Value, json};

use super::{
    canon::CanonTool,
    expectation::{FirstRequest, ScriptedStep},
    read::Subject,
};

/// Returns the request of a step, with what was said so far.
pub(crate) fn request(
    subject: &Subject<'_>,
    first: &FirstRequest,
    step: &ScriptedStep,
    turns: Transcript,
) -> InferenceRequest {
    let system = step.system.as_ref().unwrap_or(&first.system).join("\n\n");
    let tools = step.tools.as_ref().unwrap_or(&first.tools).iter().map(CanonTool::of_script);
    let tools: Vec<CanonTool> = tools.collect();
    let mut options = options(&first.options);
    options.stream = Some(subject.exchange.streaming);
    if !tools.iter().all(CanonTool::is_function)
        && let Some(body) = &subject.exchange.request.body
    {
        // The provider's own tools only exist in its own form.
        options.extra.insert("tools".to_owned(), body["tools"].clone());
    }
    if let Some(container) = new_container(subject) {
        options.extra.insert("container".to_owned(), container);
    }
    InferenceRequest {
        model: Some(subject.model().into()),
        system: (!system.is_empty()).then(|| system.into()),
        tools: tools.iter().filter(|tool| tool.is_function()).map(spec).collect::<ToolSpecs>(),
        tool_choice: tool_choice(&first.tool_choice),
        parallel_tool_calls: first.options.get("parallel_tool_calls").and_then(Value::as_bool),
        response_format: response_format(&first.options),
        prompt: Prompt::of(turns),
        options,
    }
}

/// Returns the container that a request names, if no answer has named it.
fn new_container(subject: &Subject<'_>) -> Option<Value> {
    let mut container = subject.exchange.request.body.as_ref()?.get("container")?.clone();
    let id = container.as_str().or(container["id"].as_str()).unwrap_or_default().to_owned();
    let before = &subject.scene.recording.exchanges[..subject.index];
    let holds = |body: &[u8]| body.windows(id.len()).any(|it| it == id.as_bytes());
    if id.is_empty() || !before.iter().any(|it| holds(&it.response.body)) {
        return Some(container).filter(|it| !it.is_null());
    }
    let fields = container.as_object_mut()?;
    fields.remove("id");
    (!fields.is_empty()).then_some(container)
}

/// Returns a request that asks nothing in particular.
pub(crate) fn greeting(subject: &Subject<'_>) -> InferenceRequest {
    let turns = Turn::from_message(Message::user("Hello.")).into_iter().collect();
    let mut options = InferenceOptions::default();
    options.stream = Some(subject.exchange.streaming);
    InferenceRequest { prompt: Prompt::of(turns), options, ..InferenceRequest::default() }
}

fn spec(tool: &CanonTool) -> ToolSpec {
    let is_object = tool.schema.is_object();
    let parameters = if is_object { tool.schema.clone() } else { json!({ "type": "object" }) };
    ToolSpec {
        name: tool.name.as_str().into(),
        description: tool.description.as_str().into(),
        parameters: Arc::new(parameters),
    }
}

fn options(recorded: &Map<String, Value>) -> InferenceOptions {
    let nested = ["inferenceConfig", "options"].iter().filter_map(|name| recorded.get(*name));
    let places: Vec<&Map<String, Value>> =
        nested.filter_map(Value::as_object).chain([recorded]).collect();
    let find = |names: &[&str]| {
        places.iter().find_map(|place| names.iter().find_map(|name| place.get(*name)))
    };
    let most = [
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxOutputTokens",
        "maxTokens",
        "num_predict",
    ];
    let effort =
        recorded.get("reasoning").map_or(recorded.get("reasoning_effort"), |it| it.get("effort"));
    let mut options = InferenceOptions::default();
    options.max_output_tokens = find(&most).and_then(Value::as_u64);
    options.temperature = find(&["temperature"]).and_then(Value::as_f64);
    options.top_p = find(&["top_p", "topP", "p"]).and_then(Value::as_f64);
    options.seed = find(&["seed"]).and_then(Value::as_u64);
    options.stop = match find(&["stop", "stop_sequences", "stopSequences"]) {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(texts)) => {
            texts.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    options.reasoning_effort = match effort.and_then(Value::as_str) {
        Some("minimal") => Some(ReasoningEffort::Minimal),
        Some("low") => Some(ReasoningEffort::Low),
        Some("medium") => Some(ReasoningEffort::Medium),
        Some("high") => Some(ReasoningEffort::High),
        _ => None,
    };
    options
}

fn tool_choice(recorded: &Value) -> ToolChoice {
    let mode = recorded["functionCallingConfig"]["mode"].as_str();
    match recorded.as_str().or(recorded["type"].as_str()).or(mode).map(str::to_ascii_lowercase) {
        Some(word) if word == "required" || word == "any" => ToolChoice::Required,
        Some(word) if word == "none" => ToolChoice::None,
        Some(word) if word == "tool" || word == "function" => {
            let names = [&recorded["name"], &recorded["function"]["name"]];
            let name = names.into_iter().find_map(Value::as_str);
            name.map_or(ToolChoice::Required, |name| ToolChoice::Tool(name.into()))
        }
        _ => ToolChoice::Auto,
    }
}

fn response_format(options: &Map<String, Value>) -> Option<ResponseFormat> {
    let none = Value::Null;
    let option = |name: &str| options.get(name).unwrap_or(&none);
    let chat = option("response_format");
    let places = [
        &chat["json_schema"],
        &option("text")["format"],
        &option("output_config")["format"],
        option("output_format"),
    ];
    let named = places.into_iter().find(|place| place["schema"].is_object());
    let named = named.map(|place| (place["name"].as_str().unwrap_or("answer"), &place["schema"]));
    let bare = ["responseJsonSchema", "responseSchema", "format"];
    let bare = bare.iter().map(|name| option(name)).find(|schema| schema.is_object());
    let found = named.or(bare.map(|schema| ("answer", schema)));
    match (found, chat["type"].as_str()) {
        (Some((name, schema)), _) => Some(ResponseFormat::json_schema(name, schema.clone())),
        (None, Some("json_object")) => Some(ResponseFormat::JsonObject),
        _ => None,
    }
}
