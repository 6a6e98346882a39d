//! A client of AG-UI. One request runs the agent, and its response has the events of the run.

use std::{collections::BTreeMap, sync::Arc};

use loopwright_core::{
    BoxError, Json, Spend, Tool, ToolCx,
    messages::{ToolExchange, Usage},
};
use loopwright_models::{
    WebResponse,
    sse::{Decoder, Event},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    client::{Client, RemoteError, USER_AGENT, shortened},
    steps::{Progress, SEND, failed},
    wire::TaskState,
};

/// The answer that approves a call.
const APPROVE: &str = "approve";

/// A question for which a run waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Interrupt {
    id: String,
    question: String,
    schema: Value,
    /// Whether the answer approves or denies a call.
    is_approval: bool,
}

/// The questions for which a run waits, and what the next run of the thread repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Waiting {
    interrupts: Vec<Interrupt>,
    /// The ID of the message that the run answers.
    message: String,
}

/// A question as the call that asks the user has it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(super) struct Asked {
    #[serde(flatten)]
    interrupt: Interrupt,
    message: String,
}

impl Asked {
    /// Returns the schema of the answer.
    pub(super) fn into_schema(self) -> Value {
        self.interrupt.schema
    }
}

/// An answer to a question.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Resume {
    interrupt_id: String,
    status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Value>,
}

/// The events of a run, as far as they are read.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
enum RunEvent {
    TextMessageStart {
        message_id: String,
        #[serde(flatten)]
        author: Author,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
        #[serde(flatten)]
        author: Author,
    },
    TextMessageChunk {
        #[serde(default)]
        message_id: Option<String>,
        #[serde(default)]
        delta: Option<String>,
        #[serde(flatten)]
        author: Author,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
    },
    ToolCallArgs {
        tool_call_id: String,
        delta: String,
    },
    ToolCallResult {
        tool_call_id: String,
    },
    MessagesSnapshot {
        messages: Vec<Shown>,
    },
    RunFinished {
        #[serde(default)]
        outcome: Value,
        #[serde(default)]
        result: Option<Value>,
        #[serde(default)]
        usage: Vec<Reported>,
    },
    RunError {
        message: String,
    },
    #[serde(other)]
    Other,
}

/// The author of a message.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Author {
    role: Option<String>,
    /// The sub-agent of the remote agent.
    subagent_run_id: Option<String>,
}

impl Author {
    fn is_agent(&self) -> bool {
        self.subagent_run_id.is_none() && self.role.as_deref().is_none_or(|it| it == "assistant")
    }
}

/// A message of a snapshot.
#[derive(Deserialize)]
struct Shown {
    role: String,
    #[serde(default)]
    content: Value,
}

/// An interrupt as it is sent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asks {
    id: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    response_schema: Option<Value>,
    #[serde(default)]
    metadata: Value,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "they are the names of the protocol")]
struct Reported {
    input_tokens: u64,
    output_tokens: u64,
    cached_input_tokens: u64,
    reasoning_tokens: u64,
}

impl From<Reported> for Usage {
    fn from(it: Reported) -> Self {
        Self {
            input: it.input_tokens,
            output: it.output_tokens,
            cache_read: it.cached_input_tokens,
            reasoning: it.reasoning_tokens,
            ..Self::default()
        }
    }
}

/// What was read of a run.
#[derive(Default)]
struct Run {
    /// The message of the agent that began last, and its text.
    text: (String, String),
    /// The message of another author that began last.
    other: Option<String>,
    /// The message to which chunks without an ID belong.
    chunk: String,
    /// The calls without a result, by their IDs.
    calls: BTreeMap<String, String>,
    ended: Option<Ended>,
}

/// How a run ended.
#[derive(Debug, PartialEq)]
struct Ended {
    state: TaskState,
    text: String,
    interrupts: Vec<Interrupt>,
    usage: Usage,
}

impl Run {
    fn read(&mut self, data: &[u8]) -> Result<(), serde_json::Error> {
        match serde_json::from_slice(data)? {
            RunEvent::TextMessageStart { message_id, author } => self.begin(&message_id, &author),
            RunEvent::TextMessageContent { message_id, delta, author } if author.is_agent() => {
                self.say(&message_id, &delta);
            }
            RunEvent::TextMessageChunk { message_id, delta, author } => {
                let id = message_id.unwrap_or_else(|| self.chunk.clone());
                self.begin(&id, &author);
                self.say(&id, &delta.unwrap_or_default());
                self.chunk = id;
            }
            RunEvent::ToolCallStart { tool_call_id, tool_call_name } => {
                self.calls.insert(tool_call_id, format!("{tool_call_name} "));
            }
            RunEvent::ToolCallArgs { tool_call_id, delta } => {
                if let Some(call) = self.calls.get_mut(&tool_call_id) {
                    call.push_str(&delta);
                }
            }
            RunEvent::ToolCallResult { tool_call_id } => {
                self.calls.remove(&tool_call_id);
            }
            RunEvent::MessagesSnapshot { messages } if self.text.1.is_empty() => {
                let last = messages.iter().rev().take_while(|it| it.role != "user");
                let own = last.filter(|it| it.role == "assistant");
                let mut texts = own.filter_map(|it| it.content.as_str());
                let text = texts.find(|it| !it.is_empty()).unwrap_or_default();
                self.text = (String::new(), text.to_owned());
            }
            RunEvent::RunFinished { outcome, result, usage } => {
                self.ended = Some(self.finish(outcome, result, usage)?);
            }
            RunEvent::RunError { message } => {
                let (state, text) = (TaskState::Failed, shortened(&message));
                let (interrupts, usage) = (Vec::new(), Usage::default());
                self.ended = Some(Ended { state, text, interrupts, usage });
            }
            RunEvent::TextMessageContent { .. }
            | RunEvent::MessagesSnapshot { .. }
            | RunEvent::Other => {}
        }
        Ok(())
    }

    fn begin(&mut self, message: &str, author: &Author) {
        if !author.is_agent() {
            self.other = Some(message.to_owned());
        }
    }

    /// Adds text of a message. The message that begins last is the answer.
    fn say(&mut self, message: &str, text: &str) {
        if self.other.as_deref() == Some(message) || text.is_empty() {
            return;
        }
        if self.text.0 != message {
            self.text = (message.to_owned(), String::new());
        }
        self.text.1.push_str(text);
    }

    fn finish(
        &mut self,
        mut outcome: Value,
        result: Option<Value>,
        usage: Vec<Reported>,
    ) -> Result<Ended, serde_json::Error> {
        let text = match result {
            Some(Value::String(text)) if self.text.1.is_empty() => text,
            Some(result) if self.text.1.is_empty() && !result.is_null() => result.to_string(),
            _ => std::mem::take(&mut self.text.1),
        };
        let asks = outcome.get_mut("interrupts").map(Value::take);
        let asks: Vec<Asks> = asks.map_or_else(|| Ok(Vec::new()), serde_json::from_value)?;
        let interrupts: Vec<_> = asks.into_iter().map(|it| self.interrupt(it)).collect();
        let state = match outcome["type"].as_str() {
            _ if !interrupts.is_empty() => TaskState::InputRequired,
            Some("cancelled") => TaskState::Canceled,
            _ => TaskState::Completed,
        };
        let usage = usage.into_iter().map(Usage::from).sum();
        Ok(Ended { state, text, interrupts, usage })
    }

    /// Reads a question. One about a call is only answered by a clear yes or no, and shows the call.
    fn interrupt(&self, asks: Asks) -> Interrupt {
        let is_approval = match &*asks.reason {
            "tool_call" => true,
            "confirmation" => asks.response_schema.is_none(),
            _ => false,
        };
        let mut question = asks.message.unwrap_or_default().trim().to_owned();
        if question.is_empty() {
            "The remote agent needs input.".clone_into(&mut question);
        }
        if is_approval {
            let part = |name: &str| asks.metadata[name].as_str();
            let told = || Some(format!("{} {}", part("tool")?, part("arguments")?));
            let call = asks.tool_call_id.and_then(|it| self.calls.get(&it).cloned());
            question.extend(call.or_else(told).iter().flat_map(|it| ["\n", it.trim()]));
        }
        let schema = match asks.response_schema {
            _ if is_approval => json!({ "type": "string", "enum": [APPROVE, "deny"] }),
            Some(schema) => schema,
            None => json!({ "type": "string" }),
        };
        Interrupt { id: asks.id, question, schema, is_approval }
    }

    /// Returns the number of bytes that are kept.
    fn size(&self) -> usize {
        let calls: usize = self.calls.iter().map(|(id, call)| id.len() + call.len()).sum();
        self.text.1.len() + calls
    }
}

impl Client {
    /// Runs the agent, and reads the events of the run until it ends.
    async fn run(&self, input: &Value) -> Result<Ended, RemoteError> {
        let url = &self.agent.url;
        if let Some(reason) = self.agent.refuses(url) {
            return Err(RemoteError::Address(format!("{url} is not requested: {reason}")));
        }
        let bearer = self.bearer();
        let mut headers = vec![
            ("accept", "text/event-stream"),
            ("content-type", "application/json"),
            ("user-agent", USER_AGENT),
        ];
        headers.extend(bearer.as_deref().map(|it| ("authorization", it)));
        let mut response = self.http(url).post(url, &headers, input.to_string()).await?;
        if response.status() != 200 {
            return Err(self.refusal(response).await);
        }
        let (mut events, mut run) = (Decoder::new(), Run::default());
        while let Some(bytes) = response.chunk().await? {
            let read = events.push(&bytes, |event: Event<'_>| match run.ended {
                Some(_) => Ok(()),
                None => run.read(event.data),
            });
            read.map_err(|error| RemoteError::Unreadable(error.to_string()))?;
            if let Some(ended) = run.ended {
                return Ok(ended);
            }
            if run.size() + events.buffered() > self.policy.max_bytes {
                return Err(RemoteError::TooLong(self.policy.max_bytes));
            }
        }
        Err(RemoteError::Unreadable("the stream ended before the run did".to_owned()))
    }

    async fn refusal(&self, response: WebResponse) -> RemoteError {
        let status = response.status();
        if matches!(status, 401 | 403 | 429 | 500..=599) {
            return RemoteError::Status(status);
        }
        let body = self.body(response).await.unwrap_or_default();
        let reasons = [&body["detail"], &body["error"]["message"], &body["message"]];
        let reason = reasons.into_iter().find_map(Value::as_str);
        reason.map_or(RemoteError::Status(status), |it| RemoteError::Refused(shortened(it)))
    }
}

/// Returns the calls that ask the user, one for each question.
pub(super) fn questions(waiting: Waiting, context: &str) -> Vec<Value> {
    let Waiting { interrupts, message } = waiting;
    let question = |interrupt: Interrupt| {
        let question = interrupt.question.clone();
        let asked = Asked { interrupt, message: message.clone() };
        json!({ "question": question, "context": context, "asked": asked })
    };
    interrupts.into_iter().map(question).collect()
}

/// Returns the arguments of the run that takes the answers to all questions; `None` if they are not of this protocol.
pub(super) fn answers(text: &str, exchange: &ToolExchange) -> Option<Value> {
    let (mut resume, mut last) = (Vec::new(), None);
    for (call, result) in exchange.pairs() {
        let arguments = call.parse_arguments().unwrap_or_default();
        let asked: Asked = serde_json::from_value(arguments["asked"].clone()).ok()?;
        let answer: Value = serde_json::from_str(&result.to_text()).unwrap_or_default();
        let is_approval = asked.interrupt.is_approval;
        let payload = if is_approval { json!({ "approved": answer == APPROVE }) } else { answer };
        resume.push(Resume {
            interrupt_id: asked.interrupt.id,
            status: if result.is_error { "cancelled" } else { "resolved" }.to_owned(),
            payload: (!result.is_error).then_some(payload),
        });
        last = Some((arguments["context"].clone(), asked.message));
    }
    let (context, message) = last?;
    Some(json!({ "text": text, "context": context, "message": message, "resume": resume }))
}

/// Runs the agent. If the call is interrupted, it is unknown whether the remote agent has the message.
pub(super) struct RunAgent(pub(super) Arc<Client>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct RunArgs {
    text: String,
    /// The thread; a new one if it is empty.
    #[serde(default)]
    context: String,
    /// The ID of the message, if it was sent before.
    #[serde(default)]
    message: String,
    #[serde(default)]
    resume: Vec<Resume>,
}

impl Tool for RunAgent {
    type Args = RunArgs;
    type Output = Json<Progress>;
    type Error = BoxError;

    fn name(&self) -> &'static str {
        SEND
    }

    fn description(&self) -> &'static str {
        "Sends a message to the remote agent, and waits for its answer."
    }

    async fn call(&self, args: RunArgs, cx: &ToolCx<'_>) -> Result<Self::Output, BoxError> {
        let (client, time, key) = (&self.0, self.0.policy.timeout, cx.key.to_string());
        let given = |it: String| if it.is_empty() { key.clone() } else { it };
        let (thread, message) = (given(args.context), given(args.message));
        let mut input = json!({
            "threadId": thread, "runId": key, "protocolVersion": "1.0", "state": {}, "tools": [],
            "context": [],
            "messages": [{ "id": message, "role": "user", "content": args.text }],
            "forwardedProps": {},
        });
        if !args.resume.is_empty() {
            input["resume"] = serde_json::to_value(args.resume)?;
        }
        let ended = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => {
                return Err("the run is being cancelled; the remote agent's run may continue".into());
            }
            ended = timeout(time, client.run(&input)) => ended,
        };
        let late =
            |_| format!("the run took longer than {} s and may still continue", time.as_secs());
        let Ended { state, text, interrupts, usage } =
            ended.map_err(late)?.map_err(|error| failed(&error))?;
        let spend = Spend { usage, ..Spend::default() };
        cx.meter.charge(spend);
        cx.add_spend(spend);
        let waiting = (!interrupts.is_empty()).then_some(Waiting { interrupts, message });
        Ok(Json(Progress { task: None, context: thread, state, text, waiting }))
    }
}

#[cfg(test)]
mod tests;
