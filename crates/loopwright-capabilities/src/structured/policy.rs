//! How data is asked for.

use std::sync::Arc;

use loopwright_core::LlmConfig;
use serde::{Deserialize, Serialize};

/// How data is asked for. What is said with a call counts before what a schema says, and that before
/// the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractionOptions {
    /// Which model is asked, and with which settings.
    #[serde(with = "crate::written::llm")]
    pub llm: Option<LlmConfig>,
    /// How often it is asked again when its answer does not fit.
    pub max_retries: Option<u32>,
    /// How the form of the answer is asked for.
    pub output_mode: Option<OutputMode>,
}

impl ExtractionOptions {
    /// Fills in from others what is not set here.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        Self {
            llm: self.llm.or_else(|| others.llm.clone()),
            max_retries: self.max_retries.or(others.max_retries),
            output_mode: self.output_mode.or(others.output_mode),
        }
    }
}

/// How the form of an answer is asked for. It is checked in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// The provider is given the schema, and enforces it where it can. Where a provider knows no such
    /// thing, the model is told in words.
    #[default]
    Schema,
    /// The provider is asked for JSON, and the model is told the schema in words.
    Json,
    /// The model calls a tool whose arguments are the answer.
    Tool,
    /// The model is told the schema in words.
    Text,
}

/// How data is asked for, unless a schema says otherwise, and what is kept of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StructuredOutputPolicy {
    /// Which model is asked; the agent's own by default.
    #[serde(with = "crate::written::llm")]
    pub llm: Option<LlmConfig>,
    /// Another model of that provider.
    pub model: Option<Arc<str>>,
    /// How often a model is asked again when its answer does not fit; 3 by default.
    pub default_max_retries: u32,
    /// How the form of the answer is asked for; by its schema by default.
    pub output_mode: Option<OutputMode>,
    /// What the model is told first, in the place of a few words of ours.
    pub system_prompt: Option<String>,
    /// Whether a model may say that a text holds no such data; it may by default.
    pub use_maybe: bool,
    /// Names of the metadata that data is not stored under; by default `tasks`, `skills` and
    /// `self_critic`. Names that begin with `_` belong to programs and are never written either.
    pub reserved_keys: Vec<String>,
    /// How many values the metadata may hold; 50 by default.
    pub max_keys: usize,
    /// How large stored data may be, in bytes of JSON; 65,536 by default.
    pub max_value_bytes: usize,
    /// How much of the data the model is shown, in characters; 200 by default.
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
