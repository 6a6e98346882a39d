//! `/v1/sessions`.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{self, get, post},
};
use loopwright_core::messages::{Transcript, Turn};
use loopwright_sessions::{
    AgentSession, ClientTools, LoadedSession, RewindPoint, SessionCursor, SessionHeader,
    SessionList, SessionQuery, SessionRelation, SessionStatus, open_subagents,
    stored::FORMAT_VERSION,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{agents, reply, reply_tagged};
use crate::{
    agents::AgentsError,
    extract::{Body, IdempotencyKey, OwnSession, Params},
    operation::{
        CURSOR, IDEMPOTENCY_KEY, IF_NONE_MATCH, LIMIT, Operation, Parameter, READ, RUN, empty,
        json, json_body, other,
    },
    principal::Principal,
    problem::Problem,
    projections::client_tools,
    server::Server,
    views::{SessionPage, SessionView, UsageView},
};

/// The number of entries of a page if the client asks for none.
pub(crate) const PAGE: usize = 20;
/// The most entries of a page.
pub(crate) const MAX_PAGE: usize = 100;
/// The most sessions that one request searches.
const MAX_SEARCHED: usize = 5_000;
/// The most characters of a title.
const MAX_TITLE: usize = 200;

/// A session to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewSessionBody {
    /// The agent; by default the first one of the server.
    pub agent: Option<String>,
    /// The title; by default the beginning of the first message.
    pub title: Option<String>,
}

/// The position of a fork.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForkBody {
    /// The step after which the fork starts, counted over all runs; by default the end.
    pub step: Option<u64>,
}

/// The target of a rewind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RewindBody {
    /// The step to rewind to the end of; by default before the last message.
    pub step: Option<u64>,
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(crate) fn operations() -> Vec<Operation> {
    const TEXT: Parameter = Parameter {
        name: "q",
        place: "query",
        about: "Only sessions whose title, agent or ID contains this text.",
        kind: "string",
    };
    const STATUS: Parameter = Parameter {
        name: "status",
        place: "query",
        about: "Only sessions with this status: `active`, `suspended`, `completed` or `failed`.",
        kind: "string",
    };
    const AGENT: Parameter = Parameter {
        name: "agent",
        place: "query",
        about: "Only sessions of this agent.",
        kind: "string",
    };
    let of = |method, path, id, summary| Operation {
        method,
        path,
        id,
        summary,
        security: RUN,
        parameters: &[],
        body: None,
        responses: &[],
        handler: || get(list),
    };
    vec![
        Operation {
            security: READ,
            parameters: &[TEXT, STATUS, AGENT, LIMIT, CURSOR, IF_NONE_MATCH],
            responses: const { &[json::<SessionPage>(200, "A page."), empty(304, "No change.")] },
            ..of(
                "get",
                "/v1/sessions",
                "listSessions",
                "List sessions, most recently changed \
                first",
            )
        },
        Operation {
            parameters: &[IDEMPOTENCY_KEY],
            body: Some(json_body::<NewSessionBody>()),
            responses: const {
                &[
                    json::<SessionView>(201, "The new session."),
                    json::<SessionView>(
                        200,
                        "The session that an earlier request with this key \
                        created.",
                    ),
                ]
            },
            handler: || post(create),
            ..of("post", "/v1/sessions", "createSession", "Create a session")
        },
        Operation {
            security: READ,
            parameters: &[IF_NONE_MATCH],
            responses: const { &[json::<SessionView>(200, "The session."), empty(304, "No change.")] },
            handler: || get(show),
            ..of("get", "/v1/sessions/{session}", "getSession", "Read a session")
        },
        Operation {
            responses: const { &[empty(204, "The session was deleted.")] },
            handler: || routing::delete(remove),
            ..of(
                "delete",
                "/v1/sessions/{session}",
                "deleteSession",
                "Delete a session and its folder; an active run is cancelled",
            )
        },
        Operation {
            body: Some(json_body::<ForkBody>()),
            responses: const { &[json::<SessionView>(201, "The fork.")] },
            handler: || post(fork),
            ..of(
                "post",
                "/v1/sessions/{session}/fork",
                "forkSession",
                "Create a session that starts as a copy of another session",
            )
        },
        Operation {
            body: Some(json_body::<RewindBody>()),
            responses: const { &[json::<SessionView>(200, "The session.")] },
            handler: || post(rewind),
            ..of(
                "post",
                "/v1/sessions/{session}/rewind",
                "rewindSession",
                "Rewind the conversation to an earlier step without changing files",
            )
        },
        Operation {
            security: READ,
            responses: const { &[other(200, "The session, as JSON lines.", "application/x-ndjson")] },
            handler: || get(export),
            ..of(
                "get",
                "/v1/sessions/{session}/export",
                "exportSession",
                "Export a session as a file for `loopwright sessions import`",
            )
        },
        Operation {
            security: READ,
            responses: const { &[json::<UsageView>(200, "The usage.")] },
            handler: || get(usage),
            ..of(
                "get",
                "/v1/sessions/{session}/usage",
                "getUsage",
                "Read the token and cost \
                usage of a session",
            )
        },
    ]
}

#[derive(Deserialize)]
struct ListParams {
    q: Option<String>,
    status: Option<String>,
    agent: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn list(
    State(server): State<Server>,
    principal: Principal,
    Params(params): Params<ListParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let status = params.status.as_deref().map(|word| {
        let status = SessionStatus::named(word).filter(|it| *it != SessionStatus::Deleted);
        status.ok_or_else(|| Problem::bad_request("`status` is unknown"))
    });
    let search_for = Search {
        text: params.q.as_deref().map(str::trim).filter(|it| !it.is_empty()),
        status: status.transpose()?,
        agent: params.agent.map(Into::into),
        after: params.cursor.as_deref().map(cursor).transpose()?,
        limit: limit(params.limit)?,
    };
    let page = search(&server, &principal, &search_for).await?;
    let page = SessionPage {
        sessions: page.sessions.iter().map(Into::into).collect(),
        next: page.next.as_ref().map(ToString::to_string),
    };
    reply_tagged(&headers, &page)
}

/// What sessions are looked for.
#[derive(Default)]
pub(crate) struct Search<'a> {
    /// What the title, the agent or the ID contains, in any case of letters.
    pub(crate) text: Option<&'a str>,
    pub(crate) status: Option<SessionStatus>,
    pub(crate) agent: Option<Arc<str>>,
    pub(crate) after: Option<SessionCursor>,
    pub(crate) limit: usize,
}

/// Returns sessions of a principal, those written last first. A search ends after [`MAX_SEARCHED`] sessions, and the next
/// page goes on from there.
pub(crate) async fn search(
    server: &Server,
    principal: &Principal,
    search: &Search<'_>,
) -> Result<SessionList, Problem> {
    let mut query = SessionQuery {
        status: search.status,
        agent_name: search.agent.clone(),
        kinship: SessionRelation::TopLevel,
        scope: principal.scope(),
        after: search.after.clone(),
        limit: search.limit,
        ..SessionQuery::default()
    };
    let Some(text) = search.text.map(str::to_lowercase) else {
        return Ok(server.store().list(&query).await?);
    };
    query.limit = MAX_PAGE;
    let (mut found, mut searched) = (SessionList::default(), 0);
    loop {
        let page = server.store().list(&query).await?;
        searched += page.sessions.len();
        for header in page.sessions {
            let cursor = SessionCursor { updated_at: header.updated_at, id: header.id.clone() };
            let title = header.title.as_deref().unwrap_or_default();
            let is_found = [title, &*header.agent_name, header.id.as_str()]
                .iter()
                .any(|it| it.to_lowercase().contains(&text));
            if is_found {
                found.sessions.push(header);
            }
            if found.sessions.len() == search.limit {
                found.next = Some(cursor);
                return Ok(found);
            }
        }
        match page.next {
            Some(next) if searched < MAX_SEARCHED => query.after = Some(next),
            next => {
                found.next = next;
                return Ok(found);
            }
        }
    }
}

/// Reads how many entries a page has.
pub(crate) fn limit(asked: Option<usize>) -> Result<usize, Problem> {
    match asked.unwrap_or(PAGE) {
        limit @ 1..=MAX_PAGE => Ok(limit),
        _ => Err(Problem::bad_request(format!("`limit` must be 1 to {MAX_PAGE}"))),
    }
}

/// Reads the cursor of a page.
pub(crate) fn cursor(text: &str) -> Result<SessionCursor, Problem> {
    let parsed = text.parse::<SessionCursor>();
    parsed.map_err(|_| Problem::bad_request("`cursor` is not the `next` value of a page"))
}

async fn create(
    State(server): State<Server>,
    principal: Principal,
    IdempotencyKey(key): IdempotencyKey,
    Body(body): Body<NewSessionBody>,
) -> Result<Response, Problem> {
    let key = key.map(|it| format!("session\n{it}"));
    let (session, is_new) = begin(&server, &principal, key.as_deref(), body).await?;
    created(&session, is_new)
}

fn created(session: &AgentSession, is_new: bool) -> Result<Response, Problem> {
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = reply(status, &SessionView::from(session))?;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{}", session.id())) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Creates a session, or returns the one that the key created before.
pub(crate) async fn begin(
    server: &Server,
    principal: &Principal,
    key: Option<&str>,
    body: NewSessionBody,
) -> Result<(AgentSession, bool), Problem> {
    Box::pin(begin_with(server, principal, key, body, Beginning::default())).await
}

/// What a new session begins with.
#[derive(Default)]
pub(crate) struct Beginning {
    /// What was said before.
    pub(crate) turns: Vec<Turn>,
    /// The tools of the client.
    pub(crate) tools: ClientTools,
}

/// Creates a session in which something was said before, or returns the one that the key created before.
pub(crate) async fn begin_with(
    server: &Server,
    principal: &Principal,
    key: Option<&str>,
    body: NewSessionBody,
    Beginning { turns, tools }: Beginning,
) -> Result<(AgentSession, bool), Problem> {
    if server.drain().is_cancelled() {
        return Err(Problem::unavailable("the server is shutting down; try again"));
    }
    if body.title.as_ref().is_some_and(|it| it.chars().count() > MAX_TITLE) {
        return Err(Problem::invalid(format!("a title can have at most {MAX_TITLE} characters")));
    }
    let agent = if let Some(agent) = body.agent {
        agent
    } else {
        let first = agents::infos(server).await?.into_iter().next();
        first.ok_or_else(|| Problem::conflict("the server offers no agents"))?.name
    };
    let id = key.map_or_else(|| principal.new_session_id(), |it| principal.derived_session_id(it));
    if key.is_some()
        && let Some(header) = server.store().header(&id).await?
    {
        return repeated(server, header, &agent).await;
    }
    let session =
        server.agents().begin(&agent, id, principal).await.map_err(|error| match error {
            AgentsError::Unknown => Problem::invalid("unknown agent; list agents at `/v1/agents`"),
            AgentsError::Unusable(error) => {
                tracing::error!(%error, agent, "session cannot start");
                Problem::conflict("the agent cannot be used; see the server log")
            }
        })?;
    let session = match body.title {
        Some(title) => session.with_title(title),
        None => session,
    };
    let session = if turns.is_empty() {
        session
    } else {
        let before = session.state().transcript().iter().map(|it| Turn::clone(it));
        let turns: Transcript = before.chain(turns).collect();
        let state = session.state().clone().with_transcript(turns);
        session.with_state(state)
    };
    let session = server.runtime().open_or_create(session).await?;
    let header = session.header().clone();
    match client_tools::replace(server, session, tools).await {
        Ok(session) => Ok((session, true)),
        Err(problem) => {
            delete(server, &header).await?;
            Err(problem)
        }
    }
}

async fn repeated(
    server: &Server,
    header: SessionHeader,
    agent: &str,
) -> Result<(AgentSession, bool), Problem> {
    if header.status == SessionStatus::Deleted {
        return Err(Problem::conflict(
            "the session created with this idempotency key was deleted; use another key",
        ));
    }
    if *header.agent_name != *agent {
        return Err(Problem::invalid(
            "this idempotency key was used to create a session with another agent; use another key",
        ));
    }
    Ok((server.runtime().session(&header.id).await?, false))
}

async fn show(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session = server.runtime().session(&header.id).await?;
    reply_tagged(&headers, &SessionView::from(&session))
}

async fn remove(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
) -> Result<Response, Problem> {
    delete(&server, &header).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Deletes a session, and its folder if no other session works in it.
pub(crate) async fn delete(server: &Server, header: &SessionHeader) -> Result<(), Problem> {
    // Whoever runs it fails at its next write; this ends what it does now.
    server.runtime().cancel(&header.id).await?;
    server.runtime().delete(&header.id).await?;
    server.agents().removed(header).await;
    Ok(())
}

async fn fork(
    State(server): State<Server>,
    principal: Principal,
    OwnSession(header): OwnSession,
    Body(ForkBody { step }): Body<ForkBody>,
) -> Result<Response, Problem> {
    let runtime = server.runtime();
    let into = Some(principal.new_session_id());
    let forked = Box::pin(runtime.fork(&header.id, step, into)).await?;
    created(&runtime.session(&forked.id).await?, true)
}

async fn rewind(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    Body(RewindBody { step }): Body<RewindBody>,
) -> Result<Response, Problem> {
    let to = step.map_or(RewindPoint::LastTurn, RewindPoint::Step);
    let session = Box::pin(server.runtime().rewind(&header.id, to)).await?;
    reply(StatusCode::OK, &SessionView::from(&session))
}

async fn usage(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
) -> Result<Response, Problem> {
    let session = server.runtime().session(&header.id).await?;
    reply(StatusCode::OK, &UsageView::from(session.state()))
}

async fn export(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
) -> Result<Response, Problem> {
    let store = server.store();
    let loaded = store.load(&header.id).await?.ok_or_else(Problem::unknown_session)?;
    let session = server.runtime().session(&header.id).await?;
    let subagents = open_subagents(&**store, &loaded.header, session.state()).await?;
    let mut text = String::new();
    let count = subagents.len();
    write(&mut text, loaded, Some(count))?;
    for subagent in subagents {
        write(&mut text, subagent, None)?;
    }
    let disposition = format!("attachment; filename=\"{}.jsonl\"", header.id);
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, &disposition),
    ];
    Ok((headers, text).into_response())
}

/// Writes a session as `loopwright sessions import` reads it.
fn write(
    text: &mut String,
    loaded: LoadedSession,
    subagents: Option<usize>,
) -> Result<(), Problem> {
    let LoadedSession { header, definition, changes } = loaded;
    // Where it worked is a path of the server.
    let header = SessionHeader { from: None, branch: 0, workdir: None, ..header };
    let mut head = json!({
        "type": "session", "format": FORMAT_VERSION, "header": header, "definition": definition,
    });
    if let Some(count) = subagents {
        head["subagents"] = count.into();
    }
    let unwritable = |error: serde_json::Error| {
        tracing::error!(%error, "the session cannot be exported");
        Problem::internal("the session cannot be exported")
    };
    text.push_str(&serde_json::to_string(&head).map_err(unwritable)?);
    text.push('\n');
    for change in changes {
        text.push_str(&serde_json::to_string(&change).map_err(unwritable)?);
        text.push('\n');
    }
    Ok(())
}
