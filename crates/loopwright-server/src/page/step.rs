//! A step: the input of the model and its response.

use axum::{extract::State, http::request::Parts, response::Response};
use loopwright_core::AgentState;
use loopwright_sessions::step_end;
use maud::html;

use super::{
    conversation::{tabs, title},
    layout::{self, Tab, count, money},
    timeline::{runs, seconds},
    turns,
    visitor::Visitor,
};
use crate::{
    extract::{OwnSession, path_param},
    problem::Problem,
    ran::ChangedArguments,
    server::Server,
};

/// The maximum number of earlier turns shown.
const TURNS: usize = 50;

pub(crate) async fn show(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
    mut parts: Parts,
) -> Result<Response, Problem> {
    let unknown = || Problem::not_found("unknown step");
    let number: u64 = path_param(&mut parts, "step").await?.parse().map_err(|_| unknown())?;
    let loaded = server.store().load(&header.id).await?.ok_or_else(Problem::unknown_session)?;
    let (all, ran) = (runs(&loaded.changes), ChangedArguments::of(&loaded.changes));
    let step = all.iter().flat_map(|it| &it.steps).find(|it| it.number == number);
    let step = step.ok_or_else(unknown)?;
    let state = |step: u64| {
        let end = step_end(&loaded.changes, step).unwrap_or(loaded.changes.len() as u64);
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        let changes = loaded.changes.iter().take(end).cloned();
        AgentState::new().replay(changes).map_err(|error| {
            tracing::error!(%error, "the session cannot be replayed");
            Problem::internal("the step cannot be shown")
        })
    };
    let (before, after) = (state(number - 1)?, state(number)?);
    let (from, agent) = (before.transcript().len(), &*header.agent_name);
    let response = after.transcript().iter().enumerate().skip(from);
    let path = format!("/sessions/{}", header.id);
    let total: u64 = all.iter().map(|it| it.steps.len() as u64).sum();
    let main = html! {
        h1 { (title(&header)) }
        (tabs(&header, ""))
        h2 { "Step " (number) }
        p.meta {
            span { (seconds(step.duration)) }
            @if let Some(model) = &step.model { span { (model) } }
            span { (count(step.spend.usage.input)) " tokens in (" (count(step.spend.usage.cache_read)) " cached), "
                (count(step.spend.usage.output)) " out" }
            @if let Some(cost) = money(step.spend.cost.dollars()) { span { (cost) } }
        }
        p.row {
            @if number > 1 { a href=(format!("{path}/steps/{}", number - 1)) rel="prev" { "Step " (number - 1) } }
            @if number < total { a href=(format!("{path}/steps/{}", number + 1)) rel="next" { "Step " (number + 1) } }
        }
        @if let Some(failure) = &step.failure { p.failed { (failure) } }
        section aria-labelledby="response" {
            h2 id="response" { "What followed" }
            @for (number, turn) in response { (turns::turn(number, agent, turn, &ran)) }
            @if let Some(execution) = after.execution().filter(|_| step.is_open) {
                (turns::open_step(agent, execution, &ran).unwrap_or_default())
            }
        }
        section aria-labelledby="before" {
            h2 id="before" { "Earlier messages" }
            @if let Some(prompt) = before.context().system_prompt() {
                details { summary { "System prompt of the session" } pre { (prompt) } }
            }
            @if from > TURNS { p { "The last " (TURNS) " of " (from) " turns." } }
            @for (number, turn) in before.transcript().iter().enumerate().skip(from.saturating_sub(TURNS)) {
                (turns::turn(number, agent, turn, &ran))
            }
        }
    };
    let title = format!("Step {number} of {}", title(&header));
    Ok(layout::page(&title, &visitor, Tab::Sessions, &main))
}
