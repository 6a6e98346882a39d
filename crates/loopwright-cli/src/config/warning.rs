//! Warnings about a valid configuration.

use std::fmt;
use std::path::PathBuf;

/// What is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A key, because nothing knows it.
    UnknownKey {
        /// The key with the tables that it is in.
        key: String,
        /// The file.
        path: PathBuf,
        /// The key that was probably meant.
        suggestion: Option<String>,
    },
    /// A part of the settings of Claude Code.
    Claude {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is ignored, and why.
        message: String,
    },
    /// A file that was found, because it is another owner's.
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, path, suggestion) = match self {
            Self::UnknownKey { key, path, suggestion } => (key, path, suggestion),
            Self::Claude { path, line, message } => {
                return write!(f, "{}:{line}: {message}", path.display());
            }
            Self::Foreign { path } => {
                return write!(
                    f,
                    "{} is ignored: it belongs to another user; change its owner, or pass the file with `--config`",
                    path.display()
                );
            }
        };
        write!(f, "unknown key `{key}` in {}: ", path.display())?;
        match suggestion {
            Some(suggestion) => write!(f, "did you mean `{suggestion}`?"),
            None => f.write_str("ignored; remove it"),
        }
    }
}
