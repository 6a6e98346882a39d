//! Properties of a model that the user configures.

use std::num::NonZeroU64;

use loopwright_models::ModelCapability;
use toml::Value;

use super::Setting;
use super::value::{Mismatch, SettingValue, number};

/// A table under `[models]`, named `provider/name`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// `context_window`, in tokens
    pub context_window: Option<Setting<NonZeroU64>>,
    /// `max_output`, in tokens
    pub max_output: Option<Setting<NonZeroU64>>,
    /// `prices`
    pub prices: Option<PriceFacts>,
    /// `capabilities`
    pub capabilities: Option<Setting<Capabilities>>,
}

/// What tokens cost, in US dollars per million.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceFacts {
    /// Of tokens that are read.
    pub input: Setting<DollarsPerMillion>,
    /// Of tokens that are written.
    pub output: Setting<DollarsPerMillion>,
    /// Of tokens that are read from the provider's cache.
    pub cache_read: Option<Setting<DollarsPerMillion>>,
    /// Of tokens that are written to the provider's cache.
    pub cache_write: Option<Setting<DollarsPerMillion>>,
}

/// A price in US dollars per million tokens; 0 for what is free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DollarsPerMillion(f64);

impl DollarsPerMillion {
    /// The amount as a plain number.
    pub const fn amount(self) -> f64 {
        self.0
    }
}

impl SettingValue for DollarsPerMillion {
    const EXPECTED: &'static str = "an amount of US dollars per million tokens, 0 or more";
    const EXAMPLE: &'static str = "0.50";

    fn from_text(text: &str) -> Option<Self> {
        let amount: f64 = text.parse().ok()?;
        (amount.is_finite() && amount >= 0.0).then_some(Self(amount))
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        number(value)
    }
}

/// What a model can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities(pub Vec<ModelCapability>);

impl SettingValue for Capabilities {
    const EXPECTED: &'static str =
        "an array of `tools`, `images`, `documents`, `reasoning` or `json_schema`";
    const EXAMPLE: &'static str = "[\"tools\"]";

    fn from_text(text: &str) -> Option<Self> {
        let names = text.split(',').map(|name| Value::from(name.trim()));
        names.map(|name| name.try_into().ok()).collect::<Option<_>>().map(Self)
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let read = |name: &Value| match name {
            Value::String(_) => name.clone().try_into().map_err(|_| Mismatch::Value),
            _ => Err(Mismatch::Type),
        };
        let names = value.as_array().ok_or(Mismatch::Type)?;
        names.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn example() -> &'static str {
        "tools"
    }
}
