//! Names of services.

use std::{fmt, str::FromStr, sync::Arc};

use loopwright_sessions::JobLabels;

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
}
