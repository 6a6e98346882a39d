//! Properties of models: limits, capabilities and prices.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use loopwright_core::messages::{Cost, Usage};
use serde::{Deserialize, Serialize};

use crate::price::Prices;

/// The known properties of a model. `None` means unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelInfo {
    /// The maximum number of tokens of a request and its response together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The maximum number of tokens of a response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// The prices of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// The capabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<ModelCapability>>,
}

/// A capability that not every model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelCapability {
    /// The model calls tools.
    Tools,
    /// The model accepts images.
    Images,
    /// The model accepts documents, such as PDF files.
    Documents,
    /// The model reasons before it answers.
    Reasoning,
    /// The provider can enforce a JSON schema.
    JsonSchema,
}

impl ModelCapability {
    /// Returns the name in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Images => "images",
            Self::Documents => "documents",
            Self::Reasoning => "reasoning",
            Self::JsonSchema => "json_schema",
        }
    }
}

impl ModelInfo {
    /// Returns the cost of a request and its response, or `None` if the prices are unknown.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        self.prices.as_ref().map(|prices| prices.cost(usage))
    }

    /// Fills unknown properties from a less reliable source.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            context_window: self.context_window.or(other.context_window),
            max_output: self.max_output.or(other.max_output),
            prices: self.prices.or(other.prices),
            capabilities: self.capabilities.or(other.capabilities),
        }
    }
}

/// The models of a provider.
type ByName = BTreeMap<Arc<str>, ModelInfo>;

/// The known models, by provider and name.
///
/// ```
/// use loopwright_core::messages::{Cost, Usage};
/// use loopwright_models::ModelCatalog;
///
/// let models = ModelCatalog::builtin();
/// let info = models.info("openai", "gpt-5-2025-08-07").unwrap();
/// assert_eq!(info, models.info("openai", "gpt-5").unwrap());
/// assert_eq!(info.context_window, Some(400_000));
/// assert_eq!(info.cost(&Usage::new(1_000_000, 0)), Some(Cost::from_dollars(1.25)));
/// assert_eq!(models.info("openai", "gpt-5-unheard-of"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelCatalog {
    /// Shared by catalogs, because each agent has one.
    models: Arc<BTreeMap<Arc<str>, ByName>>,
    free: BTreeSet<Arc<str>>,
}

#[derive(Deserialize)]
struct File {
    provider: Vec<Models>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Models {
    names: Vec<Arc<str>>,
    models: BTreeMap<Arc<str>, ModelInfo>,
}

impl ModelCatalog {
    /// Creates a catalog of well-known models of the presets' providers, as of the date in the
    /// program's data.
    pub fn builtin() -> Self {
        static KNOWN: LazyLock<ModelCatalog> = LazyLock::new(|| {
            #[expect(clippy::expect_used, reason = "the file is part of the program and tested")]
            ModelCatalog::read(include_str!("models.toml")).expect("the models are valid")
        });
        KNOWN.clone()
    }

    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let mut known: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for Models { names, models } in toml::from_str::<File>(text)?.provider {
            for name in names {
                known.entry(name).or_default().extend(models.clone());
            }
        }
        Ok(Self { models: Arc::new(known), ..Self::default() })
    }

    /// Adds properties of a model, which take precedence over known ones.
    #[must_use]
    pub fn with_model(
        mut self,
        provider: impl Into<Arc<str>>,
        model: impl Into<Arc<str>>,
        info: ModelInfo,
    ) -> Self {
        let (provider, model) = (provider.into(), model.into());
        let below = self.listed(&provider, &model).unwrap_or_default();
        let models = Arc::make_mut(&mut self.models);
        models.entry(provider).or_default().insert(model, info.or(below));
        self
    }

    /// Marks a provider's models as free, except those with known prices.
    #[must_use]
    pub fn with_free_provider(mut self, provider: impl Into<Arc<str>>) -> Self {
        self.free.insert(provider.into());
        self
    }

    /// Returns the properties of a model, by its name or by that name without the date at its end.
    pub fn info(&self, provider: &str, model: &str) -> Option<ModelInfo> {
        let known = self.listed(provider, model);
        if !self.free.contains(provider) {
            return known;
        }
        let free = ModelInfo { prices: Some(Prices::free()), ..ModelInfo::default() };
        Some(known.unwrap_or_default().or(free))
    }

    fn listed(&self, provider: &str, model: &str) -> Option<ModelInfo> {
        let models = self.models.get(provider)?;
        let exact = models.get(model);
        let undated = || {
            let fits = |known: &&Arc<str>| model.strip_prefix(&***known).is_some_and(is_date);
            let longest = models.keys().filter(fits).max_by_key(|known| known.len())?;
            models.get(longest)
        };
        exact.or_else(undated).cloned()
    }

    /// Returns the known models of a provider, by name.
    pub fn models(&self, provider: &str) -> impl Iterator<Item = (&str, &ModelInfo)> {
        let models = self.models.get(provider).into_iter().flatten();
        models.map(|(name, info)| (&**name, info))
    }
}

/// Returns `true` if the end of a name says when, and nothing else: `-2025-08-07`, `@20250929`, `-001`.
fn is_date(end: &str) -> bool {
    const MIN_LENGTH: usize = 3;
    let Some(date) = end.strip_prefix(['-', '@']) else { return false };
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    date == "latest"
        || (digits >= MIN_LENGTH && date.bytes().all(|it| it == b'-' || it.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
