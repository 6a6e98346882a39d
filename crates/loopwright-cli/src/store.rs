//! The location of the session store.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::{BoxError, RunEnv};
use loopwright_sessions::{
    FileStore, Finding, ReportingStore, SessionStore, StoreError, StoreWait, WaitReporter,
};
use loopwright_store_sql::{SqlError, SqliteStore};

use crate::config::{Config, ConfigSources, Text};
use crate::console;
use crate::render::duration;

/// The stores that this process opened.
static OPENED: Mutex<Vec<Arc<dyn SessionStore>>> = Mutex::new(Vec::new());

/// How long closing the stores may take at the end. What is not done then is left to the next process.
const CLOSING: Duration = Duration::from_secs(5);

/// Closes all stores that this process opened, so that their files hold everything by themselves.
pub async fn close_all() {
    let opened = std::mem::take(&mut *OPENED.lock().unwrap_or_else(PoisonError::into_inner));
    let close = async {
        for store in opened {
            store.close().await;
        }
    };
    // What was acknowledged is kept either way.
    let _in_time = tokio::time::timeout(CLOSING, close).await;
}

/// Where sessions are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// In a directory, each session in one of its own.
    Files(PathBuf),
    /// In a file that is a database.
    Sqlite(PathBuf),
    /// In a database elsewhere: its address, which may hold a password.
    Postgres(DatabaseUrl),
}

/// An address that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

/// Why there is no place for sessions.
#[derive(Debug, thiserror::Error)]
pub enum StoreLocationError {
    /// The home directory is unknown.
    #[error(
        "no home directory for sessions; set HOME or XDG_STATE_HOME, choose a session store with `--store`, or pass `--no-session`"
    )]
    NoHome,
    /// The variable that holds the address is not set.
    #[error(
        "environment variable `{0}` is not set; set it to the session store URL, or pass `--store`"
    )]
    NoVariable(String),
    /// The address is of no kind that is known.
    #[error(
        "`{0}` is not a session store; write `sqlite:FILE`, `files:DIRECTORY` or `postgres://…`"
    )]
    Unknown(String),
    /// The directory cannot be made.
    #[error("cannot create directory {path}; create it, or choose another session store with `--store`", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Its file is damaged, or something else.
    #[error(
        "cannot open the sessions in {place}; if the file is damaged, repair it with `loopwright sessions check --repair --store sqlite:{place}`"
    )]
    Damaged {
        /// The place.
        place: String,
        /// Why.
        source: BoxError,
    },
    /// Other users may write to the directory.
    #[error(
        "{path} is writable by other users, who could replace your sessions; run `chmod go-w {path}`, or choose another session store with `--store`",
        path = path.display()
    )]
    OpenToAll {
        /// The directory.
        path: PathBuf,
    },
    /// The address asks for what this program does not do.
    #[error("`{url}` {reason}")]
    Unfit {
        /// The address.
        url: String,
        /// What is the matter, and what to do.
        reason: &'static str,
    },
    /// The store cannot be opened.
    #[error(
        "cannot open the sessions in {place}; choose another session store with `--store`, or pass `--no-session`"
    )]
    Open {
        /// The place.
        place: String,
        /// Why.
        source: BoxError,
    },
}

impl StoreLocation {
    /// Finds out where sessions are kept: where it is configured, or else with the user's state.
    ///
    /// # Errors
    ///
    /// Returns an error if it is configured wrongly, or the user has no home.
    pub fn of(config: &Config, sources: &ConfigSources) -> Result<Self, StoreLocationError> {
        let Some(url) = &config.store_url else {
            let state = state_directory(sources).ok_or(StoreLocationError::NoHome)?;
            return Ok(Self::Sqlite(state.join("sessions.db")));
        };
        match &url.value {
            Text::Plain(url) => Self::parse(url, sources),
            Text::Secret(reference) => {
                let name = reference.variable();
                let value = sources.environment.get(name).and_then(|it| it.to_str());
                let url = value.filter(|it| !it.is_empty());
                let url = url.ok_or_else(|| StoreLocationError::NoVariable(name.to_owned()))?;
                // What is secret is not repeated.
                Self::parse(url, sources)
                    .map_err(|_| StoreLocationError::Unknown(reference.to_string()))
            }
        }
    }

    fn parse(url: &str, sources: &ConfigSources) -> Result<Self, StoreLocationError> {
        let path = |path: &str| sources.cwd.join(path);
        let unfit = |reason| Err(StoreLocationError::Unfit { url: url.to_owned(), reason });
        match url.split_once(':') {
            Some(("sqlite", file)) if file.trim_start_matches('/').starts_with(':') => {
                unfit("would save nothing; pass `--no-session` if you want that, or specify a file")
            }
            Some(("sqlite", file)) if file.contains('?') || file.starts_with("file:") => unfit(
                "has options, which are not supported; write `sqlite:` and the path of a \
                    file",
            ),
            Some(("files", directory)) if !directory.is_empty() => Ok(Self::Files(path(directory))),
            Some(("sqlite", file)) if !file.is_empty() => {
                Ok(Self::Sqlite(path(file.strip_prefix("//").unwrap_or(file))))
            }
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(DatabaseUrl(url.to_owned()))),
            _ => Err(StoreLocationError::Unknown(url.to_owned())),
        }
    }

    /// Opens the store, and makes it if it is not there yet: for the user only.
    ///
    /// # Errors
    ///
    /// Returns an error if that is not possible.
    pub async fn open(&self) -> Result<Arc<dyn SessionStore>, StoreLocationError> {
        let waits = waits();
        let store = waits.watch(self.opened()).await?;
        let store: Arc<dyn SessionStore> = Arc::new(ReportingStore::new(store, waits));
        OPENED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&store));
        Ok(store)
    }

    async fn opened(&self) -> Result<Arc<dyn SessionStore>, StoreLocationError> {
        match self {
            Self::Files(path) => {
                check_closed(path)?;
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

    async fn open_sql(&self, url: &str) -> Result<Arc<dyn SessionStore>, StoreLocationError> {
        loopwright_store_sql::open(url).await.map_err(|error| self.unopened(error))
    }

    fn unopened(&self, error: impl Into<BoxError>) -> StoreLocationError {
        let (place, source) = (self.to_string(), error.into());
        match source.downcast_ref() {
            Some(SqlError::Damaged { .. } | SqlError::NotAStore { .. }) => {
                StoreLocationError::Damaged { place, source }
            }
            _ => StoreLocationError::Open { place, source },
        }
    }

    /// Saves what can be read of a database in a file that is damaged, and says what was done.
    ///
    /// # Errors
    ///
    /// Returns an error if it is in use, or never contained sessions.
    pub async fn salvage(&self) -> Result<Vec<Finding>, StoreError> {
        match self {
            Self::Sqlite(path) if path.exists() => SqliteStore::salvage(path).await,
            _ => Ok(Vec::new()),
        }
    }

    /// Returns `true` if there is anything to open. What is elsewhere is not asked.
    pub fn is_there(&self) -> bool {
        match self {
            Self::Files(path) | Self::Sqlite(path) => path.exists(),
            Self::Postgres(_) => false,
        }
    }
}

/// For how long a store is waited for in silence.
const SILENCE: Duration = Duration::from_secs(3);

/// Returns what tells people that a store makes them wait, and when it does not any more.
fn waits() -> WaitReporter {
    WaitReporter::new(RunEnv::system().clock, SILENCE, |wait| match wait {
        StoreWait::Started(_) => console::interrupt("waiting for the session store …"),
        StoreWait::Ended(waited) => {
            console::interrupt(&format!("waited {} for the session store", duration(waited)));
        }
    })
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(path) | Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(_) => f.write_str("the database"),
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseUrl")
    }
}

/// Returns where the program keeps what it remembers for the user.
pub fn state_directory(sources: &ConfigSources) -> Option<PathBuf> {
    let variable = sources.environment.get("XDG_STATE_HOME").map(PathBuf::from);
    let configured = variable.filter(|it| it.is_absolute());
    let usual = || sources.home.as_ref().map(|home| home.join(".local/state"));
    Some(configured.or_else(usual)?.join("loopwright"))
}

/// Makes a directory that only the user can look into, unless it is there.
///
/// # Errors
///
/// Returns an error if that is not possible.
pub fn make_private(path: &Path) -> Result<(), StoreLocationError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| StoreLocationError::Directory { path: path.to_path_buf(), source })?;
    check_closed(path)
}

/// Checks that not every caller may replace what is in a directory; one that is not there is fine.
fn check_closed(path: &Path) -> Result<(), StoreLocationError> {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let mode = fs::metadata(path).map_or(0, |it| it.permissions().mode());
    if mode & (OTHERS_WRITE | STICKY) == OTHERS_WRITE {
        return Err(StoreLocationError::OpenToAll { path: path.to_path_buf() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;

    use super::*;

    fn sources(variables: &[(&str, &str)]) -> ConfigSources {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), OsString::from(value));
        let environment: BTreeMap<_, _> = variables.iter().map(own).collect();
        let home = Some("/home/me".into());
        ConfigSources { environment, cwd: "/w".into(), home, ..ConfigSources::default() }
    }

    #[test]
    fn store_locations_are_read_by_their_scheme() {
        let parse = |url: &str| StoreLocation::parse(url, &sources(&[])).ok();
        assert_eq!(parse("files:/a"), Some(StoreLocation::Files("/a".into())));
        assert_eq!(parse("files:a"), Some(StoreLocation::Files("/w/a".into())));
        assert_eq!(parse("sqlite:a.db"), Some(StoreLocation::Sqlite("/w/a.db".into())));
        assert_eq!(parse("sqlite:///a.db"), Some(StoreLocation::Sqlite("/a.db".into())));
        let url = "postgres://me@db/x";
        assert_eq!(parse(url), Some(StoreLocation::Postgres(DatabaseUrl(url.to_owned()))));
        for url in ["", "files:", "sqlite:", "/a/b", "mysql://x"] {
            assert_eq!(parse(url), None, "{url}");
        }
    }

    #[test]
    fn an_address_with_what_sqlite_would_understand_is_refused() {
        let parse = |url: &str| StoreLocation::parse(url, &sources(&[])).unwrap_err().to_string();
        for url in ["sqlite::memory:", "sqlite://:memory:"] {
            let reason =
                "would save nothing; pass `--no-session` if you want that, or specify a file";
            assert_eq!(parse(url), format!("`{url}` {reason}"));
        }
        for url in ["sqlite:a.db?mode=ro", "sqlite:file:a.db"] {
            let reason = "has options, which are not supported; write `sqlite:` and the path of \
                a file";
            assert_eq!(parse(url), format!("`{url}` {reason}"));
        }
    }

    #[test]
    fn an_address_is_not_shown() {
        let place = StoreLocation::Postgres(DatabaseUrl("postgres://me:secret@db/x".to_owned()));
        assert_eq!(format!("{place} {place:?}"), "the database Postgres(DatabaseUrl)");
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
