//! The tools of the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::{
    AnyTool, ToolCx, ToolError, ToolHandler, ToolOptions, ToolOutput, ToolSet,
    messages::{Content, Media, MediaSource, Part, ToolSpec},
};
use loopwright_mcp::{
    ClientReplies, ClientRequests, McpLogLevel, McpProgress, McpToolLog, ServerChanges,
};
use serde_json::{Value, json};

/// A picture of one red point.
pub(crate) const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";

/// No sound.
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// `This is an embedded resource content.`
const EMBEDDED: &str = "VGhpcyBpcyBhbiBlbWJlZGRlZCByZXNvdXJjZSBjb250ZW50Lg==";

/// `{"test":"data","value":123}`
const DATA: &str = "eyJ0ZXN0IjoiZGF0YSIsInZhbHVlIjoxMjN9";

/// How long a tool waits between two messages.
const PAUSE: Duration = Duration::from_millis(50);

type Body = fn(Value, &ToolCx<'_>, &ServerChanges) -> Result<ToolOutput, ToolError>;

struct Fixture {
    body: Body,
    changes: ServerChanges,
}

#[async_trait]
impl ToolHandler for Fixture {
    async fn call(&self, arguments: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        (self.body)(arguments, cx, &self.changes)
    }
}

/// Reports what it does, with a pause before each message.
struct Reporting(fn(&ToolCx<'_>, usize), &'static str);

#[async_trait]
impl ToolHandler for Reporting {
    async fn call(&self, _: Value, cx: &ToolCx<'_>) -> Result<ToolOutput, ToolError> {
        for number in 0..3 {
            (self.0)(cx, number);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(ToolOutput::text(self.1))
    }
}

fn tool(name: &str, schema: Value, handler: impl ToolHandler + 'static) -> AnyTool {
    let description = format!("Fixture `{name}` of the conformance suite.").into();
    let spec = ToolSpec { name: name.into(), description, parameters: Arc::new(schema) };
    AnyTool::dynamic(spec, ToolOptions::default(), Arc::new(handler))
}

fn nothing() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn text_argument(name: &str) -> Value {
    json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] })
}

/// Returns all tools.
pub(crate) fn all(changes: &ServerChanges) -> ToolSet {
    let mut tools = ToolSet::new();
    for (name, body) in PLAIN {
        tools.add(tool(name, nothing(), Fixture { body: *body, changes: changes.clone() }));
    }
    let fixture = |body| Fixture { body, changes: changes.clone() };
    tools.add(tool("test_sampling", text_argument("prompt"), fixture(sampling)));
    tools.add(tool("test_elicitation", text_argument("message"), fixture(elicitation)));
    tools.add(tool(
        "json_schema_2020_12_tool",
        dialect(),
        fixture(|_, _, _| Ok(ToolOutput::text("Hello"))),
    ));
    let header = json!({
        "type": "object", "required": ["value"],
        "properties": { "value": { "type": "string", "x-mcp-header": "Value" } },
    });
    let echo: Body =
        |arguments, _, _| Ok(ToolOutput::text(arguments["value"].as_str().unwrap_or_default()));
    tools.add(tool("test_custom_header", header, fixture(echo)));
    tools.add(tool("test_tool_with_logging", nothing(), Reporting(log, "Logging test completed")));
    tools.add(tool(
        "test_tool_with_progress",
        nothing(),
        Reporting(progress, "Progress test completed"),
    ));
    tools.add(tool(
        "test_reconnection",
        nothing(),
        Reporting(|_, _| (), "Reconnection test completed"),
    ));
    tools
}

fn log(cx: &ToolCx<'_>, number: usize) {
    let texts = ["Tool execution started", "Tool processing data", "Tool execution completed"];
    cx.events.emit(|| McpToolLog::new(McpLogLevel::Info, texts[number]).with_logger("conformance"));
}

fn progress(cx: &ToolCx<'_>, number: usize) {
    let (done, text) = [(0.0, "Starting"), (50.0, "Halfway"), (100.0, "Complete")][number];
    cx.events.emit(|| McpProgress::new(&cx.call.name, done, text).with_total(100.0));
}

fn document(mime: &str, base64: &str, uri: &str) -> Part {
    let source = MediaSource::Base64(base64.into());
    Part::new(Content::Document(Media { mime: mime.into(), source, name: Some(uri.into()) }))
}

#[expect(clippy::unnecessary_wraps, reason = "all bodies of tools are alike")]
fn parts(parts: impl IntoIterator<Item = Part>) -> Result<ToolOutput, ToolError> {
    Ok(ToolOutput::from_parts(parts.into_iter().collect::<Vec<_>>()))
}

/// The tools without arguments.
const PLAIN: &[(&str, Body)] = &[
    ("test_simple_text", |_, _, _| {
        Ok(ToolOutput::text("This is a simple text response for testing."))
    }),
    ("test_image_content", |_, _, _| parts([Part::image("image/png", IMAGE)])),
    ("test_audio_content", |_, _, _| parts([document("audio/wav", AUDIO, "silence")])),
    ("test_embedded_resource", |_, _, _| {
        parts([document("text/plain", EMBEDDED, "test://embedded-resource")])
    }),
    ("test_multiple_content_types", |_, _, _| {
        let data = document("application/json", DATA, "test://mixed-content-resource");
        parts([Part::text("Multiple content types test:"), Part::image("image/png", IMAGE), data])
    }),
    ("test_error_handling", |_, _, _| {
        Err(ToolError::Failed("This tool intentionally returns an error for testing".into()))
    }),
    ("test_trigger_tool_change", |_, _, changes| {
        changes.tools();
        Ok(ToolOutput::text("Tool list change triggered"))
    }),
    ("test_trigger_prompt_change", |_, _, changes| {
        changes.prompts();
        Ok(ToolOutput::text("Prompt list change triggered"))
    }),
    ("test_logging_tool", |_, cx, _| {
        cx.events.emit(|| McpToolLog::new(McpLogLevel::Emergency, "a level was asked for"));
        Ok(ToolOutput::text("Logging tool completed"))
    }),
    ("test_missing_capability", |_, cx, _| {
        ask(cx, &ClientRequests::new().with_sampling("greeting", "Generate a greeting", 50))?;
        Ok(ToolOutput::text("Required capability declared"))
    }),
    ("test_streaming_elicitation", |_, cx, _| {
        ask(cx, &question("streaming_elicitation", "Provide a value", "value", "string"))?;
        Ok(ToolOutput::text("Value received"))
    }),
    ("test_elicitation_sep1034_defaults", |_, cx, _| {
        elicit(cx, "Please check the values", defaults())
    }),
    ("test_elicitation_sep1330_enums", |_, cx, _| elicit(cx, "Please choose", enumerations())),
    ("test_input_required_result_elicitation", |_, cx, _| {
        let replies = ask(cx, &question("user_name", "What is your name?", "name", "string"))?;
        let name = replies.accepted("user_name").and_then(|it| it["name"].as_str());
        Ok(ToolOutput::text(format!("Hello, {}!", name.unwrap_or("stranger"))))
    }),
    ("test_input_required_result_sampling", |_, cx, _| {
        let prompt = "What is the capital of France?";
        let replies =
            ask(cx, &ClientRequests::new().with_sampling("capital_question", prompt, 100))?;
        Ok(ToolOutput::text(replies.sampled("capital_question").unwrap_or_default()))
    }),
    ("test_input_required_result_list_roots", |_, cx, _| {
        let replies = ask(cx, &ClientRequests::new().with_roots("client_roots"))?;
        Ok(ToolOutput::text(replies.roots("client_roots").unwrap_or_default().join(" ")))
    }),
    ("test_input_required_result_request_state", confirm),
    ("test_input_required_result_tampered_state", confirm),
    ("test_input_required_result_multiple_inputs", everything),
    ("test_input_required_result_capabilities", everything),
    ("test_input_required_result_multi_round", |_, cx, _| {
        let next = question("step2", "Step 2: What is your favorite color?", "color", "string");
        if ClientReplies::of(cx).is_none() {
            return Err(question("step1", "Step 1: What is your name?", "name", "string")
                .to_pause()
                .into());
        }
        if cx.resume_value().is_none() {
            return Err(next.to_pause().with_resume(json!({ "step": 2 })).into());
        }
        Ok(ToolOutput::text("Both steps completed"))
    }),
];

/// Returns the replies, or makes the call wait for them.
fn ask(cx: &ToolCx<'_>, requests: &ClientRequests) -> Result<ClientReplies, ToolError> {
    ClientReplies::of(cx).ok_or_else(|| requests.to_pause().into())
}

fn question(key: &str, message: &str, field: &str, kind: &str) -> ClientRequests {
    let schema =
        json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    ClientRequests::new().with_question(key, message, schema)
}

fn confirm(_: Value, cx: &ToolCx<'_>, _: &ServerChanges) -> Result<ToolOutput, ToolError> {
    ask(cx, &question("confirm", "Please confirm", "ok", "boolean"))?;
    Ok(ToolOutput::text("state-ok"))
}

fn everything(_: Value, cx: &ToolCx<'_>, _: &ServerChanges) -> Result<ToolOutput, ToolError> {
    let requests = question("user_name", "What is your name?", "name", "string")
        .with_sampling("greeting", "Generate a greeting", 50)
        .with_roots("client_roots");
    let replies = ask(cx, &requests)?;
    Ok(ToolOutput::text(format!("{:?}", replies.sampled("greeting"))))
}

#[expect(clippy::needless_pass_by_value, reason = "all bodies of tools are alike")]
fn sampling(arguments: Value, cx: &ToolCx<'_>, _: &ServerChanges) -> Result<ToolOutput, ToolError> {
    let prompt = arguments["prompt"].as_str().unwrap_or_default();
    let replies = ask(cx, &ClientRequests::new().with_sampling("answer", prompt, 100))?;
    Ok(ToolOutput::text(format!("LLM response: {}", replies.sampled("answer").unwrap_or_default())))
}

#[expect(clippy::needless_pass_by_value, reason = "all bodies of tools are alike")]
fn elicitation(
    arguments: Value,
    cx: &ToolCx<'_>,
    _: &ServerChanges,
) -> Result<ToolOutput, ToolError> {
    let text = json!({ "type": "string" });
    let schema = json!({
        "type": "object", "properties": { "username": text, "email": text }, "required": ["username", "email"],
    });
    elicit(cx, arguments["message"].as_str().unwrap_or_default(), schema)
}

fn elicit(cx: &ToolCx<'_>, message: &str, schema: Value) -> Result<ToolOutput, ToolError> {
    let replies = ask(cx, &ClientRequests::new().with_question("form", message, schema))?;
    let reply = replies.get("form").cloned().unwrap_or_default();
    let (action, content) = (reply["action"].as_str().unwrap_or("none"), &reply["content"]);
    Ok(ToolOutput::text(format!("Elicitation completed: action={action}, content={content}")))
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
        },
    })
}

fn enumerations() -> Value {
    let titled = json!([
        { "const": "value1", "title": "First Option" },
        { "const": "value2", "title": "Second Option" },
        { "const": "value3", "title": "Third Option" },
    ]);
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": {
                "type": "string", "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        },
    })
}

/// A schema that uses what is new in the dialect of 2020-12.
fn dialect() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "address",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
        "allOf": [{ "anyOf": [{ "required": ["name"] }, { "required": ["address"] }] }],
        "if": { "required": ["address"] },
        "then": { "properties": { "address": { "required": ["street"] } } },
        "else": { "required": ["name"] },
        "additionalProperties": false,
    })
}
