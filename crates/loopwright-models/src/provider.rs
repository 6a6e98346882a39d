//! Finds the model that a state asks for.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use loopwright_core::{ChatModel, LlmConfig, ModelError, ModelErrorKind, Models};

use crate::{
    http::Http,
    preset::{Provider, presets},
    remote::RemoteModel,
    retry::RetryPolicy,
    secret::{EnvKeys, KeyRef, KeySource, Secret, lookup},
};

/// The providers there are, and their models.
///
/// A model is made when it is first asked for and kept from then on, with the key that was found
/// then. Nothing is sent before a model is asked something.
///
/// ```
/// use loopwright_core::{LlmConfig, Models as _};
/// use loopwright_models::{KeyRef, Provider, Providers};
///
/// let mine = Provider {
///     base_url: Some("https://llm.example/v1".into()),
///     key: Some(KeyRef::env("MY_KEY")),
///     key_required: true,
///     ..Provider::default()
/// };
/// let keys = |name: &str| (name == "MY_KEY").then(|| "secret".to_owned());
/// let providers = Providers::new().with_provider("mine", mine).with_keys(keys);
/// let model = providers.resolve(Some(&LlmConfig::named("mine/some-model"))).unwrap();
/// assert_eq!(model.model().as_deref(), Some("some-model"));
/// ```
pub struct Providers {
    pub(crate) entries: Vec<(Arc<str>, Provider)>,
    pub(crate) keys: Arc<dyn KeySource>,
    pub(crate) http: Http,
    retry: RetryPolicy,
    pub(crate) default: Option<LlmConfig>,
    made: Mutex<HashMap<Selected, Arc<dyn ChatModel>>>,
}

/// A provider and a model.
type Selected = (Arc<str>, Arc<str>);

impl Default for Providers {
    fn default() -> Self {
        Self::new()
    }
}

impl Providers {
    /// Knows the presets, and finds keys in the environment.
    pub fn new() -> Self {
        Self { entries: presets().to_vec(), ..Self::bare() }
    }

    /// Knows nobody.
    pub fn bare() -> Self {
        Self {
            entries: Vec::new(),
            keys: Arc::new(EnvKeys),
            http: Http::default(),
            retry: RetryPolicy::default(),
            default: None,
            made: Mutex::default(),
        }
    }

    /// Adds a provider, or replaces the one of that name.
    #[must_use]
    pub fn with_provider(mut self, name: impl Into<Arc<str>>, provider: Provider) -> Self {
        let name = name.into();
        match self.entries.iter_mut().find(|entry| entry.0 == name) {
            Some(entry) => entry.1 = provider,
            None => self.entries.push((name, provider)),
        }
        self
    }

    /// Finds keys here.
    #[must_use]
    pub fn with_keys(mut self, keys: impl KeySource + 'static) -> Self {
        self.keys = Arc::new(keys);
        self
    }

    /// Sends requests by this transport.
    #[must_use]
    pub fn with_http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Sends what failed again, or not.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Selects what is asked where nothing is selected; [`choose`](Self::choose) finds something.
    #[must_use]
    pub fn with_default(mut self, llm: LlmConfig) -> Self {
        self.default = Some(llm);
        self
    }

    /// Returns the providers' names, in the order in which they are tried.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| &**name)
    }

    /// Returns a provider by its name.
    ///
    /// # Errors
    ///
    /// If there is none: the error lists those there are.
    pub fn provider(&self, name: &str) -> Result<&Provider, ModelError> {
        let found = self.entries.iter().find(|entry| &*entry.0 == name);
        found.map(|(_, provider)| provider).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            let known = known.join(", ");
            no_model(format!("there is no provider `{name}`; known are {known}"))
        })
    }

    /// Returns the provider's address.
    pub(crate) fn base_url(&self, name: &str, provider: &Provider) -> Result<String, ModelError> {
        let variable = provider.base_url_var.as_deref();
        let set = variable.and_then(|variable| lookup(&*self.keys, variable));
        set.or_else(|| provider.base_url.as_deref().map(str::to_owned)).ok_or_else(|| {
            let remedy = match variable {
                Some(variable) => format!("set {variable} or its `base_url`"),
                None => "set its `base_url`".to_owned(),
            };
            no_model(format!("the address of provider `{name}` is not known: {remedy}"))
        })
    }

    /// Returns the provider's key, if it has and needs one.
    pub(crate) fn key(
        &self,
        name: &str,
        provider: &Provider,
    ) -> Result<Option<Secret>, ModelError> {
        let found = provider.key.as_ref().and_then(|key| lookup(&*self.keys, key.variable()));
        match (found, &provider.key) {
            (Some(key), _) => Ok(Some(Secret::new(key))),
            (None, Some(key)) if provider.key_required => Err(missing_key(name, key)),
            (None, _) => Ok(None),
        }
    }

    /// Returns the provider's own headers, references followed.
    pub(crate) fn headers(
        &self,
        name: &str,
        provider: &Provider,
    ) -> Result<Vec<(String, Secret)>, ModelError> {
        let follow = |(header, value): (&String, &String)| match KeyRef::parse(value) {
            None => Ok((header.clone(), Secret::new(value.as_str()))),
            Some(key) => match lookup(&*self.keys, key.variable()) {
                Some(value) => Ok((header.clone(), Secret::new(value))),
                None => Err(missing_key(name, &key)),
            },
        };
        provider.headers.iter().map(follow).collect()
    }

    fn make(&self, name: &Arc<str>, model: &Arc<str>) -> Result<Arc<dyn ChatModel>, ModelError> {
        let provider = self.provider(name)?;
        let base_url = self.base_url(name, provider)?;
        let model =
            RemoteModel::new(provider.wire, Arc::clone(name), &base_url, Arc::clone(model))?
                .with_quirks(provider.quirks)
                .with_http(self.http.clone())
                .with_retry(self.retry);
        let model = match self.key(name, provider)? {
            Some(key) => model.with_key(key)?,
            None => model,
        };
        let mut headers = self.headers(name, provider)?.into_iter();
        let model =
            headers.try_fold(model, |model, (header, value)| model.with_header(&header, value))?;
        Ok(Arc::new(model))
    }
}

impl Models for Providers {
    fn resolve(&self, llm: Option<&LlmConfig>) -> Result<Arc<dyn ChatModel>, ModelError> {
        let (name, model) = self.selected(llm);
        let name = name.ok_or_else(|| {
            no_model("no model is selected: name one as `provider/model`, such as `ollama/qwen3`")
        })?;
        let provider = self.provider(&name)?;
        let model = model.or_else(|| provider.model.clone()).ok_or_else(|| {
            no_model(format!("no model of `{name}` is selected: name one as `{name}/model`"))
        })?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = made.get(&(Arc::clone(&name), Arc::clone(&model))) {
            return Ok(Arc::clone(model));
        }
        let chat = self.make(&name, &model)?;
        made.insert((name, model), Arc::clone(&chat));
        Ok(chat)
    }
}

impl Providers {
    /// Returns provider and model as far as they are selected. The default model belongs to the
    /// default provider only.
    pub(crate) fn selected(&self, llm: Option<&LlmConfig>) -> (Option<Arc<str>>, Option<Arc<str>>) {
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

fn missing_key(name: &str, key: &KeyRef) -> ModelError {
    let variable = key.variable();
    let message = format!("the key of provider `{name}` is missing: set {variable}");
    ModelError::new(ModelErrorKind::Auth, message)
}
