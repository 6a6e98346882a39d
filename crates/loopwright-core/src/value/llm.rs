//! The model selection of a state.

use std::sync::Arc;

use loopwright_messages::InferenceOptions;
use serde::{Deserialize, Serialize};

/// The provider, model and settings of the model calls of a state.
///
/// API keys are never stored here. A provider's preset or configuration refers to its key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmConfig {
    /// The provider's preset; `None` means the driver's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<str>>,
    /// The model; `None` means the provider's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Settings that replace the driver's, where they are set.
    pub options: InferenceOptions,
}

impl LlmConfig {
    /// Parses `provider/model`, `provider/`, or `model` alone.
    ///
    /// ```
    /// use loopwright_core::LlmConfig;
    ///
    /// let llm = LlmConfig::named("openrouter/meta-llama/llama-4");
    /// assert_eq!(llm.provider.as_deref(), Some("openrouter"));
    /// assert_eq!(llm.model.as_deref(), Some("meta-llama/llama-4"));
    /// assert_eq!(LlmConfig::named("qwen3").provider, None);
    /// ```
    pub fn named(name: &str) -> Self {
        let full = |text: &str| Some(text).filter(|it| !it.is_empty()).map(Arc::from);
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) => (full(provider), full(model)),
            None => (None, full(name)),
        };
        Self { provider, model, options: InferenceOptions::default() }
    }
}
