//! Names of models: full ones, and short ones such as `sonnet`.

use std::collections::BTreeMap;

use loopwright_models::Providers;

use super::keys::closest;
use super::value::SettingValue;
use super::{ConfigError, ConfigSources, ModelRef, Provider, Setting};

/// A model as a user names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ModelName {
    /// With its provider.
    Full(ModelRef),
    /// A name of `[aliases]`, of another program, or of a known model.
    Short(String),
}

/// The variable with the ID of the key that signs requests to Bedrock.
const SIGNS: &str = "AWS_ACCESS_KEY_ID";

/// Short names of other programs: the name, and the models that it stands for, with their providers.
pub(crate) const SHORT: &[(&str, &[(&str, &str)])] = &[
    ("flash", &[("gemini", "gemini-3.5-flash")]),
    ("flash-lite", &[("gemini", "gemini-3.1-flash-lite")]),
    ("gpt-5", &[("openai", "gpt-5"), ("openai-responses", "gpt-5")]),
    ("gpt-5-mini", &[("openai", "gpt-5-mini"), ("openai-responses", "gpt-5-mini")]),
    ("gpt-5-nano", &[("openai", "gpt-5-nano"), ("openai-responses", "gpt-5-nano")]),
    ("haiku", &[("anthropic", "claude-haiku-5-5")]),
    ("opus", &[("anthropic", "claude-opus-5-5")]),
    ("pro", &[("gemini", "gemini-3.1-pro-preview")]),
    ("sonnet", &[("anthropic", "claude-sonnet-5-5")]),
];

/// The same names at providers that host models of others, under IDs that no catalog has. A profile that begins with `global.`
/// works in every region of Bedrock. `vertex` is the name of a configured provider of Vertex AI.
const HOSTED: &[(&str, &[(&str, &str)])] = &[
    ("flash", &[("vertex", "publishers/google/models/gemini-3.5-flash")]),
    ("flash-lite", &[("vertex", "publishers/google/models/gemini-3.1-flash-lite")]),
    ("haiku", &[("bedrock", "global.anthropic.claude-haiku-5-5")]),
    ("opus", &[("bedrock", "global.anthropic.claude-opus-5-5")]),
    ("pro", &[("vertex", "publishers/google/models/gemini-3.1-pro-preview")]),
    ("sonnet", &[("bedrock", "global.anthropic.claude-sonnet-5-5")]),
];

/// Returns the models that a short name stands for, with their providers: those of the makers first.
pub(crate) fn short_models(name: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_name = SHORT.iter().chain(HOSTED).filter(move |it| it.0 == name);
    of_name.flat_map(|it| it.1).copied()
}

impl SettingValue for ModelName {
    const EXPECTED: &'static str =
        "a provider and the name of a model, joined by `/`, or a short name";
    const EXAMPLE: &'static str = "\"openai/gpt-5-mini\"";

    fn from_text(text: &str) -> Option<Self> {
        if let Some(model) = ModelRef::from_text(text) {
            return Some(Self::Full(model));
        }
        let is_odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        (!text.is_empty() && !text.contains(is_odd)).then(|| Self::Short(text.to_owned()))
    }
}

impl ModelName {
    /// Returns the model. A short name stands for the alias of that name, then for a model of another program, and then
    /// for a known model; of several providers, for that of the first one whose key is set, or else that is configured.
    ///
    /// # Errors
    ///
    /// Returns the closest known name, if there is one, for an unknown name.
    pub(crate) fn resolve(
        &self,
        aliases: &BTreeMap<String, Setting<ModelRef>>,
        configured: &BTreeMap<String, Provider>,
        sources: &ConfigSources,
    ) -> Result<ModelRef, Option<String>> {
        let name = match self {
            Self::Full(model) => return Ok(model.clone()),
            Self::Short(name) => name,
        };
        if let Some(model) = aliases.get(name) {
            return Ok(model.value.clone());
        }
        let environment = sources.environment.clone();
        let keys = move |name: &str| environment.get(name)?.to_str().map(str::to_owned);
        let providers = Providers::new().with_keys(keys);
        let known =
            providers.names().filter(|it| providers.catalog().models(it).any(|it| it.0 == name));
        let mut found: Vec<(&str, &str)> = short_models(name).collect();
        if found.is_empty() {
            found.extend(known.map(|provider| (provider, name.as_str())));
        }
        // Requests to Bedrock can be signed without a key of its own.
        let signs =
            |provider: &str| provider == "bedrock" && sources.environment.contains_key(SIGNS);
        let is_set_up = |provider: &str| configured.contains_key(provider) || signs(provider);
        let with_key = found.iter().find(|it| providers.has_key(it.0));
        let usable = with_key.or_else(|| found.iter().find(|it| is_set_up(it.0)));
        let usable = usable.or(found.first());
        let model =
            usable.and_then(|(provider, name)| ModelRef::from_text(&format!("{provider}/{name}")));
        model.ok_or_else(|| similar(name, aliases.keys(), &providers))
    }
}

/// Returns the known short name that a name is closest to.
fn similar<'a>(
    name: &str,
    aliases: impl Iterator<Item = &'a String>,
    providers: &Providers,
) -> Option<String> {
    let short = SHORT.iter().map(|it| it.0).chain(aliases.map(String::as_str));
    let models = providers.names().flat_map(|it| providers.catalog().models(it));
    let mut known: Vec<&str> = short.collect();
    known.extend(models.map(|(name, _)| name));
    closest(name, &known).map(str::to_owned)
}

/// Returns the short name that a name is a misspelling of by one letter. Names with digits are those of versions.
pub(crate) fn misspelt<'a>(
    name: &str,
    aliases: impl Iterator<Item = &'a String>,
) -> Option<&'a str> {
    let known: Vec<&str> = SHORT.iter().map(|it| it.0).chain(aliases.map(String::as_str)).collect();
    if known.contains(&name) || name.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    known.into_iter().find(|it| strsim::osa_distance(name, it) == 1)
}

/// Resolves the model of a configuration.
pub(super) fn resolved(
    model: Option<Setting<ModelName>>,
    aliases: &BTreeMap<String, Setting<ModelRef>>,
    configured: &BTreeMap<String, Provider>,
    sources: &ConfigSources,
) -> Result<Option<Setting<ModelRef>>, ConfigError> {
    let Some(model) = model else { return Ok(None) };
    let value = model.value.resolve(aliases, configured, sources).map_err(|suggestion| {
        ConfigError::UnknownModel { origin: model.origin.clone(), suggestion }
    })?;
    Ok(Some(Setting::new(value, model.origin)))
}

#[cfg(test)]
mod tests {
    use loopwright_models::ModelCatalog;

    use super::super::Origin;
    use super::*;

    fn resolve(name: &str, keys: &[&str]) -> Result<String, Option<String>> {
        resolve_with(name, keys, &[])
    }

    fn resolve_with(
        name: &str,
        keys: &[&str],
        configured: &[&str],
    ) -> Result<String, Option<String>> {
        let alias = ModelRef::from_text("acme/small").unwrap();
        let aliases = BTreeMap::from([("fast".to_owned(), Setting::new(alias, Origin::Default))]);
        let environment = keys.iter().map(|it| ((*it).to_owned(), "k".into())).collect();
        let sources = ConfigSources { environment, ..ConfigSources::default() };
        let name = ModelName::from_text(name).unwrap();
        let configured = configured.iter().map(|it| ((*it).to_owned(), Provider::default()));
        name.resolve(&aliases, &configured.collect(), &sources).map(|it| it.to_string())
    }

    #[test]
    fn a_short_name_is_an_alias_a_name_of_another_program_or_a_known_model() {
        let is = |name: &str, model: &str| assert_eq!(resolve(name, &[]), Ok(model.to_owned()));
        is("fast", "acme/small");
        is("sonnet", "anthropic/claude-sonnet-5-5");
        is("flash", "gemini/gemini-3.5-flash");
        is("claude-opus-5", "anthropic/claude-opus-5");
        is("openrouter/meta/llama", "openrouter/meta/llama");
    }

    #[test]
    fn a_short_name_is_a_model_of_bedrock_or_vertex_where_only_that_is_set_up() {
        let bedrock = "bedrock/global.anthropic.claude-opus-5-5";
        let vertex = "vertex/publishers/google/models/gemini-3.5-flash";
        for (found, expect) in [
            (resolve("opus", &["AWS_ACCESS_KEY_ID"]), bedrock),
            (resolve_with("opus", &[], &["bedrock"]), bedrock),
            (
                resolve("opus", &["AWS_ACCESS_KEY_ID", "ANTHROPIC_API_KEY"]),
                "anthropic/claude-opus-5-5",
            ),
            (resolve_with("flash", &[], &["vertex"]), vertex),
            (resolve_with("flash", &["GEMINI_API_KEY"], &["vertex"]), "gemini/gemini-3.5-flash"),
        ] {
            assert_eq!(found, Ok(expect.to_owned()));
        }
    }

    #[test]
    fn an_unknown_name_finds_the_closest_one() {
        let like = |name: &str, known: &str| {
            assert_eq!(resolve(name, &[]), Err(Some(known.to_owned())), "{name}");
        };
        like("sonet", "sonnet");
        like("haiko", "haiku");
        like("fsat", "fast");
        assert_eq!(resolve("zzz", &[]), Err(None));
    }

    #[test]
    fn a_misspelling_differs_by_one_letter_and_is_no_version() {
        let none = BTreeMap::<String, String>::new();
        let of = |name: &str| misspelt(name, none.keys()).map(str::to_owned);
        assert_eq!(of("sonet"), Some("sonnet".to_owned()));
        assert_eq!(of("hiaku"), Some("haiku".to_owned()));
        for other in ["sonnet", "gpt-4", "large", "qwen"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn every_model_of_a_short_name_is_known() {
        let catalog = ModelCatalog::builtin();
        for (name, models) in SHORT {
            for (provider, model) in *models {
                assert!(catalog.info(provider, model).is_some(), "{name}: {provider}/{model}");
            }
        }
    }
}
