//! Warnings about rules and modes that have no effect.

use std::collections::BTreeMap;

use loopwright_permissions::{Policy, Source};

use super::project_rules;
use crate::claude_settings::{UNSET, UNWANTED};
use crate::config::{Config, ConfigSources};
use crate::console;
use crate::project_settings::ProjectSettings;
use crate::render::count;
use crate::untrusted::{UNTRUSTED, Untrusted, listed};

/// How keys of settings without a meaning are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoredKeys {
    /// One warning for each file.
    ByFile,
    /// One warning for each key.
    Each,
}

/// Warns about settings that have no effect. Those that `permissions.claude` would change are one warning.
pub(crate) fn tell_warnings(policy: &Policy, ignored: IgnoredKeys) {
    let mut unset = 0;
    let mut keys: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for warning in policy.warnings() {
        match &warning.message {
            message if message.ends_with(UNTRUSTED) || message.ends_with(UNWANTED) => {}
            message if message.ends_with(UNSET) => unset += 1,
            _ => match warning.ignored_key().filter(|_| ignored == IgnoredKeys::ByFile) {
                Some(key) => keys.entry(&warning.file).or_default().push(format!("`{key}`")),
                None => console::warn(warning),
            },
        }
    }
    for (file, keys) in keys {
        let verb = if keys.len() == 1 { "has" } else { "have" };
        let keys = listed(&keys);
        console::warn(&format!(
            "{file}: {keys} {verb} no effect here; details: `loopwright policy lint`"
        ));
    }
    if unset > 0 {
        let ignored = count(unset, "permission setting");
        console::warn(&format!(
            "{ignored} ignored in the Claude Code settings for all projects; to use them, set `claude = true` in \
             `[permissions]` of your own configuration; to hide this warning, set `claude = false`"
        ));
    }
}

/// Warns about all that has no effect because the project is not trusted, in one line. `review` is what reviews its settings.
pub(crate) fn tell_untrusted(
    policy: &Policy,
    config: &Config,
    sources: &ConfigSources,
    project: &ProjectSettings,
    (review, are_skills_withheld): (&str, bool),
) {
    let found = Untrusted::find(policy, config, sources, project);
    if let Some(warning) = found.warning(&project.distrust(), review, are_skills_withheld) {
        console::warn(&warning);
    }
}

/// Returns the warning about a mode that the user chose for the run and that does not apply; `None` if it applies.
pub(super) fn overruled(
    policy: &Policy,
    config: &Config,
    project: &ProjectSettings,
) -> Option<String> {
    let (mode, chosen) = (policy.mode(), config.permissions.typed.mode.as_ref()?.value);
    if mode == chosen {
        return None;
    }
    let is_cause = |source: &Source| source.mode().is_some_and(|it| it.0 == mode);
    let cause = project_rules(config, project).into_iter().find(is_cause);
    Some(match cause.filter(|_| !project.is_trusted()) {
        Some(cause) => {
            let (file, line) = (cause.file(), cause.mode().map_or(0, |it| it.1));
            let place = if line == 0 { file.to_owned() } else { format!("{file}:{line}") };
            format!(
                "mode `{mode}` from {place} applies: it is stricter than `{chosen}`, and the project is not trusted"
            )
        }
        None => format!(
            "mode `{mode}` applies: settings disable or tighten `{chosen}`; `loopwright policy show` lists them"
        ),
    })
}
