//! Keeping secrets out of what is told.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// The shortest text that is taken for a secret of its own.
const SHORTEST: usize = 8;

/// Keeps secrets out of what is told: values whose names speak of secrets, words in the form of
/// well-known keys, passwords in addresses, and texts that somebody named.
///
/// An answer's fragments are told as they come: what a model writes is not looked into.
#[derive(Clone, Debug, Default)]
pub struct Redaction(Arc<[Box<str>]>);

impl Redaction {
    /// Blackens these texts wherever they stand, as well as what looks like a secret. Those of fewer than
    /// eight characters are words that stand for no secret, and stay.
    pub fn of<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let secrets = secrets.into_iter().map(|it| it.into().into_boxed_str());
        Self(secrets.filter(|it| it.len() >= SHORTEST).collect())
    }

    /// Returns a text without what is secret in it.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for secret in self.0.iter().filter(|it| text.contains(&***it)) {
            clean = Cow::Owned(clean.replace(&**secret, REDACTED));
        }
        match without_keys(&clean) {
            Some(cleaned) => Cow::Owned(cleaned),
            None => clean,
        }
    }

    /// Returns a named value without what is secret in it.
    pub fn value(&self, name: &str, value: Value) -> Value {
        match value {
            // A number, a yes or a no is no key.
            Value::String(_) | Value::Array(_) | Value::Object(_) if speaks_of_secrets(name) => {
                Value::String(REDACTED.to_owned())
            }
            Value::String(text) => match self.text(&text) {
                Cow::Borrowed(_) => Value::String(text),
                Cow::Owned(clean) => Value::String(clean),
            },
            Value::Array(items) => items.into_iter().map(|it| self.value("", it)).collect(),
            Value::Object(fields) => {
                let clean = fields.into_iter().map(|(name, value)| {
                    let value = self.value(&name, value);
                    (name, value)
                });
                Value::Object(clean.collect())
            }
            value => value,
        }
    }
}

/// Tells whether what has this name is likely to be a secret.
fn speaks_of_secrets(name: &str) -> bool {
    const WORDS: [&str; 16] = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "secrets",
        "token",
        "apikey",
        "auth",
        "authorization",
        "credential",
        "credentials",
        "cookie",
        "bearer",
        "signature",
        "dsn",
    ];
    const KEYS: [&str; 5] = ["api", "access", "private", "secret", "signing"];
    let words = words(name);
    let is_key = |pair: &[String]| KEYS.contains(&&*pair[0]) && pair[1] == "key";
    words.iter().any(|it| WORDS.contains(&&**it)) || words.windows(2).any(is_key)
}

/// Breaks `apiKey`, `api-key` and `API_KEY` into `api` and `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|it| !it.is_empty());
    words
}

/// Returns a text without words in the form of keys, if there are any.
fn without_keys(text: &str) -> Option<String> {
    let mut clean = String::new();
    let (mut done, mut before) = (0, "");
    for (start, word) in runs(text) {
        let end = start + word.len();
        let follows = text[..start].ends_with([' ', '\t']);
        let is_bearer = before.eq_ignore_ascii_case("bearer") && follows && word.len() >= SHORTEST;
        if is_bearer || is_key(word) {
            clean.push_str(&text[done..start]);
            clean.push_str(REDACTED);
            done = end;
        } else if let Some(at) = password_in(text, start, word) {
            // What follows the colon is a run of its own, up to the at sign.
            clean.push_str(text.get(done..start)?);
            clean.push_str(REDACTED);
            done = at;
        }
        before = word;
    }
    if done == 0 {
        return None;
    }
    clean.push_str(text.get(done..)?);
    Some(clean)
}

/// Returns where the password ends that begins here, as in `scheme://user:password@host`.
fn password_in(text: &str, start: usize, word: &str) -> Option<usize> {
    let user = text[..start].strip_suffix(':')?;
    let (_, user) = user.rsplit_once("://")?;
    let is_user = user.chars().all(|c| !c.is_whitespace() && !matches!(c, '/' | '@' | ':'));
    let rest = &text[start..];
    let at = rest.find('@').filter(|_| is_user)?;
    let is_password = rest[..at].chars().all(|c| !c.is_whitespace() && c != '/');
    (is_password && !word.is_empty()).then_some(start + at)
}

/// The words that a key may be, and where they begin.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let words = text.split(move |c| !is_part(c)).filter(|it| !it.is_empty());
    words.map(move |word| (word.as_ptr().addr() - text.as_ptr().addr(), word))
}

/// Tells whether a word has the form of a well-known kind of key.
fn is_key(word: &str) -> bool {
    const BEGINNINGS: [&str; 16] = [
        "sk-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "pk_live_",
        "ghp_",
        "gho_",
        "ghs_",
        "ghu_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "AIza",
        "hf_",
        "npm_",
    ];
    const LEAST: usize = 20;
    let is_long = word.len() >= LEAST && word.bytes().any(|it| it.is_ascii_digit());
    let is_aws = |it: &str| {
        let rest = it.strip_prefix("AKIA").or_else(|| it.strip_prefix("ASIA"));
        rest.is_some_and(|it| {
            it.len() == 16 && it.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        })
    };
    is_aws(word) || (is_long && BEGINNINGS.iter().any(|it| word.starts_with(it)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_speak_of_secrets_are_known_in_every_spelling() {
        for name in
            ["api_key", "apiKey", "API-KEY", "password", "accessToken", "x-auth", "secretKey"]
        {
            assert!(speaks_of_secrets(name), "{name}");
        }
        for name in ["key", "max_tokens", "author", "monkey", "path", "tokens", "keyboard", ""] {
            assert!(!speaks_of_secrets(name), "{name}");
        }
    }

    #[test]
    fn keys_and_passwords_are_blackened_wherever_they_stand() {
        let check = |text: &str, clean: &str| {
            assert_eq!(Redaction::of(["hunter2hunter2"]).text(text), clean);
        };
        check(
            "curl -H 'Authorization: Bearer abcd1234efgh' x",
            "curl -H 'Authorization: Bearer [redacted]' x",
        );
        check("key sk-proj-abcdef0123456789abcdef end", "key [redacted] end");
        check("AKIAABCDEFGHIJKLMNOP", "[redacted]");
        check("see postgres://me:pa-ss.word@db/x now", "see postgres://me:[redacted]@db/x now");
        check("ähunter2hunter2ß", "ä[redacted]ß");
        check(
            "sk-learn is a library, bearer of news: 12:30@noon",
            "sk-learn is a library, bearer of news: 12:30@noon",
        );
        check("https://host/a:b@c", "https://host/a:b@c");
    }

    #[test]
    fn secrets_are_found_in_the_depth_of_values() {
        let value = json!({ "a": [{ "token": "x", "n": 1 }], "max": 3, "auth": true, "b": ["ok"] });
        assert_eq!(
            Redaction::default().value("args", value),
            json!({ "a": [{ "token": "[redacted]", "n": 1 }], "max": 3, "auth": true, "b": ["ok"] })
        );
    }
}
