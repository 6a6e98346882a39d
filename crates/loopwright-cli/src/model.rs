//! Which model is asked: the one that is named, or one that can be used.

use std::sync::Arc;

use loopwright_core::{LlmConfig, ModelError, ModelErrorKind, Models};
use loopwright_models::{KeyRef, Provider, Providers, Wire};

use crate::config::{self, Config, Origin, Sources, Text};
use crate::console;
use crate::exit::ExitCode;

/// The preset that a bare address stands for.
const COMPATIBLE: &str = "openai-compatible";

/// A model that can be asked.
pub struct Chosen {
    /// Who answers.
    pub models: Arc<dyn Models>,
    /// Which of them, and how.
    pub llm: LlmConfig,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// A provider is configured to speak what nobody here understands.
    #[error("`providers.{provider}.wire` is `{wire}`, which is not known: write `openai-chat`")]
    Wire {
        /// The provider.
        provider: String,
        /// What it is said to speak.
        wire: String,
    },
    /// No provider can be used, or the chosen one cannot.
    #[error("{0}\n  see an agent at work without one: loopwright demo")]
    None(ModelError),
    /// The provider was asked for its models and did not answer.
    #[error(transparent)]
    Provider(ModelError),
}

impl ChoiceError {
    /// Returns the exit status.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Wire { .. } => ExitCode::Config,
            Self::None(_) => ExitCode::NoModel,
            Self::Provider(_) => ExitCode::Provider,
        }
    }

    /// Returns the word for it in results.
    pub fn stop_reason(&self) -> &'static str {
        match self {
            Self::Wire { .. } => "configuration",
            Self::None(_) => "no_model",
            Self::Provider(_) => "model",
        }
    }
}

impl From<ModelError> for ChoiceError {
    fn from(error: ModelError) -> Self {
        match error.kind {
            ModelErrorKind::NoModel | ModelErrorKind::Auth => Self::None(error),
            _ => Self::Provider(error),
        }
    }
}

/// Takes the model that is configured, else one whose key is in the environment, else one of a server
/// on this machine.
///
/// # Errors
///
/// If there is none, or its key is missing: the error says what to do.
pub async fn choose(config: &Config, sources: &Sources) -> Result<Chosen, ChoiceError> {
    let mut providers = providers(config, sources)?;
    let mut selected = config.model.as_ref().map(|model| LlmConfig {
        provider: Some(model.value.provider().into()),
        model: Some(model.value.name().into()),
        ..LlmConfig::default()
    });
    if let Some(base_url) = base_url(config) {
        let selected = selected.get_or_insert_with(|| LlmConfig {
            provider: Some(COMPATIBLE.into()),
            ..LlmConfig::default()
        });
        let name = selected.provider.clone().unwrap_or_else(|| COMPATIBLE.into());
        let provider = providers.provider(&name).cloned().unwrap_or_default();
        let base_url = Some(base_url.into());
        providers =
            providers.with_provider(name, Provider { base_url, base_url_var: None, ..provider });
    }
    let mut llm = providers.choose(selected.as_ref()).await?;
    llm.options.stream = (!config.stream.value).then_some(false);
    // A missing key should be known before anything is sent.
    providers.resolve(Some(&llm))?;
    Ok(Chosen { models: Arc::new(providers), llm })
}

/// Returns the address that replaces the provider's own. A project chooses the model, so it must not
/// choose by it whose key is sent to the address that the user had another model in mind for.
fn base_url(config: &Config) -> Option<&str> {
    let base_url = config.base_url.as_ref()?;
    let model = config.model.as_ref().map(|it| &it.origin);
    if let (Origin::User(_), Some(Origin::Project(path))) = (&base_url.origin, model) {
        console::warn(&format!(
            "`base_url` of the {} is ignored, because the model comes from {}",
            base_url.origin,
            path.display()
        ));
        return None;
    }
    Some(base_url.value.as_str())
}

/// Joins the presets and the user's providers.
fn providers(config: &Config, sources: &Sources) -> Result<Providers, ChoiceError> {
    let environment = sources.environment.clone();
    let keys = move |name: &str| environment.get(name)?.to_str().map(str::to_owned);
    let mut providers = Providers::new().with_keys(keys);
    for (name, changes) in &config.providers {
        let preset = providers.provider(name).cloned().unwrap_or_default();
        let provider = changed(preset, name, changes)?;
        providers = providers.with_provider(name.as_str(), provider);
    }
    Ok(providers)
}

fn changed(
    mut provider: Provider,
    name: &str,
    changes: &config::Provider,
) -> Result<Provider, ChoiceError> {
    if let Some(base_url) = &changes.base_url {
        provider.base_url = Some(base_url.value.as_str().into());
    }
    if let Some(key) = &changes.key {
        provider.key = Some(KeyRef::env(key.value.variable()));
        provider.key_required = true;
    }
    if let Some(model) = &changes.model {
        provider.model = Some(model.value.as_str().into());
    }
    if let Some(wire) = &changes.wire {
        provider.wire = Wire::named(&wire.value).ok_or_else(|| {
            let (provider, wire) = (name.to_owned(), wire.value.clone());
            ChoiceError::Wire { provider, wire }
        })?;
    }
    for (header, value) in &changes.headers {
        let value = match &value.value {
            Text::Plain(text) => text.clone(),
            Text::Secret(reference) => reference.to_string(),
        };
        provider.headers.insert(header.clone(), value);
    }
    Ok(provider)
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen").field("llm", &self.llm).finish_non_exhaustive()
    }
}
