//! `/v1/responses` of `OpenAI`: `previous_response_id` continues a session, and calls of the agent are hidden.

use axum::{extract::State, http::StatusCode, response::Response, routing::post};
use loopwright_core::messages::{Message, Usage};
use loopwright_sessions::{JobId, JobQuery, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Frames, Projection, of_session,
    openai::{Content, history, message, seconds},
    run::{RunEnd, RunEvent, RunFollower, RunOutcome, last_event},
    stream,
};
use crate::{
    extract::{Body, own_session},
    operation::{Operation, RUN, other},
    principal::Principal,
    problem::Problem,
    routes::{
        messages::{MessageMode, say},
        reply,
        sessions::{NewSessionBody, begin_with},
    },
    server::Server,
};

/// The request, as far as it is heeded.
#[derive(Deserialize)]
struct Request {
    model: String,
    input: Input,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    previous_response_id: Option<String>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Item>),
}

#[derive(Deserialize)]
struct Item {
    role: String,
    content: Content,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "post",
        path: "/v1/responses",
        id: "createResponse",
        summary: "Call an agent through the OpenAI Responses protocol",
        security: RUN,
        parameters: &[],
        body: None,
        responses: const { &[other(200, "The response, or its stream.", "application/json")] },
        handler: || post(create),
    }]
}

async fn create(
    State(server): State<Server>,
    principal: Principal,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    if request.tools.is_some_and(|it| !it.is_empty()) {
        return Err(Problem::invalid("`tools` are not supported; the agent has tools of its own"));
    }
    let messages = match request.input {
        Input::Text(text) => vec![Message::user(text)],
        Input::Items(items) => {
            let read = |it: Item| message(&it.role, it.content.text()?);
            items.into_iter().map(read).collect::<Result<_, _>>()?
        }
    };
    let (before, text) = history(messages)?;
    let (header, after) = if let Some(previous) = &request.previous_response_id {
        let header = previous_session(&server, &principal, previous).await?;
        if *header.agent_name != *request.model {
            return Err(Problem::invalid("the previous response is from another model"));
        }
        let after = last_event(&**server.store(), &header.id).await?;
        (header, after)
    } else {
        let new = NewSessionBody { agent: Some(request.model.clone()), title: None };
        let (session, _) = Box::pin(begin_with(&server, &principal, None, new, before)).await?;
        (session.header().clone(), 0)
    };
    let (record, _) = say(&server, &header, None, text, MessageMode::Reject).await?;
    let run = RunFollower::of(&server, &record, after).await?;
    let answer = Answer {
        id: format!("resp_{}.{}", header.id, record.job.id),
        created_at: seconds(&server),
        model: request.model,
        previous: request.previous_response_id,
        output: Vec::new(),
        open: None,
        sequence: 0,
    };
    if request.stream.unwrap_or_default() {
        return Ok(stream(answer, run, server.metrics().stream()));
    }
    answer.whole(run).await
}

/// Finds the session that a response continues: that of the previous one, which must be its last.
async fn previous_session(
    server: &Server,
    principal: &Principal,
    id: &str,
) -> Result<loopwright_sessions::SessionHeader, Problem> {
    let unknown = || Problem::not_found("unknown previous response");
    let names = id.strip_prefix("resp_").and_then(|it| it.split_once('.'));
    let (session, run) = names.ok_or_else(unknown)?;
    let session = SessionId::new(session).map_err(|_| unknown())?;
    let run = JobId::new(run).map_err(|_| unknown())?;
    let header = own_session(&**server.store(), principal, session).await?;
    let query = JobQuery { status: None, session: Some(header.id.clone()), limit: 1 };
    let last = server.queue()?.records(&query).await?.into_iter().next();
    if last.is_none_or(|it| it.job.id != run) {
        let text = "the previous response is not the last of its session; fork the session instead";
        return Err(Problem::conflict(text));
    }
    Ok(header)
}

/// A response that comes into being.
struct Answer {
    id: String,
    created_at: u64,
    model: String,
    previous: Option<String>,
    /// The messages that are complete.
    output: Vec<Value>,
    /// The text of the message that is not.
    open: Option<String>,
    sequence: u64,
}

impl Answer {
    fn document(&self, status: &str, usage: Option<Usage>, error: Option<&Problem>) -> Value {
        let usage = usage.map(|it| {
            json!({
                "input_tokens": it.input, "output_tokens": it.output, "total_tokens": it.total(),
                "input_tokens_details": { "cached_tokens": it.cache_read },
                "output_tokens_details": { "reasoning_tokens": it.reasoning },
            })
        });
        let incomplete = (status == "incomplete").then(|| json!({ "reason": "max_output_tokens" }));
        let error = error.map(|it| json!({ "code": "server_error", "message": it.text() }));
        json!({
            "id": self.id, "object": "response", "created_at": self.created_at, "status": status,
            "model": self.model, "output": self.output, "usage": usage, "error": error,
            "incomplete_details": incomplete, "instructions": null, "metadata": {},
            "parallel_tool_calls": true, "previous_response_id": self.previous,
            "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null,
        })
    }

    fn item(&self, status: &str, content: &[Value]) -> Value {
        json!({
            "id": self.item_id(), "type": "message", "role": "assistant", "status": status,
            "content": content,
        })
    }

    fn item_id(&self) -> String {
        format!("msg_{}", self.output.len())
    }

    fn emit(&mut self, frames: &mut Frames, kind: &str, mut data: Value) {
        data["type"] = kind.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        frames.named(kind, &data);
    }

    /// Adds text to the message that is open, or to a new one.
    fn add(&mut self, text: &str, frames: &mut Frames) {
        let (index, id) = (self.output.len(), self.item_id());
        if self.open.is_none() {
            let item = self.item("in_progress", &[]);
            self.emit(
                frames,
                "response.output_item.added",
                json!({ "output_index": index, "item": item }),
            );
            let part = json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part("") });
            self.emit(frames, "response.content_part.added", part);
        }
        self.open.get_or_insert_default().push_str(text);
        let delta = json!({
            "item_id": id, "output_index": index, "content_index": 0, "delta": text, "logprobs": [],
        });
        self.emit(frames, "response.output_text.delta", delta);
    }

    /// Ends the message that is open.
    fn close(&mut self, frames: &mut Frames) {
        let Some(text) = self.open.take() else { return };
        let (index, id) = (self.output.len(), self.item_id());
        let done = json!({
            "item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": [],
        });
        self.emit(frames, "response.output_text.done", done);
        let done = json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part(&text) });
        self.emit(frames, "response.content_part.done", done);
        let item = self.item("completed", &[part(&text)]);
        self.emit(
            frames,
            "response.output_item.done",
            json!({ "output_index": index, "item": item }),
        );
        self.output.push(item);
    }

    /// Returns the end of the response: the type of the event, and the document.
    fn end(&self, end: &RunEnd) -> (&'static str, Value) {
        let usage = Some(end.usage);
        match &end.outcome {
            RunOutcome::Completed => {
                ("response.completed", self.document("completed", usage, None))
            }
            RunOutcome::Stopped(_) => {
                ("response.incomplete", self.document("incomplete", usage, None))
            }
            RunOutcome::NeedsInput(_) => {
                let problem = Problem::conflict("the agent is waiting for a decision about a call");
                ("response.failed", self.document("failed", usage, Some(&problem)))
            }
            RunOutcome::Failed(reason) => {
                let problem = Problem::internal(reason.clone());
                ("response.failed", self.document("failed", usage, Some(&problem)))
            }
        }
    }

    async fn whole(mut self, mut run: RunFollower) -> Result<Response, Problem> {
        let mut frames = Frames::default();
        let mut document = Value::Null;
        while let Some(event) = run.next().await {
            self.project(&event, &mut frames);
            if let RunEvent::Ended(end) = &event {
                document = self.end(end).1;
            }
        }
        Ok(of_session(reply(StatusCode::OK, &document)?, run.session()))
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

impl Projection for Answer {
    fn begin(&mut self, frames: &mut Frames) {
        let document = self.document("in_progress", None, None);
        self.emit(frames, "response.created", json!({ "response": document }));
        self.emit(frames, "response.in_progress", json!({ "response": document }));
    }

    fn project(&mut self, event: &RunEvent, frames: &mut Frames) {
        match event {
            RunEvent::Text(text) => self.add(text, frames),
            RunEvent::TextEnded | RunEvent::StepStarted(_) | RunEvent::StepEnded(_) => {
                self.close(frames);
            }
            RunEvent::ToolStarted { .. } | RunEvent::ToolEnded { .. } => {}
            RunEvent::Ended(end) => {
                self.close(frames);
                let (kind, document) = self.end(end);
                self.emit(frames, kind, json!({ "response": document }));
            }
        }
    }
}
