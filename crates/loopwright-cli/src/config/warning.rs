//! What is odd about a configuration that can be used.

use std::fmt;
use std::path::PathBuf;

/// A key that is ignored because nothing knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The key with the tables that it is in.
    pub key: String,
    /// The file.
    pub path: PathBuf,
    /// The key that was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown key `{}` in {}: ", self.key, self.path.display())?;
        match &self.suggestion {
            Some(suggestion) => write!(f, "did you mean `{suggestion}`?"),
            None => f.write_str("it is ignored; remove it"),
        }
    }
}
