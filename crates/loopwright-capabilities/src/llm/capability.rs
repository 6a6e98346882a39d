//! The capability for the model.

use std::{borrow::Cow, fmt, sync::Arc};

use loopwright_agent::{BuildError, Capability, Configurator, UseLlmConfig};
use loopwright_core::{
    ChatModel, FixedModel, LlmConfig, ModelProvider,
    messages::{InferenceOptions, ToolChoice},
};
use loopwright_models::{Providers, RetryPolicy};

/// Uses a model of a provider. A state that selects another model gets that one, from the same
/// providers.
///
/// Building the agent fails with a remedy if the provider is unknown, no model is selected, or the
/// key is missing. No request is sent before the agent runs.
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
    tool_choice: ToolChoice,
    parallel: Option<bool>,
}

/// The requested value.
#[derive(Clone, Debug)]
enum Asked {
    Named(Arc<str>),
    Selected(LlmConfig),
    Given(GivenModel),
}

/// A model of the caller.
#[derive(Clone)]
struct GivenModel(Arc<dyn ModelProvider>);

impl fmt::Debug for GivenModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenModel")
    }
}

impl UseLlm {
    /// Uses the model with a name: `provider/model`, a provider alone, which means its preset's
    /// default model, or a model alone, if the providers have a default.
    pub fn new(name: &str) -> Self {
        Self::asking(Asked::Named(name.trim().into()), InferenceOptions::default())
    }

    /// Uses the model that a configuration selects, with its settings.
    pub fn from_config(llm: LlmConfig) -> Self {
        let options = llm.options.clone();
        Self::asking(Asked::Selected(llm), options)
    }

    /// Uses this model, regardless of the selection of states: your own model, one with middleware,
    /// or a script in a test.
    ///
    /// ```
    /// use loopwright_agent::AgentBuilder;
    /// use loopwright_capabilities::llm::UseLlm;
    /// use loopwright_testing::FakeModel;
    ///
    /// let model = FakeModel::script(["Hello!"]);
    /// let agent = AgentBuilder::standard().with(UseLlm::from_model(model)).build()?;
    /// # Ok::<_, loopwright_agent::BuildError>(())
    /// ```
    pub fn from_model(model: impl ChatModel + 'static) -> Self {
        let models = Arc::new(FixedModel(Arc::new(model)));
        Self::asking(Asked::Given(GivenModel(models)), InferenceOptions::default())
    }

    fn asking(asked: Asked, options: InferenceOptions) -> Self {
        Self {
            asked,
            options,
            providers: Arc::new(Providers::new()),
            retry: None,
            tool_choice: ToolChoice::Auto,
            parallel: None,
        }
    }

    /// Sets the settings for states that set none.
    pub fn with_options(mut self, options: InferenceOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the providers; by default the presets, with their keys from the environment.
    pub fn with_providers(mut self, providers: impl Into<Arc<Providers>>) -> Self {
        self.providers = providers.into();
        self
    }

    /// Sets the retry policy for failed requests, which replaces that of the providers. Retries
    /// happen within a step, before the model has responded and any tool has run.
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets whether the model may, must or must not call tools.
    pub fn with_tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Allows or forbids several calls at once; otherwise it is the provider's choice.
    pub fn with_parallel_tool_calls(mut self, parallel: bool) -> Self {
        self.parallel = Some(parallel);
        self
    }

    /// Completes what was asked for by the provider's own model.
    fn selected(&self) -> LlmConfig {
        let is_provider = |name: &str| self.providers.provider(name).is_ok();
        let llm = match &self.asked {
            Asked::Selected(llm) => llm.clone(),
            Asked::Given(_) => {
                return LlmConfig { options: self.options.clone(), ..LlmConfig::default() };
            }
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
        let models: Arc<dyn ModelProvider> = match (&self.asked, self.retry) {
            (Asked::Given(_), Some(_)) => {
                let text = "`with_retry` applies only to models that come from a provider; configure \
                    retries on the model that you pass";
                return Err(BuildError::capability(self.name(), text));
            }
            (Asked::Given(given), None) => Arc::clone(&given.0),
            (_, retry) => {
                let checked = self.providers.check(Some(&llm));
                checked.map_err(|error| BuildError::capability(self.name(), error.to_string()))?;
                match retry {
                    Some(retry) => Arc::new(self.providers.retrying(retry)),
                    None => Arc::clone(&self.providers) as _,
                }
            }
        };
        let config = UseLlmConfig::from_models(models).with_llm(llm);
        let config = config.with_tool_choice(self.tool_choice.clone());
        match self.parallel {
            Some(parallel) => config.with_parallel_tool_calls(parallel),
            None => config,
        }
        .configure(agent)
    }
}
