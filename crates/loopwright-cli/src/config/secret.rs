//! Secrets by reference: the configuration contains their locations, never their values.

use std::fmt;

use toml::Value;

use super::value::{Mismatch, SettingValue};

/// A reference to a secret, written `env:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretRef {
    variable: String,
}

impl SecretRef {
    /// The environment variable that holds the secret.
    pub fn variable(&self) -> &str {
        &self.variable
    }
}

impl SettingValue for SecretRef {
    const EXPECTED: &'static str = "a reference to an environment variable";
    const EXAMPLE: &'static str = "\"env:MY_KEY\"";

    fn from_text(text: &str) -> Option<Self> {
        let variable = text.strip_prefix("env:").filter(|name| is_variable(name))?;
        Some(Self { variable: variable.to_owned() })
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let text = value.as_str().ok_or(Mismatch::Type)?;
        let mismatch = if is_reference(text) { Mismatch::Value } else { Mismatch::Secret };
        Self::from_text(text).ok_or(mismatch)
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "env:{}", self.variable)
    }
}

/// Text that stands in the file, or, where it is a secret, elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Text {
    /// Written out, and fit to be shown.
    Plain(String),
    /// Kept outside and read when it is used.
    Secret(SecretRef),
}

impl SettingValue for Text {
    const EXPECTED: &'static str =
        "a line of text, or a reference to an environment variable such as `env:NAME`";
    const EXAMPLE: &'static str = "\"env:NAME\"";

    fn from_text(text: &str) -> Option<Self> {
        if is_reference(text) {
            return SecretRef::from_text(text).map(Self::Secret);
        }
        let is_line = !text.contains(char::is_control);
        (is_line && !carries_a_secret(text)).then(|| Self::Plain(text.to_owned()))
    }

    fn from_toml(value: &Value) -> Result<Self, Mismatch> {
        let text = value.as_str().ok_or(Mismatch::Type)?;
        let mismatch = if carries_a_secret(text) { Mismatch::Secret } else { Mismatch::Value };
        Self::from_text(text).ok_or(mismatch)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::Secret(reference) => reference.fmt(f),
        }
    }
}

/// Whether a header or field of that name is there to carry a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "cookie", "key", "password", "secret", "token"].iter().any(|part| name.contains(part))
}

fn is_reference(text: &str) -> bool {
    text.starts_with("env:")
}

fn is_variable(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

/// Whether text is a credential by its form: a scheme and token, a key, or an address with a password.
fn carries_a_secret(text: &str) -> bool {
    let lower = text.trim_start().to_ascii_lowercase();
    ["bearer ", "basic ", "sk-"].iter().any(|prefix| lower.starts_with(prefix))
        || lower.contains("password=")
        || has_password(&lower)
}

fn has_password(address: &str) -> bool {
    let authority = address.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let user = authority.and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Result<String, Mismatch> {
        SecretRef::from_toml(&Value::from(text)).map(|reference| reference.variable().to_owned())
    }

    fn text(text: &str) -> Result<String, Mismatch> {
        Text::from_toml(&Value::from(text)).map(|text| format!("{text:?}"))
    }

    #[test]
    fn a_reference_names_a_variable() {
        assert_eq!(secret("env:MY_KEY_2"), Ok("MY_KEY_2".to_owned()));
        assert_eq!(SecretRef::from_text("env:A").unwrap().to_string(), "env:A");
    }

    #[test]
    fn a_reference_to_what_cannot_be_a_variable_is_not_taken_for_one() {
        for name in ["env:", "env:2A", "env:sk-abc", "env:A B", "env:Ä"] {
            assert_eq!(secret(name), Err(Mismatch::Value), "{name}");
            assert_eq!(text(name), Err(Mismatch::Value), "{name}");
        }
    }

    #[test]
    fn anything_but_a_reference_is_taken_for_the_secret_itself() {
        for literal in ["", "sk-abc", "MY_KEY", "$MY_KEY", "ENV:MY_KEY"] {
            assert_eq!(secret(literal), Err(Mismatch::Secret), "{literal}");
        }
        assert_eq!(SecretRef::from_toml(&Value::from(1)), Err(Mismatch::Type));
    }

    #[test]
    fn text_is_plain_or_a_reference() {
        assert_eq!(text("loopwright"), Ok("Plain(\"loopwright\")".to_owned()));
        assert_eq!(text("env:A"), Ok("Secret(SecretRef { variable: \"A\" })".to_owned()));
        assert_eq!(text("two\r\nlines"), Err(Mismatch::Value));
        assert_eq!(Text::from_toml(&Value::from(1)), Err(Mismatch::Type));
    }

    #[test]
    fn text_that_is_a_credential_by_its_form_is_refused() {
        for literal in [
            "Bearer abc",
            "basic YTpi",
            "sk-abc",
            "postgres://me:secret@db/x",
            "postgres://db/x?user=me&Password=secret",
        ] {
            assert_eq!(text(literal), Err(Mismatch::Secret), "{literal}");
        }
        for harmless in ["postgres://me@db:5432/x", "sqlite:/var/a:b@c.db", "https://db/a:b@c"] {
            assert!(text(harmless).is_ok(), "{harmless}");
        }
    }

    #[test]
    fn headers_that_carry_secrets_are_known_by_name() {
        for name in ["Authorization", "x-api-key", "Cookie", "X-Auth-Token", "Client-Secret"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["User-Agent", "anthropic-beta", "X-Title", "HTTP-Referer"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
