//! AG-UI: a thread is a session, and calls that wait for decisions are interrupts.

use std::collections::BTreeSet;

use axum::{extract::State, http::request::Parts, response::Response, routing::post};
use loopwright_sessions::SessionStatus;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Frames, Projection,
    run::{RunEnd, RunEvent, RunFollower, RunOutcome, last_event},
    stream,
};
use crate::{
    extract::{Body, path_param},
    operation::{Operation, RUN, other},
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

/// The input of a run, as far as it is heeded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    thread_id: String,
    run_id: String,
    #[serde(default)]
    messages: Vec<InputMessage>,
    #[serde(default)]
    resume: Vec<Resume>,
}

#[derive(Deserialize)]
struct InputMessage {
    role: String,
    #[serde(default)]
    content: Value,
}

/// An answer to an interrupt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resume {
    interrupt_id: String,
    status: String,
    #[serde(default)]
    payload: Value,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "post",
        path: "/v1/agents/{agent}/ag-ui",
        id: "runAgUi",
        summary: "Run an agent through the AG-UI protocol",
        security: RUN,
        parameters: &[],
        body: None,
        responses: const { &[other(200, "The events.", "text/event-stream")] },
        handler: || post(run),
    }]
}

async fn run(
    State(server): State<Server>,
    principal: Principal,
    mut parts: Parts,
    Body(input): Body<Input>,
) -> Result<Response, Problem> {
    let agent = path_param(&mut parts, "agent").await?;
    let key = format!("ag-ui\n{}", input.thread_id);
    let new = NewSessionBody { agent: Some(agent), title: None };
    let (session, _) = begin(&server, &principal, Some(&key), new).await?;
    let header = session.header().clone();
    if header.status != SessionStatus::Active {
        return Err(Problem::conflict(format!("the session is {}", header.status)));
    }
    let after = last_event(&**server.store(), &header.id).await?;
    let pending: Vec<PendingView> = session.state().pending().iter().map(Into::into).collect();
    let record = if pending.is_empty() {
        let last = input.messages.iter().rev().find(|it| it.role == "user");
        let text = last.map(|it| text(&it.content)).unwrap_or_default();
        let key = format!("ag-ui\n{}", input.run_id);
        say(&server, &header, Some(&key), text, MessageMode::Reject).await?.0
    } else {
        if principal.role() < Role::Approve {
            return Err(Problem::forbidden("this operation requires role `approve`"));
        }
        let open: BTreeSet<&str> = pending.iter().map(|it| &*it.call).collect();
        let answered: BTreeSet<&str> = input.resume.iter().map(|it| &*it.interrupt_id).collect();
        if open != answered {
            return Err(Problem::conflict("`resume` must answer all open interrupts"));
        }
        for resume in &input.resume {
            let asked = pending.iter().find(|it| it.call == resume.interrupt_id);
            let kind = asked.map_or(PendingKind::Approval, |it| it.kind);
            decided(&server, &header, &resume.interrupt_id, decision(resume, kind)).await?;
        }
        last_run(&server, &header.id).await?
    };
    let run = RunFollower::of(&server, &record, after).await?;
    let events = Events { thread: input.thread_id, run: input.run_id, messages: 0, open: None };
    Ok(stream(events, run, server.metrics().stream()))
}

/// Reads an answer to an interrupt.
fn decision(resume: &Resume, kind: PendingKind) -> DecisionBody {
    let payload = &resume.payload;
    let approved = payload.get("approved").and_then(Value::as_bool).unwrap_or(true);
    let reason = payload.get("reason").and_then(Value::as_str).map(str::to_owned);
    match (&*resume.status, kind) {
        ("resolved", PendingKind::Answer | PendingKind::Result) => {
            DecisionBody::Answer { answer: payload.clone() }
        }
        ("resolved", PendingKind::Approval) if approved => {
            let arguments = payload.get("editedArgs").or_else(|| payload.get("arguments"));
            DecisionBody::Approve { arguments: arguments.cloned() }
        }
        _ => DecisionBody::Deny { reason },
    }
}

/// Returns the text of a content: a text, or parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|it| it.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The events of a run.
struct Events {
    thread: String,
    run: String,
    messages: usize,
    /// The ID of the message that is not complete.
    open: Option<String>,
}

impl Events {
    fn close(&mut self, frames: &mut Frames) {
        if let Some(id) = self.open.take() {
            frames.data(&json!({ "type": "TEXT_MESSAGE_END", "messageId": id }));
        }
    }

    fn end(&self, end: &RunEnd, frames: &mut Frames) {
        let finished = |outcome: Value| {
            json!({
                "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run,
                "outcome": outcome,
            })
        };
        match &end.outcome {
            RunOutcome::Completed => frames.data(&finished(json!({ "type": "success" }))),
            RunOutcome::NeedsInput(pending) => {
                let interrupts: Vec<Value> = pending.iter().map(interrupt).collect();
                frames.data(&finished(json!({ "type": "interrupt", "interrupts": interrupts })));
            }
            RunOutcome::Stopped(reason) => {
                frames.data(&json!({ "type": "RUN_ERROR", "message": reason, "code": "stopped" }));
            }
            RunOutcome::Failed(reason) => {
                frames.data(&json!({ "type": "RUN_ERROR", "message": reason, "code": "failed" }));
            }
        }
    }
}

fn interrupt(pending: &PendingView) -> Value {
    let reason = match pending.kind {
        PendingKind::Approval => "tool_call",
        PendingKind::Answer => "input_required",
        PendingKind::Result => "tool_result",
    };
    let mut interrupt = json!({
        "id": pending.call, "reason": reason, "message": pending.question,
        "metadata": { "tool": pending.tool, "arguments": pending.arguments },
    });
    if let Some(schema) = &pending.schema {
        interrupt["responseSchema"] = schema.clone();
    }
    interrupt
}

impl Projection for Events {
    fn begin(&mut self, frames: &mut Frames) {
        let (thread, run) = (&self.thread, &self.run);
        frames.data(&json!({ "type": "RUN_STARTED", "threadId": thread, "runId": run }));
    }

    fn project(&mut self, event: &RunEvent, frames: &mut Frames) {
        match event {
            RunEvent::StepStarted(step) => {
                frames.data(&json!({ "type": "STEP_STARTED", "stepName": format!("step-{step}") }));
            }
            RunEvent::Text(text) => {
                let id = self.open.clone().unwrap_or_else(|| {
                    self.messages += 1;
                    let id = format!("{}-{}", self.run, self.messages);
                    frames.data(&json!({
                        "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant",
                    }));
                    id
                });
                frames.data(&json!({
                    "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text,
                }));
                self.open = Some(id);
            }
            RunEvent::TextEnded => self.close(frames),
            RunEvent::ToolStarted { id, name, arguments } => {
                self.close(frames);
                frames.data(&json!({
                    "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name,
                }));
                if !arguments.is_empty() {
                    frames.data(&json!({
                        "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments,
                    }));
                }
                frames.data(&json!({ "type": "TOOL_CALL_END", "toolCallId": id }));
            }
            RunEvent::ToolEnded { id, result, .. } => frames.data(&json!({
                "type": "TOOL_CALL_RESULT", "messageId": format!("{id}-result"), "toolCallId": id,
                "content": result, "role": "tool",
            })),
            RunEvent::StepEnded(step) => {
                self.close(frames);
                frames
                    .data(&json!({ "type": "STEP_FINISHED", "stepName": format!("step-{step}") }));
            }
            RunEvent::Ended(end) => {
                self.close(frames);
                self.end(end, frames);
            }
        }
    }
}
