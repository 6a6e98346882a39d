//! The model as a capability.

use std::{borrow::Cow, sync::Arc};

use loopwright_agent::{BuildError, Capability, Configurator, UseLlmConfig};
use loopwright_core::{LlmConfig, messages::InferenceOptions};
use loopwright_models::{Providers, RetryPolicy};

/// Has a model of a provider make the answers. A state that selects another one gets that one, of the
/// same providers.
///
/// Building the agent fails where there is no such provider, no model is selected, or the key is
/// missing: the error says what to do. Nothing is sent before the agent runs.
///
/// ```
/// use loopwright_capabilities::llm::UseLlm;
/// use loopwright_core::{LlmConfig, messages::InferenceOptions};
///
/// let preset = UseLlm::new("openai");
/// let named = UseLlm::new("anthropic/claude-sonnet-4-5");
/// let careful = InferenceOptions::default().with_temperature(0.0).with_max_output_tokens(2_000);
/// let configured = UseLlm::from_config(LlmConfig { options: careful, ..LlmConfig::named("ollama/qwen3") });
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct UseLlm {
    asked: Asked,
    options: InferenceOptions,
    providers: Arc<Providers>,
    retry: Option<RetryPolicy>,
}

/// What was asked for.
#[derive(Clone, Debug)]
enum Asked {
    Named(Arc<str>),
    Selected(LlmConfig),
}

impl UseLlm {
    /// Asks the model of a name: of a provider alone, which is asked for its preset's own model, of
    /// `provider/model`, or of a model alone, where the providers have a default.
    pub fn new(name: &str) -> Self {
        Self::asking(Asked::Named(name.trim().into()), InferenceOptions::default())
    }

    /// Asks what a configuration selects, with its settings.
    pub fn from_config(llm: LlmConfig) -> Self {
        let options = llm.options.clone();
        Self::asking(Asked::Selected(llm), options)
    }

    fn asking(asked: Asked, options: InferenceOptions) -> Self {
        Self { asked, options, providers: Arc::new(Providers::new()), retry: None }
    }

    /// Sets the settings for states that set none.
    pub fn with_options(mut self, options: InferenceOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets which providers there are; the presets by default, with their keys in the environment.
    pub fn with_providers(mut self, providers: impl Into<Arc<Providers>>) -> Self {
        self.providers = providers.into();
        self
    }

    /// Sets how often and how soon a failed request is sent again, instead of as the providers do it. Retries
    /// happen within a step: the model has not answered, and no tool has run.
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Completes what was asked for by the provider's own model.
    fn selected(&self) -> LlmConfig {
        let is_provider = |name: &str| self.providers.provider(name).is_ok();
        let llm = match &self.asked {
            Asked::Selected(llm) => llm.clone(),
            Asked::Named(name) if is_provider(name) => {
                LlmConfig { provider: Some(Arc::clone(name)), ..LlmConfig::default() }
            }
            Asked::Named(name) => LlmConfig::named(name),
        };
        let provider = llm.provider.as_deref().and_then(|it| self.providers.provider(it).ok());
        let own = || provider?.model.clone();
        LlmConfig { model: llm.model.clone().or_else(own), options: self.options.clone(), ..llm }
    }
}

impl Capability for UseLlm {
    fn name(&self) -> Cow<'static, str> {
        "use_llm".into()
    }

    fn configure(&self, agent: &mut Configurator) -> Result<(), BuildError> {
        let llm = self.selected();
        let checked = self.providers.check(Some(&llm));
        checked.map_err(|error| BuildError::capability(self.name(), error.to_string()))?;
        let providers = match self.retry {
            Some(retry) => Arc::new(self.providers.retrying(retry)),
            None => Arc::clone(&self.providers),
        };
        UseLlmConfig::from_models(providers).with_llm(llm).configure(agent)
    }
}
