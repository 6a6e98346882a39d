//! Shared parts of the `OpenAI` protocols: models, errors, messages and tools.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::Response,
    routing::get,
};
use loopwright_core::messages::{
    self, Message, Part, Role, ToolCall, ToolExchange, ToolResult, Turn, TurnBody, Usage,
};
use loopwright_sessions::ClientTools;
use serde::Deserialize;
use serde_json::{Value, json};

use super::client_tools::{CallResult, Declared, declared};

use crate::{
    operation::{Operation, READ, other},
    problem::Problem,
    routes::{agents::infos, reply},
    server::Server,
};

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "get",
        path: "/v1/models",
        id: "listModels",
        summary: "List the agents as models, in the OpenAI protocol",
        security: READ,
        parameters: &[],
        body: None,
        responses: const { &[other(200, "The models.", "application/json")] },
        handler: || get(models),
    }]
}

async fn models(State(server): State<Server>) -> Result<Response, Problem> {
    let agents = infos(&server).await?;
    let model = |name: &str| json!({ "id": name, "object": "model", "created": 0, "owned_by": "loopwright" });
    let data: Vec<Value> = agents.iter().map(|it| model(&it.name)).collect();
    reply(StatusCode::OK, &json!({ "object": "list", "data": data }))
}

/// Makes error responses those of this protocol.
pub(crate) async fn errors(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<Problem>() else { return response };
    let (mut parts, body) = match reply(problem.status(), &envelope(problem)) {
        Ok(response) => response.into_parts(),
        Err(_) => return response,
    };
    for (name, value) in response.headers() {
        if !parts.headers.contains_key(name) && name != axum::http::header::CONTENT_LENGTH {
            parts.headers.insert(name, value.clone());
        }
    }
    Response::from_parts(parts, body)
}

/// Returns the document of an error.
pub(crate) fn envelope(problem: &Problem) -> Value {
    let kind = match problem.status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    json!({ "error": {
        "message": problem.text(), "type": kind, "param": null, "code": problem.code(),
    } })
}

/// The content of a message: a text, or parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<TextPart>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct TextPart {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

impl Content {
    /// Returns the text.
    pub(crate) fn text(self) -> Result<String, Problem> {
        let parts = match self {
            Self::Text(text) => return Ok(text),
            Self::Parts(parts) => parts,
        };
        let mut texts = Vec::new();
        for TextPart { kind, text } in parts {
            let is_text = matches!(&*kind, "text" | "input_text" | "output_text");
            let text = text.filter(|_| is_text);
            let unsupported = || Problem::invalid("only text parts are supported in messages");
            texts.push(text.ok_or_else(unsupported)?);
        }
        Ok(texts.join("\n"))
    }
}

/// Something that a client sends: a message, or the result of a call.
#[derive(Debug)]
pub(crate) enum Item {
    Message(Message),
    Result(CallResult),
}

/// What a request is about.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A message, after a conversation.
    Message { before: Vec<Turn>, text: String },
    /// Results of calls, and what the user says after them.
    Results { results: Vec<CallResult>, text: Option<String> },
}

/// Makes a message of what a client sends. Clients do not instruct the agent of the server: what they send as system or
/// developer is said by the user.
pub(crate) fn message(role: &str, text: String) -> Result<Message, Problem> {
    match role {
        "assistant" => Ok(Message::assistant(text)),
        "user" | "system" | "developer" => Ok(Message::user(text)),
        _ => Err(Problem::invalid(
            "a message must have role `user`, `assistant`, `system`, `developer` or `tool`",
        )),
    }
}

/// Makes a message of an assistant that calls tools.
pub(crate) fn calling(text: &str, calls: impl IntoIterator<Item = ToolCall>) -> Message {
    let text = Some(Part::text(text)).filter(|it| !it.is_empty());
    let calls = calls.into_iter().map(|call| Part::new(messages::Content::ToolCall(call)));
    Message::new(Role::Assistant, text.into_iter().chain(calls))
}

/// Finds out what a request is about: results that follow the last message of the assistant, or the last message of the
/// user.
pub(crate) fn asked(mut items: Vec<Item>) -> Result<Asked, Problem> {
    let is_assistant = |it: &Item| matches!(it, Item::Message(it) if it.role() == Role::Assistant);
    let last = items.iter().rposition(is_assistant).map_or(0, |it| it + 1);
    if items[last..].iter().any(|it| matches!(it, Item::Result(_))) {
        let (mut results, mut texts) = (Vec::new(), Vec::new());
        for item in items.split_off(last) {
            match item {
                Item::Message(message) => texts.push(message.text()),
                Item::Result(result) => results.push(result),
            }
        }
        texts.retain(|it| !it.trim().is_empty());
        let text = (!texts.is_empty()).then(|| texts.join("\n\n"));
        return Ok(Asked::Results { results, text });
    }
    match items.pop() {
        Some(Item::Message(last)) if last.role() == Role::User => {
            Ok(Asked::Message { before: turns(items)?, text: last.text() })
        }
        _ => Err(Problem::invalid("the last message must have role `user` or `tool`")),
    }
}

/// Makes turns of a conversation, in which each call must have its result.
fn turns(items: Vec<Item>) -> Result<Vec<Turn>, Problem> {
    let mut turns = Vec::new();
    let mut items = items.into_iter().peekable();
    while let Some(item) = items.next() {
        let Item::Message(message) = item else {
            return Err(Problem::invalid("a tool result does not follow a tool call"));
        };
        let mut results = Vec::new();
        while let Some(Item::Result(result)) = items.next_if(|it| matches!(it, Item::Result(_))) {
            results.push(result);
        }
        if message.is_empty() {
            continue;
        }
        let ids: Vec<_> = message.tool_calls().map(|it| it.id.clone()).collect();
        let turn = if ids.is_empty() && results.is_empty() {
            Turn::from_message(message)
        } else {
            let result_of = |id: Option<Arc<str>>| {
                let found = results.iter().find(|it| Some(&*it.id) == id.as_deref());
                found.map(|it| ToolResult::text(&*it.text))
            };
            let found: Option<Vec<_>> = ids.into_iter().map(result_of).collect();
            let missing = || Problem::invalid("each tool call must be followed by its result");
            let exchange = ToolExchange::new(message, found.ok_or_else(missing)?);
            exchange.and_then(|it| Turn::new(TurnBody::ToolExchange(it)))
        };
        turns.push(turn.map_err(|error| Problem::invalid(error.to_string()))?);
    }
    Ok(turns)
}

/// Reads the tools of a request. Those that the service of `OpenAI` runs itself are not known here.
pub(crate) fn tools(
    tools: Option<Vec<Value>>,
    choice: Option<&Value>,
    function: impl Fn(Value) -> Option<Value>,
) -> Result<ClientTools, Problem> {
    let tools = tools.unwrap_or_default();
    match choice {
        _ if tools.is_empty() => return Ok(ClientTools::default()),
        Some(Value::String(choice)) if choice == "none" => return Ok(ClientTools::default()),
        None | Some(Value::Null) => {}
        Some(Value::String(choice)) if choice == "auto" => {}
        Some(_) => return Err(Problem::invalid("`tool_choice` must be `auto` or `none`")),
    }
    let read = |tool: Value| {
        let unknown = || Problem::invalid("a tool must have type `function`");
        let is_function = tool.get("type").and_then(Value::as_str) == Some("function");
        let function = function(tool).filter(|_| is_function).ok_or_else(unknown)?;
        serde_json::from_value::<Declared>(function)
            .map_err(|error| Problem::invalid(format!("a tool is invalid: {error}")))
    };
    declared(tools.into_iter().map(read).collect::<Result<_, _>>()?)
}

/// Returns the seconds since 1970.
pub(crate) fn seconds(server: &Server) -> u64 {
    server.clock().now().millis() / 1000
}

pub(crate) fn chat_usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}
