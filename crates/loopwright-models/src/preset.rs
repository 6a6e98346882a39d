//! Provider configurations and presets.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Serialize};

use crate::{
    address::BaseUrlVar, quirks::Quirks, rate::RateLimit, secret::SecretRef, wire::WireApi,
};

/// The configuration of a provider, from a preset or from the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The wire API.
    pub wire: WireApi,
    /// The base URL up to the version, such as `https://api.openai.com/v1`. Names in braces are
    /// variables.
    pub base_url: Option<Arc<str>>,
    /// The variables that replace the base URL; the first one that is set counts.
    pub base_url_vars: Vec<BaseUrlVar>,
    /// The reference to its key.
    pub key: Option<SecretRef>,
    /// The header for the key; `None` means that of the wire.
    pub key_header: Option<Arc<str>>,
    /// Whether it requires a key.
    pub key_required: bool,
    /// The default model.
    pub model: Option<Arc<str>>,
    /// Whether it runs on this machine, so that it can be detected and costs nothing.
    pub local: bool,
    /// The path, relative to the base URL, of a cheap request that shows whether the server runs
    /// and which models it has.
    pub probe: Option<Arc<str>>,
    /// Additional headers. A value such as `env:NAME` refers to a secret.
    pub headers: BTreeMap<String, String>,
    /// Its differences from other providers with the same wire.
    pub quirks: Quirks,
    /// Its rate limit; `None` means no limit.
    pub rate: RateLimit,
}

/// A provider that is known by name, but speaks a wire that is not built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsupportedPreset {
    pub(crate) name: Arc<str>,
    wire: String,
    feature: Option<String>,
}

impl UnsupportedPreset {
    /// Says what is missing.
    pub(crate) fn remedy(&self) -> String {
        let Self { name, wire, feature } = self;
        match feature {
            Some(feature) => format!(
                "provider `{name}` is not part of this build; build `loopwright-models` with the \
                    feature `{feature}`"
            ),
            None => format!(
                "provider `{name}` uses the wire API `{wire}`, which is not part of \
                this build"
            ),
        }
    }
}

#[derive(Default)]
struct Presets {
    known: Vec<(Arc<str>, ProviderConfig)>,
    left_out: Vec<UnsupportedPreset>,
}

static PRESETS: LazyLock<Presets> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the file is part of the program and tested")]
    Presets::read(include_str!("presets.toml")).expect("the presets are valid")
});

/// Returns the presets, in the order in which they are tried.
pub fn presets() -> &'static [(Arc<str>, ProviderConfig)] {
    &PRESETS.known
}

/// Returns what is known by name, but speaks a wire that is not built in.
pub(crate) fn left_out() -> &'static [UnsupportedPreset] {
    &PRESETS.left_out
}

#[derive(Deserialize)]
struct File {
    preset: Vec<toml::Table>,
}

impl Presets {
    fn read(text: &str) -> Result<Self, toml::de::Error> {
        let mut presets = Self::default();
        for mut table in toml::from_str::<File>(text)?.preset {
            let mut take = |key: &str| Some(table.remove(key)?.as_str()?.to_owned());
            let name =
                take("name").ok_or_else(|| serde::de::Error::custom("a preset has no name"))?;
            let (feature, name) = (take("feature"), Arc::from(name));
            let wire = table.get("wire").and_then(toml::Value::as_str).unwrap_or_default();
            match WireApi::named(wire) {
                Some(_) => presets.known.push((name, table.try_into()?)),
                None => presets.left_out.push(UnsupportedPreset {
                    name,
                    wire: wire.to_owned(),
                    feature,
                }),
            }
        }
        Ok(presets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quirks::MaxTokensField;

    fn preset(name: &str) -> &'static ProviderConfig {
        &presets().iter().find(|(known, _)| &**known == name).unwrap().1
    }

    #[test]
    fn presets_are_valid() {
        assert_eq!(preset("openai").quirks.max_tokens, MaxTokensField::MaxCompletionTokens);
        for (name, it) in presets() {
            assert!(it.base_url.is_some() || !it.base_url_vars.is_empty(), "{name}");
            assert!(!it.local || it.probe.is_some(), "{name}");
            assert!(!it.key_required || it.key.is_some(), "{name}");
            let names = presets().iter().filter(|(other, _)| other == name).count();
            assert_eq!(names, 1, "{name}");
        }
    }

    #[test]
    fn every_preset_is_built_in_or_brought_by_a_feature() {
        let missing: Vec<_> = left_out().iter().filter(|it| it.feature.is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn the_documentation_lists_every_preset() {
        let page = include_str!("../../../docs/providers.md");
        let lines: Vec<&str> = page.lines().collect();
        for (name, it) in presets() {
            let code = |text: Option<&str>| text.map_or(String::new(), |text| format!("`{text}` "));
            let key = code(it.key.as_ref().map(SecretRef::variable));
            let if_any = if key.is_empty() || it.key_required { "" } else { "(if any) " };
            let (wire, model) = (it.wire, code(it.model.as_deref()));
            let row = format!("| {name} | `{wire}` | {key}{if_any}| {model}|");
            assert!(lines.contains(&&*row), "{row}");
        }
        let rows = lines.iter().filter(|line| line.starts_with("| ")).count();
        assert_eq!(rows, presets().len() + left_out().len() + 1);
    }

    #[test]
    fn a_preset_whose_wire_is_not_built_in_says_what_brings_it() {
        let text = "[[preset]]\nname = 'x'\nwire = 'nobody-speaks-this'\nfeature = 'y'\n";
        let presets = Presets::read(text).unwrap();
        assert!(presets.known.is_empty());
        assert_eq!(
            presets.left_out[0].remedy(),
            "provider `x` is not part of this build; build `loopwright-models` with the feature `y`"
        );
    }

    #[test]
    fn a_key_in_the_place_of_a_reference_is_refused_and_not_repeated() {
        let read =
            toml::from_str::<ProviderConfig>("key = \"sk-123\"").unwrap_err().message().to_owned();
        assert!(read.contains("env:NAME") && !read.contains("sk-123"), "{read}");
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let refused = toml::from_str::<ProviderConfig>("base-url = \"http://x\"").unwrap_err();
        let message = refused.message();
        assert!(message.starts_with("unknown field `base-url`"), "{message}");
    }
}
