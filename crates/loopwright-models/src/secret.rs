//! API keys and references to them.

use std::{collections::HashSet, fmt, sync::Arc};

use base64::Engine as _;
use base64::prelude::{
    BASE64_STANDARD_NO_PAD as STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD,
};
use serde::{Deserialize, Serialize};

/// How many characters of a key in a row are a part of it, and no accident.
const PART: usize = 12;

/// What stands where a key stood.
const BLACK: &str = "[redacted]";

/// An API key. It is neither printed nor stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// Returns the key itself, for the header of a request.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Redacts the key wherever it occurs in a text: in capitals or not, in base64 (also with something around
    /// it), and parts of it from 12 characters on.
    ///
    /// What is too short to be a key is a word that stands for none, such as `none`: it stays.
    pub(crate) fn redact(&self, text: &mut String) {
        const MIN_LENGTH: usize = 8;
        if self.0.len() < MIN_LENGTH || text.len() < MIN_LENGTH {
            return;
        }
        let mut forms = vec![self.0.to_ascii_lowercase()];
        // What stands before the key shifts its bits by none, one or two bytes of three.
        for shift in 0..3 {
            let shifted = [&[0; 2][..shift], self.0.as_bytes()].concat();
            // Characters that hold bits of what stands around it are none of the key's.
            let (begin, end) = ((shift * 4).div_ceil(3), shifted.len() * 4 / 3);
            for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
                let encoded = engine.encode(&shifted).to_ascii_lowercase();
                forms.push(encoded.get(begin..end).unwrap_or_default().to_owned());
            }
        }
        let shown = text.to_ascii_lowercase();
        let mut is_black = vec![false; text.len()];
        for form in forms.iter().filter(|it| it.len() >= MIN_LENGTH) {
            let window = form.len().min(PART);
            let parts: HashSet<&[u8]> = form.as_bytes().windows(window).collect();
            for (at, _) in
                shown.as_bytes().windows(window).enumerate().filter(|(_, it)| parts.contains(it))
            {
                is_black[at..at + window].fill(true);
            }
        }
        if !is_black.contains(&true) {
            return;
        }
        let mut redacted = String::with_capacity(text.len());
        let mut was_black = false;
        for (at, c) in text.char_indices() {
            match is_black[at..at + c.len_utf8()].contains(&true) {
                true if was_black => {}
                true => redacted.push_str(BLACK),
                false => redacted.push(c),
            }
            was_black = is_black[at..at + c.len_utf8()].contains(&true);
        }
        *text = redacted;
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Looks up the variables that configuration refers to: keys and base URLs.
pub trait VarSource: Send + Sync {
    /// Returns the variable's value, or `None` if it is unset.
    fn get(&self, variable: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String> + Send + Sync> VarSource for F {
    fn get(&self, variable: &str) -> Option<String> {
        self(variable)
    }
}

/// The environment of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvVars;

impl VarSource for EnvVars {
    fn get(&self, variable: &str) -> Option<String> {
        std::env::var(variable).ok()
    }
}

/// Returns a variable's value unless it is blank.
pub(crate) fn lookup(keys: &dyn VarSource, variable: &str) -> Option<String> {
    let value = keys.get(variable)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// A reference to a key, written as `env:NAME`. The key itself is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretRef(Arc<str>);

/// What references to variables begin with.
const ENV: &str = "env:";

impl SecretRef {
    /// Creates a reference to a variable.
    pub fn env(variable: impl Into<Arc<str>>) -> Self {
        Self(variable.into())
    }

    /// Returns the variable's name.
    pub fn variable(&self) -> &str {
        &self.0
    }

    /// Reads a reference. Returns `None` if the text is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let variable = text.strip_prefix(ENV)?.trim();
        (!variable.is_empty()).then(|| Self(variable.into()))
    }
}

impl TryFrom<String> for SecretRef {
    type Error = InvalidSecretRef;

    fn try_from(text: String) -> Result<Self, InvalidSecretRef> {
        Self::parse(&text).ok_or(InvalidSecretRef)
    }
}

impl From<SecretRef> for String {
    fn from(key: SecretRef) -> Self {
        format!("{ENV}{}", key.0)
    }
}

/// The error for a key in place of a reference. It does not contain the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSecretRef;

impl fmt::Display for InvalidSecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a reference such as `env:NAME`, never the key itself")
    }
}

impl std::error::Error for InvalidSecretRef {}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    const KEY: &str = "sk-proj-Ab12?>Cd34~~Ef56";

    fn shown(text: &str) -> String {
        let mut text = text.to_owned();
        Secret::new(KEY).redact(&mut text);
        text
    }

    #[test]
    fn a_key_is_blackened_however_it_is_written() {
        let whole = [
            KEY.to_owned(),
            KEY.to_uppercase(),
            KEY.to_lowercase(),
            KEY[..20].to_owned(),
            KEY[7..].to_owned(),
        ];
        for written in whole {
            assert_eq!(shown(&format!("ä {written} ö")), "ä [redacted] ö", "{written}");
        }
        for before in ["", "u", "us", "user:", "Bearer "] {
            for after in ["", ":", ":x"] {
                let text = format!("{before}{KEY}{after}");
                for encoded in [BASE64_STANDARD.encode(&text), BASE64_URL_SAFE_NO_PAD.encode(&text)]
                {
                    let redacted = shown(&format!("got {encoded} here"));
                    assert!(redacted.contains("[redacted]"), "{text}: {redacted}");
                    let left = redacted.replace("[redacted]", "").len();
                    // No more is left than what stands around the key takes.
                    let around = (before.len() + after.len()) * 4 / 3 + 4 + "got  here".len() + 2;
                    assert!(left <= around, "{text}: {redacted}");
                }
            }
        }
        assert_eq!(shown(&format!("{KEY} and {KEY}")), "[redacted] and [redacted]");
    }

    #[test]
    fn words_stay() {
        for text in ["", "sk-proj-Ab1", "no key at all", "the model sk-proj is not known", "äöü"]
        {
            assert_eq!(shown(text), text);
        }
        let mut text = "none is no key".to_owned();
        Secret::new("none").redact(&mut text);
        assert_eq!(text, "none is no key");
    }
}
