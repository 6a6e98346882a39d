//! `/v1/chat/completions` of `OpenAI`: each request is a session of its own, except one with results of the client's tools.
//! Calls of the agent's own tools are hidden.

use axum::{extract::State, http::StatusCode, response::Response, routing::post};
use loopwright_core::messages::ToolCall;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Frames, Projection,
    client_tools::{CallResult, ClientCall, answer, session_of},
    of_session,
    openai::{Asked, Content, Item, asked, calling, chat_usage, envelope, message, seconds, tools},
    run::{RunEnd, RunEvent, RunFollower, RunOutcome},
    stream,
};
use crate::{
    extract::Body,
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

/// What stands between the texts of two steps.
pub(crate) const BREAK: &str = "\n\n";

/// The request, as far as it is heeded.
#[derive(Deserialize)]
struct Request {
    model: String,
    messages: Vec<RequestMessage>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
}

#[derive(Deserialize)]
struct RequestMessage {
    role: String,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    tool_calls: Option<Vec<RequestCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct RequestCall {
    id: String,
    function: RequestFunction,
}

#[derive(Deserialize)]
struct RequestFunction {
    name: String,
    arguments: String,
}

impl RequestMessage {
    fn item(self) -> Result<Item, Problem> {
        let Self { role, content, tool_calls, tool_call_id } = self;
        let calls = tool_calls.filter(|it| !it.is_empty() && role == "assistant");
        let text = match content {
            Some(content) => content.text()?,
            None if calls.is_some() => String::new(),
            None => return Err(Problem::invalid("a message has no `content`")),
        };
        if role == "tool" {
            let missing = || Problem::invalid("a message with role `tool` needs `tool_call_id`");
            return Ok(Item::Result(CallResult { id: tool_call_id.ok_or_else(missing)?, text }));
        }
        let Some(calls) = calls else { return message(&role, text).map(Item::Message) };
        let call = |it: RequestCall| ToolCall::new(it.id, it.function.name, it.function.arguments);
        Ok(Item::Message(calling(&text, calls.into_iter().map(call))))
    }
}

#[derive(Default, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

pub(crate) fn operations() -> Vec<Operation> {
    vec![Operation {
        method: "post",
        path: "/v1/chat/completions",
        id: "createChatCompletion",
        summary: "Call an agent through the OpenAI chat completions protocol",
        security: RUN,
        parameters: &[],
        body: None,
        responses: const {
            &[other(200, "The completion, as one object or as a stream.", "application/json")]
        },
        handler: || post(create),
    }]
}

async fn create(
    State(server): State<Server>,
    principal: Principal,
    Body(request): Body<Request>,
) -> Result<Response, Problem> {
    let function = |mut tool: Value| Some(tool.get_mut("function")?.take());
    let tools = tools(request.tools, request.tool_choice.as_ref(), function)?;
    let items = request.messages.into_iter().map(RequestMessage::item);
    let (record, after) = match asked(items.collect::<Result<_, _>>()?)? {
        Asked::Message { before, text } => {
            let new = NewSessionBody { agent: Some(request.model.clone()), title: None };
            let beginning = Beginning { turns: before, tools };
            let begun = begin_with(&server, &principal, None, new, beginning);
            let (session, _) = Box::pin(begun).await?;
            let header = session.header();
            (say(&server, header, None, text, MessageMode::Queue).await?.0, 0)
        }
        Asked::Results { results, text } => {
            let header = session_of(&server, &principal, &results).await?;
            if *header.agent_name != *request.model {
                return Err(Problem::invalid("the tool calls are from another model"));
            }
            Box::pin(answer(&server, &header, results, text, Some(tools))).await?
        }
    };
    let run = RunFollower::of(&server, &record, after).await?;
    let completion = Completion {
        id: format!("chatcmpl-{}", record.job.id),
        created: seconds(&server),
        model: request.model,
        with_usage: request.stream_options.unwrap_or_default().include_usage,
        has_text: false,
        is_new_step: false,
    };
    if request.stream.unwrap_or_default() {
        return Ok(stream(completion, run, server.metrics().stream()));
    }
    completion.whole(run).await
}

/// A completion that comes into being.
struct Completion {
    id: String,
    created: u64,
    model: String,
    with_usage: bool,
    has_text: bool,
    /// Whether text comes after that of another step.
    is_new_step: bool,
}

impl Completion {
    /// Returns what an event adds to the text.
    fn added(&mut self, event: &RunEvent) -> Option<String> {
        match event {
            RunEvent::StepStarted(_) => {
                self.is_new_step = self.has_text;
                None
            }
            RunEvent::Text(text) => {
                self.has_text = true;
                let is_new_step = std::mem::take(&mut self.is_new_step);
                Some(if is_new_step { format!("{BREAK}{text}") } else { text.clone() })
            }
            _ => None,
        }
    }

    fn chunk(&self, delta: &Value, finish: Option<&str>) -> Value {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        self.document("chat.completion.chunk", &[choice])
    }

    fn document(&self, object: &str, choices: &[Value]) -> Value {
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
            "choices": choices,
        })
    }

    /// Returns the whole completion.
    async fn whole(mut self, mut run: RunFollower) -> Result<Response, Problem> {
        let (mut text, mut end) = (String::new(), None);
        while let Some(event) = run.next().await {
            text.extend(self.added(&event));
            if let RunEvent::Ended(ended) = event {
                end = Some((finish(&ended)?, ended));
            }
        }
        let Some((finish, RunEnd { calls, usage, .. })) = end else {
            return Err(Problem::internal("the event stream ended before the run did"));
        };
        let text = Some(text).filter(|it| !it.is_empty() || calls.is_empty());
        let mut message = json!({ "role": "assistant", "content": text, "refusal": null });
        if !calls.is_empty() {
            message["tool_calls"] = calls.iter().map(call).collect();
        }
        let choice =
            json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": finish });
        let mut document = self.document("chat.completion", &[choice]);
        document["usage"] = chat_usage(usage);
        Ok(of_session(reply(StatusCode::OK, &document)?, run.session()))
    }
}

fn call(call: &ClientCall) -> Value {
    let function = json!({ "name": call.name, "arguments": call.arguments });
    json!({ "id": call.id, "type": "function", "function": function })
}

/// Says why a completion ends.
fn finish(end: &RunEnd) -> Result<&'static str, Problem> {
    match &end.outcome {
        RunOutcome::NeedsInput(_) if !end.calls.is_empty() => Ok("tool_calls"),
        RunOutcome::Completed => Ok("stop"),
        RunOutcome::Stopped(_) => Ok("length"),
        RunOutcome::NeedsInput(_) => Err(Problem::conflict(
            "the agent is waiting for a decision about a call; decide at \
                `/v1/sessions/{session}/pending`",
        )),
        RunOutcome::Failed(reason) => Err(Problem::internal(reason.clone())),
    }
}

impl Projection for Completion {
    fn begin(&mut self, frames: &mut Frames) {
        frames.data(&self.chunk(&json!({ "role": "assistant", "content": "" }), None));
    }

    fn project(&mut self, event: &RunEvent, frames: &mut Frames) {
        if let Some(text) = self.added(event) {
            frames.data(&self.chunk(&json!({ "content": text }), None));
        }
        let RunEvent::Ended(end) = event else { return };
        match finish(end) {
            Ok(finish) => {
                for (index, it) in end.calls.iter().enumerate() {
                    let mut call = call(it);
                    call["index"] = index.into();
                    frames.data(&self.chunk(&json!({ "tool_calls": [call] }), None));
                }
                frames.data(&self.chunk(&json!({}), Some(finish)));
                if self.with_usage {
                    let mut last = self.document("chat.completion.chunk", &[]);
                    last["usage"] = chat_usage(end.usage);
                    frames.data(&last);
                }
                frames.text("[DONE]");
            }
            Err(problem) => frames.data(&envelope(&problem)),
        }
    }
}
