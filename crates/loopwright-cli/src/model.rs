//! The model of a run: the named one, or an available one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::{
    LlmConfig, ModelError, ModelErrorKind, ModelProvider, messages::ReasoningEffort,
};
use loopwright_models::{
    Http, ModelCapability, ModelCatalog, ModelInfo, Price, Prices, ProviderConfig, Providers,
    RateLimit, RecordingError, SecretRef, Timeouts, WireApi,
};

use crate::args::Transport;
use crate::config::{
    self, Config, ConfigSources, DollarsPerMillion, ModelFacts, ModelName, ModelRef, Origin, SHORT,
    Setting, SettingValue as _, closest, short_models,
};
use crate::console;
use crate::exit::ExitCode;

/// The preset that a bare address stands for.
const COMPATIBLE: &str = "openai-compatible";

/// The context window of a model of which nothing is known, in tokens. If it is smaller, a conversation is
/// compacted when the provider refuses a request as too long.
pub(crate) const USUAL_WINDOW: u64 = 128_000;

/// The maximum number of different timeouts for which connections are kept.
const MAX_TIMEOUTS: usize = 8;

/// A model that can be asked.
pub struct Chosen {
    /// Who answers.
    pub models: Arc<dyn ModelProvider>,
    /// Which of them, and how.
    pub llm: LlmConfig,
    /// How many tokens it takes, or is taken to take where that is not known.
    pub context_window: u64,
    /// What it can do, if that is known.
    pub capabilities: Option<Vec<ModelCapability>>,
}

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// A provider is configured with an unknown wire API.
    #[error(
        "unknown wire API `{wire}` in `providers.{provider}.wire_api`; write {}",
        known_wires()
    )]
    Wire {
        /// The provider.
        provider: String,
        /// What it is said to speak.
        wire: String,
    },
    /// There is no recording to write to or to answer from.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// No provider can be used, or the chosen one cannot.
    #[error("{0}\n  run a demo without a model: loopwright demo")]
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
            Self::Recording(_) => ExitCode::Usage,
            Self::None(_) => ExitCode::NoModel,
            Self::Provider(_) => ExitCode::Provider,
        }
    }

    /// Says it without what stands beside it for people who are new.
    pub fn summary(&self) -> String {
        match self {
            Self::None(error) => error.to_string(),
            other => other.to_string(),
        }
    }

    /// Returns the word for it in results.
    pub fn stop_reason(&self) -> &'static str {
        match self {
            Self::Wire { .. } => "configuration",
            Self::Recording(_) => "usage",
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
/// Returns an error if there is none, or its key is missing: the error says what to do.
pub async fn choose(
    config: &Config,
    sources: &ConfigSources,
    transport: &Transport,
) -> Result<Chosen, ChoiceError> {
    let mut providers = providers(config, sources)?.with_http(http(config, transport)?);
    let mut selected = config.model.as_ref().map(|model| selection(&model.value));
    if let Some(base_url) = base_url(config) {
        let selected = selected.get_or_insert_with(|| LlmConfig {
            provider: Some(COMPATIBLE.into()),
            ..LlmConfig::default()
        });
        let name = selected.provider.clone().unwrap_or_else(|| COMPATIBLE.into());
        let provider = providers.provider(&name).cloned().unwrap_or_default();
        let base_url = Some(base_url.into());
        let provider = ProviderConfig { base_url, base_url_vars: Vec::new(), ..provider };
        providers = providers.with_provider(name, provider);
    }
    if let Some(name) = selected.as_ref().and_then(|it| it.provider.as_deref()) {
        provider(name, &providers)?;
    }
    let mut llm = providers.choose(selected.as_ref()).await?;
    llm.options.stream = (!config.stream.value).then_some(false);
    // A missing key should be known before anything is sent.
    providers.resolve(Some(&llm))?;
    check_fallback(config, &providers, &llm)?;
    let (context_window, capabilities) = facts_of(&llm, &providers);
    Ok(Chosen { models: Arc::new(providers), llm, context_window, capabilities })
}

/// Says which models cannot be asked although there are others that can, and refuses what is none.
fn check_fallback(
    config: &Config,
    providers: &Providers,
    first: &LlmConfig,
) -> Result<(), ChoiceError> {
    let Some(fallback) = &config.fallback else { return Ok(()) };
    if let Err(error) = providers.check(Some(first)) {
        console::warn(&format!("{error}; using a fallback model instead"));
    }
    for model in fallback.value.iter() {
        let llm = selection(model);
        match providers.check(Some(&llm)) {
            Err(error) if error.kind == ModelErrorKind::NoModel => return Err(error.into()),
            Err(error) => console::warn(&format!("{error}; this fallback is skipped")),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Returns the address that replaces the provider's own. A project chooses the model, so it must not
/// choose by it whose key is sent to the address that the user had another model in mind for.
fn base_url(config: &Config) -> Option<&str> {
    let base_url = config.base_url.as_ref()?;
    let from = match config.model.as_ref().map(|it| (&it.origin, &it.value)) {
        Some((Origin::Project(path), _)) => path.display().to_string(),
        // Another person may have created the session. No key is at stake without a provider.
        Some((Origin::Session, model)) if model.provider() != COMPATIBLE => {
            format!("the session; pass `-m {model}` to use this base URL")
        }
        _ => return Some(base_url.value.as_str()),
    };
    if !matches!(base_url.origin, Origin::User(_)) {
        return Some(base_url.value.as_str());
    }
    let origin = &base_url.origin;
    console::warn(&format!(
        "`base_url` of the {origin} is ignored, because the model comes from {from}"
    ));
    None
}

fn known_wires() -> String {
    let names: Vec<_> = WireApi::ALL.iter().map(|wire| format!("`{wire}`")).collect();
    names.join(", ")
}

/// Joins the presets and the user's providers, and what is known of models.
///
/// # Errors
///
/// Returns an error if a provider is configured with an unknown wire API.
pub fn providers(config: &Config, sources: &ConfigSources) -> Result<Providers, ChoiceError> {
    let environment = sources.environment.clone();
    let keys = move |name: &str| environment.get(name)?.to_str().map(str::to_owned);
    let fallback = config.fallback.iter().flat_map(|it| it.value.iter()).map(selection);
    let mut providers = Providers::new()
        .with_keys(keys)
        .with_catalog(catalog(&config.models))
        .with_fallback(fallback);
    for (name, changes) in &config.providers {
        let preset = providers.provider(name).cloned().unwrap_or_default();
        let provider = changed(preset, name, changes)?;
        providers = providers.with_provider(name.as_str(), provider);
    }
    Ok(providers)
}

/// Returns what names of models in definitions stand for: those of the configuration, and those of other programs. The
/// latter are models of their provider if that is the one that is used, and otherwise the model of the run.
pub(crate) fn aliases(config: &Config, providers: &Providers) -> BTreeMap<String, String> {
    let is_used = |provider: &str| {
        if let Some(model) = &config.model {
            model.value.provider() == provider
        } else {
            let llm = LlmConfig { provider: Some(provider.into()), ..LlmConfig::default() };
            providers.check(Some(&llm)).is_ok()
        }
    };
    let others = SHORT.iter().map(|(name, _)| {
        let used = short_models(name).find(|(provider, _)| is_used(provider));
        let model = used.map_or("inherit".to_owned(), |(provider, it)| format!("{provider}/{it}"));
        ((*name).to_owned(), model)
    });
    let own = config.aliases.iter().map(|(name, model)| (name.clone(), model.value.to_string()));
    others.chain(own).collect()
}

/// Returns how many tokens a model takes, or is taken to take, and what it can do, if that is known.
pub(crate) fn facts(
    llm: &LlmConfig,
    config: &Config,
    sources: &ConfigSources,
) -> (u64, Option<Vec<ModelCapability>>) {
    providers(config, sources).map_or((USUAL_WINDOW, None), |it| facts_of(llm, &it))
}

fn facts_of(llm: &LlmConfig, providers: &Providers) -> (u64, Option<Vec<ModelCapability>>) {
    let named = llm.provider.as_deref().zip(llm.model.as_deref());
    let known = named.and_then(|(provider, model)| providers.info(provider, model));
    let known = known.unwrap_or_default();
    (known.context_window.unwrap_or(USUAL_WINDOW), known.capabilities)
}

/// Names a model as it is typed.
pub(crate) fn name(llm: &LlmConfig) -> String {
    let parts = [&llm.provider, &llm.model].into_iter().flatten().map(|part| &**part);
    parts.collect::<Vec<_>>().join("/")
}

/// Returns the model that a user names while the program runs, with the options of the one before.
///
/// # Errors
///
/// Returns an error for a name that stands for no model, and for a model that cannot be used.
pub(crate) fn named(
    text: &str,
    before: &LlmConfig,
    models: &dyn ModelProvider,
    config: &Config,
    sources: &ConfigSources,
) -> Result<LlmConfig, ModelError> {
    let no_model = |message: String| ModelError::new(ModelErrorKind::NoModel, message);
    let Some(name) = ModelName::from_text(text) else {
        return Err(no_model(format!("`{text}` is not a model; write {}", ModelName::EXPECTED)));
    };
    let model =
        name.resolve(&config.aliases, &config.providers, sources).map_err(|suggestion| {
            no_model(match suggestion {
                Some(meant) => format!("unknown model `{text}`; did you mean `{meant}`?"),
                None => format!("unknown model `{text}`; select one as `provider/model`"),
            })
        })?;
    let llm = LlmConfig { options: before.options.clone(), ..selection(&model) };
    models.resolve(Some(&llm)).map(|_| llm)
}

/// How much a model reasons. `None` means its default.
pub(crate) type Effort = Option<ReasoningEffort>;

/// The levels of effort, with the names that users type and those that editors show.
pub(crate) const EFFORTS: [(&str, &str, Effort); 5] = [
    ("default", "Default", None),
    ("minimal", "Minimal", Some(ReasoningEffort::Minimal)),
    ("low", "Low", Some(ReasoningEffort::Low)),
    ("medium", "Medium", Some(ReasoningEffort::Medium)),
    ("high", "High", Some(ReasoningEffort::High)),
];

/// Returns the name of an effort.
pub(crate) fn effort_name(effort: Effort) -> &'static str {
    EFFORTS.iter().find(|it| it.2 == effort).map_or("default", |it| it.0)
}

/// Returns the effort of this name. Returns `None` if the name is unknown.
pub(crate) fn effort_of(name: &str) -> Option<Effort> {
    EFFORTS.iter().find(|it| it.0 == name).map(|it| it.2)
}

/// Checks that a provider is known.
///
/// # Errors
///
/// Returns an error with the closest provider, or all of them if none resembles it.
pub(crate) fn provider(name: &str, providers: &Providers) -> Result<(), ModelError> {
    let known: Vec<&str> = providers.names().collect();
    let Err(unknown) = providers.provider(name) else { return Ok(()) };
    // Providers that this program was built without are known, too.
    let is_unknown = unknown.message.starts_with("unknown provider");
    Err(match closest(name, &known).filter(|_| is_unknown) {
        Some(meant) => ModelError::new(
            ModelErrorKind::NoModel,
            format!(
                "unknown provider `{name}`; did you mean `{meant}`? `loopwright models` lists all \
                    providers"
            ),
        ),
        None => unknown,
    })
}

fn selection(model: &ModelRef) -> LlmConfig {
    let (provider, model) = (Some(model.provider().into()), Some(model.name().into()));
    LlmConfig { provider, model, ..LlmConfig::default() }
}

fn http(config: &Config, transport: &Transport) -> Result<Http, RecordingError> {
    let timeouts = timeouts(&config.timeouts);
    match transport {
        Transport::Live => Ok(live(timeouts)),
        Transport::Recording(path) => Http::recording(path, timeouts),
        Transport::Replaying(path) => Http::replaying(path),
    }
}

/// Returns the transport of the process with these timeouts. The runs of a server share connections, so that the next one to
/// a provider need not open its own.
fn live(timeouts: Timeouts) -> Http {
    static OPEN: Mutex<Vec<(Timeouts, Http)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, http)) = open.iter().find(|(it, _)| *it == timeouts) {
        return http.clone();
    }
    let http = Http::new(timeouts);
    open.truncate(MAX_TIMEOUTS - 1);
    open.insert(0, (timeouts, http.clone()));
    http
}

fn timeouts(set: &config::Timeouts) -> Timeouts {
    let own = Timeouts::default();
    let value = |set: &Option<Setting<Duration>>, own| set.as_ref().map_or(own, |it| it.value);
    Timeouts {
        connect: value(&set.connect, own.connect),
        first_byte: value(&set.first_byte, own.first_byte),
        idle: value(&set.idle, own.idle),
        total: set.total.as_ref().map(|it| it.value).or(own.total),
    }
}

/// Joins what the program knows of models with what the user knows better.
fn catalog(models: &BTreeMap<String, ModelFacts>) -> ModelCatalog {
    let add = |catalog: ModelCatalog, (name, facts): (&String, &ModelFacts)| {
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        catalog.with_model(provider, model, info(facts))
    };
    models.iter().fold(ModelCatalog::builtin(), add)
}

fn info(facts: &ModelFacts) -> ModelInfo {
    let price = |price: &Setting<DollarsPerMillion>| Price::from_dollars(price.value.amount());
    ModelInfo {
        context_window: facts.context_window.as_ref().map(|it| it.value.get()),
        max_output: facts.max_output.as_ref().map(|it| it.value.get()),
        prices: facts.prices.as_ref().map(|prices| Prices {
            input: price(&prices.input),
            output: price(&prices.output),
            cache_read: prices.cache_read.as_ref().map(price),
            cache_write: prices.cache_write.as_ref().map(price),
            long: None,
        }),
        capabilities: facts.capabilities.as_ref().map(|it| it.value.0.clone()),
    }
}

fn changed(
    mut provider: ProviderConfig,
    name: &str,
    changes: &config::Provider,
) -> Result<ProviderConfig, ChoiceError> {
    if let Some(base_url) = &changes.base_url {
        provider.base_url = Some(base_url.value.as_str().into());
    }
    if let Some(key) = &changes.key {
        provider.key = Some(SecretRef::env(key.value.variable()));
        provider.key_required = true;
    }
    if let Some(model) = &changes.model {
        provider.model = Some(model.value.as_str().into());
    }
    if let Some(wire) = &changes.wire_api {
        provider.wire = WireApi::named(&wire.value).ok_or_else(|| {
            let (provider, wire) = (name.to_owned(), wire.value.clone());
            ChoiceError::Wire { provider, wire }
        })?;
    }
    let rate = &changes.rate_limit;
    provider.rate = RateLimit {
        requests_per_minute: rate.requests_per_minute.as_ref().map(|it| it.value),
        tokens_per_minute: rate.tokens_per_minute.as_ref().map(|it| it.value),
    };
    for (header, value) in &changes.headers {
        provider.headers.insert(header.clone(), value.value.to_string());
    }
    Ok(provider)
}

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chosen").field("llm", &self.llm).finish_non_exhaustive()
    }
}
