//! The policy of data extraction.

use std::sync::Arc;

use loopwright_core::LlmConfig;
use serde::{Deserialize, Serialize};

/// The options of a request. Options of a call take precedence over those of a schema, and those
/// over the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractionOptions {
    /// The model and its settings.
    #[serde(with = "crate::written::llm")]
    pub llm: Option<LlmConfig>,
    /// The number of retries after an invalid response.
    pub max_retries: Option<u32>,
    /// The way of requesting the format.
    pub output_mode: Option<OutputMode>,
}

impl ExtractionOptions {
    /// Fills unset options from others.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            llm: self.llm.or_else(|| others.llm.clone()),
            max_retries: self.max_retries.or(others.max_retries),
            output_mode: self.output_mode.or(others.output_mode),
        }
    }
}

/// The way of requesting the format of a response. The response is validated in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// The provider receives the schema and enforces it if it can. For providers without schemas,
    /// the prompt describes it.
    #[default]
    Schema,
    /// The provider is asked for JSON, and the prompt describes the schema.
    Json,
    /// The model calls a tool whose arguments are the data.
    Tool,
    /// The prompt describes the schema.
    Text,
}

/// The defaults for requests, and the limits for stored data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructuredOutputPolicy {
    /// The model; by default the agent's own.
    #[serde(with = "crate::written::llm")]
    pub llm: Option<LlmConfig>,
    /// Another model of that provider.
    pub model: Option<Arc<str>>,
    /// The number of retries after an invalid response; 3 by default.
    pub default_max_retries: u32,
    /// The way of requesting the format; by schema by default.
    pub output_mode: Option<OutputMode>,
    /// The system prompt, which replaces the built-in one.
    pub system_prompt: Option<String>,
    /// Whether a model may report that a text contains no such data; `true` by default.
    pub use_maybe: bool,
    /// Metadata keys that data cannot be stored under; by default `tasks`, `skills` and
    /// `self_critic`. Keys that start with `_` are reserved for programs.
    pub reserved_keys: Vec<String>,
    /// The maximum number of metadata values; 50 by default.
    pub max_keys: usize,
    /// The maximum size of stored data, in bytes of JSON; 65,536 by default.
    pub max_value_bytes: usize,
    /// The number of characters of the data that the model sees; 200 by default.
    pub preview_chars: usize,
}

impl Default for StructuredOutputPolicy {
    fn default() -> Self {
        Self {
            llm: None,
            model: None,
            default_max_retries: 3,
            output_mode: None,
            system_prompt: None,
            use_maybe: true,
            reserved_keys: ["tasks", "skills", "self_critic"].map(str::to_owned).to_vec(),
            max_keys: 50,
            max_value_bytes: 65_536,
            preview_chars: 200,
        }
    }
}
