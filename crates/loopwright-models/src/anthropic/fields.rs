//! Encodes the fields of a request except its messages.

use loopwright_core::messages::{ResponseFormat, ToolChoice, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::content::is_false;
use crate::{
    claude::{self, Sampling},
    json::Fields,
    wire::EncodeInput,
};

/// Fields that no passthrough may replace, or that were written together with what is in it.
const RESERVED: [&str; 7] =
    ["model", "messages", "stream", "tools", "output_config", "cache_control", "container"];

/// Writes the fields before the messages. `instructions` stand at the beginning of the conversation.
pub(super) fn write(out: &mut Vec<u8>, question: &EncodeInput<'_>, instructions: &[String]) {
    let request = question.request;
    let options = &request.options;
    let mark = mark(question);
    let mut fields = Fields { out, extra: &options.extra };
    fields.always("model", question.model());
    let most = options.max_output_tokens;
    fields.put("max_tokens", &most.unwrap_or_else(|| claude::most_tokens(question.model())));
    tools(&mut fields, question, mark.as_ref());
    system(&mut fields, question, instructions, mark.as_ref());
    fields.always("stream", &question.streams());
    let thinking = thinking(question);
    let wanted = Sampling { temperature: options.temperature, top_p: options.top_p };
    let sampling = claude::sampling(question.model(), thinking.is_some(), wanted);
    fields.maybe("temperature", sampling.temperature.as_ref());
    fields.maybe("top_p", sampling.top_p.as_ref());
    fields.maybe("stop_sequences", Some(&options.stop).filter(|it| !it.is_empty()));
    fields.maybe("thinking", thinking.as_ref());
    output_config(&mut fields, question);
    if request.prompt.tail.is_empty()
        && let Some(mark) = mark
    {
        fields.always("cache_control", &mark);
    }
    fields.pass_through(&RESERVED);
}

/// Returns what stands where something may be cached up to, or `None` if nothing is to be marked.
pub(super) fn mark(question: &EncodeInput<'_>) -> Option<Value> {
    match question.request.options.extra.get("cache_control") {
        Some(Value::Null) => None,
        Some(own) => Some(own.clone()),
        None => question.quirks.cache_marks.then(|| json!({ "type": "ephemeral" })),
    }
}

fn tools(fields: &mut Fields<'_>, question: &EncodeInput<'_>, mark: Option<&Value>) {
    let request = question.request;
    let mut tools: Vec<_> = request.tools.iter().map(WireTool::of).collect();
    if let Some(WireTool::Own { cache_control, .. }) = tools.last_mut() {
        *cache_control = mark;
    }
    let more = fields.extra.get("tools").and_then(Value::as_array);
    tools.extend(more.into_iter().flatten().map(WireTool::Providers));
    if tools.is_empty() {
        return;
    }
    fields.always("tools", &tools);
    let kind = match &request.tool_choice {
        ToolChoice::Required => "any",
        ToolChoice::None => "none",
        ToolChoice::Tool(_) => "tool",
        _ => "auto",
    };
    let name = match &request.tool_choice {
        ToolChoice::Tool(name) => Some(&**name),
        _ => None,
    };
    let is_single = request.parallel_tool_calls == Some(false) && kind != "none";
    if kind != "auto" || is_single {
        let choice = WireChoice { kind, name, disable_parallel_tool_use: is_single };
        fields.put("tool_choice", &choice);
    }
}

fn system(
    fields: &mut Fields<'_>,
    question: &EncodeInput<'_>,
    instructions: &[String],
    mark: Option<&Value>,
) {
    let format = question.format_in_words();
    let system = question.request.system.as_deref().into_iter();
    let texts = system.chain(instructions.iter().map(String::as_str)).chain(format.as_deref());
    let texts = texts.filter(|it| !it.trim().is_empty());
    let mut blocks: Vec<_> = texts.map(SystemBlock::of).collect();
    let Some(last) = blocks.last_mut() else { return };
    last.cache_control = mark;
    fields.put("system", &blocks);
}

/// A forced call excludes thinking.
fn thinking(question: &EncodeInput<'_>) -> Option<Value> {
    if matches!(question.request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_)) {
        return None;
    }
    let (model, options) = (question.model(), &question.request.options);
    let most = options.max_output_tokens.unwrap_or_else(|| claude::most_tokens(model));
    claude::thinking_field(model, options.reasoning_effort?, most)
}

fn output_config(fields: &mut Fields<'_>, question: &EncodeInput<'_>) {
    let request = question.request;
    let mut config = Map::new();
    let effort = request.options.reasoning_effort;
    if let Some(word) = effort.and_then(|it| claude::effort_word(question.model(), it)) {
        config.insert("effort".to_owned(), word.into());
    }
    if let Some(ResponseFormat::JsonSchema { schema, strict: true, .. }) = &request.response_format
        && question.quirks.json_schema
    {
        config.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
    }
    match fields.extra.get("output_config") {
        Some(Value::Object(own)) => config.extend(own.clone()),
        Some(other) => return fields.always("output_config", other),
        None => {}
    }
    if !config.is_empty() {
        fields.always("output_config", &config);
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireTool<'a> {
    Own {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        description: &'a str,
        input_schema: Schema<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a Value>,
    },
    Providers(&'a Value),
}

impl<'a> WireTool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        let (name, description) = (&*tool.name, &*tool.description);
        let input_schema = Schema::of(&tool.parameters);
        Self::Own { name, description, input_schema, cache_control: None }
    }
}

/// A schema of an object, which the wire wants to be told.
#[derive(Serialize)]
#[serde(untagged)]
enum Schema<'a> {
    AsItIs(&'a Value),
    Typed {
        r#type: &'static str,
        #[serde(flatten)]
        fields: Option<&'a Map<String, Value>>,
    },
}

impl<'a> Schema<'a> {
    fn of(schema: &'a Value) -> Self {
        match schema {
            Value::Object(fields) if fields.contains_key("type") => Self::AsItIs(schema),
            other => Self::Typed { r#type: "object", fields: other.as_object() },
        }
    }
}

#[derive(Serialize)]
struct WireChoice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "is_false")]
    disable_parallel_tool_use: bool,
}

#[derive(Serialize)]
struct SystemBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<&'a Value>,
}

impl<'a> SystemBlock<'a> {
    fn of(text: &'a str) -> Self {
        Self { kind: "text", text, cache_control: None }
    }
}
