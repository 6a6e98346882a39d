//! Help for users without a model.

use std::fmt::Write as _;

use loopwright_models::{Providers, SecretRef};

use crate::render::{WIDTH, wrap};

/// Where the second column begins.
const MARGIN: usize = 18;

/// Says what was looked for, and the ways to get a model.
pub(crate) fn guide(providers: &Providers) -> String {
    let known = || providers.names().filter_map(|it| Some((it, providers.provider(it).ok()?)));
    let mut keys: Vec<&str> = known()
        .filter(|(_, provider)| provider.key_required && !provider.local)
        .filter_map(|(_, provider)| provider.key.as_ref().map(SecretRef::variable))
        .collect();
    keys.dedup();
    let servers: Vec<&str> =
        known().filter(|(_, provider)| provider.local).map(|(name, _)| name).collect();
    let looked_for = [
        (
            "model name",
            "--model, LOOPWRIGHT_MODEL, loopwright.toml and your config.toml: unset".to_owned(),
        ),
        ("API key", format!("{}: none is set", keys.join(", "))),
        ("local server", format!("{}: none has a model", servers.join(", "))),
    ];
    let mut text = "No model is available. Checked:\n".to_owned();
    for (what, where_to) in looked_for {
        for (at, line) in wrap(&where_to, WIDTH - MARGIN, 12).iter().enumerate() {
            let what = if at == 0 { what } else { "" };
            // Writing into memory does not fail.
            write!(text, "\n  {what:width$}{line}", width = MARGIN - 2).ok();
        }
    }
    text + "\n\n\
        Three ways to set one up:\n\n  \
        1. set a provider's key\n       \
        export OPENAI_API_KEY=…\n  \
        2. start a local server with a model\n       \
        ollama run qwen3\n  \
        3. name any OpenAI-compatible server\n       \
        loopwright chat -m openai-compatible/MODEL --base-url http://HOST/v1\n\n\
        Run a demo without a model:    loopwright demo\n\
        Check this machine:            loopwright doctor"
}

#[cfg(test)]
mod tests {
    use loopwright_models::ProviderConfig;

    use super::*;

    #[test]
    fn the_model_hint_lists_what_was_searched_and_fits_a_terminal() {
        let local = ProviderConfig { local: true, ..ProviderConfig::default() };
        let mine = ProviderConfig {
            key: Some(SecretRef::env("MY_KEY")),
            key_required: true,
            ..ProviderConfig::default()
        };
        let providers = Providers::empty().with_provider("here", local).with_provider("mine", mine);
        let guide = guide(&providers);
        assert!(guide.contains("\n  API key         MY_KEY: none is set\n"), "{guide}");
        assert!(guide.contains("\n  local server    here: none has a model\n"), "{guide}");
        assert!(guide.lines().all(|line| line.chars().count() <= WIDTH), "{guide}");
    }
}
