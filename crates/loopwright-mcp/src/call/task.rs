//! Calls that a server turns into tasks, which revision 2026-07-28 has.

use std::time::Duration;

use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, ClientRequest, GetTaskParams, GetTaskRequest,
    InputRequests, ServerResult, TaskPayload,
};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{CallFailure, Stage, ToolCallRun};
use crate::error::McpError;
use crate::listeners::{Progress, Report};
use crate::request::{Limits, Requester};
use crate::text;

/// How often a server is asked about a task, at most and at least.
const POLL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// How often, if the server does not say.
const POLL_DEFAULT: Duration = Duration::from_secs(1);

impl ToolCallRun<'_> {
    /// Asks a server about a task until there is something else to do.
    pub(super) async fn follow(&mut self, id: String) -> Result<Stage, CallFailure> {
        let connection = self.client.connection().await?;
        loop {
            let request = GetTaskRequest::new(GetTaskParams::new(id.clone()));
            let request = ClientRequest::GetTaskRequest(request);
            let answer = self.request(&connection, "tasks/get", request).await?;
            let ServerResult::GetTaskResult(got) = answer else {
                return Err(connection.requests.unexpected("tasks/get").into());
            };
            match got.task.payload {
                TaskPayload::Completed { result } => {
                    let result = serde_json::from_value(Value::Object(result));
                    let wrong = |_| connection.requests.unexpected("tasks/get");
                    return Ok(Stage::Done(result.map_err(wrong)?));
                }
                TaskPayload::Failed { error } => {
                    let message =
                        error.get("message").and_then(Value::as_str).unwrap_or("no reason");
                    let server = self.client.server().name.clone();
                    let (method, message) = ("tools/call", text::line(message));
                    return Err(McpError::Refused { server, method, message }.into());
                }
                TaskPayload::InputRequired { input_requests } => {
                    let is_open = |(key, _): &(String, _)| !self.answered.contains(key);
                    let open: InputRequests = input_requests.into_iter().filter(is_open).collect();
                    if !open.is_empty() {
                        let mut round = self.round_of(Some(open))?;
                        round.task = Some(id);
                        return Ok(Stage::Answer(round));
                    }
                }
                TaskPayload::Working => {}
                _ => return Err(self.failed("the server has cancelled the task".to_owned())),
            }
            if let Some(message) = got.task.task.status_message {
                let progress = Progress { done: 0.0, total: None, message: Some(message) };
                self.host.report(Report::Progress(progress));
            }
            let wait = got.task.task.poll_interval_ms.map_or(POLL_DEFAULT, Duration::from_millis);
            let wait = wait.clamp(POLL.0, POLL.1);
            if Instant::now() + wait >= self.ends {
                let server = self.client.server().name.clone();
                let after = self.client.server().max_call_time;
                return Err(McpError::Timeout { server, method: "tools/call", after }.into());
            }
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    return Err(self.failed("the call was cancelled".to_owned()));
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Ends the task if the call ends before it.
    pub(super) fn guard_task(&mut self, requester: &Requester, id: &str) {
        if let Some(same) = &mut self.task {
            same.keep();
        }
        self.task = Some(TaskGuard { requester: requester.clone(), id: Some(id.to_owned()) });
    }
}

/// Ends a task whose call is over.
pub(super) struct TaskGuard {
    requester: Requester,
    id: Option<String>,
}

impl TaskGuard {
    /// Lets the task be.
    pub(super) fn keep(&mut self) {
        self.id = None;
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let request = CancelTaskRequest::new(CancelTaskParams::new(id));
        let request = ClientRequest::CancelTaskRequest(request);
        let requester = self.requester.clone();
        let time = requester.server.call_timeout;
        let limits = Limits { idle: time, total: time };
        runtime.spawn(async move {
            let never = CancellationToken::new();
            requester.request("tasks/cancel", request, limits, &never).await.ok();
        });
    }
}
