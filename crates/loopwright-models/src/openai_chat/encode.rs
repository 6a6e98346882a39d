//! Writes requests.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use loopwright_core::messages::{
    Dialect, Exchange, InferenceRequest, Media, MediaSource, Message, Origin, Part, ReasoningEffort,
    ResponseFormat, Role, ToolChoice, ToolResult, Turn, TurnBody, TurnMeta,
};
use serde::Serialize;

use super::{WIRE, assistant};
use crate::{
    dialect::exchange_text,
    preset::{MaxTokensField, Quirks},
};

/// Writes requests of one model.
///
/// The messages come last in the body, and each turn is encoded once and kept beside it: the bytes
/// of a request up to the end of its last turn are the beginning of the next request.
#[derive(Clone, Debug)]
pub struct Encoder {
    origin: Arc<Origin>,
    quirks: Quirks,
}

/// Fields that no passthrough may replace: the answer would not be what is expected.
const RESERVED: [&str; 3] = ["model", "messages", "stream"];

impl Encoder {
    /// Writes requests for the model that the origin names.
    pub fn new(origin: Arc<Origin>, quirks: Quirks) -> Self {
        Self { origin, quirks }
    }

    /// Returns the body of a request.
    pub fn encode(&self, request: &InferenceRequest) -> Vec<u8> {
        let mut body = Vec::with_capacity(4096);
        body.push(b'{');
        self.write_fields(request, &mut body);
        key(&mut body, "messages");
        body.push(b'[');
        self.write_messages(request, &mut body);
        body.extend_from_slice(b"]}");
        body
    }

    fn write_fields(&self, request: &InferenceRequest, body: &mut Vec<u8>) {
        let options = &request.options;
        let mut fields = Fields { body, extra: &options.extra };
        fields.always("model", &self.origin.model);
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
        let most = match self.quirks.max_tokens {
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

    fn write_messages(&self, request: &InferenceRequest, body: &mut Vec<u8>) {
        let dialect = request.prompt.dialect;
        let mut list = List::new(body);
        if let Some(system) = request.system.as_deref().filter(|it| !it.is_empty()) {
            list.item(|out| write_text_message(out, "system", system));
        }
        let cache_key = self.cache_key(dialect);
        for turn in request.prompt.stable() {
            let bytes = turn.encoded().get_or_encode(cache_key, || self.turn(turn, dialect));
            list.raw(&bytes);
        }
        for message in &request.prompt.tail {
            list.item(|out| self.write_message(out, message));
        }
    }

    /// Names the form that this encoder gives a turn.
    fn cache_key(&self, dialect: Dialect) -> u64 {
        let mut hasher = DefaultHasher::new();
        (WIRE, &self.origin.provider, &self.origin.model).hash(&mut hasher);
        (dialect, self.quirks).hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the messages of a turn, with commas between them.
    fn turn(&self, turn: &Turn, dialect: Dialect) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut list = List::new(&mut bytes);
        match turn.body() {
            TurnBody::Input(message) | TurnBody::Reply(message) => {
                list.item(|out| self.write_message(out, message));
            }
            TurnBody::Exchange(exchange) if dialect == Dialect::Text => {
                self.write_exchange_as_text(&mut list, exchange);
            }
            TurnBody::Exchange(exchange) => self.write_exchange(&mut list, exchange, turn.meta()),
        }
        bytes
    }

    fn write_exchange(&self, list: &mut List<'_>, exchange: &Exchange, meta: &TurnMeta) {
        let ids = call_ids(exchange, meta);
        list.item(|out| {
            let is_own = self.is_own(exchange.reply());
            assistant::write(out, exchange.reply(), &ids, is_own);
        });
        for (id, result) in ids.iter().zip(exchange.results()) {
            list.item(|out| {
                out.extend_from_slice(b"{\"role\":\"tool\",\"tool_call_id\":");
                value(out, id);
                key(out, "content");
                value(out, &tool_text(result));
                out.push(b'}');
            });
        }
        let media = exchange.results().iter().flat_map(media_of);
        let parts: Vec<_> = media.flat_map(|(part, media)| labelled(part, media)).collect();
        if !parts.is_empty() {
            list.item(|out| write_parts_message(out, "user", &parts));
        }
    }

    fn write_exchange_as_text(&self, list: &mut List<'_>, exchange: &Exchange) {
        let text = exchange_text(exchange);
        list.item(|out| write_text_message(out, "assistant", &text.reply));
        let media = exchange.results().iter().flat_map(media_of);
        let media: Vec<_> = media.filter_map(|(part, _)| wire_part(part)).collect();
        list.item(|out| match media.is_empty() {
            true => write_text_message(out, "user", &text.observations),
            false => {
                let words = WirePart::Text { text: text.observations.as_str().into() };
                let parts: Vec<_> = [words].into_iter().chain(media).collect();
                write_parts_message(out, "user", &parts);
            }
        });
    }

    fn write_message(&self, out: &mut Vec<u8>, message: &Message) {
        let role = match message.role() {
            Role::Assistant => {
                return assistant::write(out, message, &[], self.is_own(message));
            }
            Role::User => "user",
            Role::Developer if self.quirks.developer_role => "developer",
            Role::System | Role::Developer => "system",
        };
        match message.parts() {
            [part] if let Some(text) = part.as_text() => write_text_message(out, role, text),
            parts if message.is_system() || parts.iter().all(|it| wire_part(it).is_none()) => {
                write_text_message(out, role, &message.text());
            }
            parts => {
                let parts: Vec<_> = parts.iter().filter_map(wire_part).collect();
                write_parts_message(out, role, &parts);
            }
        }
    }

    /// Tells whether a message came from the very model that is asked now.
    fn is_own(&self, message: &Message) -> bool {
        message.origin().is_some_and(|origin| *origin == self.origin)
    }
}

/// Returns an id for each call, none of them twice.
///
/// A missing id is made of the step and the call's position, so that it is the same every time.
fn call_ids(exchange: &Exchange, meta: &TurnMeta) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let step = meta.step.unwrap_or(0);
    let id = |(index, call): (usize, &loopwright_core::messages::ToolCall)| {
        let id = match call.id.as_deref() {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("call_{step}_{index}"),
        };
        let mut unique = id.clone();
        let mut number = 2;
        while !taken.insert(unique.clone()) {
            unique = format!("{id}_{number}");
            number += 1;
        }
        unique
    };
    exchange.reply().tool_calls().enumerate().map(id).collect()
}

/// Returns what a tool said in words; the wire lets tools say nothing else, so media are announced
/// here and follow as a message of the user.
fn tool_text(result: &ToolResult) -> String {
    let mut text = result.to_text();
    for (_, media) in media_of(result) {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!("See file {}", label(media));
    }
    text
}

fn media_of(result: &ToolResult) -> impl Iterator<Item = (&Part, &Media)> {
    use loopwright_core::messages::Content::{Document, Image};
    result.content.iter().filter_map(|part| match part.content() {
        Image(media) | Document(media) => Some((part, media)),
        _ => None,
    })
}

fn labelled<'a>(part: &'a Part, media: &Media) -> impl Iterator<Item = WirePart<'a>> {
    let words = WirePart::Text { text: format!("This is file {}:", label(media)).into() };
    wire_part(part).into_iter().flat_map(move |part| [words.clone(), part])
}

/// Names a file after what is in it, so that its name is the same every time (FNV-1a).
fn label(media: &Media) -> String {
    let (MediaSource::Base64(text) | MediaSource::Url(text) | MediaSource::File(text)) =
        &media.source
    else {
        return "unknown".to_owned();
    };
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    format!("{:06x}", hash >> 40)
}

/// A part of a user's message.
#[derive(Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: std::borrow::Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File<'a> },
}

#[derive(Clone, Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Clone, Serialize)]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<&'a str>,
}

/// Returns a part as users say it; nothing for what they cannot say.
fn wire_part(part: &Part) -> Option<WirePart<'_>> {
    use loopwright_core::messages::Content;
    match part.content() {
        Content::Text(text) => Some(WirePart::Text { text: (&**text).into() }),
        Content::Image(media) => {
            let url = address(media)?;
            Some(WirePart::ImageUrl { image_url: ImageUrl { url } })
        }
        Content::Document(media) => {
            let file_id = match &media.source {
                MediaSource::File(id) => Some(&**id),
                _ => None,
            };
            let name = media.name.as_deref();
            // A name is required beside data.
            let filename = name.or(file_id.is_none().then_some("document"));
            Some(WirePart::File { file: File { filename, file_data: address(media), file_id } })
        }
        _ => None,
    }
}

fn address(media: &Media) -> Option<String> {
    match &media.source {
        MediaSource::Base64(data) => Some(format!("data:{};base64,{data}", media.mime)),
        MediaSource::Url(url) => Some(url.to_string()),
        _ => None,
    }
}

fn write_text_message(out: &mut Vec<u8>, role: &str, text: &str) {
    out.extend_from_slice(b"{\"role\":");
    value(out, role);
    key(out, "content");
    value(out, text);
    out.push(b'}');
}

fn write_parts_message(out: &mut Vec<u8>, role: &str, parts: &[WirePart<'_>]) {
    out.extend_from_slice(b"{\"role\":");
    value(out, role);
    key(out, "content");
    value(out, parts);
    out.push(b'}');
}

/// The fields before the messages.
struct Fields<'a> {
    body: &'a mut Vec<u8>,
    extra: &'a serde_json::Map<String, serde_json::Value>,
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

/// Items with commas between them.
struct List<'a> {
    out: &'a mut Vec<u8>,
    is_begun: bool,
}

impl<'a> List<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, is_begun: false }
    }

    fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_begun {
            self.out.push(b',');
        }
        self.is_begun = true;
        write(self.out);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.item(|out| out.extend_from_slice(bytes));
    }
}

/// Writes a field's name, after another field.
pub(super) fn key(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    value(out, name);
    out.push(b':');
}

#[expect(clippy::expect_used, reason = "only broken writers and odd map keys make it fail")]
pub(super) fn value(out: &mut Vec<u8>, content: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, content).expect("texts, numbers and JSON values are JSON");
}

fn effort(effort: ReasoningEffort) -> &'static str {
    match effort {
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low => "low",
        ReasoningEffort::High => "high",
        _ => "medium",
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
    parameters: &'a serde_json::Value,
}

impl<'a> WireTool<'a> {
    fn of(tool: &'a loopwright_core::messages::ToolSpec) -> Self {
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
    schema: &'a serde_json::Value,
    strict: bool,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}
