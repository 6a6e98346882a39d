//! Keys, and where they come from.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// A key. It is neither printed nor stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// Returns the key itself, for the header it is sent in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Blackens the key wherever it stands in a text.
    ///
    /// What is too short to be a key is a word that stands for none, such as `none`: it stays.
    pub(crate) fn redact(&self, text: &mut String) {
        const SHORTEST: usize = 8;
        if self.0.len() >= SHORTEST && text.contains(&*self.0) {
            *text = text.replace(&*self.0, "[redacted]");
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Looks up what configuration refers to by the name of a variable: keys, base addresses.
pub trait KeySource: Send + Sync {
    /// Returns the variable's value, or nothing if it is not set.
    fn get(&self, variable: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String> + Send + Sync> KeySource for F {
    fn get(&self, variable: &str) -> Option<String> {
        self(variable)
    }
}

/// Looks in the environment of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvKeys;

impl KeySource for EnvKeys {
    fn get(&self, variable: &str) -> Option<String> {
        std::env::var(variable).ok()
    }
}

/// Returns a variable's value unless it is blank.
pub(crate) fn lookup(keys: &dyn KeySource, variable: &str) -> Option<String> {
    let value = keys.get(variable)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Says where a key is. Written as `env:NAME`; the key itself is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyRef(Arc<str>);

/// What references to variables begin with.
const ENV: &str = "env:";

impl KeyRef {
    /// Refers to a variable.
    pub fn env(variable: impl Into<Arc<str>>) -> Self {
        Self(variable.into())
    }

    /// Returns the variable's name.
    pub fn variable(&self) -> &str {
        &self.0
    }

    /// Reads a reference; nothing if the text is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let variable = text.strip_prefix(ENV)?.trim();
        (!variable.is_empty()).then(|| Self(variable.into()))
    }
}

impl TryFrom<String> for KeyRef {
    type Error = NotAReference;

    fn try_from(text: String) -> Result<Self, NotAReference> {
        Self::parse(&text).ok_or(NotAReference)
    }
}

impl From<KeyRef> for String {
    fn from(key: KeyRef) -> Self {
        format!("{ENV}{}", key.0)
    }
}

/// A key stands where a reference to it should. It does not say which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAReference;

impl fmt::Display for NotAReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a reference such as `env:NAME`, never the key itself")
    }
}

impl std::error::Error for NotAReference {}
