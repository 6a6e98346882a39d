//! Servers that ask for the response of a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_core::messages::{
    Content, FinishReason, InferenceOptions, InferenceRequest, InferenceResponse, Message, Part,
    Prompt, Role, ToolCall, ToolChoice, ToolExchange, ToolResult, ToolSpec, Transcript, Turn,
    TurnBody,
};
use rmcp::model::ContentBlock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::content;
use crate::text;

/// Bytes of a request, which a session may keep while it waits.
const MAX_BYTES: usize = 1 << 20;

/// Characters of the last message that the user is shown before they decide.
const MAX_SHOWN: usize = 600;

/// The code of an error for a request that the user does not allow.
pub(crate) const REJECTED: i32 = -1;

/// Why a request outside of an agent's call is refused.
pub(crate) const WITHOUT_MODEL: &str = "the server requested a model response, but models are available only while an agent calls a tool";

/// A request of a server for the response of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SamplingRequest {
    /// The name of the server.
    pub(crate) server: String,
    /// What the server has sent.
    params: Value,
}

/// The parameters of `sampling/createMessage`. Preferences for models are not followed: it is the agent's own.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    messages: Vec<SampledMessage>,
    #[serde(default)]
    system_prompt: Option<String>,
    max_tokens: u64,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    stop_sequences: Option<Vec<String>>,
    #[serde(default)]
    tools: Option<Vec<SampledTool>>,
    #[serde(default)]
    tool_choice: Option<SampledChoice>,
}

#[derive(Debug, Deserialize)]
struct SampledMessage {
    role: SampledRole,
    content: Blocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SampledRole {
    User,
    Assistant,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Blocks {
    One(Block),
    Many(Vec<Block>),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
    },
    #[serde(rename_all = "camelCase")]
    Audio {
        data: String,
        mime_type: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Map<String, Value>,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Vec<ContentBlock>,
        #[serde(default)]
        is_error: bool,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SampledTool {
    name: String,
    #[serde(default)]
    description: String,
    input_schema: Value,
}

#[derive(Debug, Deserialize)]
struct SampledChoice {
    #[serde(default)]
    mode: Option<String>,
}

impl SamplingRequest {
    /// Takes what a server has sent, if a model can be asked that.
    pub(crate) fn new(server: &str, params: Value) -> Result<Self, String> {
        if params.to_string().len() > MAX_BYTES {
            return Err(format!(
                "MCP server `{server}` sent a model request of more than {} KiB",
                MAX_BYTES >> 10
            ));
        }
        let request = Self { server: server.to_owned(), params };
        request.to_inference()?;
        Ok(request)
    }

    /// Returns the question as people read it.
    pub(crate) fn to_text(&self) -> String {
        let server = &self.server;
        let Ok(params) = self.parse() else {
            return format!("MCP server `{server}` requests a response from your model");
        };
        let last = params.messages.last().map(|it| it.content.to_text()).unwrap_or_default();
        let last = text::clean(&text::cut(last.trim(), MAX_SHOWN));
        let count = params.messages.len();
        let tools = params.tools.as_ref().map_or(0, Vec::len);
        let tools = if tools > 0 { format!(", {tools} tools") } else { String::new() };
        let messages = if count == 1 { "1 message" } else { &format!("{count} messages") };
        format!(
            "MCP server `{server}` requests a response from your model ({messages}{tools}, up to {} tokens): {last}",
            params.max_tokens
        )
    }

    fn parse(&self) -> Result<Params, String> {
        // The error names what is wrong, and may hold what the server has sent.
        Params::deserialize(&self.params).map_err(|error| {
            let server = &self.server;
            text::line(&format!("MCP server `{server}` sent an invalid model request: {error}"))
        })
    }

    /// Returns the request for the model of an agent, without a selection of the model.
    pub(crate) fn to_inference(&self) -> Result<InferenceRequest, String> {
        let params = self.parse()?;
        let wrong = |reason: &str| {
            format!("MCP server `{}` sent an invalid model request: {reason}", self.server)
        };
        let mut transcript = Transcript::new();
        let mut messages = params.messages.into_iter().peekable();
        if messages.peek().is_none() {
            return Err(wrong("there are no messages"));
        }
        while let Some(message) = messages.next() {
            let (calls, parts) = message.content.into_parts();
            let role = match message.role {
                SampledRole::User => Role::User,
                SampledRole::Assistant => Role::Assistant,
            };
            if calls.is_empty() {
                let Parts { parts, results } = parts;
                if !results.is_empty() {
                    return Err(wrong("a tool result has no matching call"));
                }
                let turn = Turn::from_message(Message::new(role, parts));
                transcript.push(turn.map_err(|error| wrong(&error.to_string()))?);
                continue;
            }
            let Some(next) = messages.next_if(|it| it.role == SampledRole::User) else {
                return Err(wrong("tool calls have no results"));
            };
            let (_, Parts { mut results, parts: others }) = next.content.into_parts();
            let mut ordered = Vec::new();
            for call in &calls {
                let result = results.remove(call.id.as_deref().unwrap_or_default());
                ordered.push(result.ok_or_else(|| wrong("a tool call has no result"))?);
            }
            if !others.is_empty() || !results.is_empty() {
                return Err(wrong("a message with tool results also has other content"));
            }
            let called = calls.into_iter().map(|call| Part::new(Content::ToolCall(call)));
            let reply = Message::new(role, parts.parts.into_iter().chain(called));
            let exchange = ToolExchange::new(reply, ordered);
            let exchange = exchange.map_err(|error| wrong(&error.to_string()))?;
            let turn = Turn::new(TurnBody::ToolExchange(exchange));
            transcript.push(turn.map_err(|error| wrong(&error.to_string()))?);
        }
        let mut options = InferenceOptions::default();
        options.max_output_tokens = Some(params.max_tokens.max(1));
        options.temperature = params.temperature;
        options.stop = params.stop_sequences.unwrap_or_default();
        let tools = params.tools.unwrap_or_default().into_iter().map(|tool| ToolSpec {
            name: tool.name.into(),
            description: tool.description.into(),
            parameters: Arc::new(tool.input_schema),
        });
        let tool_choice = match params.tool_choice.and_then(|it| it.mode).as_deref() {
            Some("required") => ToolChoice::Required,
            Some("none") => ToolChoice::None,
            _ => ToolChoice::Auto,
        };
        Ok(InferenceRequest {
            system: params.system_prompt.map(Into::into),
            tools: tools.collect(),
            tool_choice,
            prompt: Prompt::of(transcript),
            options,
            ..InferenceRequest::default()
        })
    }

    /// Returns the response of a model in the form of the protocol. It has what the model says and calls, and never its
    /// reasoning.
    pub(crate) fn to_result(response: &InferenceResponse, model: Option<&str>) -> Value {
        let message = &response.message;
        let mut blocks: Vec<Value> = Vec::new();
        let said = message.text();
        if !said.is_empty() {
            blocks.push(json!({ "type": "text", "text": said }));
        }
        for (number, call) in message.tool_calls().enumerate() {
            let id = call.id.as_deref().map_or_else(|| format!("call_{number}"), ToOwned::to_owned);
            let input = call.parse_arguments().unwrap_or_else(|_| json!({}));
            blocks.push(json!({ "type": "tool_use", "id": id, "name": call.name, "input": input }));
        }
        let stop_reason = match response.finish_reason {
            FinishReason::ToolCalls => "toolUse",
            FinishReason::Length => "maxTokens",
            _ => "endTurn",
        };
        let content = match blocks.len() {
            0 => json!({ "type": "text", "text": "" }),
            1 => blocks.remove(0),
            _ => Value::Array(blocks),
        };
        let model = message.origin().map(|it| &*it.model).or(model).unwrap_or("unknown");
        json!({ "role": "assistant", "content": content, "model": model, "stopReason": stop_reason })
    }
}

/// What a message consists of besides its calls.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
    /// Results by the id of their call.
    results: BTreeMap<String, ToolResult>,
}

impl Blocks {
    fn into_parts(self) -> (Vec<ToolCall>, Parts) {
        let blocks = match self {
            Self::One(block) => vec![block],
            Self::Many(blocks) => blocks,
        };
        let (mut calls, mut said) = (Vec::new(), Parts::default());
        for block in blocks {
            match block {
                Block::Text { text } => said.parts.push(Part::text(text)),
                Block::Image { data, mime_type } => {
                    said.parts.extend(content::parts([ContentBlock::image(data, mime_type)]));
                }
                Block::Audio { data, mime_type } => {
                    said.parts.extend(content::parts([ContentBlock::audio(data, mime_type)]));
                }
                Block::ToolUse { id, name, input } => {
                    calls.push(ToolCall::new(id, name, Value::Object(input).to_string()));
                }
                Block::ToolResult { tool_use_id, content, is_error } => {
                    let content = content::parts(content).into();
                    said.results.insert(tool_use_id, ToolResult { content, is_error });
                }
            }
        }
        (calls, said)
    }

    fn to_text(&self) -> String {
        let blocks = match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        };
        let texts = blocks.iter().map(|block| match block {
            Block::Text { text } => text.clone(),
            Block::Image { .. } => "[image]".to_owned(),
            Block::Audio { .. } => "[audio]".to_owned(),
            Block::ToolUse { name, .. } => format!("[call to {name}]"),
            Block::ToolResult { .. } => "[tool result]".to_owned(),
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}
