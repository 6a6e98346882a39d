//! `/v1/sessions/{session}/pending`: calls that wait for decisions.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, request::Parts},
    response::Response,
    routing::{get, post},
};
use loopwright_core::{ApprovalDecision, Arguments, PendingApproval, RequestKind, ToolOutput};
use loopwright_sessions::{
    AgentSession, DecideShown, DecideThen, RequestAddress, SessionError, SessionHeader,
    ShownRequest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{reply, reply_tagged};
use crate::{
    agents::{KeptRules, RuleScope},
    extract::{Body, OwnSession, path_param},
    operation::{APPROVE, IF_NONE_MATCH, Operation, READ, empty, json, json_body},
    problem::Problem,
    server::Server,
    views::{PendingList, PendingView, SessionView},
};

/// A decision about a waiting call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum DecisionBody {
    /// The call runs.
    Approve {
        /// Arguments that replace those of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// The rules that decide about such calls from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<KeepBody>,
    },
    /// The call does not run.
    Deny {
        /// The reason, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The rules that decide about such calls from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<KeepBody>,
    },
    /// The call does not run, and the run stops.
    Stop {
        /// The reason, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The rules that decide about such calls from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<KeepBody>,
    },
    /// The answer to the question of the tool, or the result of a tool that runs elsewhere.
    Answer {
        /// The answer, which must match the schema of the question or the result.
        answer: Value,
    },
    /// The tool's question stays unanswered: the user neither answers nor declines.
    Cancel,
    /// The tool that runs elsewhere failed.
    Error {
        /// The error, for the model.
        message: String,
    },
    /// The call does not run, and this is its result, because it was already done or done by hand.
    Result {
        /// The result, for the model.
        text: String,
    },
}

/// Rules to keep with a decision: those that were listed with the call, and how long they hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeepBody {
    /// How long they hold.
    pub scope: RuleScope,
    /// The rules, exactly as `rules` of the call lists them.
    pub rules: Vec<String>,
}

impl DecisionBody {
    /// Returns the rules to keep, and whether they allow calls.
    fn keep(&self) -> Option<(&KeepBody, bool)> {
        match self {
            Self::Approve { keep, .. } => Some((keep.as_ref()?, true)),
            Self::Deny { keep, .. } | Self::Stop { keep, .. } => Some((keep.as_ref()?, false)),
            Self::Answer { .. } | Self::Cancel | Self::Error { .. } | Self::Result { .. } => None,
        }
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            method: "get",
            path: "/v1/sessions/{session}/pending",
            id: "listPending",
            summary: "List the calls of a session that are waiting for decisions",
            security: READ,
            parameters: &[IF_NONE_MATCH],
            body: None,
            responses: const { &[json::<PendingList>(200, "The calls."), empty(304, "No change.")] },
            handler: || get(list),
        },
        Operation {
            method: "post",
            path: "/v1/sessions/{session}/pending/{call}",
            id: "decide",
            summary: "Decide on a call; the run continues after the last decision",
            security: APPROVE,
            parameters: &[],
            body: Some(json_body::<DecisionBody>()),
            responses: const { &[json::<SessionView>(200, "The session.")] },
            handler: || post(decide),
        },
    ]
}

async fn list(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session = server.runtime().session(&header.id).await?;
    reply_tagged(&headers, &PendingList { pending: views(&server, &session).await })
}

/// Returns the calls that wait, with the rules that can be kept with a decision.
pub(crate) async fn views(server: &Server, session: &AgentSession) -> Vec<PendingView> {
    let mut views = Vec::new();
    for asked in &session.state().pending() {
        let rules = suggested(server, session, asked).await;
        views.push(PendingView { rules, ..PendingView::of(session, asked) });
    }
    views
}

async fn suggested(
    server: &Server,
    session: &AgentSession,
    asked: &PendingApproval<'_>,
) -> Vec<String> {
    if !matches!(asked.kind, RequestKind::Approval) || asked.question.is_recovery() {
        return Vec::new();
    }
    // A call is decided about without rules if they cannot be found, such as in a folder that is gone.
    server.agents().suggested_rules(session, asked).await.unwrap_or_default()
}

/// Checks that rules may be kept, and are those that were shown.
async fn kept(
    server: &Server,
    session: &AgentSession,
    asked: &PendingApproval<'_>,
    body: &DecisionBody,
) -> Result<Option<KeptRules>, Problem> {
    let Some((KeepBody { scope, rules }, allows)) = body.keep() else { return Ok(None) };
    if matches!(body, DecisionBody::Approve { arguments: Some(_), .. }) {
        return Err(Problem::invalid("rules cannot be saved with edited arguments"));
    }
    if *scope == RuleScope::Always && session.id().tag().is_some() {
        return Err(Problem::invalid(
            "only the user who runs the server can save rules permanently",
        ));
    }
    let suggested = suggested(server, session, asked).await;
    if rules.is_empty() || suggested != *rules {
        return Err(Problem::conflict(
            "the rules for this call have changed; list the waiting calls again",
        ));
    }
    Ok(Some(KeptRules { scope: *scope, allows, rules: rules.clone() }))
}

async fn decide(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    mut parts: Parts,
    Body(body): Body<DecisionBody>,
) -> Result<Response, Problem> {
    let call = path_param(&mut parts, "call").await?;
    let session = decided(&server, &header, &call, body).await?;
    reply(StatusCode::OK, &SessionView::from(&session))
}

/// Records a decision, and lets the run continue if no call waits any more.
pub(crate) async fn decided(
    server: &Server,
    header: &SessionHeader,
    call: &str,
    body: DecisionBody,
) -> Result<AgentSession, Problem> {
    server.admit_more(&header.id).await?;
    let session = server.runtime().session(&header.id).await?;
    let asked = asked_at(&session, call)?;
    let kept = kept(server, &session, &asked, &body).await?;
    let resolution = resolution(body, &asked);
    let request = ShownRequest::of(session.id(), session.state(), &asked);
    let (in_session, always) = match kept {
        Some(kept) if kept.scope == RuleScope::Session => (Some(kept), None),
        kept => (None, kept),
    };
    let decide = DecideShown { request, resolution };
    let edit = |session| match &in_session {
        Some(rules) => {
            server.agents().with_session_rules(session, rules).map_err(SessionError::Action)
        }
        None => Ok(session),
    };
    let action = DecideThen { decide, edit };
    let session = server.runtime().execute(&header.id, &action).await?;
    // Rules are kept only with the decision that they come from, and before the run continues.
    if let Some(kept) = always {
        let done = server.agents().keep_rules(header, &kept).await;
        done.map_err(|_| {
            Problem::internal("the decision was recorded, but its rules were not saved")
        })?;
    }
    if session.state().pending().is_empty() {
        server.continue_decided(&header.id).await?;
    }
    Ok(session)
}

/// Returns the call that waits at an address. If the address has a tag, the call must wait as it was shown under this tag.
pub(crate) fn asked_at<'a>(
    session: &'a AgentSession,
    call: &str,
) -> Result<PendingApproval<'a>, Problem> {
    let unknown = || Problem::not_found("unknown call; list the waiting calls");
    let address: RequestAddress = call.parse().map_err(|_| unknown())?;
    address.find(session)?.ok_or_else(unknown)
}

/// Returns the reason of a denial without one.
fn default_reason(asked: &PendingApproval<'_>) -> &'static str {
    match asked.kind {
        RequestKind::Question { .. } => "the user declined to answer",
        _ if asked.question.is_recovery() => "the user decided not to repeat the call",
        _ => "The user denied the call.",
    }
}

fn resolution(body: DecisionBody, asked: &PendingApproval<'_>) -> ApprovalDecision {
    let reason = |given: Option<String>| given.unwrap_or_else(|| default_reason(asked).to_owned());
    match body {
        DecisionBody::Approve { arguments: None, .. } => ApprovalDecision::Approve,
        DecisionBody::Approve { arguments: Some(arguments), .. } => {
            ApprovalDecision::ApproveWith { arguments: Arguments::new(arguments.to_string()) }
        }
        DecisionBody::Deny { reason: given, .. } => {
            ApprovalDecision::Deny { reason: reason(given) }
        }
        DecisionBody::Stop { reason: given, .. } => {
            ApprovalDecision::DenyAndStop { reason: reason(given) }
        }
        DecisionBody::Cancel => ApprovalDecision::Cancel,
        DecisionBody::Error { message } => ApprovalDecision::Fail { message },
        DecisionBody::Answer { answer } => ApprovalDecision::Reply(answer),
        DecisionBody::Result { text } => ApprovalDecision::Answer(ToolOutput::text(text)),
    }
}
