//! Tasks, and the events of a subscribed task.

use loopwright_core::messages::{Role, Turn};
use loopwright_sessions::{AgentSession, JobRecord, JobStatus};
use serde_json::{Value, json};

use super::super::{
    Frames, Projection,
    run::{RunEvent, RunOutcome},
};
use crate::views::PendingView;

/// The key of the usage in the metadata of a task.
const USAGE: &str = "loopwright/usage";

/// The state of a task.
pub(super) fn state(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Queued => "TASK_STATE_SUBMITTED",
        JobStatus::Running => "TASK_STATE_WORKING",
        JobStatus::Completed => "TASK_STATE_COMPLETED",
        JobStatus::NeedsInput => "TASK_STATE_INPUT_REQUIRED",
        JobStatus::Stopped => "TASK_STATE_CANCELED",
        JobStatus::Failed => "TASK_STATE_FAILED",
    }
}

/// Returns the status of a run that ended so.
pub(super) fn end_status(outcome: &RunOutcome) -> JobStatus {
    match outcome {
        RunOutcome::Completed => JobStatus::Completed,
        RunOutcome::NeedsInput(_) => JobStatus::NeedsInput,
        RunOutcome::Stopped(_) => JobStatus::Stopped,
        RunOutcome::Failed(_) => JobStatus::Failed,
    }
}

/// Returns `true` if a task in this state is over.
pub(super) fn is_over(status: JobStatus) -> bool {
    matches!(status, JobStatus::Completed | JobStatus::Stopped | JobStatus::Failed)
}

/// Shows a task. What it made is known of the last run of its session.
pub(super) fn view(
    record: &JobRecord,
    status: JobStatus,
    context: &str,
    session: Option<&AgentSession>,
    history: usize,
) -> Value {
    let id = record.job.id.to_string();
    let mut state = json!({ "state": state(status), "timestamp": record.updated_at.to_string() });
    let pending = session.filter(|_| status == JobStatus::NeedsInput).map(PendingView::list);
    if let Some(pending) = pending {
        state["message"] = question(&id, context, &pending);
    } else if let Some(reason) = record.reason.as_deref().filter(|_| is_over(status)) {
        state["message"] =
            message(&format!("{id}-end"), &id, context, &json!([{ "text": reason }]));
    }
    let mut task = json!({ "id": id, "contextId": context, "status": state });
    let Some(session) = session else { return task };
    if is_over(status) {
        let spent = session.state().spent();
        task["metadata"] = json!({ USAGE: {
            "inputTokens": spent.usage.input, "outputTokens": spent.usage.output,
            "cachedInputTokens": spent.usage.cache_read, "reasoningTokens": spent.usage.reasoning,
            "costUsd": spent.cost.dollars(),
        } });
    }
    if status == JobStatus::Completed {
        let text = session.state().text();
        task["artifacts"] = json!([{ "artifactId": "answer", "parts": [{ "text": text }] }]);
    }
    if history > 0 {
        let turns = session.state().transcript();
        let from = turns.len().saturating_sub(history);
        let history = turns.iter().enumerate().skip(from);
        let said = |(number, turn): (usize, &Turn)| said(number, turn, &id, context);
        task["history"] = history.filter_map(|(number, turn)| said((number, turn))).collect();
    }
    task
}

fn said(number: usize, turn: &Turn, task: &str, context: &str) -> Option<Value> {
    let (message, role) = match turn.message().role() {
        Role::User => (turn.message(), "ROLE_USER"),
        Role::Assistant => (turn.message(), "ROLE_AGENT"),
        _ => return None,
    };
    let text = message.text();
    (!text.is_empty()).then(|| {
        json!({
            "messageId": format!("{task}-{number}"), "taskId": task, "contextId": context,
            "role": role, "parts": [{ "text": text }],
        })
    })
}

fn message(id: &str, task: &str, context: &str, parts: &Value) -> Value {
    json!({
        "messageId": id, "taskId": task, "contextId": context, "role": "ROLE_AGENT", "parts": parts,
    })
}

/// Asks for the decisions that a task waits for.
fn question(task: &str, context: &str, pending: &[PendingView]) -> Value {
    let texts: Vec<String> =
        pending.iter().map(|it| format!("{}: {}", it.tool, it.question)).collect();
    let parts = json!([{ "text": texts.join("\n") }, { "data": { "pending": pending } }]);
    message(&format!("{task}-question"), task, context, &parts)
}

/// What is told of a task that is followed: its texts as artifacts, and its states.
pub(super) struct TaskEvents {
    /// The task as it was at first.
    task: Value,
    /// The ID of the request of JSON-RPC.
    rpc: Option<Value>,
    texts: usize,
    /// Whether the current text has begun.
    is_open: bool,
}

impl TaskEvents {
    pub(super) fn new(task: Value, rpc: Option<Value>) -> Self {
        Self { task, rpc, texts: 0, is_open: false }
    }

    fn tell(&self, event: Value, frames: &mut Frames) {
        let event = match &self.rpc {
            Some(id) => json!({ "jsonrpc": "2.0", "id": id, "result": event }),
            None => event,
        };
        frames.data(&event);
    }

    fn artifact(&self, text: &str, is_more: bool, is_last: bool, frames: &mut Frames) {
        let artifact = json!({
            "artifactId": format!("text-{}", self.texts), "parts": [{ "text": text }],
        });
        let update = json!({
            "taskId": self.task["id"], "contextId": self.task["contextId"],
            "artifact": artifact, "append": is_more, "lastChunk": is_last,
        });
        self.tell(json!({ "artifactUpdate": update }), frames);
    }

    fn status(
        &self,
        state: &str,
        message: Option<Value>,
        metadata: Option<Value>,
        frames: &mut Frames,
    ) {
        let mut status = json!({ "state": state });
        if let Some(message) = message {
            status["message"] = message;
        }
        let mut update = json!({
            "taskId": self.task["id"], "contextId": self.task["contextId"], "status": status,
        });
        if let Some(metadata) = metadata {
            update["metadata"] = metadata;
        }
        self.tell(json!({ "statusUpdate": update }), frames);
    }

    fn close(&mut self, frames: &mut Frames) {
        if self.is_open {
            self.artifact("", true, true, frames);
            self.is_open = false;
        }
    }

    fn end(&self, outcome: &RunOutcome, frames: &mut Frames) {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (task, context) = (text(&self.task["id"]), text(&self.task["contextId"]));
        let because = |reason: &str| {
            Some(message(&format!("{task}-end"), &task, &context, &json!([{ "text": reason }])))
        };
        let message = match outcome {
            RunOutcome::Completed => None,
            RunOutcome::NeedsInput(pending) => Some(question(&task, &context, pending)),
            RunOutcome::Stopped(reason) | RunOutcome::Failed(reason) => because(reason),
        };
        self.status(state(end_status(outcome)), message, None, frames);
    }
}

impl Projection for TaskEvents {
    fn begin(&mut self, frames: &mut Frames) {
        self.tell(json!({ "task": self.task }), frames);
    }

    fn project(&mut self, event: &RunEvent, frames: &mut Frames) {
        match event {
            RunEvent::StepStarted(_) => self.status(state(JobStatus::Running), None, None, frames),
            RunEvent::Text(text) => {
                if !self.is_open {
                    self.texts += 1;
                }
                self.artifact(text, self.is_open, false, frames);
                self.is_open = true;
            }
            RunEvent::TextEnded | RunEvent::StepEnded(_) => self.close(frames),
            RunEvent::ToolStarted { id, name, arguments } => {
                self.close(frames);
                let call =
                    json!({ "toolCall": { "id": id, "name": name, "arguments": arguments } });
                self.status(state(JobStatus::Running), None, Some(call), frames);
            }
            RunEvent::ToolEnded { id, is_error, result } => {
                let result =
                    json!({ "toolResult": { "id": id, "isError": is_error, "text": result } });
                self.status(state(JobStatus::Running), None, Some(result), frames);
            }
            RunEvent::Ended(end) => {
                self.close(frames);
                self.end(&end.outcome, frames);
            }
        }
    }
}
