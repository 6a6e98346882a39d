//! The list of sessions, with a search.

use std::collections::BTreeMap;

use axum::{extract::State, response::Response};
use loopwright_sessions::{JobQuery, JobStatus, SessionId};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    conversation::title,
    layout::{self, Tab, time, token},
    visitor::Visitor,
};
use crate::{
    extract::Params,
    principal::Role,
    problem::Problem,
    routes::{
        agents::infos,
        sessions::{PAGE, Search, cursor, search},
    },
    server::Server,
    tokens::random_token,
};

/// The maximum number of jobs read to find the activity of sessions.
const MAX_JOBS: usize = 500;

#[derive(Deserialize)]
pub(crate) struct ListParams {
    #[serde(default)]
    q: String,
    cursor: Option<String>,
}

pub(crate) async fn list(
    State(server): State<Server>,
    visitor: Visitor,
    Params(params): Params<ListParams>,
) -> Result<Response, Problem> {
    let asked = Search {
        text: Some(params.q.trim()).filter(|it| !it.is_empty()),
        after: params.cursor.as_deref().map(cursor).transpose()?,
        limit: PAGE,
        ..Search::default()
    };
    let page = search(&server, &visitor.principal, &asked).await?;
    let states = states(&server, &visitor).await?;
    let next = page.next.as_ref().map(|it| {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("q", params.q.trim())
            .append_pair("cursor", &it.to_string())
            .finish();
        format!("/?{query}")
    });
    let new = if visitor.may(Role::Run) {
        new(&server, &visitor).await?
    } else {
        html! {}
    };
    let main = html! {
        h1 { "Sessions" }
        (new)
        form.row role="search" method="get" action="/" {
            label for="q" { "Search" }
            input id="q" name="q" type="search" value=(params.q);
            button { "Search" }
        }
        @if page.sessions.is_empty() {
            p { @if asked.text.is_some() { "No session has a matching title, agent or ID." } @else { "No sessions yet." } }
        }
        ul.list {
            @for header in &page.sessions {
                li {
                    a href=(format!("/sessions/{}", header.id)) { (title(header)) }
                    span.meta {
                        @if let Some(state) = states.get(&header.id) {
                            span class=(format!("state {}", state.replace(' ', "-"))) { (state) }
                        }
                        span { (header.agent_name) }
                        span { (time(header.updated_at)) }
                    }
                }
            }
        }
        @if let Some(next) = next { p { a href=(next) rel="next" { "Older sessions" } } }
    };
    Ok(layout::page("Sessions", &visitor, Tab::Sessions, &main))
}

/// Returns the activity of the visitor's sessions that are not idle.
async fn states(
    server: &Server,
    visitor: &Visitor,
) -> Result<BTreeMap<SessionId, &'static str>, Problem> {
    let scope = visitor.principal.scope();
    let mut states = BTreeMap::new();
    for (status, word) in [
        (JobStatus::Queued, "queued"),
        (JobStatus::NeedsInput, "waiting for you"),
        (JobStatus::Running, "running"),
    ] {
        let query = JobQuery { status: Some(status), ..JobQuery::last(MAX_JOBS) };
        let jobs = server.queue()?.records(&query).await?;
        let own = jobs.into_iter().map(|it| it.job.session).filter(|it| scope.contains(it));
        states.extend(own.map(|it| (it, word)));
    }
    Ok(states)
}

/// The form for a new session.
async fn new(server: &Server, visitor: &Visitor) -> Result<Markup, Problem> {
    let agents = infos(server).await?;
    let key = random_token().unwrap_or_default();
    Ok(html! {
        form.stack method="post" action="/sessions" {
            (token(visitor))
            input type="hidden" name="key" value=(key);
            label for="text" { "New session" }
            textarea id="text" name="text" rows="3" required placeholder="Describe the task" {}
            div.row {
                label for="agent" { "Agent" }
                select id="agent" name="agent" {
                    @for agent in &agents { option value=(agent.name) { (agent.name) } }
                }
                button { "Start" }
            }
        }
    })
}
