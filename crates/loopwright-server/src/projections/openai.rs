//! Shared parts of the `OpenAI` protocols: models, errors, and texts of messages.

use axum::{
    extract::{Request, State},
    http::StatusCode,
    middleware::Next,
    response::Response,
    routing::get,
};
use loopwright_core::messages::{Message, Role, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

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
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Part {
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
        for Part { kind, text } in parts {
            let is_text = matches!(&*kind, "text" | "input_text" | "output_text");
            let text = text.filter(|_| is_text);
            let unsupported = || Problem::invalid("only text parts are supported in messages");
            texts.push(text.ok_or_else(unsupported)?);
        }
        Ok(texts.join("\n"))
    }
}

/// Makes a message of what a client sends. Clients do not instruct the agent of the server: what they send as system or
/// developer is said by the user.
pub(crate) fn message(role: &str, text: String) -> Result<Message, Problem> {
    match role {
        "assistant" => Ok(Message::assistant(text)),
        "user" | "system" | "developer" => Ok(Message::user(text)),
        _ => Err(Problem::invalid(
            "a message must have role `user`, `assistant`, `system` or `developer`",
        )),
    }
}

/// Splits messages: those before, and the text of the last one, which must be the user's.
pub(crate) fn history(mut messages: Vec<Message>) -> Result<(Vec<Message>, String), Problem> {
    match messages.pop() {
        Some(last) if last.role() == Role::User => Ok((messages, last.text())),
        _ => Err(Problem::invalid("the last message must have role `user`")),
    }
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
