//! Questions of a call in progress, as requests to the client.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::{ApprovalDecision, PendingApproval, RequestKind, violation_of};
use rmcp::RoleServer;
use rmcp::model::{
    ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ErrorData, InputRequest, InputRequests, InputRequiredResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};

use super::client_requests::{ClientReplies, ClientRequests};

/// The key of the question that hooks and tools ask in the form of this library.
const QUESTION: &str = "question";

/// What the field of an answer is called that has no schema of its own.
const ANSWER: &str = "answer";

/// The refusal if no user can be asked.
const UNASKED: &str =
    "the call needs approval, and this client cannot ask its user; allow it with a permission rule";

const DENIED: &str = "the user denied the call";

/// What came of asking a client.
pub(super) enum Asked {
    Answered(ClientReplies),
    /// It asks its user and sends the request again. These replies it has sent already.
    Later(InputRequiredResult, ClientReplies),
    /// It can answer none of the requests.
    Incapable(ClientCapabilities),
}

/// Returns the requests of a call that waits, and `true` if the tool made them for a client.
pub(super) fn requests(asked: &PendingApproval<'_>) -> (InputRequests, bool) {
    if let RequestKind::Question { schema: Some(schema) } = asked.kind
        && let Some(requests) = ClientRequests::of_schema(schema)
    {
        return (requests, true);
    }
    let question = question(asked)
        .map(|it| (QUESTION.to_owned(), InputRequest::Elicitation(ElicitRequest::new(it))));
    (question.into_iter().collect(), false)
}

/// Makes the question to the user; `None` if no form can ask it.
fn question(asked: &PendingApproval<'_>) -> Option<ElicitRequestParams> {
    let schema = match asked.kind {
        RequestKind::Question { schema: Some(schema) } if is_flat(schema) => (**schema).clone(),
        RequestKind::Question { .. } => json!({
            "type": "object", "properties": {ANSWER: {"type": "string"}}, "required": [ANSWER],
        }),
        RequestKind::Approval => json!({
            "type": "object",
            "properties": {"allow": {
                "type": "boolean", "title": "Allow this call", "default": false,
            }},
            "required": ["allow"],
        }),
        _ => return None,
    };
    let call = asked.call;
    let message = match asked.kind {
        RequestKind::Question { .. } => asked.question.text.clone(),
        _ => format!("{}\n\n{} {}", asked.question.text, call.name, call.arguments),
    };
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: serde_json::from_value(schema).ok()?,
    })
}

/// Returns `true` if a form can show a schema.
fn is_flat(schema: &Value) -> bool {
    let is_plain = |it: &Value| {
        matches!(it["type"].as_str(), Some("string" | "number" | "integer" | "boolean"))
    };
    schema["type"] == "object"
        && schema["properties"].as_object().is_some_and(|it| it.values().all(is_plain))
}

/// Reads the decision about a call out of the replies.
pub(super) fn decision(asked: &PendingApproval<'_>, replies: ClientReplies) -> ApprovalDecision {
    if requests(asked).1 {
        return ApprovalDecision::Reply(Value::Object(replies.0));
    }
    let deny = |reason: &str| ApprovalDecision::Deny { reason: reason.to_owned() };
    if replies.is_empty() {
        return deny(UNASKED);
    }
    let Some(content) = replies.accepted(QUESTION) else {
        let is_cancelled = replies.get(QUESTION).is_some_and(|it| it["action"] == "cancel");
        return match asked.kind {
            RequestKind::Question { .. } if is_cancelled => ApprovalDecision::Cancel,
            _ => deny(DENIED),
        };
    };
    match asked.kind {
        RequestKind::Question { schema: Some(schema) } if is_flat(schema) => {
            ApprovalDecision::Reply(content.clone())
        }
        RequestKind::Question { .. } => ApprovalDecision::Reply(content[ANSWER].clone()),
        _ if content["allow"] == Value::Bool(true) => ApprovalDecision::Approve,
        _ => deny(DENIED),
    }
}

/// Asks the client. `known` is what it has replied already: replies to other requests, and those that do not fit, are
/// ignored.
pub(super) async fn ask(
    mut requests: InputRequests,
    known: ClientReplies,
    context: &RequestContext<RoleServer>,
) -> Asked {
    let capabilities = context.client_capabilities().unwrap_or_default();
    let needed = needed(&requests);
    requests.retain(|_, request| can_answer(&capabilities, request));
    if requests.is_empty() {
        return Asked::Incapable(needed);
    }
    let mut replies = known;
    replies.0.retain(|key, reply| requests.get(key).is_some_and(|it| fits(it, reply)));
    requests.retain(|key, _| replies.get(key).is_none());
    if requests.is_empty() {
        return Asked::Answered(replies);
    }
    if is_stateless(context) {
        return Asked::Later(InputRequiredResult::new(Some(requests), None), replies);
    }
    for (key, request) in requests {
        tokio::select! {
            reply = send(&request, context) => match reply {
                Some(reply) if fits(&request, &reply) => {
                    replies.0.insert(key, reply);
                }
                // What does not fit a form agrees to nothing.
                Some(_) if matches!(request, InputRequest::Elicitation(_)) => {
                    replies.0.insert(key, json!({ "action": "decline" }));
                }
                _ => {}
            },
            () = context.ct.cancelled() => break,
        }
    }
    Asked::Answered(replies)
}

/// Returns `true` if the client sends a request again when it has answers, and cannot be sent any.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|it| it.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The error for a client that can answer none of the requests of a tool.
pub(super) fn incapable(needed: ClientCapabilities) -> ErrorData {
    ErrorData::missing_required_client_capability(needed)
}

/// Sends a request; `None` if the client refuses it.
#[expect(deprecated, reason = "earlier protocol revisions still use these requests")]
async fn send(request: &InputRequest, context: &RequestContext<RoleServer>) -> Option<Value> {
    let peer = &context.peer;
    match request {
        InputRequest::Elicitation(it) => {
            serde_json::to_value(peer.create_elicitation(it.params.clone()).await.ok()?).ok()
        }
        InputRequest::CreateMessage(it) => {
            serde_json::to_value(peer.create_message(it.params.clone()).await.ok()?).ok()
        }
        InputRequest::ListRoots(_) => serde_json::to_value(peer.list_roots().await.ok()?).ok(),
        _ => None,
    }
}

fn can_answer(capabilities: &ClientCapabilities, request: &InputRequest) -> bool {
    match request {
        InputRequest::Elicitation(_) => capabilities.elicitation.is_some(),
        InputRequest::CreateMessage(_) => capabilities.sampling.is_some(),
        InputRequest::ListRoots(_) => capabilities.roots.is_some(),
        _ => false,
    }
}

/// Returns the capabilities of a client that can answer all of these.
fn needed(requests: &InputRequests) -> ClientCapabilities {
    let names = requests.values().filter_map(|it| match it {
        InputRequest::Elicitation(_) => Some("elicitation"),
        InputRequest::CreateMessage(_) => Some("sampling"),
        InputRequest::ListRoots(_) => Some("roots"),
        _ => None,
    });
    let needed: Map<String, Value> = names.map(|it| (it.to_owned(), json!({}))).collect();
    serde_json::from_value(Value::Object(needed)).unwrap_or_default()
}

/// Returns `true` if a reply answers a request.
fn fits(request: &InputRequest, reply: &Value) -> bool {
    let reply = reply.clone();
    match request {
        InputRequest::Elicitation(request) => {
            let Ok(result) = serde_json::from_value::<ElicitResult>(reply) else { return false };
            let ElicitRequestParams::FormElicitationParams { requested_schema, .. } =
                &request.params
            else {
                return true;
            };
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            let content = result.content.unwrap_or_default();
            let is_valid = || violation_of(&Arc::new(schema), &content).is_none();
            result.action != ElicitationAction::Accept || is_valid()
        }
        InputRequest::CreateMessage(_) => {
            reply["content"].is_object() || reply["content"].is_array()
        }
        InputRequest::ListRoots(_) => reply["roots"].is_array(),
        _ => false,
    }
}

/// Returns the replies that a request brings.
pub(super) fn brought(responses: Option<&BTreeMap<String, Value>>) -> ClientReplies {
    ClientReplies(
        responses.into_iter().flatten().map(|(key, it)| (key.clone(), it.clone())).collect(),
    )
}
