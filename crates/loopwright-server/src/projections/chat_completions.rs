//! `/v1/chat/completions` of `OpenAI`: each request is a session of its own, and calls of the agent are hidden.

use axum::{extract::State, http::StatusCode, response::Response, routing::post};
use loopwright_core::messages::Usage;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Frames, Projection, of_session,
    openai::{Content, chat_usage, envelope, history, message, seconds},
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
        sessions::{NewSessionBody, begin_with},
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
}

#[derive(Deserialize)]
struct RequestMessage {
    role: String,
    content: Content,
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
        responses: const { &[other(200, "The completion, or its stream.", "application/json")] },
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
    let read = |it: RequestMessage| message(&it.role, it.content.text()?);
    let messages = request.messages.into_iter().map(read).collect::<Result<_, _>>()?;
    let (history, text) = history(messages)?;
    let new = NewSessionBody { agent: Some(request.model.clone()), title: None };
    let (session, _) = Box::pin(begin_with(&server, &principal, None, new, history)).await?;
    let (record, _) = say(&server, session.header(), None, text, MessageMode::Queue).await?;
    let run = RunFollower::of(&server, &record, 0).await?;
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
            if let RunEvent::Ended(RunEnd { outcome, usage }) = event {
                end = Some((finish(&outcome)?, usage));
            }
        }
        let (finish, usage) = end.unwrap_or(("stop", Usage::default()));
        let message = json!({ "role": "assistant", "content": text, "refusal": null });
        let choice =
            json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": finish });
        let mut document = self.document("chat.completion", &[choice]);
        document["usage"] = chat_usage(usage);
        Ok(of_session(reply(StatusCode::OK, &document)?, run.session()))
    }
}

/// Says why a completion ends.
fn finish(outcome: &RunOutcome) -> Result<&'static str, Problem> {
    match outcome {
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
        let RunEvent::Ended(RunEnd { outcome, usage }) = event else { return };
        match finish(outcome) {
            Ok(finish) => {
                frames.data(&self.chunk(&json!({}), Some(finish)));
                if self.with_usage {
                    let mut last = self.document("chat.completion.chunk", &[]);
                    last["usage"] = chat_usage(*usage);
                    frames.data(&last);
                }
                frames.text("[DONE]");
            }
            Err(problem) => frames.data(&envelope(&problem)),
        }
    }
}
