//! The runs of a session as a timeline: steps, calls, sub-agents, time, tokens and cost.

mod fold;

use std::{fmt::Write as _, time::Duration};

use axum::{extract::State, response::Response};
use loopwright_core::Timestamp;
use loopwright_sessions::{SessionHeader, SessionQuery, SessionRelation};
use maud::{Markup, html};
use serde::Deserialize;

pub(crate) use self::fold::{CallLine, Run, StepLine, runs};
use super::{
    conversation::{tabs, title},
    layout::{self, Tab, button, count, money, time},
    visitor::Visitor,
};
use crate::{
    extract::{OwnSession, Params},
    principal::Role,
    problem::Problem,
    server::Server,
};

/// The maximum number of steps on a page.
const STEPS: usize = 100;
/// The maximum number of sub-agents shown.
const MAX_SUBAGENTS: usize = 500;

#[derive(Deserialize)]
pub(crate) struct ShowParams {
    /// Only steps before this one.
    before: Option<u64>,
}

pub(crate) async fn show(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
    Params(params): Params<ShowParams>,
) -> Result<Response, Problem> {
    let store = server.store();
    let loaded = store.load(&header.id).await?.ok_or_else(Problem::unknown_session)?;
    let query = SessionQuery {
        kinship: SessionRelation::ChildOf(header.id.clone()),
        ..SessionQuery::first(MAX_SUBAGENTS)
    };
    let mut subagents = store.list(&query).await?.sessions;
    subagents.retain(|it| it.call.is_some());
    let runs = runs(&loaded.changes);
    let total = runs.iter().map(|it| it.steps.len()).sum::<usize>();
    let last = params.before.map_or(u64::MAX, |it| it.saturating_sub(1)).min(total as u64);
    let first = last.saturating_sub(STEPS as u64 - 1).max(1);
    let main = html! {
        h1 { (title(&header)) }
        (tabs(&header, "Timeline"))
        (totals(&runs))
        @if total == 0 { p { "No steps yet." } }
        @if first > 1 {
            p { a href=(format!("/sessions/{}/timeline?before={first}", header.id)) { "Earlier steps" } }
        }
        @for run in &runs {
            @let steps: Vec<&StepLine> = run.steps.iter().filter(|it| (first..=last).contains(&it.number)).collect();
            @if !steps.is_empty() || (run.steps.is_empty() && last == total as u64) {
                (shown(&visitor, &header, run, &steps, &subagents))
            }
        }
    };
    Ok(layout::page(&format!("Timeline of {}", title(&header)), &visitor, Tab::Sessions, &main))
}

fn totals(runs: &[Run]) -> Markup {
    let steps = || runs.iter().flat_map(|it| &it.steps);
    let input: u64 = steps().map(|it| it.spend.usage.input).sum();
    let cached: u64 = steps().map(|it| it.spend.usage.cache_read).sum();
    let output: u64 = steps().map(|it| it.spend.usage.output).sum();
    let cost: f64 = steps().map(|it| it.spend.cost.dollars()).sum();
    let time: Duration = steps().map(|it| it.duration).sum();
    html! {
        p.meta {
            span { (runs.len()) " runs" }
            span { (count(steps().count() as u64)) " steps" }
            span { (seconds(time)) }
            span { (count(input)) " tokens in (" (count(cached)) " cached), " (count(output)) " out" }
            @if let Some(cost) = money(cost) { span { (cost) } }
        }
        (spending(runs))
    }
}

/// Shows the growth of the cost over the steps, or of the tokens if prices are unknown.
fn spending(runs: &[Run]) -> Markup {
    let steps: Vec<&StepLine> = runs.iter().flat_map(|it| &it.steps).collect();
    let has_cost = steps.iter().any(|it| it.spend.cost.dollars() > 0.0);
    let of = |it: &StepLine| {
        if has_cost { it.spend.cost.dollars() } else { to_float(it.spend.usage.total()) }
    };
    let sum: f64 = steps.iter().map(|it| of(it)).sum();
    if steps.len() < 2 || sum <= 0.0 {
        return html! {};
    }
    let every = steps.len().div_ceil(200);
    let (mut so_far, mut points) = (0.0, String::from("0,40"));
    for (at, step) in steps.iter().enumerate() {
        so_far += of(step);
        if (at + 1) % every == 0 || at + 1 == steps.len() {
            let (x, y) = (
                to_float(at as u64 + 1) / to_float(steps.len() as u64) * 300.0,
                40.0 - so_far / sum * 38.0,
            );
            write!(points, " {x:.1},{y:.1}").ok();
        }
    }
    let label = if has_cost {
        format!("Cost over {} steps, {} in total", steps.len(), money(sum).unwrap_or_default())
    } else {
        format!("Tokens over {} steps, {sum:.0} in total", steps.len())
    };
    html! {
        figure {
            svg.chart viewBox="0 0 300 42" role="img" aria-label=(label) preserveAspectRatio="none" {
                polyline points=(points) {}
            }
            figcaption { (label) }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is for a picture")]
fn to_float(number: u64) -> f64 {
    number as f64
}

fn shown(
    visitor: &Visitor,
    header: &SessionHeader,
    run: &Run,
    steps: &[&StepLine],
    subagents: &[SessionHeader],
) -> Markup {
    let longest = steps.iter().map(|it| it.duration).max().unwrap_or_default();
    html! {
        section.run aria-label=(format!("Run {}", run.number)) {
            h2 { "Run " (run.number) }
            p.meta {
                span { (time(run.started_at)) }
                @if let Some((at, words)) = &run.ended { span { (words) } span { (seconds(at.since(run.started_at))) } }
                @else { span { "not ended" } }
            }
            @if let Some(input) = &run.input { p.plain { (input) } }
            ol.steps {
                @for step in steps {
                    @let until = step.started_at.plus(step.duration);
                    @let children: Vec<&SessionHeader> = subagents.iter()
                        .filter(|it| (step.started_at..=until).contains(&it.created_at)).collect();
                    (line(visitor, header, step, longest, &children))
                }
            }
        }
    }
}

fn line(
    visitor: &Visitor,
    header: &SessionHeader,
    step: &StepLine,
    longest: Duration,
    subagents: &[&SessionHeader],
) -> Markup {
    let path = format!("/sessions/{}", header.id);
    let number = step.number.to_string();
    html! {
        li id=(format!("step-{number}")) {
            div.step {
                a href=(format!("{path}/steps/{number}")) { "Step " (number) }
                (bar(step.duration, longest))
                span.meta {
                    span { (seconds(step.duration)) }
                    @if let Some(model) = &step.model { span { (model) } }
                    span { (count(step.spend.usage.input)) " in, " (count(step.spend.usage.output)) " out" }
                    @if step.spend.usage.cache_read > 0 { span { (count(step.spend.usage.cache_read)) " cached" } }
                    @if let Some(cost) = money(step.spend.cost.dollars()) { span { (cost) } }
                }
            }
            @if !step.text.is_empty() { p.plain { (step.text) } }
            @if let Some(failure) = &step.failure { p.failed { (failure) } }
            @if !step.calls.is_empty() {
                ul { @for call in &step.calls { li { (call_line(call, step.duration)) } } }
            }
            @if !subagents.is_empty() {
                ul {
                    @for child in subagents {
                        li { "Sub-agent " a href=(format!("/sessions/{}/timeline", child.id)) { (child.agent_name) } }
                    }
                }
            }
            @if visitor.may(Role::Run) && header.call.is_none() && !step.is_open {
                div.row {
                    (button(visitor, &format!("{path}/fork"), "Fork after this step", &[("step", &number)]))
                    (button(visitor, &format!("{path}/rewind"), "Rewind to this step", &[("step", &number)]))
                }
            }
        }
    }
}

fn call_line(call: &CallLine, step: Duration) -> Markup {
    html! {
        span.tool { (call.tool) } " "
        span.args { (call.arguments) } " "
        span class=(format!("state {}", call.state)) { (call.state) }
        @if let Some(duration) = call.duration { " " (bar(duration, step)) span.meta { span { (seconds(duration)) } } }
    }
}

/// Shows a duration as a share of another one.
fn bar(duration: Duration, of: Duration) -> Markup {
    let width = if of.is_zero() { 0.0 } else { duration.as_secs_f64() / of.as_secs_f64() * 100.0 };
    html! {
        svg.bar viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(format!("{:.1}", width.clamp(0.5, 100.0))) height="6" {}
        }
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        1..=59 => format!("{:.1} s", duration.as_secs_f64()),
        all => format!("{} min {} s", all / 60, all % 60),
    }
}

/// Returns the duration between two times.
pub(crate) fn between(start: Option<Timestamp>, end: Timestamp) -> Option<Duration> {
    start.map(|start| end.since(start))
}
