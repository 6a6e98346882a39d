//! What recorded answers mean, as it is stored.

use loopwright_core::messages::Usage;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// What the answers of a recording mean, and how a client comes to ask for them.
#[derive(Clone, Debug, Deserialize)]
pub struct Expectation {
    /// The answers, oldest first.
    pub exchanges: Vec<ExpectedAnswer>,
    /// What the client says.
    #[serde(default)]
    pub script: Option<Script>,
}

/// What an answer means.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedAnswer {
    /// The words, joined without a separator.
    pub text: String,
    /// The reasoning, joined without a separator.
    pub reasoning_text: String,
    /// Signatures and encrypted reasoning, which have to be kept.
    pub signatures: Vec<String>,
    /// The calls of the client's tools.
    pub tool_calls: Vec<ExpectedCall>,
    /// Why the model does not respond, in its words.
    pub refusal: Option<String>,
    /// Why the model stopped, in common words; `None` if that is not known.
    pub finish_reason: Option<String>,
    /// What was consumed, if the provider said so.
    pub usage: Option<ExpectedUsage>,
    /// What went wrong, if something did.
    pub error: Option<ExpectedError>,
}

/// A call of a tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedCall {
    /// The provider's id. An empty one is none.
    #[serde(deserialize_with = "some_text")]
    pub id: Option<String>,
    /// The tool's name.
    pub name: Option<String>,
    /// The arguments; `None` if they are no JSON.
    pub arguments: Option<Value>,
    /// The arguments as they were written, where that is of interest.
    pub arguments_raw: Option<String>,
    /// The kind of call, if it is not one of a function.
    pub kind: Option<String>,
}

/// What was consumed, in tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedUsage {
    /// Read, cached ones included.
    pub input_total: Option<u64>,
    /// Written, reasoning included.
    pub output_total: Option<u64>,
    /// Of those read: from the cache.
    pub cached: Option<u64>,
    /// Of those read: written to the cache.
    pub cache_write: Option<u64>,
    /// Of those written: reasoning.
    pub reasoning: Option<u64>,
}

fn some_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

/// What went wrong.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ExpectedError {
    /// The status of the answer.
    pub status: Option<u16>,
    /// The provider's word for its kind.
    pub r#type: Option<String>,
    /// The provider's code, a text or a number.
    pub code: Option<Value>,
    /// For people.
    pub message: Option<String>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long to wait: seconds, or a text such as `7s`.
    pub retry_after: Option<String>,
    /// Whether it came within an answer that had begun well.
    pub in_stream: bool,
}

/// What a client says, in no provider's terms: all it takes to play the conversation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Script {
    /// The first request; `None` if requests were not recorded.
    pub first: Option<FirstRequest>,
    /// What each request adds; `None` where the request was not recorded.
    pub exchanges: Vec<Option<ScriptedStep>>,
}

/// The first request of a script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FirstRequest {
    /// Instructions.
    pub system: Vec<String>,
    /// The tools on offer, in the form of [`canon`](super::canon).
    pub tools: Vec<Value>,
    /// Whether tools are to be called, in the provider's form.
    pub tool_choice: Value,
    /// Settings, in the provider's form.
    pub options: Map<String, Value>,
}

/// What one request adds to the one before it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScriptedStep {
    /// What the client says: everything after the last thing the model said.
    pub new_items: Vec<Value>,
    /// The tools, if they are others than in the first request.
    pub tools: Option<Vec<Value>>,
    /// The instructions, if they are others than in the first request.
    pub system: Option<Vec<String>>,
}

impl ExpectedUsage {
    /// Returns the counts; what the provider does not say counts as nothing.
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
    /// Returns what was consumed.
    pub fn usage(&self) -> Usage {
        self.usage.unwrap_or_default().usage()
    }
}
