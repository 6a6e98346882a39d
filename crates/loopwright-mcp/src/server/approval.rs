//! Questions of calls, passed to the client's user.

use loopwright_core::{ApprovalDecision, PendingApproval, RequestKind};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Value, json};

/// What the field of an answer is called that has no schema of its own.
const ANSWER: &str = "answer";

/// Makes the question to the user; `None` if no form can ask it.
pub(super) fn question(asked: &PendingApproval<'_>) -> Option<ElicitRequestParams> {
    let schema = match asked.kind {
        RequestKind::Question { schema: Some(schema) } if is_flat(schema) => (**schema).clone(),
        RequestKind::Question { .. } => json!({
            "type": "object", "properties": {ANSWER: {"type": "string"}}, "required": [ANSWER],
        }),
        RequestKind::Approval { .. } => json!({
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

/// Reads the user's answer.
pub(super) fn decision(asked: &PendingApproval<'_>, result: &ElicitResult) -> ApprovalDecision {
    let deny = |reason: &str| ApprovalDecision::Deny { reason: reason.to_owned() };
    let (ElicitationAction::Accept, Some(content)) = (&result.action, &result.content) else {
        return deny("the user denied the call");
    };
    match asked.kind {
        RequestKind::Question { schema: Some(schema) } if is_flat(schema) => {
            ApprovalDecision::Reply(content.clone())
        }
        RequestKind::Question { .. } => ApprovalDecision::Reply(content[ANSWER].clone()),
        _ if content["allow"] == Value::Bool(true) => ApprovalDecision::Approve,
        _ => deny("the user denied the call"),
    }
}
