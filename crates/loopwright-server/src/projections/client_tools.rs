//! Tools that clients declare in requests and run themselves.

use std::{borrow::Cow, collections::BTreeSet};

use async_trait::async_trait;
use loopwright_core::{
    ApprovalDecision, Edit, ExternalTool, Key, PendingApproval, RequestKind, messages::Message,
};
use loopwright_sessions::{
    ActionCx, AgentSession, ClientTools, Job, JobId, JobQuery, JobRecord, JobStatus, SessionAction,
    SessionError, SessionHeader, SessionId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::run::last_event;
use crate::{
    extract::own_session,
    principal::Principal,
    problem::Problem,
    routes::messages::{last_run, record},
    server::Server,
    tokens::hash,
};

/// The most tools of a request.
const MAX_TOOLS: usize = 128;
/// The most characters of a name.
const MAX_NAME: usize = 64;
/// The most bytes of a description and schema.
const MAX_TOOL: usize = 32 << 10;
/// The most bytes of all descriptions and schemas.
const MAX_TOTAL: usize = 256 << 10;
/// How deep a schema may be nested.
const MAX_DEPTH: usize = 32;

/// The results that a client sent last.
const ANSWERED: Key<Answered> = Key::session("client_tools", "answered");

/// What was recorded of the last results, so that a repeated request continues the same run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Answered {
    /// How often results were recorded.
    count: u64,
    /// A hash of the results.
    digest: String,
    /// The last event before them.
    after: u64,
}

/// A tool as clients declare it.
#[derive(Debug, Deserialize)]
pub(crate) struct Declared {
    pub(crate) name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
}

/// A call that a client has to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCall {
    pub(crate) id: String,
    /// Its address among the pending calls.
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// The result of a call that a client ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallResult {
    pub(crate) id: String,
    pub(crate) text: String,
}

/// Checks the tools of a request.
pub(crate) fn declared(tools: Vec<Declared>) -> Result<ClientTools, Problem> {
    if tools.len() > MAX_TOOLS {
        return Err(Problem::invalid(format!("a request can declare at most {MAX_TOOLS} tools")));
    }
    let (mut names, mut total) = (BTreeSet::new(), 0);
    let mut checked = Vec::with_capacity(tools.len());
    for Declared { name, description, parameters } in tools {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_name) {
            return Err(Problem::invalid(format!(
                "a tool name must have 1 to {MAX_NAME} letters, digits, `_` and `-`"
            )));
        }
        let mut tool = ExternalTool::new(&*name, description.as_deref().unwrap_or_default());
        let mut size = description.map_or(0, |it| it.len());
        if let Some(schema) = parameters.filter(|it| !it.is_null()) {
            size += schema.to_string().len();
            tool = tool.with_parameters(object_schema(schema).map_err(|reason| {
                Problem::invalid(format!("the schema of tool `{name}` {reason}"))
            })?);
        }
        total += size;
        if size > MAX_TOOL || total > MAX_TOTAL {
            return Err(Problem::invalid(format!(
                "the description and schema of a tool can be at most {} KiB in size, and those of all tools at most {} KiB",
                MAX_TOOL >> 10,
                MAX_TOTAL >> 10
            )));
        }
        if !names.insert(name.clone()) {
            return Err(Problem::invalid(format!("tool `{name}` is declared twice")));
        }
        checked.push(tool);
    }
    Ok(ClientTools::new(checked))
}

/// Checks the schema of arguments, which must describe an object.
fn object_schema(mut schema: Value) -> Result<Value, &'static str> {
    check_depth(&schema, 0)?;
    let Some(object) = schema.as_object_mut() else { return Err("must be an object") };
    if *object.entry("type").or_insert_with(|| json!("object")) != "object" {
        return Err("must have type `object`");
    }
    object.entry("properties").or_insert_with(|| json!({}));
    Ok(schema)
}

/// Refuses schemas that are nested too deeply, or refer to other documents.
fn check_depth(value: &Value, depth: usize) -> Result<(), &'static str> {
    if depth > MAX_DEPTH {
        return Err("is nested too deeply");
    }
    match value {
        Value::Object(object) => object.iter().try_for_each(|(key, value)| {
            let refers = matches!(&**key, "$ref" | "$dynamicRef" | "$recursiveRef");
            if refers && value.as_str().is_some_and(|it| !it.starts_with('#')) {
                return Err("refers to another document");
            }
            check_depth(value, depth + 1)
        }),
        Value::Array(values) => values.iter().try_for_each(|it| check_depth(it, depth + 1)),
        _ => Ok(()),
    }
}

/// Refuses tools with the name of one that the agent of a session has, or is denied.
pub(crate) async fn check_names(
    server: &Server,
    session: &AgentSession,
    tools: &ClientTools,
) -> Result<(), Problem> {
    if tools.is_empty() {
        return Ok(());
    }
    let agent = server.agent_of(session).await?;
    let is_taken = |name: &str| {
        let is_of_server = name.starts_with("mcp__");
        is_of_server || agent.tools().get(name).is_some() || session.definition().denies_tool(name)
    };
    match tools.names().find(|it| is_taken(it)) {
        Some(name) => Err(Problem::tool_name_taken(format!(
            "the agent already has a tool `{name}`, or its definition denies a tool of this name; rename the client's tool"
        ))),
        None => Ok(()),
    }
}

/// Gives the client's tools to a session that exists, in place of earlier ones.
pub(crate) async fn replace(
    server: &Server,
    session: AgentSession,
    tools: ClientTools,
) -> Result<AgentSession, Problem> {
    if ClientTools::of(session.state()) == tools {
        return Ok(session);
    }
    check_names(server, &session, &tools).await?;
    let id = session.id().clone();
    Ok(server.runtime().execute(&id, &ReplaceTools(tools)).await?)
}

/// Stores the tools of the client.
struct ReplaceTools(ClientTools);

#[async_trait]
impl SessionAction for ReplaceTools {
    fn name(&self) -> Cow<'static, str> {
        "replace_client_tools".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        _: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let state = session.state().clone().edit(self.0.edit());
        Ok(session.with_state(state))
    }
}

/// Returns the calls that wait for results of the client, with their addresses.
pub(crate) fn waiting(session: &AgentSession) -> Vec<(Vec<u16>, ClientCall)> {
    let state = session.state();
    let tools = ClientTools::of(state);
    if tools.is_empty() {
        return Vec::new();
    }
    let count = state.get(&ANSWERED).map_or(0, |it| it.count);
    let pending = state.pending();
    let is_clients = |it: &&PendingApproval<'_>| {
        matches!(it.kind, RequestKind::External { .. }) && tools.contains(&it.call.name)
    };
    let call = |it: &PendingApproval<'_>| {
        let address = it.address();
        let (name, arguments) = (it.call.name.to_string(), it.call.arguments.to_string());
        // Two calls have one ID only if they ask for the same at the same place, and nothing was answered in between.
        let place = PendingApproval::format_address(&address);
        let digest = hash(&format!("{name}\n{arguments}"));
        let id = format!(
            "call_{}_{}-{count}-{}-{}",
            session.id(),
            state.total_steps(),
            place.replace('.', "-"),
            &digest[..8]
        );
        (address, ClientCall { id, place, name, arguments })
    };
    pending.iter().filter(is_clients).map(call).collect()
}

/// Returns `true` if an ID is that of a call for the client of a session.
pub(crate) fn is_of(session: &AgentSession, call: &str) -> bool {
    let of = call.strip_prefix("call_").and_then(|it| it.rsplit_once('_'));
    of.is_some_and(|it| it.0 == session.id().as_str())
}

/// Refuses a message while calls wait for results of the client.
pub(crate) fn check_answered(session: &AgentSession) -> Result<(), Problem> {
    match waiting(session).first() {
        Some((_, call)) => Err(Problem::invalid(format!("tool call `{}` has no result", call.id))),
        None => Ok(()),
    }
}

/// Returns the session whose calls these are results of, if it belongs to the principal.
pub(crate) async fn session_of(
    server: &Server,
    principal: &Principal,
    results: &[CallResult],
) -> Result<SessionHeader, Problem> {
    let unknown = || Problem::not_found("unknown tool call");
    let of = |id: &str| {
        let (session, _) = id.strip_prefix("call_")?.rsplit_once('_')?;
        SessionId::new(session).ok()
    };
    let mut sessions = results.iter().map(|it| of(&it.id));
    let first = sessions.next().flatten().ok_or_else(unknown)?;
    if !sessions.all(|it| it.as_ref() == Some(&first)) {
        return Err(Problem::invalid("the tool calls are from different sessions"));
    }
    let own = own_session(&**server.store(), principal, first).await;
    own.map_err(|problem| if problem.status == 404 { unknown() } else { problem })
}

/// Records results, and continues the run. Returns its job, and the event after which it is followed.
///
/// A request that is repeated continues the same run.
pub(crate) async fn answer(
    server: &Server,
    header: &SessionHeader,
    results: Vec<CallResult>,
    text: Option<String>,
    tools: Option<ClientTools>,
) -> Result<(JobRecord, u64), Problem> {
    let session = server.runtime().session(&header.id).await?;
    let digest = digest(&results, text.as_deref());
    let calls = waiting(&session);
    let is_waiting = |id: &str| calls.iter().any(|(_, it)| it.id == id);
    let session = if results.iter().any(|it| is_waiting(&it.id)) {
        check(&calls, &results)?;
        if text.is_some() && session.state().pending().len() > calls.len() {
            return Err(Problem::conflict(
                "a call of the agent is waiting for a decision; send the message after the decision",
            ));
        }
        server.admit_more(&header.id).await?;
        let known = ClientTools::of(session.state());
        if let Some(tools) = tools.as_ref().filter(|it| **it != known) {
            check_names(server, &session, tools).await?;
        }
        let after = last_event(&**server.store(), &header.id).await?;
        let action = AnswerCalls { results, digest: digest.clone(), after, tools };
        server.runtime().execute(&header.id, &action).await?
    } else {
        session
    };
    let answered = session.state().get(&ANSWERED).filter(|it| it.digest == digest);
    let Some(answered) = answered else {
        return Err(Problem::conflict("the tool call is not waiting for a result"));
    };
    if !session.state().pending().is_empty() {
        return Ok((last_run(server, &header.id).await?, answered.after));
    }
    let Some(text) = text else {
        return Ok((continued(server, &session).await?, answered.after));
    };
    let name = hash(&format!("{}\nresults\n{}\n{digest}", header.id, answered.count));
    let id = JobId::new(&name[..40]).map_err(|error| Problem::internal(error.to_string()))?;
    let job = Job::send_message(header.id.clone(), Message::user(text)).with_id(id);
    server.push_continuing(&job).await?;
    Ok((record(server, &job).await?, answered.after))
}

/// Lets the job continue whose calls have their results, and returns it. A repeated request returns the last run.
async fn continued(server: &Server, session: &AgentSession) -> Result<JobRecord, Problem> {
    let (queue, id) = (server.queue()?, session.id());
    let status = Some(JobStatus::NeedsInput);
    let query = JobQuery { status, session: Some(id.clone()), ..JobQuery::last(1) };
    let parked = queue.records(&query).await?.into_iter().next();
    if session.state().is_interrupted() {
        server.continue_decided(id).await?;
    }
    match parked {
        Some(parked) => Ok(queue.job(&parked.job.id).await?.unwrap_or(parked)),
        None => last_run(server, id).await,
    }
}

/// Checks that each call has one result.
fn check(calls: &[(Vec<u16>, ClientCall)], results: &[CallResult]) -> Result<(), Problem> {
    for result in results {
        if !calls.iter().any(|(_, it)| it.id == result.id) {
            let text = format!("tool call `{}` is not waiting for a result", result.id);
            return Err(Problem::conflict(text));
        }
    }
    for (_, call) in calls {
        match results.iter().filter(|it| it.id == call.id).count() {
            1 => {}
            0 => return Err(Problem::invalid(format!("tool call `{}` has no result", call.id))),
            _ => return Err(Problem::invalid(format!("tool call `{}` has two results", call.id))),
        }
    }
    Ok(())
}

fn digest(results: &[CallResult], text: Option<&str>) -> String {
    let mut results: Vec<_> = results.iter().map(|it| (&it.id, &it.text)).collect();
    results.sort();
    hash(&json!([results, text]).to_string())
}

/// Records the results of all calls that wait for the client.
struct AnswerCalls {
    results: Vec<CallResult>,
    digest: String,
    after: u64,
    tools: Option<ClientTools>,
}

#[async_trait]
impl SessionAction for AnswerCalls {
    fn name(&self) -> Cow<'static, str> {
        "answer_client_calls".into()
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        let mut state = session.state().clone();
        let calls = waiting(&session);
        // Another request, or a person, may have answered since the calls were checked.
        let lost = |path: &[u16]| SessionError::NotPending {
            id: session.id().clone(),
            path: Some(path.to_vec()),
            waiting: calls.iter().map(|it| it.0.clone()).collect(),
        };
        for result in &self.results {
            let (path, _) =
                calls.iter().find(|(_, it)| it.id == result.id).ok_or_else(|| lost(&[]))?;
            let pending = state.pending();
            let asked = pending.iter().find(|it| it.address() == *path);
            let asked = asked.ok_or_else(|| lost(path))?;
            if asked.question.is_expired(cx.env.clock.now()) {
                return Err(lost(path));
            }
            let reply = ApprovalDecision::Reply(Value::String(result.text.clone()));
            state = state.try_decide(path, reply)?;
        }
        let count = state.get(&ANSWERED).map_or(0, |it| it.count) + 1;
        let answered = Answered { count, digest: self.digest.clone(), after: self.after };
        state = state.edit(Edit::Set(ANSWERED.slot(), serde_json::to_value(answered).ok()));
        if let Some(tools) = &self.tools {
            let known = ClientTools::of(&state);
            let answered = |name: &str| calls.iter().any(|(_, it)| it.name == name);
            // The calls that were answered end as they began.
            let kept = known.iter().filter(|it| answered(it.name())).cloned();
            let new = tools.iter().filter(|it| !answered(it.name())).cloned();
            let tools = ClientTools::new(new.chain(kept));
            if tools != known {
                state = state.edit(tools.edit());
            }
        }
        Ok(session.with_state(state))
    }
}
