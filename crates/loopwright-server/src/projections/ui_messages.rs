//! The UI message stream of Vercel's AI SDK: a chat is a session.

use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, request::Parts},
    response::Response,
    routing::post,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Frames, Projection,
    run::{RunEvent, RunFollower, RunOutcome, last_event},
    stream,
};
use crate::{
    extract::{Body, path_param},
    operation::{Operation, RUN, other},
    principal::Principal,
    problem::Problem,
    routes::{
        messages::{MessageMode, say},
        sessions::{NewSessionBody, begin},
    },
    server::Server,
};

/// The header that names the version of the stream.
const VERSION: HeaderName = HeaderName::from_static("x-vercel-ai-ui-message-stream");

/// The request of a chat, as far as it is heeded.
#[derive(Deserialize)]
struct Chat {
    id: String,
    messages: Vec<ChatMessage>,
}

#[derive(Deserialize)]
struct ChatMessage {
    #[serde(default)]
    id: Option<String>,
    role: String,
    #[serde(default)]
    parts: Vec<Value>,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "post",
        path: "/v1/agents/{agent}/ui-messages",
        id: "runUiMessages",
        summary: "Run an agent through the UI message stream protocol of the AI SDK",
        security: RUN,
        parameters: &[],
        body: None,
        responses: const { &[other(200, "The parts of the message.", "text/event-stream")] },
        handler: || post(run),
    }]
}

async fn run(
    State(server): State<Server>,
    principal: Principal,
    mut parts: Parts,
    Body(chat): Body<Chat>,
) -> Result<Response, Problem> {
    let agent = path_param(&mut parts, "agent").await?;
    let key = format!("ui-messages\n{}", chat.id);
    let new = NewSessionBody { agent: Some(agent), title: None };
    let (session, _) = begin(&server, &principal, Some(&key), new).await?;
    let header = session.header().clone();
    let after = last_event(&**server.store(), &header.id).await?;
    let last = chat.messages.last().filter(|it| it.role == "user");
    let last = last.ok_or_else(|| Problem::invalid("the last message must have role `user`"))?;
    let texts = last.parts.iter().filter_map(|it| it.get("text")?.as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    let key = last.id.as_ref().map(|it| format!("ui-messages\n{it}"));
    let (record, _) = say(&server, &header, key.as_deref(), text, MessageMode::Reject).await?;
    let run = RunFollower::of(&server, &record, after).await?;
    let parts = MessageParts { message: record.job.id.to_string(), texts: 0, open: None };
    let mut response = stream(parts, run, server.metrics().stream());
    response.headers_mut().insert(VERSION, HeaderValue::from_static("v1"));
    Ok(response)
}

/// The parts of a message.
struct MessageParts {
    message: String,
    texts: usize,
    /// The ID of the text that is not complete.
    open: Option<String>,
}

impl MessageParts {
    fn close(&mut self, frames: &mut Frames) {
        if let Some(id) = self.open.take() {
            frames.data(&json!({ "type": "text-end", "id": id }));
        }
    }

    fn end(outcome: &RunOutcome, frames: &mut Frames) {
        match outcome {
            RunOutcome::Completed => {
                frames.data(&json!({ "type": "finish", "finishReason": "stop" }));
            }
            RunOutcome::NeedsInput(pending) => {
                // Approvals of this protocol belong to calls of its own; these are decided elsewhere.
                frames.data(&json!({ "type": "data-pending", "data": pending }));
                frames.data(&json!({ "type": "finish", "finishReason": "other" }));
            }
            RunOutcome::Stopped(reason) => {
                frames.data(&json!({ "type": "abort", "reason": reason }));
            }
            RunOutcome::Failed(reason) => {
                frames.data(&json!({ "type": "error", "errorText": reason }));
            }
        }
        frames.text("[DONE]");
    }
}

impl Projection for MessageParts {
    fn begin(&mut self, frames: &mut Frames) {
        frames.data(&json!({ "type": "start", "messageId": self.message }));
    }

    fn project(&mut self, event: &RunEvent, frames: &mut Frames) {
        match event {
            RunEvent::StepStarted(_) => frames.data(&json!({ "type": "start-step" })),
            RunEvent::Text(text) => {
                let id = self.open.clone().unwrap_or_else(|| {
                    self.texts += 1;
                    let id = format!("text-{}", self.texts);
                    frames.data(&json!({ "type": "text-start", "id": id }));
                    id
                });
                frames.data(&json!({ "type": "text-delta", "id": id, "delta": text }));
                self.open = Some(id);
            }
            RunEvent::TextEnded => self.close(frames),
            RunEvent::ToolStarted { id, name, arguments } => {
                self.close(frames);
                frames.data(&json!({
                    "type": "tool-input-available", "toolCallId": id, "toolName": name,
                    "input": { "summary": arguments }, "dynamic": true, "providerExecuted": true,
                }));
            }
            RunEvent::ToolEnded { id, is_error: true, result } => frames.data(&json!({
                "type": "tool-output-error", "toolCallId": id, "errorText": result,
                "dynamic": true, "providerExecuted": true,
            })),
            RunEvent::ToolEnded { id, result, .. } => frames.data(&json!({
                "type": "tool-output-available", "toolCallId": id, "output": result,
                "dynamic": true, "providerExecuted": true,
            })),
            RunEvent::StepEnded(_) => {
                self.close(frames);
                frames.data(&json!({ "type": "finish-step" }));
            }
            RunEvent::Ended(end) => {
                self.close(frames);
                Self::end(&end.outcome, frames);
            }
        }
    }
}
