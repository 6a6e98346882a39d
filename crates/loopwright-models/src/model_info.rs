//! What is known of models: how much they take, what they can do, what they cost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use loopwright_core::messages::{Cost, Usage};
use serde::{Deserialize, Serialize};

use crate::price::Prices;

/// What is known of a model. What is `None` is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelInfo {
    /// The most tokens that a request and its answer may have together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The most tokens that an answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// What tokens cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// What it can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<ModelCapability>>,
}

/// Something that not every model can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelCapability {
    /// Calls tools.
    Tools,
    /// Sees images.
    Images,
    /// Reads documents, such as PDF files.
    Documents,
    /// Thinks before it answers.
    Reasoning,
    /// Can be held to a JSON schema.
    JsonSchema,
}

impl ModelCapability {
    /// Returns the word for it in configuration.
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
    /// Returns what a request and its answer cost; `None` if the prices are not known.
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        self.prices.as_ref().map(|prices| prices.cost(usage))
    }

    /// Fills what is not known from somebody who knows less surely.
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

/// The models that are known, by provider and name.
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
    models: BTreeMap<Arc<str>, BTreeMap<Arc<str>, ModelInfo>>,
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
    /// Knows well-known models of the presets' providers, as of the day noted in the program's data.
    pub fn builtin() -> Self {
        static KNOWN: LazyLock<ModelCatalog> = LazyLock::new(|| {
            #[expect(clippy::expect_used, reason = "the file is part of the program and tested")]
            ModelCatalog::read(include_str!("models.toml")).expect("the models are valid")
        });
        KNOWN.clone()
    }

    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let mut catalog = Self::default();
        for Models { names, models } in toml::from_str::<File>(text)?.provider {
            for name in names {
                catalog.models.entry(name).or_default().extend(models.clone());
            }
        }
        Ok(catalog)
    }

    /// Adds what somebody knows of a model; where both know something, this is believed.
    #[must_use]
    pub fn with_model(
        mut self,
        provider: impl Into<Arc<str>>,
        model: impl Into<Arc<str>>,
        info: ModelInfo,
    ) -> Self {
        let (provider, model) = (provider.into(), model.into());
        let below = self.listed(&provider, &model).unwrap_or_default();
        self.models.entry(provider).or_default().insert(model, info.or(below));
        self
    }

    /// Adds that a provider's models cost nothing, but for those whose prices are known.
    #[must_use]
    pub fn with_free_provider(mut self, provider: impl Into<Arc<str>>) -> Self {
        self.free.insert(provider.into());
        self
    }

    /// Returns what is known of a model, by its name or by that name without the date at its end.
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

    /// Returns the models that are known of a provider, by name.
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
