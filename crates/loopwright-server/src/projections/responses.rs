//! `/v1/responses` of `OpenAI`: `previous_response_id` continues a session. Calls of the agent's own tools are hidden.

use axum::{extract::State, http::StatusCode, response::Response, routing::post};
use loopwright_core::messages::{Message, ToolCall, Usage};
use loopwright_sessions::{JobId, JobQuery, SessionHeader, SessionId};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Frames, Projection,
    client_tools::{CallResult, ClientCall, answer, check_answered, replace, session_of},
    of_session,
    openai::{Asked, Content, Item, asked, calling, message, seconds, tools},
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
        sessions::{Beginning, NewSessionBody, begin_with},
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
    #[serde(default)]
    tool_choice: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Value>),
}

#[derive(Deserialize)]
struct InputMessage {
    role: String,
    content: Content,
}

#[derive(Deserialize)]
struct InputCall {
    call_id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct InputResult {
    call_id: String,
    output: Content,
}

/// Reads the items of an input.
fn items(values: Vec<Value>) -> Result<Vec<Item>, Problem> {
    let mut items = Vec::with_capacity(values.len());
    // Calls are items of their own, and stand in one message here.
    let mut calls: Vec<ToolCall> = Vec::new();
    for value in values {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or("message").to_owned();
        if kind == "function_call" {
            let InputCall { call_id, name, arguments } = read(value)?;
            calls.push(ToolCall::new(call_id, name, arguments));
            continue;
        }
        if !calls.is_empty() && kind != "reasoning" {
            items.push(Item::Message(calling("", calls.drain(..))));
        }
        match &*kind {
            "message" => {
                let InputMessage { role, content } = read(value)?;
                items.push(Item::Message(message(&role, content.text()?)?));
            }
            "function_call_output" => {
                let InputResult { call_id, output } = read(value)?;
                items.push(Item::Result(CallResult { id: call_id, text: output.text()? }));
            }
            "reasoning" => {}
            _ => {
                return Err(Problem::invalid(
                    "an item must have type `message`, `function_call`, `function_call_output` or `reasoning`",
                ));
            }
        }
    }
    if !calls.is_empty() {
        items.push(Item::Message(calling("", calls)));
    }
    Ok(items)
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_json::from_value(value)
        .map_err(|error| Problem::invalid(format!("an item is invalid: {error}")))
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
        responses: const {
            &[other(200, "The response, as one object or as a stream.", "application/json")]
        },
        handler: || post(create),
    }]
}

async fn create(
    State(server): State<Server>,
    principal: Principal,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    let tools = tools(request.tools, request.tool_choice.as_ref(), Some)?;
    let items = match request.input {
        Input::Text(text) => vec![Item::Message(Message::user(text))],
        Input::Items(values) => items(values)?,
    };
    let asked = asked(items)?;
    let (record, after) = match (asked, &request.previous_response_id) {
        (Asked::Results { results, text }, previous) => {
            let header = session_of(&server, &principal, &results).await?;
            let previous = previous.as_ref().map(|it| names(it));
            if previous.is_some_and(|it| it.is_none_or(|(session, _)| session != header.id)) {
                return Err(Problem::invalid("the calls are not those of the previous response"));
            }
            check_model(&header, &request.model)?;
            Box::pin(answer(&server, &header, results, text, Some(tools))).await?
        }
        (Asked::Message { text, .. }, Some(previous)) => {
            let header = previous_session(&server, &principal, previous).await?;
            check_model(&header, &request.model)?;
            let session = server.runtime().session(&header.id).await?;
            check_answered(&session)?;
            Box::pin(replace(&server, session, tools)).await?;
            let after = last_event(&**server.store(), &header.id).await?;
            (say(&server, &header, None, text, MessageMode::Reject).await?.0, after)
        }
        (Asked::Message { before, text }, None) => {
            let new = NewSessionBody { agent: Some(request.model.clone()), title: None };
            let beginning = Beginning { turns: before, tools };
            let begun = begin_with(&server, &principal, None, new, beginning);
            let (session, _) = Box::pin(begun).await?;
            (say(&server, session.header(), None, text, MessageMode::Reject).await?.0, 0)
        }
    };
    let run = RunFollower::of(&server, &record, after).await?;
    let answer = Answer {
        id: format!("resp_{}.{}", record.job.session, record.job.id),
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

/// Refuses the session of another agent.
fn check_model(header: &SessionHeader, model: &str) -> Result<(), Problem> {
    if *header.agent_name == *model {
        return Ok(());
    }
    Err(Problem::invalid("the previous response is from another model"))
}

/// Returns the session and the run in the ID of a response.
fn names(id: &str) -> Option<(SessionId, JobId)> {
    let (session, run) = id.strip_prefix("resp_")?.split_once('.')?;
    Some((SessionId::new(session).ok()?, JobId::new(run).ok()?))
}

/// Finds the session that a response continues: that of the previous one, which must be its last.
async fn previous_session(
    server: &Server,
    principal: &Principal,
    id: &str,
) -> Result<SessionHeader, Problem> {
    let unknown = || Problem::not_found("unknown previous response");
    let (session, run) = names(id).ok_or_else(unknown)?;
    let header = own_session(&**server.store(), principal, session).await?;
    let query = JobQuery { session: Some(header.id.clone()), ..JobQuery::last(1) };
    let last = server.queue()?.records(&query).await?.into_iter().next();
    if last.is_none_or(|it| it.job.id != run) {
        let text =
            "the previous response is not the last one in its session; fork the session instead";
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

    /// Adds a call that the client runs.
    fn add_call(&mut self, call: &ClientCall, frames: &mut Frames) {
        let index = self.output.len();
        let id = format!("fc_{index}");
        let item = |status: &str, arguments: &str| {
            json!({
                "id": id, "type": "function_call", "call_id": call.id, "name": call.name,
                "arguments": arguments, "status": status,
            })
        };
        let added = json!({ "output_index": index, "item": item("in_progress", "") });
        self.emit(frames, "response.output_item.added", added);
        let place = json!({ "item_id": id, "output_index": index });
        let mut delta = place.clone();
        delta["delta"] = call.arguments.clone().into();
        self.emit(frames, "response.function_call_arguments.delta", delta);
        let mut done = place;
        done["arguments"] = call.arguments.clone().into();
        done["name"] = call.name.clone().into();
        self.emit(frames, "response.function_call_arguments.done", done);
        let item = item("completed", &call.arguments);
        let done = json!({ "output_index": index, "item": item });
        self.emit(frames, "response.output_item.done", done);
        self.output.push(item);
    }

    /// Returns the end of the response: the type of the event, and the document.
    fn end(&self, end: &RunEnd) -> (&'static str, Value) {
        let usage = Some(end.usage);
        match &end.outcome {
            RunOutcome::NeedsInput(_) if !end.calls.is_empty() => {
                ("response.completed", self.document("completed", usage, None))
            }
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
                for call in &end.calls {
                    self.add_call(call, frames);
                }
                let (kind, document) = self.end(end);
                self.emit(frames, kind, json!({ "response": document }));
            }
        }
    }
}
