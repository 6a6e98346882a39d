//! The providers, which find the model that a state selects.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use loopwright_core::{ChatModel, LlmConfig, ModelError, ModelErrorKind, ModelProvider};

use crate::{
    address::{self, BaseUrlVar},
    fallback::{Candidate, FallbackModel},
    http::Http,
    model_info::{ModelCatalog, ModelInfo},
    preset::{ProviderConfig, left_out, presets},
    protocols::Wire,
    rate::RateLimiter,
    remote::RemoteModel,
    retry::RetryPolicy,
    secret::{EnvVars, Secret, SecretRef, VarSource, lookup},
    wire::WireProtocol,
};

/// The available providers, with their models.
///
/// A model is created on first use and then kept, with the key that was found at that time. Nothing
/// is sent before the first call of a model.
///
/// ```
/// use loopwright_core::{LlmConfig, ModelProvider as _};
/// use loopwright_models::{SecretRef, ProviderConfig, Providers};
///
/// let mine = ProviderConfig {
///     base_url: Some("https://llm.example/v1".into()),
///     key: Some(SecretRef::env("MY_KEY")),
///     key_required: true,
///     ..ProviderConfig::default()
/// };
/// let keys = |name: &str| (name == "MY_KEY").then(|| "secret".to_owned());
/// let providers = Providers::new().with_provider("mine", mine).with_keys(keys);
/// let model = providers.resolve(Some(&LlmConfig::named("mine/some-model"))).unwrap();
/// assert_eq!(model.model().as_deref(), Some("some-model"));
/// ```
pub struct Providers {
    /// Shared, as presets are: each agent of a process has a set of providers.
    pub(crate) entries: Arc<Vec<Entry>>,
    pub(crate) keys: Arc<dyn VarSource>,
    pub(crate) http: Http,
    retry: RetryPolicy,
    pub(crate) default: Option<LlmConfig>,
    catalog: Arc<ModelCatalog>,
    fallback: Vec<LlmConfig>,
    /// Models of the caller.
    given: Vec<GivenModel>,
    /// Wires of the caller, by the name of the provider.
    wires: HashMap<Arc<str>, Arc<dyn WireProtocol>>,
    made: Mutex<HashMap<Selected, Arc<dyn ChatModel>>>,
    limiters: Arc<Mutex<HashMap<Arc<str>, Arc<RateLimiter>>>>,
}

/// A model of the caller, under a provider's name and its own; all models of that provider if it has none.
#[derive(Clone)]
struct GivenModel {
    provider: Arc<str>,
    model: Option<Arc<str>>,
    chat: Arc<dyn ChatModel>,
}

/// A provider, by its name.
pub(crate) type Entry = (Arc<str>, Arc<ProviderConfig>);

/// The presets as entries.
static PRESETS: LazyLock<Arc<Vec<Entry>>> = LazyLock::new(|| {
    let entries = presets().iter().map(|(name, it)| (Arc::clone(name), Arc::new(it.clone())));
    entries.collect::<Vec<_>>().into()
});

/// A provider and a model.
type Selected = (Arc<str>, Arc<str>);

/// A provider and a model as far as they are selected.
type Selection = (Option<Arc<str>>, Option<Arc<str>>);

impl Default for Providers {
    fn default() -> Self {
        Self::new()
    }
}

impl Providers {
    /// Creates a set with the presets, which finds keys in the environment.
    pub fn new() -> Self {
        Self { entries: Arc::clone(&PRESETS), ..Self::empty() }
    }

    /// Creates an empty set of providers.
    pub fn empty() -> Self {
        Self {
            entries: Arc::default(),
            keys: Arc::new(EnvVars),
            http: Http::default(),
            retry: RetryPolicy::default(),
            default: None,
            catalog: Arc::new(ModelCatalog::builtin()),
            fallback: Vec::new(),
            given: Vec::new(),
            wires: HashMap::new(),
            made: Mutex::default(),
            limiters: Arc::default(),
        }
    }

    /// Adds a provider, or replaces the one with that name.
    #[must_use]
    pub fn with_provider(mut self, name: impl Into<Arc<str>>, provider: ProviderConfig) -> Self {
        let (name, provider) = (name.into(), Arc::new(provider));
        let entries = Arc::make_mut(&mut self.entries);
        match entries.iter_mut().find(|entry| entry.0 == name) {
            Some(entry) => entry.1 = provider,
            None => entries.push((name, provider)),
        }
        self
    }

    /// Adds a model that you have as a value, under the name `provider/model`. Without a slash, every model of that
    /// provider is this one.
    ///
    /// ```
    /// use loopwright_core::ChatModel;
    /// use loopwright_models::Providers;
    ///
    /// fn providers(mine: impl ChatModel + 'static) -> Providers {
    ///     Providers::new().with_model("house/brief", mine)
    /// }
    /// ```
    #[must_use]
    pub fn with_model(mut self, name: &str, model: impl ChatModel + 'static) -> Self {
        let (provider, own) = match name.split_once('/') {
            Some((provider, own)) => (Arc::from(provider), Some(Arc::from(own))),
            None => (Arc::from(name), None),
        };
        if !self.names().any(|it| it == &*provider) {
            let model = Some(own.clone().unwrap_or_else(|| Arc::clone(&provider)));
            let entry = ProviderConfig { model, ..ProviderConfig::default() };
            Arc::make_mut(&mut self.entries).push((Arc::clone(&provider), entry.into()));
        }
        self.given.retain(|it| (&it.provider, &it.model) != (&provider, &own));
        self.given.push(GivenModel { provider, model: own, chat: Arc::new(model) });
        self
    }

    /// Sets the wire of a provider that supports none of the [`WireApi`](crate::WireApi)s. The
    /// `wire` of its [`ProviderConfig`] is then ignored; all other fields apply. See
    /// [`wire_protocol`](crate::wire_protocol).
    #[must_use]
    pub fn with_wire(mut self, provider: impl Into<Arc<str>>, wire: impl WireProtocol) -> Self {
        self.wires.insert(provider.into(), Arc::new(wire));
        self
    }

    /// Sets the source of keys.
    #[must_use]
    pub fn with_keys(mut self, keys: impl VarSource + 'static) -> Self {
        self.keys = Arc::new(keys);
        self
    }

    /// Sets the HTTP transport.
    #[must_use]
    pub fn with_http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Sets the retry policy.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Returns the same providers with another retry policy. Both share their rate limits.
    #[must_use]
    pub fn retrying(&self, retry: RetryPolicy) -> Self {
        Self {
            entries: Arc::clone(&self.entries),
            keys: Arc::clone(&self.keys),
            http: self.http.clone(),
            retry,
            default: self.default.clone(),
            catalog: Arc::clone(&self.catalog),
            fallback: self.fallback.clone(),
            given: self.given.clone(),
            wires: self.wires.clone(),
            made: Mutex::default(),
            limiters: Arc::clone(&self.limiters),
        }
    }

    /// Sets the default selection; [`choose`](Self::choose) finds one.
    #[must_use]
    pub fn with_default(mut self, llm: LlmConfig) -> Self {
        self.default = Some(llm);
        self
    }

    /// Sets the catalog of models, which also contains their prices.
    #[must_use]
    pub fn with_catalog(mut self, catalog: ModelCatalog) -> Self {
        self.catalog = Arc::new(catalog);
        self
    }

    /// Sets the models to call, in this order, when the selected one cannot respond. Their options
    /// replace those of the request where they are set.
    ///
    /// See [`FallbackModel`] for when the next one is called.
    #[must_use]
    pub fn with_fallback(mut self, models: impl IntoIterator<Item = LlmConfig>) -> Self {
        self.fallback = models.into_iter().collect();
        self
    }

    /// Returns the catalog of models.
    pub fn catalog(&self) -> &ModelCatalog {
        &self.catalog
    }

    /// Returns `true` if the provider's key is available.
    pub fn has_key(&self, name: &str) -> bool {
        let key = self.provider(name).ok().and_then(|provider| provider.key.as_ref());
        key.is_some_and(|key| lookup(&*self.keys, key.variable()).is_some())
    }

    /// Returns the data of a model, or `None` if it is unknown.
    pub fn info(&self, provider: &str, model: &str) -> Option<ModelInfo> {
        self.catalog_of(provider).info(provider, model)
    }

    /// Returns what is known of a provider's models, and that those on this machine cost nothing.
    fn catalog_of(&self, name: &str) -> Arc<ModelCatalog> {
        match self.provider(name) {
            Ok(provider) if provider.local => {
                Arc::new(ModelCatalog::clone(&self.catalog).with_free_provider(name))
            }
            _ => Arc::clone(&self.catalog),
        }
    }

    /// Returns what lets the requests to a provider through, whichever of its models they are for.
    fn limiter(&self, name: &Arc<str>, provider: &ProviderConfig) -> Arc<RateLimiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(RateLimiter::new(provider.rate));
        Arc::clone(limiters.entry(Arc::clone(name)).or_insert_with(new))
    }

    /// Returns the providers' names, in the order of preference.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| &**name)
    }

    /// Returns a provider by its name.
    ///
    /// # Errors
    ///
    /// Returns an error that lists the known providers if the name is unknown.
    pub fn provider(&self, name: &str) -> Result<&ProviderConfig, ModelError> {
        let found = self.entries.iter().find(|entry| &*entry.0 == name);
        found.map(|(_, provider)| &**provider).ok_or_else(|| {
            if let Some(left_out) = left_out().iter().find(|it| &*it.name == name) {
                return no_model(left_out.remedy());
            }
            let known: Vec<&str> = self.names().collect();
            let known = known.join(", ");
            no_model(format!("unknown provider `{name}`; available: {known}"))
        })
    }

    /// Returns the base URL of a provider, from a variable or from its configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the provider is unknown, or has no base URL.
    pub fn base_url(&self, name: &str) -> Result<String, ModelError> {
        self.resolve_base_url(name, self.provider(name)?)
    }

    /// Returns the provider's address.
    pub(crate) fn resolve_base_url(
        &self,
        name: &str,
        provider: &ProviderConfig,
    ) -> Result<String, ModelError> {
        let unknown =
            |remedy: String| no_model(format!("provider `{name}` has no base URL; {remedy}"));
        let set = provider.base_url_vars.iter().find_map(|it| it.read(&*self.keys));
        let address = match (set, &provider.base_url, provider.base_url_vars.first()) {
            (Some(set), _, _) => Ok(set),
            (None, Some(base_url), _) => {
                let missing = |variable| unknown(format!("set {variable}"));
                address::fill(base_url, &*self.keys).map_err(missing)
            }
            (None, None, Some(BaseUrlVar { variable, .. })) => {
                Err(unknown(format!("set {variable} or the provider's `base_url`")))
            }
            (None, None, None) => Err(unknown("set the provider's `base_url`".to_owned())),
        };
        if self.wires.contains_key(name) {
            return address;
        }
        address.map(|address| address::of_wire(&address, provider.wire).to_owned())
    }

    /// Returns the provider's key, if it has and needs one.
    pub(crate) fn key(
        &self,
        name: &str,
        provider: &ProviderConfig,
    ) -> Result<Option<Secret>, ModelError> {
        let found = provider.key.as_ref().and_then(|key| lookup(&*self.keys, key.variable()));
        match (found, &provider.key) {
            (Some(key), _) => Ok(Some(Secret::new(key))),
            (None, Some(key)) if provider.key_required && !self.http.is_replaying() => {
                Err(missing_key(name, key))
            }
            (None, _) => Ok(None),
        }
    }

    /// Returns the provider's own headers, references followed.
    pub(crate) fn headers(
        &self,
        name: &str,
        provider: &ProviderConfig,
    ) -> Result<Vec<(String, HeaderText)>, ModelError> {
        let follow = |(header, value): (&String, &String)| match SecretRef::parse(value) {
            None if holds_a_secret(header) => {
                Ok((header.clone(), HeaderText::Secret(Secret::new(value.as_str()))))
            }
            None => Ok((header.clone(), HeaderText::Plain(value.clone()))),
            Some(key) => match lookup(&*self.keys, key.variable()) {
                Some(value) => Ok((header.clone(), HeaderText::Secret(Secret::new(value)))),
                None => Err(missing_key(name, &key)),
            },
        };
        provider.headers.iter().map(follow).collect()
    }

    /// Returns a model of a provider.
    pub(crate) fn build_model(
        &self,
        name: &Arc<str>,
        model: &Arc<str>,
    ) -> Result<RemoteModel, ModelError> {
        let provider = self.provider(name)?;
        let base_url = self.resolve_base_url(name, provider)?;
        let wire = match self.wires.get(name) {
            Some(wire) => Wire::Custom(Arc::clone(wire)),
            None => Wire::Builtin(provider.wire),
        };
        let model = RemoteModel::of_wire(wire, Arc::clone(name), &base_url, Arc::clone(model))?
            .with_quirks(provider.quirks)
            .with_http(self.http.clone())
            .with_retry(self.retry)
            .with_limiter(self.limiter(name, provider))
            .with_catalog(self.catalog_of(name));
        let model = match &provider.key {
            Some(key) => model.with_key_variable(key.variable()),
            None => model,
        };
        let model = match (self.key(name, provider)?, &provider.key_header) {
            (Some(key), Some(header)) => model.with_header(header, key)?,
            (Some(key), None) => model.with_key(key)?,
            (None, _) => model.with_signature(&*self.keys),
        };
        let mut headers = self.headers(name, provider)?.into_iter();
        headers.try_fold(model, |model, (header, value)| match value {
            HeaderText::Plain(value) => model.with_plain_header(&header, &value),
            HeaderText::Secret(value) => model.with_header(&header, value),
        })
    }
}

/// The value of a header.
pub(crate) enum HeaderText {
    /// Anybody may see it.
    Plain(String),
    /// It is shown to the provider only.
    Secret(Secret),
}

/// Tells by a header's name whether its value is to be kept secret, wherever it stands.
fn holds_a_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie"].iter().any(|word| header.contains(word))
}

impl ModelProvider for Providers {
    fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
        let (name, first) = self.one(llm);
        if self.fallback.is_empty() {
            return first;
        }
        let mut fallback = FallbackModel::default().and_maybe(self.candidate(&name, None), first);
        for llm in &self.fallback {
            let (name, model) = self.one(Some(llm));
            fallback = fallback.and_maybe(self.candidate(&name, Some(llm)), model);
        }
        Ok(Arc::new(fallback.checked()?))
    }
}

impl Providers {
    /// Checks that a selection can be called, without calling it and without its fallbacks.
    ///
    /// # Errors
    ///
    /// Returns an error if the provider is unknown, no model is selected, or its key is missing.
    pub fn check(&self, llm: Option<&LlmConfig>) -> Result<(), ModelError> {
        self.one(llm).1.map(drop)
    }

    /// Returns the one model of a selection, and what it is.
    fn one(&self, llm: Option<&LlmConfig>) -> (Selection, Result<Arc<dyn ChatModel>, ModelError>) {
        let (name, model) = self.selected(llm);
        let provider = name.as_deref().and_then(|name| self.provider(name).ok());
        let model = model.or_else(|| provider?.model.clone());
        let found = self.found(name.as_ref(), model.as_ref());
        ((name, model), found)
    }

    fn found(
        &self,
        name: Option<&Arc<str>>,
        model: Option<&Arc<str>>,
    ) -> Result<Arc<dyn ChatModel>, ModelError> {
        let name = name.ok_or_else(|| {
            no_model(
                "no model is selected; select one as `provider/model`, such as \
                `ollama/qwen3`",
            )
        })?;
        self.provider(name)?;
        let model = model.ok_or_else(|| {
            no_model(format!("no model of `{name}` is selected; select one as `{name}/model`"))
        })?;
        let of_provider = || self.given.iter().filter(|it| it.provider == *name);
        let exact = of_provider().find(|it| it.model.as_ref() == Some(model));
        if let Some(given) = exact.or_else(|| of_provider().find(|it| it.model.is_none())) {
            return Ok(Arc::clone(&given.chat));
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = made.get(&(Arc::clone(name), Arc::clone(model))) {
            return Ok(Arc::clone(model));
        }
        let chat: Arc<dyn ChatModel> = Arc::new(self.build_model(name, model)?);
        made.insert((Arc::clone(name), Arc::clone(model)), Arc::clone(&chat));
        Ok(chat)
    }

    /// Describes a model that may be asked when others cannot answer.
    fn candidate(&self, (name, model): &Selection, llm: Option<&LlmConfig>) -> Candidate {
        let info = name.as_deref().zip(model.as_deref());
        let info = info.and_then(|(name, model)| self.info(name, model));
        Candidate {
            name: [name, model].map(|it| it.as_deref().unwrap_or("?")).join("/"),
            model: model.clone().filter(|_| llm.is_some()),
            context_window: info.and_then(|info| info.context_window),
            options: llm.map(|llm| llm.options.clone()).unwrap_or_default(),
        }
    }
}

impl Providers {
    /// Returns provider and model as far as they are selected. The default model belongs to the
    /// default provider only.
    pub(crate) fn selected(&self, llm: Option<&LlmConfig>) -> Selection {
        let provider = llm.and_then(|it| it.provider.clone());
        let model = llm.and_then(|it| it.model.clone());
        match &self.default {
            Some(default) if provider.is_none() || provider == default.provider => {
                (default.provider.clone(), model.or_else(|| default.model.clone()))
            }
            _ => (provider, model),
        }
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names().collect();
        f.debug_struct("Providers")
            .field("names", &names)
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

pub(crate) fn no_model(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::NoModel, message)
}

fn missing_key(name: &str, key: &SecretRef) -> ModelError {
    let variable = key.variable();
    let message = format!("the key of provider `{name}` is missing: set {variable}");
    ModelError::new(ModelErrorKind::Auth, message)
}
