//! A session: its conversation, pending calls and actions.

use axum::{extract::State, response::Response};
use loopwright_core::{AgentState, ExecutionStatus};
use loopwright_sessions::{
    AgentSession, JobQuery, JobRecord, JobStatus, JobTask, SessionHeader, SessionQuery,
    SessionRelation, SessionStatus,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    layout::{self, button, count, money, time, token},
    live, pending, turns,
    visitor::Visitor,
};
use crate::{
    extract::{OwnSession, Params},
    principal::Role,
    problem::Problem,
    ran::ChangedArguments,
    routes::pending::views,
    server::Server,
    tokens::random_token,
    views::MessageView,
};

/// The maximum number of turns on a page.
const TURNS: usize = 40;
/// The maximum number of forks and sub-agents listed.
const MAX_CHILDREN: usize = 50;

#[derive(Deserialize)]
pub(crate) struct ShowParams {
    /// Only turns before this one.
    before: Option<usize>,
}

pub(crate) async fn show(
    State(server): State<Server>,
    visitor: Visitor,
    OwnSession(header): OwnSession,
    Params(params): Params<ShowParams>,
) -> Result<Response, Problem> {
    // Read the position first: events report what happens meanwhile.
    let after = live::step_start(&**server.store(), &header.id).await?;
    let (session, changed) = ChangedArguments::with_session(&server, &header.id).await?;
    let Queue { activity, messages } = Queue::of(&server, &session).await?;
    let relatives = relatives(&server, &visitor, &header).await?;
    let waiting =
        if visitor.may(Role::Approve) { views(&server, &session).await } else { Vec::new() };
    let main = html! {
        h1 { (title(&header)) }
        (tabs(&header, "Conversation"))
        (status(&session, activity))
        (controls(&visitor, &session, activity))
        section #pending data-region aria-label="Waiting for you" {
            (pending::cards(&visitor, &header, session.state(), &waiting))
        }
        (conversation(&session, &changed, params.before, &messages))
        div #live .prose {}
        p #notice role="alert" {}
        (composer(&visitor, &header, activity))
        (more(&visitor, &header, &relatives))
    };
    let live = format!("/sessions/{}/live?last_event_id={after}", header.id);
    Ok(layout::live_page(&title(&header), &visitor, &live, &main))
}

pub(crate) fn title(header: &SessionHeader) -> String {
    let untitled = || format!("Session {}", header.id.as_str().get(..8).unwrap_or_default());
    header.title.as_deref().map_or_else(untitled, str::to_owned)
}

/// The pages of a session.
pub(crate) fn tabs(header: &SessionHeader, current: &str) -> Markup {
    let pages = [
        ("", "Conversation"),
        ("/timeline", "Timeline"),
        ("/changes", "Changes"),
        ("/files", "Files"),
        ("/agent", "Agent"),
    ];
    html! {
        nav.tabs aria-label="Session" {
            @for (path, name) in pages {
                a href=(format!("/sessions/{}{path}", header.id))
                    aria-current=[(name == current).then_some("page")] { (name) }
            }
        }
    }
}

/// Whether a session is idle, queued or running.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Idle,
    Queued,
    Running,
}

/// The state of a session in the queue.
struct Queue {
    activity: Activity,
    /// Messages that are not part of the conversation yet, oldest first.
    messages: Vec<String>,
}

impl Queue {
    async fn of(server: &Server, session: &AgentSession) -> Result<Self, Problem> {
        let records = async |status| {
            let session = Some(session.id().clone());
            let query = JobQuery { status: Some(status), session, ..JobQuery::last(TURNS) };
            server.queue()?.records(&query).await.map_err(Problem::from)
        };
        let (running, queued) =
            (records(JobStatus::Running).await?, records(JobStatus::Queued).await?);
        let activity = match (&running[..], &queued[..]) {
            ([], []) => Activity::Idle,
            ([], _) => Activity::Queued,
            _ => Activity::Running,
        };
        let text = |record: JobRecord| match record.job.task {
            JobTask::SendMessage(message) => Some(message.text()),
            JobTask::Resume => None,
        };
        // The message of a run becomes part of the conversation shortly after the run starts.
        let turns = session.state().transcript().iter().rev();
        let last = turns.map(|turn| MessageView::from(&**turn)).find(|it| it.role == "user");
        let begun = running.into_iter().filter_map(text);
        let begun = begun.filter(|text| last.as_ref().is_none_or(|it| it.text != **text));
        Ok(Self {
            activity,
            messages: begun.chain(queued.into_iter().rev().filter_map(text)).collect(),
        })
    }
}

/// Describes the status of a session in words.
fn standing(state: &AgentState, activity: Activity) -> (&'static str, String) {
    match (state.status(), activity) {
        (ExecutionStatus::Paused, _) => ("waiting", "Waiting for you".to_owned()),
        (_, Activity::Running) => {
            ("running", format!("Working on step {}", state.total_steps() + 1))
        }
        (_, Activity::Queued) => ("running", "Queued".to_owned()),
        (ExecutionStatus::Pending, _) => ("idle", "Ready".to_owned()),
        (ExecutionStatus::InProgress, _) => ("running", "Not finished".to_owned()),
        (ExecutionStatus::Completed, _) => ("done", "Done".to_owned()),
        (ExecutionStatus::Stopped(signal), _) => ("failed", format!("Stopped: {}", signal.message)),
        (ExecutionStatus::Failed(failure), _) => ("failed", format!("Failed: {failure}")),
    }
}

fn status(session: &AgentSession, activity: Activity) -> Markup {
    let (state, header) = (session.state(), session.header());
    let (class, words) = standing(state, activity);
    let spent = state.total_spent();
    html! {
        p #standing role="status" data-region { span class=(class) { (words) } }
        div #figures .meta data-region {
            span { (header.agent_name) }
            span { (count(state.total_steps())) " steps" }
            span { (count(spent.usage.input)) " tokens in, " (count(spent.usage.output)) " out" }
            @if let Some(cost) = money(spent.cost.dollars()) { span { (cost) } }
            span { (time(header.updated_at)) }
        }
    }
}

fn controls(visitor: &Visitor, session: &AgentSession, activity: Activity) -> Markup {
    let path = format!("/sessions/{}", session.id());
    let state = session.state();
    let is_running =
        activity != Activity::Idle || matches!(state.status(), ExecutionStatus::InProgress);
    html! {
        div #controls .controls data-region {
            @if visitor.may(Role::Run) {
                @if is_running {
                    (button(visitor, &format!("{path}/stop"), "Stop after this step", &[]))
                    (button(visitor, &format!("{path}/cancel"), "Cancel now", &[]))
                }
                @if activity == Activity::Idle && state.is_resumable() && state.pending().is_empty() {
                    (button(visitor, &format!("{path}/resume"), "Continue", &[]))
                }
            }
        }
    }
}

fn conversation(
    session: &AgentSession,
    changed: &ChangedArguments,
    before: Option<usize>,
    queued: &[String],
) -> Markup {
    let (state, header) = (session.state(), session.header());
    let turns = state.transcript();
    let end = before.unwrap_or(usize::MAX).min(turns.len());
    let start = end.saturating_sub(TURNS);
    let execution = state.execution().filter(|_| end == turns.len());
    let path = format!("/sessions/{}", header.id);
    html! {
        section #conversation data-region role="log" aria-label="Conversation" {
            @if start > 0 {
                p { a href=(format!("{path}?before={start}")) { "Earlier messages (" (start) ")" } }
            }
            @for (number, turn) in turns.iter().enumerate().skip(start).take(end - start) {
                (turns::turn(number, &header.agent_name, turn, changed))
            }
            @if let Some(open) = execution.and_then(|it| turns::open_step(&header.agent_name, it, changed)) {
                (open)
            }
            @for text in queued.iter().filter(|_| end == turns.len()) { (turns::queued(text)) }
            @if end < turns.len() {
                p { a href=(path) { "Latest messages" } }
            }
        }
    }
}

/// The form to send a message.
fn composer(visitor: &Visitor, header: &SessionHeader, activity: Activity) -> Markup {
    if !visitor.may(Role::Run) || header.status != SessionStatus::Active {
        return html! {};
    }
    // A form that is submitted twice takes effect once.
    let key = random_token().unwrap_or_default();
    let is_running = activity != Activity::Idle;
    html! {
        form #composer .stack data-quiet method="post" action=(format!("/sessions/{}/messages", header.id)) {
            (token(visitor))
            input type="hidden" name="key" value=(key);
            label for="text" { "Message" }
            textarea id="text" name="text" rows="3" required aria-describedby="text-hint" {}
            div.row {
                button { "Send" }
                label for="mode" { "If the agent is working" }
                select id="mode" name="mode" {
                    option value="steer" selected[is_running] { "deliver after the current step" }
                    option value="queue" selected[!is_running] { "deliver after the run" }
                    option value="interrupt" { "cancel the run first" }
                }
                span #text-hint .hint { "Ctrl+Enter sends." }
            }
        }
    }
}

/// The forks and sub-agents of a session, and the session that it was forked from.
struct Relatives {
    parent: Option<SessionHeader>,
    forks: Vec<SessionHeader>,
    subagents: Vec<SessionHeader>,
}

async fn relatives(
    server: &Server,
    visitor: &Visitor,
    header: &SessionHeader,
) -> Result<Relatives, Problem> {
    let query = SessionQuery {
        kinship: SessionRelation::ChildOf(header.id.clone()),
        ..SessionQuery::first(MAX_CHILDREN)
    };
    let children = server.store().list(&query).await?.sessions;
    let scope = visitor.principal.scope();
    let (subagents, forks): (Vec<_>, Vec<_>) = children
        .into_iter()
        .filter(|it| it.call.is_some() || scope.contains(&it.id))
        .partition(|it| it.call.is_some());
    let parent = match &header.parent {
        Some(parent) => server.store().header(parent).await?,
        None => None,
    };
    let parent = parent.filter(|it| it.status != SessionStatus::Deleted);
    Ok(Relatives { parent, forks, subagents })
}

fn more(visitor: &Visitor, header: &SessionHeader, relatives: &Relatives) -> Markup {
    let path = format!("/sessions/{}", header.id);
    let link =
        |it: &SessionHeader| html! { a href=(format!("/sessions/{}", it.id)) { (title(it)) } };
    let is_fork = header.call.is_none();
    html! {
        section.more aria-label="Session" {
            @if visitor.may(Role::Run) && is_fork {
                div.row {
                    (button(visitor, &format!("{path}/fork"), "Fork", &[]))
                    (button(visitor, &format!("{path}/rewind"), "Undo the last turn", &[]))
                    details {
                        summary { "Delete" }
                        p { "This permanently deletes the session. If the server created a folder for the session, the folder is also deleted, unless a fork uses it." }
                        (button(visitor, &format!("{path}/delete"), "Delete the session", &[]))
                    }
                }
            }
            @if let Some(parent) = &relatives.parent {
                p {
                    @if is_fork { "Fork of " } @else { "Sub-agent of " }
                    (link(parent))
                    @if is_fork {
                        " · " a href=(format!("{path}/compare/{}", parent.id)) { "Compare" }
                    }
                }
            }
            @if !relatives.forks.is_empty() {
                h2 { "Forks" }
                ul {
                    @for fork in &relatives.forks {
                        li { (link(fork)) " · " (time(fork.created_at)) " · "
                            a href=(format!("{path}/compare/{}", fork.id)) { "Compare" } }
                    }
                }
            }
            @if !relatives.subagents.is_empty() {
                h2 { "Sub-agents" }
                ul {
                    @for child in &relatives.subagents {
                        li { (child.agent_name) ": " (link(child)) " · " (time(child.created_at)) }
                    }
                }
            }
        }
    }
}
