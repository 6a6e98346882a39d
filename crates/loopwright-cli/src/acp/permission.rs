//! Waiting calls, as permission requests to the editor.

use std::pin::pin;

use futures::future::{Either, select};
use loopwright_core::{AgentState, ApprovalDecision, PendingApproval, messages::ToolCall};
use loopwright_permissions::Decision;
use loopwright_sessions::AgentSession;
use serde_json::{Value, json};

use super::connection::Connection;
use super::error::RpcError;
use super::tool_calls::ToolCalls;
use crate::agent::Setup;
use crate::approval::{self, Scope};
use crate::chosen_rules::ChosenRule;
use crate::permissions::RunPermissions;
use crate::project::absolute;
use crate::render::{planned_change, single_line};
use crate::sessions::UserDecision;
use crate::signals::CancelSwitch;

/// The most characters of an option.
const OPTION: usize = 120;

/// The result for the model of a call that waited when the user cancelled the turn.
pub(super) const CANCELLED: &str = "the user cancelled the turn before deciding on this call";

const ALLOW: &str = "allow";
const ALLOW_SESSION: &str = "allow-session";
const ALLOW_PROJECT: &str = "allow-project";
const MARK_DONE: &str = "mark-done";
const REJECT: &str = "reject";
const REJECT_SESSION: &str = "reject-session";
const REJECT_PROJECT: &str = "reject-project";
const REJECT_STOP: &str = "reject-stop";

/// Makes the parameters of `session/request_permission`.
pub(super) fn request(
    session: &str,
    setup: &Setup,
    calls: &mut ToolCalls,
    state: &AgentState,
    asked: &PendingApproval<'_>,
    rules: &[String],
) -> Value {
    let mut call = calls.description(asked.call);
    call["toolCallId"] = json!(id(calls, state, asked));
    call["status"] = json!("pending");
    let mut content = vec![json!({
        "type": "content", "content": {"type": "text", "text": question(asked)},
    })];
    content.extend(diff(setup, asked.call));
    call["content"] = json!(content);
    json!({"sessionId": session, "toolCall": call, "options": options(asked, rules)})
}

fn id(calls: &mut ToolCalls, state: &AgentState, asked: &PendingApproval<'_>) -> String {
    let open = state.execution().and_then(|it| it.open_step());
    let step = open.map_or(0, loopwright_core::OpenStep::number);
    let known = calls.id_of(&(None, step, asked.index), asked.call).map(str::to_owned);
    known.unwrap_or_else(|| calls.new_id(asked.call.id.as_deref()))
}

fn question(asked: &PendingApproval<'_>) -> String {
    let agents: Vec<&str> = asked.path.iter().map(|it| &*it.agent).collect();
    if agents.is_empty() {
        return asked.question.text.clone();
    }
    format!("{}: {}", agents.join(" › "), asked.question.text)
}

fn diff(setup: &Setup, call: &ToolCall) -> Option<Value> {
    let arguments = call.parse_arguments().ok()?;
    let (path, before, after) = planned_change(&setup.workdir, &call.name, &arguments)?;
    let path = absolute(setup.workdir.path(), &path);
    Some(json!({"type": "diff", "path": path, "oldText": before, "newText": after}))
}

fn options(asked: &PendingApproval<'_>, rules: &[String]) -> Value {
    let option = |id: &str, name: &str, kind: &str| json!({"optionId": id, "name": single_line(name, OPTION), "kind": kind});
    if asked.question.is_recovery() {
        return json!([
            option(ALLOW, "Run it again", "allow_once"),
            option(MARK_DONE, "Already done", "allow_once"),
            option(REJECT, "Skip it", "reject_once"),
            option(REJECT_STOP, "Skip it, and stop", "reject_once"),
        ]);
    }
    let mut options = vec![option(ALLOW, "Allow once", "allow_once")];
    let rules = rules.join(", ");
    let of_rules = |id: &str, name: String, kind: &str| {
        if rules.is_empty() { None } else { Some(option(id, &name, kind)) }
    };
    let session = format!("Allow {rules} in this session");
    options.extend(of_rules(ALLOW_SESSION, session, "allow_always"));
    let project = format!("Always allow {rules} in this project");
    options.extend(of_rules(ALLOW_PROJECT, project, "allow_always"));
    options.push(option(REJECT, "Reject", "reject_once"));
    let session = format!("Reject {rules} in this session");
    options.extend(of_rules(REJECT_SESSION, session, "reject_always"));
    let project = format!("Never allow {rules} in this project");
    options.extend(of_rules(REJECT_PROJECT, project, "reject_always"));
    options.push(option(REJECT_STOP, "Reject, and stop", "reject_once"));
    json!(options)
}

/// A decision of the user, and the rules that hold from now on with it.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) resolution: ApprovalDecision,
    lasting: Option<(Scope, Decision)>,
}

impl From<ApprovalDecision> for Answered {
    fn from(resolution: ApprovalDecision) -> Self {
        Self { resolution, lasting: None }
    }
}

impl Answered {
    /// Returns the rules that are recorded in the session, together with the decision.
    pub(super) fn session_rules(&self, rules: &[String]) -> Vec<ChosenRule> {
        approval::session_rules(self.lasting, rules)
    }

    /// Keeps the rules, once the decision is recorded.
    pub(super) fn keep(
        &self,
        permissions: &RunPermissions,
        session: &AgentSession,
        rules: &[String],
    ) {
        approval::keep(permissions, session, self.lasting, rules);
    }
}

/// What became of a permission that the editor was asked for.
pub(super) enum Asked {
    Answered(Value),
    /// The user cancelled the turn.
    Cancelled,
    /// Another process answered or changed the request, or its time has passed.
    Settled,
}

/// Asks for a permission, unless the turn is cancelled or the request is settled meanwhile.
///
/// # Errors
///
/// Returns an error if the editor refuses or goes away.
pub(super) async fn ask(
    connection: &Connection,
    brake: &CancelSwitch,
    params: &Value,
    settled: impl Future<Output = ()>,
) -> Result<Asked, RpcError> {
    let asked = connection.request_unless("session/request_permission", params, settled);
    let cancelled = brake.token().cancelled();
    match select(pin!(asked), pin!(cancelled)).await {
        Either::Left((Some(Ok(answer)), _)) => Ok(Asked::Answered(answer)),
        Either::Left((Some(Err(error)), _)) => Err(RpcError::internal(format!(
            "the client did not answer a permission request: {}",
            error.message()
        ))),
        Either::Left((None, _)) => Ok(Asked::Settled),
        Either::Right(_) => Ok(Asked::Cancelled),
    }
}

/// Reads the answer. `None` means that the user cancelled the turn.
pub(super) fn decision(
    answer: &Value,
    state: &AgentState,
    asked: &PendingApproval<'_>,
    rules: &[String],
) -> Option<Answered> {
    let outcome = &answer["outcome"];
    if outcome["outcome"] != "selected" {
        return None;
    }
    let deny = || UserDecision::Deny(None).of(Some(asked), state);
    let (resolution, lasting) = match outcome["optionId"].as_str() {
        Some(ALLOW) => (ApprovalDecision::Approve, None),
        Some(ALLOW_SESSION) if !rules.is_empty() => {
            (ApprovalDecision::Approve, Some((Scope::Session, Decision::Allow)))
        }
        Some(ALLOW_PROJECT) if !rules.is_empty() => {
            (ApprovalDecision::Approve, Some((Scope::Project, Decision::Allow)))
        }
        Some(REJECT_SESSION) if !rules.is_empty() => {
            (deny(), Some((Scope::Session, Decision::Deny)))
        }
        Some(REJECT_PROJECT) if !rules.is_empty() => {
            (deny(), Some((Scope::Project, Decision::Deny)))
        }
        Some(REJECT_STOP) => (UserDecision::Stop(None).of(Some(asked), state), None),
        Some(MARK_DONE) if asked.question.is_recovery() => {
            (UserDecision::MarkDone(None).of(Some(asked), state), None)
        }
        // What was not offered allows nothing.
        _ => (deny(), None),
    };
    Some(Answered { resolution, lasting })
}
