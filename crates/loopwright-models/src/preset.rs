//! Providers, and those known by name.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Serialize};

use crate::{quirks::Quirks, secret::KeyRef, wire::Wire};

/// How to reach a provider: what a preset holds, and what a user writes for a provider of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    /// The language it speaks.
    pub wire: Wire,
    /// Its address up to the version, such as `https://api.openai.com/v1`.
    pub base_url: Option<Arc<str>>,
    /// The variable that replaces the address if it is set.
    pub base_url_var: Option<Arc<str>>,
    /// Where its key is.
    pub key: Option<KeyRef>,
    /// Whether it refuses requests without a key.
    pub key_required: bool,
    /// The model that is asked if none is named.
    pub model: Option<Arc<str>>,
    /// Whether it runs on this machine, and may be looked for.
    pub local: bool,
    /// The path beneath the address that is asked, cheaply, whether it is there and which models it
    /// has.
    pub probe: Option<Arc<str>>,
    /// Headers of its own. A value such as `env:NAME` refers to a secret.
    pub headers: BTreeMap<String, String>,
    /// Where it differs from others that speak the wire.
    pub quirks: Quirks,
}

#[derive(Deserialize)]
struct File {
    preset: Vec<toml::Table>,
}

/// Returns the providers known by name, in the order in which they are tried.
pub fn presets() -> &'static [(Arc<str>, Provider)] {
    static PRESETS: LazyLock<Vec<(Arc<str>, Provider)>> = LazyLock::new(|| {
        #[expect(clippy::expect_used, reason = "the file is part of the program and tested")]
        read_presets(include_str!("presets.toml")).expect("the presets are valid")
    });
    &PRESETS
}

fn read_presets(text: &str) -> Result<Vec<(Arc<str>, Provider)>, toml::de::Error> {
    let file: File = toml::from_str(text)?;
    let read = |mut table: toml::Table| {
        let name = table.remove("name").and_then(|name| name.as_str().map(Arc::from));
        let name = name.ok_or_else(|| serde::de::Error::custom("a preset has no name"))?;
        Ok((name, table.try_into()?))
    };
    file.preset.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quirks::MaxTokensField;

    #[test]
    fn presets_are_valid() {
        let names: Vec<&str> = presets().iter().map(|(name, _)| &**name).collect();
        let expect = ["openai", "openai-compatible", "ollama", "lm-studio", "llama-cpp", "vllm"];
        assert_eq!(names, expect);
        let (_, openai) = &presets()[0];
        assert_eq!(openai.quirks.max_tokens, MaxTokensField::MaxCompletionTokens);
        assert!(presets().iter().all(|(_, it)| it.base_url.is_some() || it.base_url_var.is_some()));
        assert!(presets().iter().all(|(_, it)| !it.local || it.probe.is_some()));
    }

    #[test]
    fn a_key_in_the_place_of_a_reference_is_refused_and_not_repeated() {
        let read = toml::from_str::<Provider>("key = \"sk-123\"").unwrap_err().message().to_owned();
        assert!(read.contains("env:NAME") && !read.contains("sk-123"), "{read}");
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(toml::from_str::<Provider>("base-url = \"http://x\"").is_err());
    }
}
