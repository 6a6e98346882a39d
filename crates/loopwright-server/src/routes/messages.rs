//! `/v1/sessions/{session}/messages`, runs, and stopping them.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::Response,
    routing::{get, post},
};
use loopwright_core::messages::Message;
use loopwright_sessions::{
    ControlMessage, Job, JobId, JobQuery, JobRecord, JobStatus, JobTask, SessionHeader, SessionId,
    SessionStatus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    reply, reply_tagged,
    sessions::{MAX_PAGE, limit},
};
use crate::{
    extract::{Body, IdempotencyKey, OwnSession, Params, path_param},
    operation::{
        CURSOR, IDEMPOTENCY_KEY, IF_NONE_MATCH, LIMIT, Operation, READ, RUN, empty, json, json_body,
    },
    problem::Problem,
    ran::ChangedArguments,
    server::Server,
    tokens::hash,
    views::{MessagePage, MessageView, RunList, RunView},
};

/// A message to the agent of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageBody {
    /// The message.
    pub text: String,
    /// The behavior if the session is running.
    #[serde(default)]
    pub mode: MessageMode,
}

/// The behavior of a message to a running session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageMode {
    /// The message waits until the run has ended, and then starts another one.
    #[default]
    Queue,
    /// The message is rejected with 409.
    Reject,
    /// The run receives the message after its current step.
    Steer,
    /// The run is cancelled, and the message starts another one.
    Interrupt,
}

/// Whether there was a run to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndView {
    /// `true` if the session was running.
    pub was_running: bool,
}

#[expect(clippy::too_many_lines, reason = "it is a table")]
pub(crate) fn operations() -> Vec<Operation> {
    let of = |method, path, id, summary| Operation {
        method,
        path,
        id,
        summary,
        security: RUN,
        parameters: &[],
        body: None,
        responses: const { &[json::<EndView>(202, "The request was passed to the run.")] },
        handler: || get(list),
    };
    vec![
        Operation {
            security: READ,
            parameters: &[LIMIT, CURSOR, IF_NONE_MATCH],
            responses: const { &[json::<MessagePage>(200, "A page."), empty(304, "No change.")] },
            ..of(
                "get",
                "/v1/sessions/{session}/messages",
                "listMessages",
                "List the messages of a session, oldest first",
            )
        },
        Operation {
            parameters: &[IDEMPOTENCY_KEY],
            body: Some(json_body::<MessageBody>()),
            responses: const {
                &[
                    json::<RunView>(202, "The run that answers the message."),
                    json::<RunView>(200, "The run that an earlier request with this key started."),
                ]
            },
            handler: || post(send),
            ..of(
                "post",
                "/v1/sessions/{session}/messages",
                "sendMessage",
                "Send a message to the agent of a session",
            )
        },
        Operation {
            parameters: &[IDEMPOTENCY_KEY],
            responses: const {
                &[
                    json::<RunView>(202, "The continued run."),
                    json::<RunView>(200, "The run that an earlier request with this key started."),
                ]
            },
            handler: || post(resume),
            ..of(
                "post",
                "/v1/sessions/{session}/resume",
                "resumeSession",
                "Continue a run that was stopped or interrupted, or that failed",
            )
        },
        Operation {
            security: READ,
            parameters: &[LIMIT, IF_NONE_MATCH],
            responses: const { &[json::<RunList>(200, "The runs."), empty(304, "No change.")] },
            handler: || get(runs),
            ..of(
                "get",
                "/v1/sessions/{session}/runs",
                "listRuns",
                "List the runs of a session, latest first",
            )
        },
        Operation {
            security: READ,
            parameters: &[IF_NONE_MATCH],
            responses: const { &[json::<RunView>(200, "The run."), empty(304, "No change.")] },
            handler: || get(run),
            ..of("get", "/v1/sessions/{session}/runs/{run}", "getRun", "Read a run")
        },
        Operation {
            handler: || post(stop),
            ..of(
                "post",
                "/v1/sessions/{session}/stop",
                "stopSession",
                "Stop the run of a session after its current step; no further step starts",
            )
        },
        Operation {
            handler: || post(cancel),
            ..of(
                "post",
                "/v1/sessions/{session}/cancel",
                "cancelSession",
                "Cancel the run of a session now",
            )
        },
    ]
}

#[derive(Deserialize)]
struct PageParams {
    limit: Option<usize>,
    cursor: Option<usize>,
}

async fn list(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    Params(PageParams { limit: asked, cursor }): Params<PageParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (limit, from) = (limit(asked)?, cursor.unwrap_or_default());
    let (session, changed) = ChangedArguments::with_session(&server, &header.id).await?;
    let turns = session.state().transcript();
    let shown = turns.iter().skip(from).take(limit);
    let messages: Vec<MessageView> = shown.map(|turn| MessageView::of(turn, &changed)).collect();
    let end = from.saturating_add(messages.len());
    let next = (end < turns.len()).then(|| end.to_string());
    reply_tagged(&headers, &MessagePage { messages, next })
}

async fn send(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    IdempotencyKey(key): IdempotencyKey,
    Body(MessageBody { text, mode }): Body<MessageBody>,
) -> Result<Response, Problem> {
    let (record, is_new) = say(&server, &header, key.as_deref(), text, mode).await?;
    accepted(&record, is_new)
}

/// Says something in a session, and returns the run that answers, and `true` if it is new.
pub(crate) async fn say(
    server: &Server,
    header: &SessionHeader,
    key: Option<&str>,
    text: String,
    mode: MessageMode,
) -> Result<(JobRecord, bool), Problem> {
    if text.trim().is_empty() {
        return Err(Problem::invalid("`text` is empty"));
    }
    if header.status != SessionStatus::Active {
        let status = header.status;
        return Err(Problem::conflict(format!("the session is {status} and accepts no messages")));
    }
    let id = &header.id;
    let message = Message::user(text);
    let job = named(Job::send_message(id.clone(), message.clone()), key)?;
    if key.is_some()
        && let Some(known) = server.queue()?.job(&job.id).await?
    {
        return repeated(known, &message).map(|it| (it, false));
    }
    let is_running = match mode {
        MessageMode::Steer | MessageMode::Interrupt => {
            first(server, id, JobStatus::Running).await?.is_some()
        }
        // The queue knows.
        MessageMode::Reject | MessageMode::Queue => false,
    };
    match mode {
        MessageMode::Reject => {
            let is_new = server.push_if_idle(&job).await?;
            return Ok((record(server, &job).await?, is_new));
        }
        MessageMode::Steer if is_running => {
            server.admit_more(id).await?;
            let control = ControlMessage::SendMessage(message);
            server.store().send_control(id, &control).await?;
            // If the run ended before it heard the message, another one does.
            let resume = named(Job::resume(id.clone()), key)?;
            let is_new = server.push_continuing(&resume).await?;
            return Ok((record(server, &resume).await?, is_new));
        }
        MessageMode::Interrupt if is_running => {
            server.admit_more(id).await?;
            server.runtime().cancel(id).await?;
            // The new run takes the place of the one before.
            let is_new = server.push_continuing(&job).await?;
            return Ok((record(server, &job).await?, is_new));
        }
        MessageMode::Queue | MessageMode::Steer | MessageMode::Interrupt => {}
    }
    let is_new = server.push(&job).await?;
    Ok((record(server, &job).await?, is_new))
}

async fn resume(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    IdempotencyKey(key): IdempotencyKey,
) -> Result<Response, Problem> {
    let job = named(Job::resume(header.id.clone()), key.as_deref())?;
    let is_new = server.push(&job).await?;
    accepted(&record(&server, &job).await?, is_new)
}

/// Gives a job the name that is made of its session and the key of the request.
fn named(job: Job, key: Option<&str>) -> Result<Job, Problem> {
    let Some(key) = key else { return Ok(job) };
    let name = hash(&format!("{}\n{key}", job.session));
    let id = JobId::new(&name[..40]).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(job.with_id(id))
}

/// Returns the run that a key began, if it was for the same message.
fn repeated(known: JobRecord, message: &Message) -> Result<JobRecord, Problem> {
    match &known.job.task {
        JobTask::SendMessage(before) if before.text() != message.text() => {
            Err(Problem::invalid("this idempotency key was used for another message"))
        }
        _ => Ok(known),
    }
}

/// Returns the record of a job.
pub(crate) async fn record(server: &Server, job: &Job) -> Result<JobRecord, Problem> {
    let found = server.queue()?.job(&job.id).await?;
    found.ok_or_else(|| Problem::conflict("the run was deleted"))
}

/// Returns the last run of a session.
pub(crate) async fn last_run(server: &Server, id: &SessionId) -> Result<JobRecord, Problem> {
    let query = JobQuery { session: Some(id.clone()), ..JobQuery::last(1) };
    let last = server.queue()?.records(&query).await?.into_iter().next();
    last.ok_or_else(|| Problem::conflict("the session has no run"))
}

/// Returns the last job of a session with a status.
async fn first(
    server: &Server,
    id: &SessionId,
    status: JobStatus,
) -> Result<Option<JobRecord>, Problem> {
    let query = JobQuery { status: Some(status), session: Some(id.clone()), ..JobQuery::last(1) };
    Ok(server.queue()?.records(&query).await?.into_iter().next())
}

fn accepted(record: &JobRecord, is_new: bool) -> Result<Response, Problem> {
    let status = if is_new { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut response = reply(status, &RunView::from(record))?;
    let location = format!("/v1/sessions/{}/runs/{}", record.job.session, record.job.id);
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

#[derive(Deserialize)]
struct RunParams {
    limit: Option<usize>,
}

async fn runs(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    Params(RunParams { limit: asked }): Params<RunParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = limit(asked)?.min(MAX_PAGE);
    let query = JobQuery { session: Some(header.id), ..JobQuery::last(limit) };
    let records = server.queue()?.records(&query).await?;
    reply_tagged(&headers, &RunList { runs: records.iter().map(Into::into).collect() })
}

async fn run(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
    headers: HeaderMap,
    mut parts: Parts,
) -> Result<Response, Problem> {
    let unknown = || Problem::not_found("unknown run");
    let id = JobId::new(path_param(&mut parts, "run").await?).map_err(|_| unknown())?;
    let record = server.queue()?.job(&id).await?;
    let record = record.filter(|it| it.job.session == header.id).ok_or_else(unknown)?;
    reply_tagged(&headers, &RunView::from(&record))
}

async fn stop(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
) -> Result<Response, Problem> {
    end(&server, &header.id, &ControlMessage::Stop).await
}

async fn cancel(
    State(server): State<Server>,
    OwnSession(header): OwnSession,
) -> Result<Response, Problem> {
    end(&server, &header.id, &ControlMessage::Cancel).await
}

async fn end(
    server: &Server,
    id: &SessionId,
    control: &ControlMessage,
) -> Result<Response, Problem> {
    let was_running = first(server, id, JobStatus::Running).await?.is_some();
    // Also without a run in the queue: a program on the command line may run the session.
    server.store().send_control(id, control).await?;
    reply(StatusCode::ACCEPTED, &EndView { was_running })
}
