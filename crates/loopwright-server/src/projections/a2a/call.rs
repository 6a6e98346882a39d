//! The methods of the protocol, for both bindings.

use std::{pin::pin, time::Duration};

use futures::future::{Either, select};
use loopwright_sessions::{
    ControlMessage, JobId, JobQuery, JobRecord, JobStatus, JobTask, SessionHeader, SessionId,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    super::run::{RunEvent, RunFollower, last_event},
    task::{end_status, is_over, view},
};
use crate::{
    extract::own_session,
    principal::{Principal, Role},
    problem::Problem,
    routes::{
        messages::{MessageMode, last_run, say},
        pending::{DecisionBody, decided},
        sessions::{NewSessionBody, begin},
    },
    server::Server,
    views::{PendingKind, PendingView},
};

/// How long a task may take to end once it is cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);
/// The most tasks that are listed.
const MAX_TASKS: usize = 1_000;
const PAGE: usize = 50;

/// Where a context is noted: sessions that a client names itself have a derived ID.
const CONTEXT: &str = "a2a\n";

/// A call of an agent.
pub(super) struct Call {
    pub(super) server: Server,
    pub(super) principal: Principal,
    pub(super) agent: String,
}

/// What a call is answered with.
pub(super) enum Answer {
    Value(Value),
    /// The events of a run, with the task as it is now.
    Stream(Box<RunFollower>, Value),
}

/// Why a call failed.
pub(super) struct Failure {
    /// The code of JSON-RPC.
    pub(super) code: i32,
    /// The status of HTTP.
    pub(super) status: u16,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(code: i32, status: u16, text: impl Into<String>) -> Self {
        Self { code, status, text: text.into() }
    }

    /// Returns the reason of the HTTP binding, if the protocol defines one.
    pub(super) fn reason(&self) -> Option<&'static str> {
        Some(match self.code {
            -32001 => "TASK_NOT_FOUND",
            -32002 => "TASK_NOT_CANCELABLE",
            -32003 => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            -32004 => "UNSUPPORTED_OPERATION",
            -32005 => "CONTENT_TYPE_NOT_SUPPORTED",
            -32007 => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            -32009 => "VERSION_NOT_SUPPORTED",
            _ => return None,
        })
    }

    /// Returns the name of the status of the HTTP binding.
    pub(super) fn name(&self) -> &'static str {
        match self.status {
            404 => "NOT_FOUND",
            400 | 422 => "INVALID_ARGUMENT",
            403 => "PERMISSION_DENIED",
            409 => "FAILED_PRECONDITION",
            501 => "UNIMPLEMENTED",
            503 => "UNAVAILABLE",
            _ => "INTERNAL",
        }
    }

    fn unknown_task() -> Self {
        Self::new(-32001, 404, "unknown task")
    }

    fn unsupported(text: &str) -> Self {
        Self::new(-32004, 400, text)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let status = problem.status().as_u16();
        let code = match status {
            400 | 403 | 413 | 415 | 422 => -32602,
            404 => -32001,
            409 => -32004,
            _ => -32603,
        };
        Self::new(code, status, problem.text())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SendParams {
    message: Message,
    #[serde(default)]
    configuration: Configuration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    #[serde(rename = "messageId")]
    id: String,
    #[serde(default)]
    context_id: String,
    #[serde(default)]
    task_id: String,
    role: String,
    parts: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Configuration {
    history_length: Option<usize>,
    return_immediately: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskParams {
    id: String,
    #[serde(default)]
    history_length: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListParams {
    context_id: String,
    status: String,
    page_size: usize,
    page_token: String,
    history_length: usize,
    include_artifacts: bool,
}

impl Default for ListParams {
    fn default() -> Self {
        Self {
            context_id: String::new(),
            status: String::new(),
            page_size: PAGE,
            page_token: String::new(),
            history_length: 0,
            include_artifacts: false,
        }
    }
}

fn params<T: DeserializeOwned>(params: Value) -> Result<T, Failure> {
    serde_json::from_value(params)
        .map_err(|error| Failure::new(-32602, 400, format!("the parameters are invalid: {error}")))
}

impl Call {
    pub(super) async fn perform(&self, method: &str, given: Value) -> Result<Answer, Failure> {
        match method {
            "SendMessage" => self.send(params(given)?).await,
            "SendStreamingMessage" => self.stream(params(given)?).await,
            "GetTask" => self.get(params(given)?).await,
            "ListTasks" => self.list(params(given)?).await,
            "CancelTask" => self.cancel(params(given)?).await,
            "SubscribeToTask" => self.subscribe(params(given)?).await,
            "GetExtendedAgentCard" => {
                Err(Failure::new(-32007, 400, "the agent has no extended card"))
            }
            "CreateTaskPushNotificationConfig"
            | "GetTaskPushNotificationConfig"
            | "ListTaskPushNotificationConfigs"
            | "DeleteTaskPushNotificationConfig" => Err(Failure::new(
                -32003,
                400,
                "push notifications are not supported; use `SubscribeToTask`",
            )),
            _ => Err(Failure::new(-32601, 404, "unknown method")),
        }
    }

    /// Begins a task, or continues one that waits, and returns it with its run.
    async fn begin(
        &self,
        message: Message,
    ) -> Result<(JobRecord, JobRecord, SessionHeader, u64), Failure> {
        if message.role != "ROLE_USER" {
            return Err(Failure::new(-32602, 400, "the role of a message must be `ROLE_USER`"));
        }
        if !message.task_id.is_empty() {
            return self.answer(message).await;
        }
        let text = text(&message.parts)?;
        let header = if message.context_id.is_empty() {
            self.session(None).await?
        } else {
            self.context(&message.context_id).await?
        };
        let after = last_event(&**self.server.store(), &header.id).await.map_err(Problem::from)?;
        let key = format!("{CONTEXT}{}", message.id);
        let (record, _) = say(&self.server, &header, Some(&key), text, MessageMode::Queue).await?;
        Ok((record.clone(), record, header, after))
    }

    async fn session(&self, key: Option<&str>) -> Result<SessionHeader, Failure> {
        let new = NewSessionBody { agent: Some(self.agent.clone()), title: None };
        let begun = begin(&self.server, &self.principal, key, new).await;
        let (session, _) = begun.map_err(|problem| match problem.status().as_u16() {
            422 => Failure::new(-32602, 404, problem.text()),
            _ => problem.into(),
        })?;
        Ok(session.header().clone())
    }

    /// Returns the session of a context: one that the server named, or one that the client names.
    async fn context(&self, context: &str) -> Result<SessionHeader, Failure> {
        if let Ok(id) = SessionId::new(context) {
            let known = own_session(&**self.server.store(), &self.principal, id).await;
            match known {
                Ok(header) if *header.agent_name == *self.agent => return Ok(header),
                Err(problem) if problem.status().as_u16() != 404 => return Err(problem.into()),
                _ => {}
            }
        }
        self.session(Some(&format!("{CONTEXT}{context}"))).await
    }

    /// Returns a task of the principal, with its session.
    async fn task(&self, id: &str) -> Result<(JobRecord, SessionHeader), Failure> {
        let id = JobId::new(id).map_err(|_| Failure::unknown_task())?;
        let queue = self.server.queue()?;
        let record = queue.job(&id).await.map_err(Problem::from)?;
        let record = record.ok_or_else(Failure::unknown_task)?;
        let session = record.job.session.clone();
        let header = own_session(&**self.server.store(), &self.principal, session).await;
        let header = header.map_err(|_| Failure::unknown_task())?;
        if *header.agent_name != *self.agent {
            return Err(Failure::unknown_task());
        }
        Ok((record, header))
    }

    /// Returns the run that a task stands for now: a task that was answered goes on in another job.
    async fn current(&self, record: &JobRecord) -> Result<JobRecord, Failure> {
        if record.status != JobStatus::NeedsInput {
            return Ok(record.clone());
        }
        let last = last_run(&self.server, &record.job.session).await?;
        Ok(if is_over(last.status) { record.clone() } else { last })
    }

    /// Shows a task, whose status may be known before the queue knows it.
    async fn show(
        &self,
        record: &JobRecord,
        header: &SessionHeader,
        status: Option<JobStatus>,
        history: usize,
    ) -> Result<Value, Failure> {
        let current = self.current(record).await?;
        let session = self.server.runtime().session(&header.id).await.map_err(Problem::from)?;
        // What the session says is of the last message: the jobs after it continue its run.
        let query = JobQuery { session: Some(header.id.clone()), ..JobQuery::last(MAX_TASKS) };
        let records = self.server.queue()?.records(&query).await.map_err(Problem::from)?;
        let is_message = |it: &&JobRecord| matches!(it.job.task, JobTask::SendMessage(_));
        let last = records.iter().find(is_message);
        let session = last.is_some_and(|it| it.job.id == record.job.id).then_some(&session);
        let status = status.unwrap_or(current.status);
        Ok(view(record, status, header.id.as_str(), session, history))
    }

    async fn send(&self, given: SendParams) -> Result<Answer, Failure> {
        let (task, run, header, after) = self.begin(given.message).await?;
        let status = if given.configuration.return_immediately {
            None
        } else {
            ended(RunFollower::of(&self.server, &run, after).await?).await
        };
        let (record, _) = self.task(task.job.id.as_str()).await?;
        let history = given.configuration.history_length.unwrap_or_default();
        Ok(Answer::Value(json!({ "task": self.show(&record, &header, status, history).await? })))
    }

    async fn stream(&self, given: SendParams) -> Result<Answer, Failure> {
        let (task, run, header, after) = self.begin(given.message).await?;
        let view = view(&task, run.status, header.id.as_str(), None, 0);
        let run = RunFollower::of(&self.server, &run, after).await?;
        Ok(Answer::Stream(Box::new(run), view))
    }

    /// Decides about what a task waits for.
    async fn answer(
        &self,
        message: Message,
    ) -> Result<(JobRecord, JobRecord, SessionHeader, u64), Failure> {
        let (record, header) = self.task(&message.task_id).await?;
        if self.current(&record).await?.status != JobStatus::NeedsInput {
            return Err(Failure::unsupported(
                "the task is not waiting for input; send the message with `contextId` only",
            ));
        }
        if self.principal.role() < Role::Approve {
            return Err(Problem::forbidden("this operation requires role `approve`").into());
        }
        let session = self.server.runtime().session(&header.id).await.map_err(Problem::from)?;
        let pending = PendingView::list(&session);
        let after = last_event(&**self.server.store(), &header.id).await.map_err(Problem::from)?;
        for asked in &pending {
            let decision = decision(&message.parts, asked)?;
            decided(&self.server, &header, &asked.request, decision).await?;
        }
        let run = last_run(&self.server, &header.id).await?;
        Ok((record, run, header, after))
    }

    async fn get(&self, given: TaskParams) -> Result<Answer, Failure> {
        let (record, header) = self.task(&given.id).await?;
        let history = given.history_length.unwrap_or_default();
        Ok(Answer::Value(self.show(&record, &header, None, history).await?))
    }

    async fn list(&self, given: ListParams) -> Result<Answer, Failure> {
        let session = match &*given.context_id {
            "" => None,
            context => Some(self.context(context).await?.id),
        };
        let size = if given.page_size == 0 { PAGE } else { given.page_size.min(100) };
        let from: usize = match &*given.page_token {
            "" => 0,
            token => token.parse().map_err(|_| {
                Failure::new(-32602, 400, "`pageToken` is not the `nextPageToken` of a page")
            })?,
        };
        let query = JobQuery { session, ..JobQuery::last(MAX_TASKS) };
        let records = self.server.queue()?.records(&query).await.map_err(Problem::from)?;
        let scope = self.principal.scope();
        let mut tasks = Vec::new();
        for record in records.into_iter().filter(|it| scope.contains(&it.job.session)) {
            let is_asked =
                given.status.is_empty() || super::task::state(record.status) == given.status;
            let Ok((record, header)) = self.task(record.job.id.as_str()).await else { continue };
            if is_asked {
                tasks.push((record, header));
            }
        }
        let total = tasks.len();
        let mut page = Vec::new();
        for (record, header) in tasks.iter().skip(from).take(size) {
            let mut task = self.show(record, header, None, given.history_length).await?;
            if !given.include_artifacts {
                task.as_object_mut().map(|it| it.remove("artifacts"));
            }
            page.push(task);
        }
        let end = from.saturating_add(page.len());
        let next = if end < total { end.to_string() } else { String::new() };
        let answer = json!({
            "tasks": page, "nextPageToken": next, "pageSize": size, "totalSize": total,
        });
        Ok(Answer::Value(answer))
    }

    async fn cancel(&self, given: TaskParams) -> Result<Answer, Failure> {
        if self.principal.role() < Role::Run {
            return Err(Problem::forbidden("this operation requires role `run`").into());
        }
        let (record, header) = self.task(&given.id).await?;
        let current = self.current(&record).await?;
        if current.status != JobStatus::Running {
            return Err(Failure::new(-32002, 409, "the task is not running"));
        }
        let store = self.server.store();
        let after = last_event(&**store, &header.id).await.map_err(Problem::from)?;
        store.send_control(&header.id, &ControlMessage::Cancel).await.map_err(Problem::from)?;
        let run = RunFollower::of(&self.server, &current, after).await?;
        let timeout = self.server.clock().sleep(CANCEL_TIMEOUT);
        let status = match select(pin!(ended(run)), timeout).await {
            Either::Left((status, _)) => status,
            Either::Right(_) => None,
        };
        if status == Some(JobStatus::Completed) {
            return Err(Failure::new(
                -32002,
                409,
                "the task finished before it could be cancelled",
            ));
        }
        let (record, header) = self.task(&given.id).await?;
        Ok(Answer::Value(self.show(&record, &header, status, 0).await?))
    }

    async fn subscribe(&self, given: TaskParams) -> Result<Answer, Failure> {
        let (record, header) = self.task(&given.id).await?;
        let current = self.current(&record).await?;
        if is_over(current.status) {
            return Err(Failure::unsupported("the task has ended; read it with `GetTask`"));
        }
        let after = last_event(&**self.server.store(), &header.id).await.map_err(Problem::from)?;
        let view = view(&record, current.status, header.id.as_str(), None, 0);
        let run = RunFollower::of(&self.server, &current, after).await?;
        Ok(Answer::Stream(Box::new(run), view))
    }
}

/// Follows a run to its end, and returns what became of it.
async fn ended(mut run: RunFollower) -> Option<JobStatus> {
    while let Some(event) = run.next().await {
        if let RunEvent::Ended(end) = event {
            return Some(end_status(&end.outcome));
        }
    }
    None
}

/// Returns the text of a message; other parts are not supported.
fn text(parts: &[Value]) -> Result<String, Failure> {
    let mut texts = Vec::new();
    for part in parts {
        match (part["text"].as_str(), part.get("data")) {
            (Some(text), _) => texts.push(text.to_owned()),
            (None, Some(data)) => texts.push(data.to_string()),
            (None, None) => {
                return Err(Failure::new(
                    -32005,
                    415,
                    "parts must contain text or data; upload files to the session instead",
                ));
            }
        }
    }
    if texts.iter().all(|it| it.trim().is_empty()) {
        return Err(Failure::new(-32602, 400, "the message is empty"));
    }
    Ok(texts.join("\n"))
}

/// Reads a decision: of a data part as `/v1/sessions/{session}/pending/{call}` takes it, or of a text.
fn decision(parts: &[Value], asked: &PendingView) -> Result<DecisionBody, Failure> {
    let data = parts.iter().filter_map(|it| it.get("data"));
    for data in data {
        // One for each call, or one for all.
        let body = data.get(&asked.call).unwrap_or(data);
        if body.get("decision").is_some() {
            return params(body.clone());
        }
    }
    let text = text(parts)?;
    Ok(match asked.kind {
        PendingKind::Answer | PendingKind::Result => {
            DecisionBody::Answer { answer: Value::String(text) }
        }
        PendingKind::Approval => match text.trim().to_lowercase().as_str() {
            "approve" | "approved" | "yes" => DecisionBody::Approve { arguments: None, keep: None },
            _ => DecisionBody::Deny { reason: Some(text), keep: None },
        },
    })
}
