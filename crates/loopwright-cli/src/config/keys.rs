//! The known keys, and suggestions for unknown ones.

use super::document::Section;
use super::warning::Warning;

pub(super) const TOP: &[&str] = &[
    "aliases",
    "base_url",
    "capabilities",
    "chat",
    "fallback",
    "limits",
    "mcp",
    "model",
    "models",
    "notify",
    "output_format",
    "permissions",
    "providers",
    "remote_agents",
    "sandbox",
    "store",
    "stream",
    "system_prompt",
    "timeouts",
    "web",
    "worker",
];
pub(super) const LIMITS: &[&str] = &["cost", "seconds", "session", "steps", "tokens"];
pub(super) const SESSION_LIMITS: &[&str] = &["cost", "seconds", "steps", "tokens"];
pub(super) const MODEL: &[&str] = &["capabilities", "context_window", "max_output", "prices"];
pub(super) const PRICES: &[&str] = &["cache_read", "cache_write", "input", "output"];
pub(super) const PROVIDER: &[&str] =
    &["base_url", "headers", "key", "model", "rate_limit", "wire_api"];
pub(super) const RATE: &[&str] = &["requests_per_minute", "tokens_per_minute"];
pub(super) const SANDBOX: &[&str] = &[
    "allow",
    "direct",
    "environment",
    "hide",
    "memory",
    "network",
    "path",
    "processes",
    "read",
    "backend",
    "timeout",
    "write",
];
pub(super) const PERMISSIONS: &[&str] = &["allow", "ask", "claude", "deny", "folders", "mode"];
pub(super) const NOTIFY: &[&str] = &["command", "webhook"];
pub(super) const CHAT: &[&str] = &["notifications", "plain", "status_line"];
pub(super) const STORE: &[&str] = &["url"];
pub(super) const WEB: &[&str] = &["search"];
pub(super) const WORKER: &[&str] = &["restate", "restate_identity_key", "restate_service", "roots"];
pub(super) const TIMEOUTS: &[&str] = &["connect", "first_byte", "idle", "total"];

/// Where else a key may belong; the name of a provider is the reader's to fill in.
const TABLES: &[(&str, &[&str])] = &[
    ("", TOP),
    ("limits.", LIMITS),
    ("limits.session.", SESSION_LIMITS),
    ("providers.NAME.", PROVIDER),
    ("providers.NAME.rate_limit.", RATE),
    ("notify.", NOTIFY),
    ("permissions.", PERMISSIONS),
    ("sandbox.", SANDBOX),
    ("chat.", CHAT),
    ("store.", STORE),
    ("timeouts.", TIMEOUTS),
    ("web.", WEB),
    ("worker.", WORKER),
    ("models.\"PROVIDER/NAME\".", MODEL),
    ("models.\"PROVIDER/NAME\".prices.", PRICES),
];

/// Similarity, from 0 to 1, from which on a key is taken for a misspelling.
const SIMILAR: f64 = 0.8;

/// Adds a warning for every key of the section that is not one of `known`.
pub(super) fn warn_unknown(section: &Section<'_>, known: &[&str], warnings: &mut Vec<Warning>) {
    for name in section.names().filter(|name| !known.contains(name)) {
        let here = closest(name, known).map(|known| section.key(known));
        warnings.push(Warning::UnknownKey {
            key: section.key(name),
            path: section.path(),
            suggestion: here.or_else(|| elsewhere(name)),
        });
    }
}

fn elsewhere(name: &str) -> Option<String> {
    TABLES.iter().find_map(|(prefix, keys)| Some(format!("{prefix}{}", closest(name, keys)?)))
}

/// Returns the known name that a name is closest to, if it resembles one.
pub(crate) fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let scored = known.iter().map(|known| (similarity(&name, known), *known));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= SIMILAR).then_some(best.1)
}

/// Spelling counts, and so does a whole key inside a longer one: `max_steps` is `steps`.
fn similarity(name: &str, known: &str) -> f64 {
    if name == known {
        return 1.0;
    }
    let is_within = |part: &str, whole: &str| whole.split('_').any(|word| word == part);
    if is_within(known, name) || is_within(name, known) {
        return 0.9;
    }
    strsim::jaro_winkler(name, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expect: Option<&str>) {
        let suggestion = closest(name, TOP).map(str::to_owned).or_else(|| elsewhere(name));
        assert_eq!(suggestion.as_deref(), expect, "{name}");
    }

    #[test]
    fn a_misspelling_finds_its_key() {
        check("modle", Some("model"));
        check("Model", Some("model"));
        check("base-url", Some("base_url"));
        check("baseurl", Some("base_url"));
        check("output", Some("output_format"));
        check("limit", Some("limits"));
        check("sytem_prompt", Some("system_prompt"));
    }

    #[test]
    fn a_key_in_the_wrong_table_finds_the_right_one() {
        check("steps", Some("limits.steps"));
        check("max_steps", Some("limits.steps"));
        check("max-tokens", Some("limits.tokens"));
        check("api_key", Some("providers.NAME.key"));
        check("wire_api", Some("providers.NAME.wire_api"));
        check("backend", Some("sandbox.backend"));
    }

    #[test]
    fn nothing_is_made_up_for_a_key_that_resembles_none() {
        check("colour", None);
        check("", None);
        check("x", None);
    }
}
