//! AG-UI: a thread is a session, and calls that wait for decisions are interrupts. Calls of the client's tools have no
//! result until it sends one.

use std::collections::BTreeSet;

use axum::{extract::State, http::request::Parts, response::Response, routing::post};
use loopwright_core::messages::Usage;
use loopwright_sessions::{AgentSession, SessionHeader, SessionStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Frames, Projection,
    client_tools::{
        CallResult, Declared, answer, check_answered, declared, is_of, replace, waiting,
    },
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
    #[serde(default)]
    tools: Vec<Declared>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputMessage {
    role: String,
    #[serde(default)]
    content: Value,
    /// The call whose result the message is.
    #[serde(default)]
    tool_call_id: Option<String>,
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
    let tools = declared(input.tools)?;
    let names: BTreeSet<String> = tools.names().map(ToString::to_string).collect();
    let results = results(&session, &input.messages);
    let pending = decisions(&session);
    let (record, after) = if !results.is_empty() {
        decide_all(&server, &principal, &header, &pending, &input.resume).await?;
        Box::pin(answer(&server, &header, results, None, Some(tools))).await?
    } else if pending.is_empty() {
        check_answered(&session)?;
        Box::pin(replace(&server, session, tools)).await?;
        let last = input.messages.iter().rev().find(|it| it.role == "user");
        let text = last.map(|it| text(&it.content)).unwrap_or_default();
        let key = format!("ag-ui\n{}", input.run_id);
        (say(&server, &header, Some(&key), text, MessageMode::Reject).await?.0, after)
    } else {
        check_answered(&session)?;
        decide_all(&server, &principal, &header, &pending, &input.resume).await?;
        (last_run(&server, &header.id).await?, after)
    };
    let run = RunFollower::of(&server, &record, after).await?;
    let events = Events {
        thread: input.thread_id,
        run: input.run_id,
        tools: names,
        hidden: BTreeSet::new(),
        step: None,
        messages: 0,
        open: None,
    };
    Ok(stream(events, run, server.metrics().stream()))
}

/// Returns the results for calls that wait for them. The messages repeat the whole conversation. If no call waits, the
/// request may be a repeated one, which ends with results.
fn results(session: &AgentSession, messages: &[InputMessage]) -> Vec<CallResult> {
    let result = |it: &InputMessage| {
        let id = it.tool_call_id.clone().filter(|_| it.role == "tool")?;
        Some(CallResult { id, text: text(&it.content) })
    };
    let calls = waiting(session);
    if calls.is_empty() {
        let is_own = |it: &CallResult| is_of(session, &it.id);
        let last = messages.iter().rev().map_while(result).take_while(is_own);
        return last.collect();
    }
    let is_waiting = |id: &str| calls.iter().any(|(_, it)| it.id == id);
    messages.iter().filter_map(result).filter(|it| is_waiting(&it.id)).collect()
}

/// Returns the calls that wait for decisions, without those that wait for results of the client.
fn decisions(session: &AgentSession) -> Vec<PendingView> {
    let calls: Vec<_> = waiting(session).into_iter().map(|it| it.0).collect();
    let pending = session.state().pending();
    let open = pending.iter().filter(|it| !calls.contains(&it.address()));
    open.map(|it| PendingView::of(session, it)).collect()
}

/// Decides all open interrupts.
async fn decide_all(
    server: &Server,
    principal: &Principal,
    header: &SessionHeader,
    pending: &[PendingView],
    resume: &[Resume],
) -> Result<(), Problem> {
    if pending.is_empty() {
        return Ok(());
    }
    if principal.role() < Role::Approve {
        return Err(Problem::forbidden("this operation requires role `approve`"));
    }
    let open: BTreeSet<&str> = pending.iter().map(|it| &*it.request).collect();
    let answered: BTreeSet<&str> = resume.iter().map(|it| &*it.interrupt_id).collect();
    if open != answered {
        return Err(Problem::conflict("`resume` must answer all open interrupts"));
    }
    for resume in resume {
        let asked = pending.iter().find(|it| it.request == resume.interrupt_id);
        let kind = asked.map_or(PendingKind::Approval, |it| it.kind);
        decided(server, header, &resume.interrupt_id, decision(resume, kind)).await?;
    }
    Ok(())
}

/// Reads an answer to an interrupt. Only a clear yes approves a call.
fn decision(resume: &Resume, kind: PendingKind) -> DecisionBody {
    let payload = &resume.payload;
    let approved = match payload {
        Value::Null => true,
        Value::Bool(approved) => *approved,
        Value::String(text) => text == "approve",
        Value::Object(fields) => fields.get("approved").is_none_or(|it| *it == true),
        Value::Number(_) | Value::Array(_) => false,
    };
    let reason = payload.get("reason").unwrap_or(payload).as_str().map(str::to_owned);
    match (&*resume.status, kind) {
        ("resolved", PendingKind::Answer | PendingKind::Result) => {
            DecisionBody::Answer { answer: payload.clone() }
        }
        ("resolved", PendingKind::Approval) if approved => {
            let arguments = payload.get("editedArgs").or_else(|| payload.get("arguments"));
            DecisionBody::Approve { arguments: arguments.cloned(), keep: None }
        }
        _ => DecisionBody::Deny { reason, keep: None },
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
    /// The tools of the client, whose calls are shown when they wait.
    tools: BTreeSet<String>,
    /// The calls of those tools, by the IDs of the model.
    hidden: BTreeSet<String>,
    /// The step that has not ended. A run that pauses ends it, and the next one does not begin it again.
    step: Option<u64>,
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

    fn end_step(&mut self, frames: &mut Frames) {
        self.close(frames);
        if let Some(step) = self.step.take() {
            frames.data(&json!({ "type": "STEP_FINISHED", "stepName": format!("step-{step}") }));
        }
    }

    fn end(&self, end: &RunEnd, frames: &mut Frames) {
        let finished = |outcome: Value| {
            json!({
                "type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run,
                "outcome": outcome, "usage": [usage(end.usage)],
            })
        };
        match &end.outcome {
            RunOutcome::Completed => frames.data(&finished(json!({ "type": "success" }))),
            RunOutcome::NeedsInput(pending) => {
                let is_open =
                    |it: &&PendingView| !end.calls.iter().any(|call| call.place == it.call);
                let interrupts: Vec<Value> =
                    pending.iter().filter(is_open).map(interrupt).collect();
                if interrupts.is_empty() {
                    return frames.data(&finished(json!({ "type": "success" })));
                }
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

fn usage(it: Usage) -> Value {
    json!({
        "inputTokens": it.input, "outputTokens": it.output, "totalTokens": it.input + it.output,
        "cachedInputTokens": it.cache_read, "reasoningTokens": it.reasoning,
    })
}

fn tool_call(id: &str, name: &str, arguments: &str, frames: &mut Frames) {
    frames.data(&json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name }));
    if !arguments.is_empty() {
        frames.data(&json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments }));
    }
    frames.data(&json!({ "type": "TOOL_CALL_END", "toolCallId": id }));
}

fn interrupt(pending: &PendingView) -> Value {
    let reason = match pending.kind {
        PendingKind::Approval => "tool_call",
        PendingKind::Answer => "input_required",
        PendingKind::Result => "tool_result",
    };
    let mut interrupt = json!({
        "id": pending.request, "reason": reason, "message": pending.question,
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
                self.end_step(frames);
                self.step = Some(*step);
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
            RunEvent::ToolStarted { id, name, .. } if self.tools.contains(name) => {
                self.hidden.insert(id.clone());
            }
            RunEvent::ToolEnded { id, .. } if self.hidden.remove(id) => {}
            RunEvent::ToolStarted { id, name, arguments } => {
                self.close(frames);
                tool_call(id, name, arguments, frames);
            }
            RunEvent::ToolEnded { id, result, .. } => frames.data(&json!({
                "type": "TOOL_CALL_RESULT", "messageId": format!("{id}-result"), "toolCallId": id,
                "content": result, "role": "tool",
            })),
            RunEvent::StepEnded(_) => self.end_step(frames),
            RunEvent::Ended(end) => {
                self.close(frames);
                for call in &end.calls {
                    tool_call(&call.id, &call.name, &call.arguments, frames);
                }
                self.end_step(frames);
                self.end(end, frames);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approval(status: &str, payload: Value) -> DecisionBody {
        let (interrupt_id, status) = ("0".to_owned(), status.to_owned());
        decision(&Resume { interrupt_id, status, payload }, PendingKind::Approval)
    }

    #[test]
    fn only_a_clear_yes_approves_a_call() {
        let yes = DecisionBody::Approve { arguments: None, keep: None };
        for payload in
            [Value::Null, json!(true), json!("approve"), json!({}), json!({"approved": true})]
        {
            assert_eq!(approval("resolved", payload.clone()), yes, "{payload}");
            let denied = matches!(approval("cancelled", payload), DecisionBody::Deny { .. });
            assert!(denied);
        }
        let edited = json!({"approved": true, "editedArgs": {"a": 1}});
        let arguments = Some(json!({"a": 1}));
        assert_eq!(approval("resolved", edited), DecisionBody::Approve { arguments, keep: None });
        let no = |reason: Option<&str>| DecisionBody::Deny {
            reason: reason.map(str::to_owned),
            keep: None,
        };
        for payload in [
            json!(false),
            json!(1),
            json!([]),
            json!({"approved": "no"}),
            json!({"approved": null}),
        ] {
            assert_eq!(approval("resolved", payload.clone()), no(None), "{payload}");
        }
        assert_eq!(approval("resolved", json!("no")), no(Some("no")));
        let refused = json!({"approved": false, "reason": "too late"});
        assert_eq!(approval("resolved", refused), no(Some("too late")));
        assert_eq!(approval("other", json!(true)), no(None));
    }
}
