//! A2A 1.0 over JSON-RPC and HTTP: a context is a session, and a task is a run.

mod call;
mod card;
mod task;

use axum::{
    body::Body as HttpBody,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use self::{
    call::{Answer, Call, Failure},
    task::TaskEvents,
};
use super::stream;
use crate::{
    access::{host, one},
    extract::{bytes, path_param},
    operation::{Content, Operation, Parameter, READ, RUN, other},
    principal::Principal,
    problem::Problem,
    routes::reply,
    server::Server,
};

/// The version of the protocol.
const VERSION: &str = "1.0";
const JSON: &str = "application/json";

pub(crate) fn operations() -> Vec<Operation> {
    const VERSION: Parameter = Parameter {
        name: "A2A-Version",
        place: "header",
        about: "The version of the protocol: `1.0`.",
        kind: "string",
    };
    let of = |method, path, id, summary| Operation {
        method,
        path,
        id,
        summary,
        security: RUN,
        parameters: &[VERSION],
        body: None,
        responses: const {
            &[other(200, "The response, or a stream of events for streaming methods.", JSON)]
        },
        handler: || get(card),
    };
    let send = |path, id, summary, handler| Operation {
        body: Some(Content::Other(JSON)),
        handler,
        ..of("post", path, id, summary)
    };
    vec![
        Operation {
            security: READ,
            ..of(
                "get",
                "/v1/agents/{agent}/a2a/.well-known/agent-card.json",
                "getA2aCard",
                "Read the A2A card of an agent",
            )
        },
        Operation {
            security: READ,
            handler: || get(first_card),
            ..of(
                "get",
                "/.well-known/agent-card.json",
                "getFirstA2aCard",
                "Read the A2A card of the first agent",
            )
        },
        send("/v1/agents/{agent}/a2a", "callA2a", "Call an agent over A2A JSON-RPC", || post(rpc)),
        send(
            "/v1/agents/{agent}/a2a/message:send",
            "sendA2aMessage",
            "Send an A2A message",
            || post(send_message),
        ),
        send(
            "/v1/agents/{agent}/a2a/message:stream",
            "streamA2aMessage",
            "Send an A2A message and follow its task",
            || post(stream_message),
        ),
        Operation {
            security: READ,
            handler: || get(tasks),
            ..of("get", "/v1/agents/{agent}/a2a/tasks", "listA2aTasks", "List A2A tasks")
        },
        Operation {
            security: READ,
            handler: || get(task),
            ..of("get", "/v1/agents/{agent}/a2a/tasks/{task}", "getA2aTask", "Read an A2A task")
        },
        Operation {
            handler: || post(act),
            ..of(
                "post",
                "/v1/agents/{agent}/a2a/tasks/{task}",
                "actOnA2aTask",
                "Cancel a task with `:cancel` after its ID, or follow it with `:subscribe`",
            )
        },
    ]
}

async fn card(State(server): State<Server>, mut parts: Parts) -> Result<Response, Problem> {
    let agent = path_param(&mut parts, "agent").await?;
    let card = card::of(&server, Some(&agent), host(&parts)?).await?;
    reply(StatusCode::OK, &card)
}

async fn first_card(State(server): State<Server>, parts: Parts) -> Result<Response, Problem> {
    let card = card::of(&server, None, host(&parts)?).await?;
    reply(StatusCode::OK, &card)
}

/// Refuses requests of another version of the protocol.
fn check_version(headers: &HeaderMap) -> Result<(), Failure> {
    let name = HeaderName::from_static("a2a-version");
    let version = one(headers, &name)?.unwrap_or(VERSION);
    // A patch release changes nothing of the protocol.
    if version == VERSION || version.starts_with("1.0.") {
        return Ok(());
    }
    Err(Failure::new(-32009, 400, format!("version `{version}` is not supported; use `{VERSION}`")))
}

async fn call_of(
    server: Server,
    principal: Principal,
    parts: &mut Parts,
    method: &str,
    params: Value,
) -> Result<Answer, Failure> {
    check_version(&parts.headers)?;
    let agent = path_param(parts, "agent").await?;
    Box::pin(Call { server, principal, agent }.perform(method, params)).await
}

/// Answers a request of JSON-RPC. Its errors are answers, with the status 200.
async fn rpc(
    State(server): State<Server>,
    principal: Principal,
    mut parts: Parts,
    request: Request,
) -> Result<Response, Problem> {
    let body = bytes(request, &server).await?;
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return failed(&Value::Null, &Failure::new(-32700, 400, "the body is not JSON"));
    };
    let id = request.get("id").cloned().unwrap_or(Value::Null);
    let is_id = id.is_string() || id.is_number() || id.is_null();
    let method = request.get("method").and_then(Value::as_str);
    let (Some(method), true, true) = (method, is_id, request["jsonrpc"] == "2.0") else {
        let id = if is_id { id } else { Value::Null };
        return failed(&id, &Failure::new(-32600, 400, "the body is not a JSON-RPC 2.0 request"));
    };
    let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
    match call_of(server.clone(), principal, &mut parts, method, params).await {
        Ok(Answer::Value(result)) => {
            reply(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
        }
        Ok(Answer::Stream(run, task)) => {
            let events = TaskEvents::new(task, Some(id));
            Ok(stream(events, *run, server.metrics().stream()))
        }
        Err(failure) => failed(&id, &failure),
    }
}

fn failed(id: &Value, failure: &Failure) -> Result<Response, Problem> {
    let error = json!({ "code": failure.code, "message": failure.text });
    reply(StatusCode::OK, &json!({ "jsonrpc": "2.0", "id": id, "error": error }))
}

async fn send_message(
    State(server): State<Server>,
    principal: Principal,
    parts: Parts,
    request: Request,
) -> Result<Response, Problem> {
    plain(server, principal, parts, request, "SendMessage").await
}

async fn stream_message(
    State(server): State<Server>,
    principal: Principal,
    parts: Parts,
    request: Request,
) -> Result<Response, Problem> {
    plain(server, principal, parts, request, "SendStreamingMessage").await
}

/// Answers a request of the HTTP binding.
async fn plain(
    server: Server,
    principal: Principal,
    mut parts: Parts,
    request: Request,
    method: &str,
) -> Result<Response, Problem> {
    let body = bytes(request, &server).await?;
    let params = match serde_json::from_slice(&body) {
        Ok(params) => params,
        Err(_) if body.is_empty() => json!({}),
        Err(error) => return Err(Problem::bad_request(format!("the body is invalid: {error}"))),
    };
    answer(server, principal, &mut parts, method, params).await
}

async fn answer(
    server: Server,
    principal: Principal,
    parts: &mut Parts,
    method: &str,
    params: Value,
) -> Result<Response, Problem> {
    match call_of(server.clone(), principal, parts, method, params).await {
        Ok(Answer::Value(value)) => reply(StatusCode::OK, &value),
        Ok(Answer::Stream(run, task)) => {
            Ok(stream(TaskEvents::new(task, None), *run, server.metrics().stream()))
        }
        Err(failure) => {
            let status = StatusCode::from_u16(failure.status);
            let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let details = failure.reason().map(|reason| {
                json!({
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason,
                    "domain": "a2a-protocol.org",
                })
            });
            let error = json!({
                "code": failure.status, "status": failure.name(), "message": failure.text,
                "details": details.into_iter().collect::<Vec<_>>(),
            });
            let body = HttpBody::from(json!({ "error": error }).to_string());
            Ok((status, [(header::CONTENT_TYPE, JSON)], body).into_response())
        }
    }
}

async fn tasks(
    State(server): State<Server>,
    principal: Principal,
    mut parts: Parts,
) -> Result<Response, Problem> {
    let query = parts.uri.query().unwrap_or_default();
    let pairs = url_pairs(query);
    let params = pairs.into_iter().map(|(name, value)| {
        let value = match value.parse::<u64>() {
            Ok(number) if name == "pageSize" || name == "historyLength" => number.into(),
            _ => Value::String(value),
        };
        (name, value)
    });
    let params = Value::Object(params.collect());
    answer(server, principal, &mut parts, "ListTasks", params).await
}

/// Returns the parameters of a query.
fn url_pairs(query: &str) -> Vec<(String, String)> {
    let uri = axum::http::Uri::builder().path_and_query(format!("/?{query}")).build();
    let read = |uri| axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri).ok();
    uri.ok().and_then(read).map(|it| it.0).unwrap_or_default()
}

async fn task(
    State(server): State<Server>,
    principal: Principal,
    mut parts: Parts,
) -> Result<Response, Problem> {
    let id = path_param(&mut parts, "task").await?;
    answer(server, principal, &mut parts, "GetTask", json!({ "id": id })).await
}

async fn act(
    State(server): State<Server>,
    principal: Principal,
    mut parts: Parts,
) -> Result<Response, Problem> {
    let path = path_param(&mut parts, "task").await?;
    let (id, method) = match path.rsplit_once(':') {
        Some((id, "cancel")) => (id, "CancelTask"),
        Some((id, "subscribe")) => (id, "SubscribeToTask"),
        _ => return Err(Problem::not_found("unknown path")),
    };
    answer(server, principal, &mut parts, method, json!({ "id": id })).await
}
