//! What a careful engineer writes without a framework: typed messages, `reqwest`, `serde_json`, and
//! the whole conversation serialised for each request. Everything else is told as a ratio to it.

use std::sync::{Arc, OnceLock};

use futures::StreamExt as _;
use memchr::memchr;
use peer_work::{DESCRIPTION, Done, Failure, SYSTEM, TOOL, Work, drive, schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();

#[derive(Clone, Default, Deserialize, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

#[derive(Clone, Deserialize, Serialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    function: Function,
}

#[derive(Clone, Default, Deserialize, Serialize)]
struct Message {
    role: String,
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

impl Message {
    fn new(role: &str, content: String) -> Self {
        Self { role: role.to_owned(), content: Some(content), ..Self::default() }
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: &'a [Message],
    tools: &'a Value,
    stream: bool,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Response {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Arguments {
    a: i64,
    b: i64,
}

#[derive(Default, Deserialize)]
struct FunctionPart {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct CallPart {
    index: usize,
    id: Option<String>,
    #[serde(default)]
    function: FunctionPart,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Vec<CallPart>,
}

#[derive(Deserialize)]
struct ChunkChoice {
    delta: Delta,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<ChunkChoice>,
}

fn main() -> Result<(), Failure> {
    drive(run)
}

async fn run(work: Arc<Work>) -> Result<Done, Failure> {
    let tools = json!([{
        "type": "function",
        "function": { "name": TOOL, "description": DESCRIPTION, "parameters": schema() },
    }]);
    let mut messages =
        vec![Message::new("system", SYSTEM.to_owned()), Message::new("user", work.prompt())];
    let mut calls = 0;
    loop {
        let message = if work.is_fake {
            scripted(&work, calls)
        } else {
            ask(&work, &messages, &tools).await?
        };
        if message.tool_calls.is_empty() {
            return Ok(Done { text: message.content.unwrap_or_default(), calls });
        }
        let called = message.tool_calls.clone();
        messages.push(message);
        for call in called {
            let Arguments { a, b } = serde_json::from_str(&call.function.arguments)?;
            calls += 1;
            let result = Message::new("tool", work.sum(a, b));
            messages.push(Message { tool_call_id: Some(call.id), ..result });
        }
    }
}

/// What a model in process says: one call in each step.
fn scripted(work: &Work, step: u64) -> Message {
    if step >= work.steps {
        return Message::new("assistant", work.farewell());
    }
    let arguments = format!(r#"{{"a":{step},"b":0}}"#);
    let call = Call {
        id: format!("call_{step}_0"),
        kind: "function".to_owned(),
        function: Function { name: TOOL.to_owned(), arguments },
    };
    Message { role: "assistant".to_owned(), tool_calls: vec![call], ..Message::default() }
}

async fn ask(work: &Work, messages: &[Message], tools: &Value) -> Result<Message, Failure> {
    let request = Request { model: "mock", messages, tools, stream: work.streams };
    let response = CLIENT
        .get_or_init(reqwest::Client::new)
        .post(format!("{}/chat/completions", work.base_url))
        .bearer_auth("sk-mock")
        .json(&request)
        .send()
        .await?
        .error_for_status()?;
    if work.streams {
        return read_events(response).await;
    }
    let mut response: Response = response.json().await?;
    Ok(response.choices.pop().ok_or("an answer without a choice")?.message)
}

async fn read_events(response: reqwest::Response) -> Result<Message, Failure> {
    let mut message = Message { role: "assistant".to_owned(), ..Message::default() };
    let mut text = String::new();
    let mut buffer = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(bytes) = stream.next().await {
        buffer.extend_from_slice(&bytes?);
        let mut at = 0;
        while let Some(length) = memchr(b'\n', &buffer[at..]) {
            let line = &buffer[at..at + length];
            at += length + 1;
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            if data == b"[DONE]" {
                continue;
            }
            let chunk: Chunk = serde_json::from_slice(data)?;
            for ChunkChoice { delta } in chunk.choices {
                text.push_str(delta.content.as_deref().unwrap_or_default());
                delta.tool_calls.into_iter().for_each(|part| add(&mut message.tool_calls, part));
            }
        }
        buffer.drain(..at);
    }
    message.content = (!text.is_empty()).then_some(text);
    Ok(message)
}

/// Adds a part to the call that it belongs to.
fn add(calls: &mut Vec<Call>, part: CallPart) {
    while calls.len() <= part.index {
        let function = Function::default();
        calls.push(Call { id: String::new(), kind: "function".to_owned(), function });
    }
    let call = &mut calls[part.index];
    if let Some(id) = part.id {
        call.id = id;
    }
    call.function.name.push_str(part.function.name.as_deref().unwrap_or_default());
    call.function.arguments.push_str(part.function.arguments.as_deref().unwrap_or_default());
}
