//! Redaction of secrets.

use std::{borrow::Cow, cmp::Reverse, ops::Range, sync::Arc};

use serde_json::Value;

use crate::text::shorten;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// The shortest text that is taken for a secret of its own.
const MIN_LENGTH: usize = 8;

/// The longest secret that is looked for beyond what is shown, in characters, if none that is named is
/// longer.
const MAX_LENGTH: usize = 2048;

/// Redacts secrets: values with names that suggest secrets, words in the form of well-known keys,
/// passwords in URLs, and given texts.
///
/// Fragments of a response are not redacted.
#[derive(Clone, Debug, Default)]
pub struct Redactor(Arc<[Box<str>]>);

impl Redactor {
    /// Creates a redactor that replaces these texts wherever they occur, as well as probable
    /// secrets. Texts of fewer than eight characters are ignored.
    pub fn new<S: Into<String>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let secrets = secrets.into_iter().map(|it| it.into().into_boxed_str());
        let mut secrets: Vec<_> =
            secrets.filter(|it| it.len() >= MIN_LENGTH && !REDACTED.contains(&**it)).collect();
        // One that is part of another must not take a piece out of it.
        secrets.sort_by_key(|it| Reverse(it.len()));
        Self(secrets.into())
    }

    /// Returns a text with its secrets redacted.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut clean = Cow::Borrowed(text);
        for secret in &*self.0 {
            if clean.contains(&**secret) {
                clean = Cow::Owned(clean.replace(&**secret, REDACTED));
            }
        }
        // Marks never join what was apart, so that what one pass leaves the next cannot lay bare.
        for secrets in [passwords, keys] {
            if let Some(cleaned) = without(&clean, secrets(&clean)) {
                clean = Cow::Owned(cleaned);
            }
        }
        clean
    }

    /// Returns the beginning of a text as [`shorten`] does, without what is secret in it. Of a long
    /// text only enough of the text is examined that the result contains no part of a secret.
    pub(crate) fn shortened(&self, text: &str, limit: usize, kept: usize) -> String {
        let longest = self.0.first().map_or(0, |it| it.len()).max(MAX_LENGTH);
        // What stands in the place of a secret may be longer than the secret.
        shorten(&self.beginning(text, limit, 2 * longest), limit, kept)
    }

    /// Returns the beginning of a text with secrets redacted: the whole text, or this number of
    /// characters and a margin, in which there may be a piece of a secret.
    fn beginning<'a>(&self, text: &'a str, least: usize, margin: usize) -> Cow<'a, str> {
        let enough = least.saturating_add(margin);
        let mut looked_at = enough;
        while let Some((end, _)) = text.char_indices().nth(looked_at) {
            let clean = self.text(&text[..end]);
            if clean.chars().count() >= enough {
                return clean;
            }
            looked_at *= 2;
        }
        self.text(text)
    }

    /// Returns a named value without what is secret in it; a text is cut as [`shorten`] does.
    pub(crate) fn shortened_value(
        &self,
        name: &str,
        value: Value,
        limit: usize,
        kept: usize,
    ) -> Value {
        match value {
            Value::String(text) if !speaks_of_secrets(name) => {
                Value::String(self.shortened(&text, limit, kept))
            }
            value => match self.value(name, value) {
                Value::String(mark) => Value::String(shorten(&mark, limit, kept)),
                value => value,
            },
        }
    }

    /// Returns a named value with its secrets redacted.
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

/// Returns `true` if what has this name is likely to be a secret.
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

/// Returns a text without what stands at these places, which come in the order of the text, or
/// `None` if there are none.
fn without(text: &str, places: Vec<Range<usize>>) -> Option<String> {
    if places.is_empty() {
        return None;
    }
    let mut clean = String::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        clean.push_str(text.get(done..place.start)?);
        clean.push_str(REDACTED);
        done = place.end;
    }
    clean.push_str(text.get(done..)?);
    Some(clean)
}

/// Finds passwords as in `scheme://user:password@host`. They may hold anything but blanks and `/`.
fn passwords(text: &str) -> Vec<Range<usize>> {
    let password = |(at, scheme_end): (usize, &str)| {
        let start = at + scheme_end.len();
        let rest = &text[start..];
        let end = rest.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(rest.len());
        let password = rest[..end].find(':')? + 1..rest[..end].rfind('@')?;
        (!password.is_empty()).then(|| start + password.start..start + password.end)
    };
    text.match_indices("://").filter_map(password).collect()
}

/// Finds words in the form of keys, and what follows the word `bearer`.
fn keys(text: &str) -> Vec<Range<usize>> {
    let mut keys: Vec<Range<usize>> = Vec::new();
    let mut before = 0..0;
    for word in runs(text) {
        if keys.last().is_some_and(|it| word.start < it.end) {
            continue;
        }
        let is_bearer = text[before.clone()].eq_ignore_ascii_case("bearer");
        let token = is_bearer.then(|| token_around(text, before.end, &word)).flatten();
        if let Some(key) = token.or_else(|| is_key(&text[word.clone()]).then(|| word.clone())) {
            keys.push(key);
        }
        before = word;
    }
    keys
}

/// Finds the token that a word is in, which stands after a blank and not before this place.
fn token_around(text: &str, from: usize, word: &Range<usize>) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    let ahead = text[from..word.start].trim_end_matches(is_part);
    let start = from + ahead.len();
    let rest = &text[start..];
    let token = start..start + rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    (ahead.ends_with([' ', '\t']) && token.len() >= MIN_LENGTH).then_some(token)
}

/// Finds the words that a key may be.
fn runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let words = text.split(move |c| !is_part(c)).filter(|it| !it.is_empty());
    words.map(move |word| {
        let start = word.as_ptr().addr() - text.as_ptr().addr();
        start..start + word.len()
    })
}

/// Returns `true` if a word has the form of a well-known kind of key.
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
    use proptest::prelude::*;
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
    fn keys_and_passwords_are_redacted_everywhere() {
        let check = |text: &str, clean: &str| {
            assert_eq!(Redactor::new(["hunter2hunter2"]).text(text), clean);
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
        check("see https://host:8080 and ann@host", "see https://host:8080 and ann@host");
    }

    #[test]
    fn a_password_may_look_like_a_key_or_begin_with_anything() {
        let check = |text: &str, clean: &str| {
            assert_eq!(Redactor::default().text(text), clean);
        };
        let clean = "postgres://me:[redacted]@db/x";
        check("postgres://me:pa.sk-abcdef0123456789abcdef@db/x", clean);
        check("postgres://me:!hunter2hunter2@db/x", clean);
        check("postgres://me:hunter@2:hunter@db/x", clean);
        check("redis://:ä@db redis://:@db", "redis://:[redacted]@db redis://:@db");
        check("a://b://c:d@e", "a://b://c:[redacted]@e");
    }

    #[test]
    fn a_bearer_token_is_blackened_to_its_end() {
        let check = |text: &str, clean: &str| {
            assert_eq!(Redactor::default().text(text), clean);
        };
        check("Bearer eyJhbGci.eyJzdWIi.SflKxw/rJS+Mekbw==, x", "Bearer [redacted], x");
        check("bearer  ~a.b/c+d= x", "bearer  [redacted] x");
        check("bearer: abcdefgh sk-abcdef0123456789abcdef", "bearer: [redacted] [redacted]");
        check("bearer a.b/c+d", "bearer a.b/c+d");
        check("Bearer abcd.efgh and-what-follows", "Bearer [redacted] and-what-follows");
    }

    #[test]
    fn a_secret_that_is_part_of_another_takes_no_piece_out_of_it() {
        let redaction = Redactor::new(["hunter2hunter2", "my-hunter2hunter2-is-it", "redacted"]);
        let text = "my-hunter2hunter2-is-it, hunter2hunter2, redacted";
        assert_eq!(redaction.text(text), "[redacted], [redacted], redacted");
    }

    /// At a cost that grows with the square of the length this takes many minutes.
    #[test]
    fn a_text_of_megabytes_without_blanks_is_read_once() {
        let text = format!(r#"{{"url":"https://host/x"{}}}"#, r#","k":1"#.repeat(1 << 18));
        assert_eq!(Redactor::default().text(&text), text);
    }

    #[test]
    fn only_the_beginning_of_a_long_text_is_redacted() {
        let key = "sk-abcdef0123456789abcdef";
        let text = format!("{} {key} {}", "x".repeat(90), "y".repeat(1 << 20));
        let redaction = Redactor::default();
        let beginning = redaction.beginning(&text, 100, 50);
        let expect = format!("{} [redacted] {}", "x".repeat(90), "y".repeat(300 - 117));
        assert_eq!(beginning, expect);
        let shown = format!("{} [redacte...", "x".repeat(90));
        assert_eq!(redaction.shortened(&text, 99, 99), shown);
        assert_eq!(redaction.shortened("short", 99, 99), "short");
    }

    #[test]
    fn secrets_are_found_in_the_depth_of_values() {
        let value = json!({ "a": [{ "token": "x", "n": 1 }], "max": 3, "auth": true, "b": ["ok"] });
        assert_eq!(
            Redactor::default().value("args", value),
            json!({ "a": [{ "token": "[redacted]", "n": 1 }], "max": 3, "auth": true, "b": ["ok"] })
        );
    }

    /// What stands around secrets, and breaks rules that are made too narrow.
    fn around() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("://".to_owned()),
            Just("Bearer ".to_owned()),
            Just("sk-abcdef0123456789abcdef".to_owned()),
            Just(REDACTED.to_owned()),
            "[a-z0-9:@/ .=_\\-äß\\t\"]{0,9}",
            "\\PC{0,5}",
        ];
        proptest::collection::vec(piece, 0..9).prop_map(|it| it.concat())
    }

    proptest! {
        #[test]
        fn any_text_is_cleaned_once_and_for_all(text in around(), secret in "[a-z:/@ .]{8,12}") {
            let redaction = Redactor::new([secret]);
            let clean = redaction.text(&text).into_owned();
            prop_assert_eq!(redaction.text(&clean), &*clean, "{}", text);
        }

        #[test]
        fn no_password_is_told(
            before in around(),
            password in "Q[^\\s/]{0,30}Q",
            after in around(),
        ) {
            let text = format!("{before} x://me:{password}@db/{after}");
            let clean = Redactor::default().text(&text).into_owned();
            prop_assert!(!clean.contains(&password), "{clean}");
            prop_assert!(clean.contains(" x://me:[redacted]@db/"), "{clean}");
        }

        #[test]
        fn the_beginning_of_a_text_is_the_same_as_that_of_the_whole(
            pieces in proptest::collection::vec((0..40_usize, 0..4_usize), 0..20),
            least in 0..99_usize,
        ) {
            let secrets = [
                "sk-abcdef0123456789abcdef", "x://u:p@ssw.rd@h", "Bearer a.b/c+d=e/f", "hunter2 hunter2",
            ];
            let piece = |(blanks, secret): (usize, usize)| " ".repeat(blanks) + secrets[secret];
            let text: String = pieces.into_iter().map(piece).collect();
            let redaction = Redactor::new(["hunter2 hunter2"]);
            let part = redaction.beginning(&text, least, 60);
            prop_assert_eq!(shorten(&part, least, least), shorten(&redaction.text(&text), least, least));
        }
    }
}
