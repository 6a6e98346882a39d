//! Two sessions side by side, such as a session and its fork.

use axum::{
    extract::{FromRequestParts as _, State},
    http::request::Parts,
    response::Response,
};
use loopwright_core::messages::Turn;
use loopwright_sessions::{AgentSession, SessionId};
use maud::{Markup, html};

use super::{
    conversation::title,
    layout::{self, Tab, count, money, time},
    turns,
    visitor::Visitor,
};
use crate::{
    extract::{OwnSession, own_session, path_param},
    principal::Principal,
    problem::Problem,
    ran::ChangedArguments,
    server::Server,
};

/// The maximum number of turns shown per session.
const TURNS: usize = 100;

pub(crate) async fn show(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
    mut parts: Parts,
) -> Result<Response, Problem> {
    let principal = Principal::from_request_parts(&mut parts, &server).await?;
    let other = path_param(&mut parts, "other").await?;
    let other = SessionId::new(other).map_err(|_| Problem::unknown_session())?;
    let other = own_session(&**server.store(), &principal, other).await?;
    let (one, left_ran) = ChangedArguments::with_session(&server, &header.id).await?;
    let (other, right_ran) = ChangedArguments::with_session(&server, &other.id).await?;
    let turns = |it: &AgentSession| it.state().transcript().iter().cloned().collect::<Vec<_>>();
    let (left, right) = (turns(&one), turns(&other));
    let same = left.iter().zip(&right).take_while(|(a, b)| a.body() == b.body()).count();
    let main = html! {
        h1 { "Compare" }
        p { (same) " turns are the same." }
        div.columns {
            (column(&one, left.iter().map(|it| &**it), same, &left_ran, "This session"))
            (column(&other, right.iter().map(|it| &**it), same, &right_ran, "The other session"))
        }
    };
    Ok(layout::page("Compare", &visitor, Tab::Sessions, &main))
}

fn column<'a>(
    session: &AgentSession,
    all: impl Iterator<Item = &'a Turn>,
    same: usize,
    changed: &ChangedArguments,
    name: &str,
) -> Markup {
    let (header, spent) = (session.header(), session.state().total_spent());
    html! {
        section aria-label=(name) {
            h2 { a href=(format!("/sessions/{}", header.id)) { (title(header)) } }
            p.meta {
                span { (time(header.updated_at)) }
                span { (count(session.state().total_steps())) " steps" }
                span { (count(spent.usage.total())) " tokens" }
                @if let Some(cost) = money(spent.cost.dollars()) { span { (cost) } }
            }
            @for (number, turn) in all.enumerate().skip(same).take(TURNS) {
                (turns::turn(number, &header.agent_name, turn, changed))
            }
        }
    }
}
