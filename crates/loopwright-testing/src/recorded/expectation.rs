//! The stored meaning of recorded responses.

use loopwright_core::messages::Usage;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The meaning of a recording's responses, and the client's side of the conversation.
#[derive(Clone, Debug, Deserialize)]
pub struct Expectation {
    /// The responses, oldest first.
    pub exchanges: Vec<ExpectedAnswer>,
    /// The messages of the client.
    #[serde(default)]
    pub script: Option<Script>,
}

/// The meaning of a response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedAnswer {
    /// The text, joined without a separator.
    pub text: String,
    /// The reasoning, joined without a separator.
    pub reasoning_text: String,
    /// Signatures and encrypted reasoning, which must be kept.
    pub signatures: Vec<String>,
    /// The calls of the client's tools.
    pub tool_calls: Vec<ExpectedCall>,
    /// The model's own explanation.
    pub refusal: Option<String>,
    /// The finish reason, in common terms. `None` means that it is unknown.
    pub finish_reason: Option<String>,
    /// The usage, if the provider reported it.
    pub usage: Option<ExpectedUsage>,
    /// The error, if there was one.
    pub error: Option<ExpectedError>,
}

/// A tool call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedCall {
    /// The provider's ID; empty means none.
    #[serde(deserialize_with = "some_text")]
    pub id: Option<String>,
    /// The tool's name.
    pub name: Option<String>,
    /// The arguments. `None` means that they are not JSON.
    pub arguments: Option<Value>,
    /// The original text of the arguments, if it matters.
    pub arguments_raw: Option<String>,
    /// The kind of call, if it is not a function call.
    pub kind: Option<String>,
}

/// The usage in tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedUsage {
    /// Input tokens, including cached ones.
    pub input_total: Option<u64>,
    /// Output tokens, including reasoning.
    pub output_total: Option<u64>,
    /// Of the input: read from the cache.
    pub cached: Option<u64>,
    /// Of the input: written to the cache.
    pub cache_write: Option<u64>,
    /// Of the output: reasoning.
    pub reasoning: Option<u64>,
}

fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

/// An error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedError {
    /// The status of the response.
    pub status: Option<u16>,
    /// The provider's name for the kind of error.
    pub r#type: Option<String>,
    /// The provider's code, a string or a number.
    pub code: Option<Value>,
    /// The message.
    pub message: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The requested wait: seconds, or text such as `7s`.
    pub retry_after: Option<String>,
    /// Whether the error occurred within a response that had started successfully.
    pub in_stream: bool,
}

/// The client's side of a conversation in provider-independent form, sufficient to replay it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Script {
    /// The first request. `None` means that requests were not recorded.
    pub first: Option<FirstRequest>,
    /// The additions of each request. `None` means that the request was not recorded.
    pub exchanges: Vec<Option<ScriptedStep>>,
}

/// The first request of a script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FirstRequest {
    /// Instructions.
    pub system: Vec<String>,
    /// The tools, in the form of [`canon`](super::canon).
    pub tools: Vec<Value>,
    /// The tool choice, in the provider's form.
    pub tool_choice: Value,
    /// Settings, in the provider's form.
    pub options: Map<String, Value>,
}

/// The additions of one request to the previous one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScriptedStep {
    /// The client's messages after the last message of the model.
    pub new_items: Vec<Value>,
    /// The tools, if they differ from the first request.
    pub tools: Option<Vec<Value>>,
    /// The instructions, if they differ from the first request.
    pub system: Option<Vec<String>>,
}

impl ExpectedUsage {
    /// Returns the counts; missing counts are zero.
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.input_total.unwrap_or(0),
            output: self.output_total.unwrap_or(0),
            cache_read: self.cached.unwrap_or(0),
            cache_write: self.cache_write.unwrap_or(0),
            reasoning: self.reasoning.unwrap_or(0),
        }
    }
}

impl ExpectedAnswer {
    /// Returns the usage.
    pub fn usage(&self) -> Usage {
        self.usage.unwrap_or_default().usage()
    }
}
