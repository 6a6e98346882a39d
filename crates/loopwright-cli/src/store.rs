//! Where sessions are kept.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::BoxError;
use loopwright_sessions::{FileStore, SessionStore};

use crate::config::{Config, Sources, Text};

/// Where sessions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a directory, each session in one of its own.
    Files(PathBuf),
    /// In a file that is a database.
    Sqlite(PathBuf),
    /// In a database elsewhere: its address, which may hold a password.
    Postgres(Address),
}

/// An address that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(String);

/// Why there is no place for sessions.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Nobody knows where the user keeps such things.
    #[error(
        "there is no home directory to keep sessions in: set HOME or XDG_STATE_HOME, name a place with `--store`, or keep nothing with `--no-session`"
    )]
    NoHome,
    /// The variable that holds the address is not set.
    #[error("the address of the session store is to be in {0}, which is not set: set it")]
    NoVariable(String),
    /// The address is of no kind that is known.
    #[error(
        "`{0}` is no place to keep sessions in: write `sqlite:FILE`, `files:DIRECTORY` or `postgres://…`"
    )]
    Unknown(String),
    /// The directory cannot be made.
    #[error("the directory {path} cannot be made: make it, or name another place with `--store`", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error(
        "the sessions in {place} cannot be opened: name another place with `--store`, or keep nothing with `--no-session`"
    )]
    Open {
        /// The place.
        place: String,
        /// Why.
        source: BoxError,
    },
}

impl Place {
    /// Finds out where sessions are kept: where it is configured, or else with the user's state.
    ///
    /// # Errors
    ///
    /// If it is configured wrongly, or the user has no home.
    pub fn of(config: &Config, sources: &Sources) -> Result<Self, PlaceError> {
        let Some(url) = &config.store_url else {
            let state = state_directory(sources).ok_or(PlaceError::NoHome)?;
            return Ok(Self::Sqlite(state.join("sessions.db")));
        };
        match &url.value {
            Text::Plain(url) => Self::parse(url, sources),
            Text::Secret(reference) => {
                let name = reference.variable();
                let value = sources.environment.get(name).and_then(|it| it.to_str());
                let url = value.filter(|it| !it.is_empty());
                let url = url.ok_or_else(|| PlaceError::NoVariable(name.to_owned()))?;
                // What is secret is not repeated.
                Self::parse(url, sources).map_err(|_| PlaceError::Unknown(reference.to_string()))
            }
        }
    }

    fn parse(url: &str, sources: &Sources) -> Result<Self, PlaceError> {
        let path = |path: &str| sources.cwd.join(path);
        match url.split_once(':') {
            Some(("files", directory)) if !directory.is_empty() => Ok(Self::Files(path(directory))),
            Some(("sqlite", file)) if !file.is_empty() => {
                Ok(Self::Sqlite(path(file.strip_prefix("//").unwrap_or(file))))
            }
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(Address(url.to_owned()))),
            _ => Err(PlaceError::Unknown(url.to_owned())),
        }
    }

    /// Opens the store, and makes it if it is not there yet: for the user only.
    ///
    /// # Errors
    ///
    /// If that is not possible.
    pub async fn open(&self) -> Result<Arc<dyn SessionStore>, PlaceError> {
        match self {
            Self::Files(path) => {
                let opened = FileStore::open(path);
                Ok(Arc::new(opened.map_err(|error| self.unopened(error))?))
            }
            Self::Sqlite(path) => {
                make_private(path.parent().unwrap_or(Path::new(".")))?;
                self.open_sql(&format!("sqlite:{}", path.display())).await
            }
            Self::Postgres(address) => self.open_sql(&address.0).await,
        }
    }

    async fn open_sql(&self, url: &str) -> Result<Arc<dyn SessionStore>, PlaceError> {
        loopwright_store_sql::open(url).await.map_err(|error| self.unopened(error))
    }

    fn unopened(&self, error: impl Into<BoxError>) -> PlaceError {
        PlaceError::Open { place: self.to_string(), source: error.into() }
    }

    /// Tells whether there is anything to open. What is elsewhere is not asked.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Files(path) | Self::Sqlite(path) => path.exists(),
            Self::Postgres(_) => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(path) | Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(_) => f.write_str("the database"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address")
    }
}

/// Returns where the program keeps what it remembers for the user.
pub fn state_directory(sources: &Sources) -> Option<PathBuf> {
    let variable = sources.environment.get("XDG_STATE_HOME").map(PathBuf::from);
    let configured = variable.filter(|it| it.is_absolute());
    let usual = || sources.home.as_ref().map(|home| home.join(".local/state"));
    Some(configured.or_else(usual)?.join("loopwright"))
}

/// Makes a directory that only the user can look into, unless it is there.
///
/// # Errors
///
/// If that is not possible.
pub fn make_private(path: &Path) -> Result<(), PlaceError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| PlaceError::Directory { path: path.to_path_buf(), source })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;

    fn sources(variables: &[(&str, &str)]) -> Sources {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), OsString::from(value));
        let environment: BTreeMap<_, _> = variables.iter().map(own).collect();
        Sources { environment, cwd: "/w".into(), home: Some("/home/me".into()) }
    }

    #[test]
    fn places_are_known_by_their_scheme() {
        let parse = |url: &str| Place::parse(url, &sources(&[])).ok();
        assert_eq!(parse("files:/a"), Some(Place::Files("/a".into())));
        assert_eq!(parse("files:a"), Some(Place::Files("/w/a".into())));
        assert_eq!(parse("sqlite:a.db"), Some(Place::Sqlite("/w/a.db".into())));
        assert_eq!(parse("sqlite:///a.db"), Some(Place::Sqlite("/a.db".into())));
        let url = "postgres://me@db/x";
        assert_eq!(parse(url), Some(Place::Postgres(Address(url.to_owned()))));
        for url in ["", "files:", "sqlite:", "/a/b", "mysql://x"] {
            assert_eq!(parse(url), None, "{url}");
        }
    }

    #[test]
    fn an_address_is_not_shown() {
        let place = Place::Postgres(Address("postgres://me:secret@db/x".to_owned()));
        assert_eq!(format!("{place} {place:?}"), "the database Postgres(Address)");
    }

    #[test]
    fn state_is_kept_where_the_variable_says_or_else_at_home() {
        let of = |variables: &[_]| state_directory(&sources(variables));
        assert_eq!(of(&[]), Some("/home/me/.local/state/loopwright".into()));
        assert_eq!(of(&[("XDG_STATE_HOME", "/s")]), Some("/s/loopwright".into()));
        let relative = [("XDG_STATE_HOME", "s")];
        assert_eq!(of(&relative), Some("/home/me/.local/state/loopwright".into()));
    }
}
