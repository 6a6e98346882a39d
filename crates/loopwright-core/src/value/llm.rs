//! Which model a state asks for.

use std::sync::Arc;

use loopwright_messages::InferenceOptions;
use serde::{Deserialize, Serialize};

/// Selects provider, model and settings of the model calls of a state.
///
/// Keys are never here: a provider's key is found by its preset or configuration, by reference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LlmConfig {
    /// The provider's preset; the driver's own if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<str>>,
    /// The model; the provider's default if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Settings that replace the driver's where they are set.
    pub options: InferenceOptions,
}

impl LlmConfig {
    /// Selects by `provider/model`, by `provider/` or by `model` alone.
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
