//! Actions of forms. Each redirects to a page.

use axum::{
    extract::State,
    http::request::Parts,
    response::{IntoResponse as _, Redirect, Response},
};
use loopwright_sessions::{ControlMessage, Job, RewindPoint, SessionId};

use super::{
    pending::decision,
    visitor::{Fields, Visitor},
};
use crate::{
    extract::{OwnSession, path_param},
    problem::Problem,
    routes::{
        messages::{MessageMode, say},
        pending::{asked_at, decided},
        sessions::{NewSessionBody, begin, delete as delete_session},
    },
    server::Server,
};

fn to_session(id: &SessionId) -> Response {
    Redirect::to(&format!("/sessions/{id}")).into_response()
}

/// Returns the idempotency key of a form, so that it takes effect once.
fn key(fields: &Fields) -> Option<&str> {
    Some(fields.text("key")).filter(|it| !it.is_empty())
}

pub(crate) async fn create(
    State(server): State<Server>,
    visitor: Visitor,
    fields: Fields,
) -> Result<Response, Problem> {
    let text = fields.text("text").replace("\r\n", "\n");
    if text.is_empty() {
        return Err(Problem::invalid("the message is empty"));
    }
    let agent = Some(fields.text("agent").to_owned()).filter(|it| !it.is_empty());
    let body = NewSessionBody { agent, title: None };
    let principal = &visitor.principal;
    let of_session = key(&fields).map(|it| format!("session\n{it}"));
    let (session, _) = begin(&server, principal, of_session.as_deref(), body).await?;
    say(&server, session.header(), key(&fields), text, MessageMode::Queue).await?;
    Ok(to_session(session.id()))
}

pub(crate) async fn send(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    fields: Fields,
) -> Result<Response, Problem> {
    let mode = match fields.text("mode") {
        "steer" => MessageMode::Steer,
        "interrupt" => MessageMode::Interrupt,
        _ => MessageMode::Queue,
    };
    let text = fields.text("text").replace("\r\n", "\n");
    say(&server, &header, key(&fields), text, mode).await?;
    Ok(to_session(&header.id))
}

pub(crate) async fn stop(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    _: Fields,
) -> Result<Response, Problem> {
    server.store().send_control(&header.id, &ControlMessage::Stop).await?;
    Ok(to_session(&header.id))
}

pub(crate) async fn cancel(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    _: Fields,
) -> Result<Response, Problem> {
    server.store().send_control(&header.id, &ControlMessage::Cancel).await?;
    Ok(to_session(&header.id))
}

pub(crate) async fn resume(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    _: Fields,
) -> Result<Response, Problem> {
    server.push(&Job::resume(header.id.clone())).await?;
    Ok(to_session(&header.id))
}

pub(crate) async fn fork(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
    fields: Fields,
) -> Result<Response, Problem> {
    let into = Some(visitor.principal.new_session_id());
    let runtime = server.runtime();
    let forked = Box::pin(runtime.fork(&header.id, fields.number("step")?, into)).await?;
    Ok(to_session(&forked.id))
}

pub(crate) async fn rewind(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    fields: Fields,
) -> Result<Response, Problem> {
    let to = fields.number("step")?.map_or(RewindPoint::LastTurn, RewindPoint::Step);
    Box::pin(server.runtime().rewind(&header.id, to)).await?;
    Ok(to_session(&header.id))
}

pub(crate) async fn delete(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    _: Fields,
) -> Result<Response, Problem> {
    delete_session(&server, &header).await?;
    Ok(Redirect::to("/").into_response())
}

pub(crate) async fn decide(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    mut parts: Parts,
    fields: Fields,
) -> Result<Response, Problem> {
    let call = path_param(&mut parts, "call").await?;
    let session = server.runtime().session(&header.id).await?;
    let body = decision(&fields, &asked_at(&session, &call)?)?;
    decided(&server, &header, &call, body).await?;
    Ok(to_session(&header.id))
}
