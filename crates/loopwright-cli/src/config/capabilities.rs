//! Capabilities of agents: on, off, or with settings.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value as Json;
use toml::Value;

use super::Setting;
use super::value::{Mismatch, SettingValue};

/// The table `capabilities`, by the names of capabilities.
pub type CapabilitySettings = BTreeMap<String, Setting<CapabilitySetting>>;

/// What the configuration says of a capability.
#[derive(Clone, Debug, PartialEq)]
pub enum CapabilitySetting {
    /// The program's own agent does not have it.
    Off,
    /// The program's own agent has it with these settings, and agents whose files name it without settings have them as
    /// well. Null stands for the capability's defaults.
    On(Json),
}

impl SettingValue for CapabilitySetting {
    const EXPECTED: &'static str = "`true`, `false` or a table of the capability's settings";
    const EXAMPLE: &'static str = "false";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok().map(Self::of_switch)
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        match value {
            Value::Boolean(is_on) => Ok(Self::of_switch(*is_on)),
            Value::Table(_) => {
                serde_json::to_value(value).map(Self::On).map_err(|_| Mismatch::Value)
            }
            _ => Err(Mismatch::Type),
        }
    }
}

impl CapabilitySetting {
    fn of_switch(is_on: bool) -> Self {
        if is_on { Self::On(Json::Null) } else { Self::Off }
    }

    /// Returns the settings; null if there are none.
    pub(crate) fn settings(&self) -> Json {
        match self {
            Self::Off => Json::Null,
            Self::On(settings) => settings.clone(),
        }
    }
}

impl fmt::Display for CapabilitySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("false"),
            Self::On(Json::Null) => f.write_str("true"),
            Self::On(settings) => settings.fmt(f),
        }
    }
}
