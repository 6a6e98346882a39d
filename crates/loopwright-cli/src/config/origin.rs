//! The origin of a value.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The layer that decided a value, strongest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Typed on the command line.
    Flag,
    /// Read from the environment variable of this name.
    Env(&'static str),
    /// Read from this `loopwright.toml`.
    Project(Arc<Path>),
    /// Read from this file of the user.
    User(Arc<Path>),
    /// Kept with the session that continues.
    Session,
    /// Not set.
    Default,
}

impl Origin {
    /// Returns `true` if an option or an environment variable set the value.
    pub fn is_typed(&self) -> bool {
        matches!(self, Self::Flag | Self::Env(_))
    }

    /// Returns the file that set the value, or `None` if no file did.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Project(path) | Self::User(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("command line"),
            Self::Env(variable) => write!(f, "environment variable {variable}"),
            Self::Project(path) => write!(f, "project file {}", path.display()),
            Self::User(path) => write!(f, "user file {}", path.display()),
            Self::Session => f.write_str("session"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and the layer that set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value in effect.
    pub value: T,
    /// The layer that set the value.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// Joins a value and its origin.
    pub const fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_reads_like_a_place() {
        let path: Arc<Path> = Path::new("/p/loopwright.toml").into();
        let origins = [
            Origin::Flag,
            Origin::Env("LOOPWRIGHT_MODEL"),
            Origin::Project(path.clone()),
            Origin::User(path),
            Origin::Session,
            Origin::Default,
        ];
        assert_eq!(
            origins.map(|origin| origin.to_string()),
            [
                "command line",
                "environment variable LOOPWRIGHT_MODEL",
                "project file /p/loopwright.toml",
                "user file /p/loopwright.toml",
                "session",
                "default",
            ]
        );
    }
}
