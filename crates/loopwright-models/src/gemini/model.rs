//! Properties derived from a model's name.

use loopwright_core::messages::ReasoningEffort;
use serde_json::{Value, json};

/// Returns the path at which a model is asked for something.
pub(super) fn path(model: &str, method: &str) -> Vec<String> {
    let mut path: Vec<String> =
        model.split('/').filter(|it| !it.is_empty()).map(str::to_owned).collect();
    if path.len() == 1 {
        path.insert(0, "models".to_owned());
    }
    if let Some(name) = path.last_mut() {
        name.push(':');
        name.push_str(method);
    }
    path
}

/// A model of the Gemini family, as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gemini {
    major: u8,
    minor: u8,
    is_pro: bool,
}

impl Gemini {
    /// Reads a name such as `gemini-2.5-pro`. A name that ends in `latest` is of a new model.
    pub(super) fn named(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next()?.strip_prefix("gemini-")?;
        let is_pro = name.split('-').any(|word| word == "pro");
        let version = name.split('-').next()?;
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) => Some(Self { major, minor, is_pro }),
            _ => name.ends_with("latest").then_some(Self { major: 3, minor: 1, is_pro }),
        }
    }

    /// Returns `true` if it is of the third generation or later, which wants signatures with calls and
    /// lets results of tools hold pictures.
    pub(super) fn is_third(self) -> bool {
        self.major >= 3
    }

    /// Returns the setting for a reasoning effort; `None` for models without reasoning.
    pub(super) fn thinking(self, effort: ReasoningEffort) -> Option<Value> {
        if self.is_third() {
            return Some(json!({ "includeThoughts": true, "thinkingLevel": self.level(effort) }));
        }
        if (self.major, self.minor) < (2, 5) {
            return None;
        }
        let budget = match effort {
            ReasoningEffort::Minimal if self.is_pro => 128,
            ReasoningEffort::Minimal => 512,
            ReasoningEffort::Low => 1024,
            ReasoningEffort::High => 24_576,
            _ => 8192,
        };
        Some(json!({ "includeThoughts": true, "thinkingBudget": budget }))
    }

    /// Returns the level next to an effort that the model has.
    fn level(self, effort: ReasoningEffort) -> &'static str {
        match effort {
            ReasoningEffort::Minimal if !self.is_pro => "minimal",
            ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
            ReasoningEffort::High => "high",
            _ if self.is_pro && (self.major, self.minor) == (3, 0) => "high",
            _ => "medium",
        }
    }
}

#[cfg(test)]
mod tests;
