//! The reference to a model.

use std::fmt;

use super::value::SettingValue;

/// A model and the provider that serves it, written `provider/name`.
///
/// The name may contain further slashes: `openrouter/meta/llama` is `meta/llama` at `openrouter`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelRef {
    provider: String,
    name: String,
}

impl ModelRef {
    /// The part before the first slash: a preset or a table under `[providers]`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The part after the first slash: what the provider calls the model.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl SettingValue for ModelRef {
    const EXPECTED: &'static str = "a provider and the name of a model, joined by `/`";
    const EXAMPLE: &'static str = "\"openai/gpt-5-mini\"";

    fn from_text(text: &str) -> Option<Self> {
        let (provider, name) = text.split_once('/')?;
        let is_part = |part: &str| {
            !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        (is_part(provider) && is_part(name))
            .then(|| Self { provider: provider.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_slash_ends_the_provider() {
        let model = ModelRef::from_text("openrouter/meta/llama-4:free").unwrap();
        assert_eq!((model.provider(), model.name()), ("openrouter", "meta/llama-4:free"));
        assert_eq!(model.to_string(), "openrouter/meta/llama-4:free");
    }

    #[test]
    fn both_parts_are_needed() {
        for refused in
            ["", "/", "gpt-5", "openai/", "/gpt-5", "open ai/gpt-5", "openai/gpt 5", "a/b\n"]
        {
            assert_eq!(ModelRef::from_text(refused), None, "{refused}");
        }
    }
}
