//! Names of services, and keys of servers.

use std::{fmt, str::FromStr, sync::Arc};

use loopwright_sessions::JobLabels;
use restate_sdk::endpoint::Endpoint;

/// The most characters of a name.
const MAX_LENGTH: usize = 40;

/// The name of a Restate service, `Loopwright` by default. Workers and programs with the same name share their jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestateService(Arc<str>);

/// A text that is not the name of a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid service name `{0}`; use at most {MAX_LENGTH} letters, digits and underscores, starting with a letter"
)]
pub struct InvalidRestateService(String);

impl RestateService {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what jobs of this service need. No worker that claims jobs by itself has this label.
    pub(crate) fn label(&self) -> JobLabels {
        // A valid name is a valid label.
        format!("restate={}", self.0).parse().unwrap_or_default()
    }
}

/// The public key with which a server of Restate identifies itself, such as
/// `publickeyv1_ChjENKeMvCtRnqG2mrBK1HmPKufgFUc98K8B3ononQvp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestateKey(Arc<str>);

/// A text that is not the public key of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid key `{0}`; Restate logs its public key when it starts, in the form `publickeyv1_…`"
)]
pub struct InvalidRestateKey(String);

impl RestateKey {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RestateKey {
    type Err = InvalidRestateKey;

    fn from_str(text: &str) -> Result<Self, InvalidRestateKey> {
        match Endpoint::builder().identity_key(text) {
            Ok(_) => Ok(Self(text.into())),
            Err(_) => Err(InvalidRestateKey(text.to_owned())),
        }
    }
}

impl Default for RestateService {
    fn default() -> Self {
        Self("Loopwright".into())
    }
}

impl FromStr for RestateService {
    type Err = InvalidRestateService;

    fn from_str(text: &str) -> Result<Self, InvalidRestateService> {
        let starts = text.starts_with(|it: char| it.is_ascii_alphabetic());
        let is_valid = |it: char| it.is_ascii_alphanumeric() || it == '_';
        if starts && text.len() <= MAX_LENGTH && text.chars().all(is_valid) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidRestateService(text.to_owned()))
        }
    }
}

impl fmt::Display for RestateService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_and_a_label() {
        for name in ["Loopwright", "gpu_1", "a"] {
            let label = name.parse::<RestateService>().unwrap().label();
            assert_eq!(label.to_string(), format!("restate={name}"));
        }
        for name in ["", "1a", "_a", "a-b", "a.b", "ä", &"a".repeat(41)] {
            assert_eq!(name.parse::<RestateService>(), Err(InvalidRestateService(name.to_owned())));
        }
    }

    #[test]
    fn a_key_is_a_public_key_of_the_first_version() {
        let key = "publickeyv1_ChjENKeMvCtRnqG2mrBK1HmPKufgFUc98K8B3ononQvp";
        assert_eq!(key.parse::<RestateKey>().unwrap().as_str(), key);
        for text in ["", "publickeyv1_", &key[..30], &key.replace("v1", "v2"), "publickeyv1_0OIl"] {
            assert_eq!(text.parse::<RestateKey>(), Err(InvalidRestateKey(text.to_owned())));
        }
    }
}
