//! Why a database did not do what it was asked.

use std::sync::Arc;

use loopwright_sessions::{SessionId, StoreError};

/// Why a database did not do what it was asked. What it says names the database, never a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The address is of no kind that is known.
    #[error("{0}; write `sqlite:PATH` or `postgres://USER@HOST/DATABASE`")]
    Address(&'static str),
    /// There is something, but it is no store of sessions.
    #[error("{place} exists but is not a session store; name another file")]
    NotAStore {
        /// The database.
        place: Arc<str>,
    },
    /// It was written by a newer program.
    #[error(
        "{place} has schema version {found}, but this program supports versions up to {known}; update \
         the program"
    )]
    Newer {
        /// The database.
        place: Arc<str>,
        /// The version of its tables.
        found: i64,
        /// The latest version that is known.
        known: i64,
    },
    /// Others kept it locked for too long.
    #[error(
        "{place} stayed locked by other processes for too long; try again, or stop the process that locks it"
    )]
    Busy {
        /// The database.
        place: Arc<str>,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// There is no space left.
    #[error("no disk space left for {place}; free some space and try again")]
    Full {
        /// The database.
        place: Arc<str>,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// Its disk did not do it.
    #[error(
        "{place} cannot be read or written; free disk space, raise the file size limit (`ulimit -f`), \
         or check the disk for damage"
    )]
    Disk {
        /// The database.
        place: Arc<str>,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// It can be read but not written.
    #[error("{place} cannot be written; make the file, its directory and its disk writable")]
    ReadOnly {
        /// The database.
        place: Arc<str>,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// Its file was deleted or replaced while it was open.
    #[error("{place} was deleted or replaced while in use: further writes would be lost")]
    Gone {
        /// The database.
        place: Arc<str>,
    },
    /// It cannot be opened.
    #[error("{place} cannot be opened; check that it exists and that this user has access")]
    Closed {
        /// The database.
        place: Arc<str>,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// Its file or directory cannot be made.
    #[error("{place} cannot be created; name a location that this user can write to")]
    Place {
        /// The database.
        place: Arc<str>,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be reached, or not any more.
    #[error(
        "{place} cannot be reached; check that the server runs and that the address is correct"
    )]
    Unreachable {
        /// The database.
        place: Arc<str>,
        /// What the connection said.
        #[source]
        source: sqlx::Error,
    },
    /// What it holds is damaged.
    #[error("{place} is damaged; repair it, or restore a backup")]
    Damaged {
        /// The database.
        place: Arc<str>,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// Somebody works with it who must not.
    #[error("{place} is in use by {owner}; stop that process first")]
    InUse {
        /// The database.
        place: Arc<str>,
        /// Who.
        owner: String,
    },
    /// It did not do it for another reason.
    #[error("{place} rejected the operation: {source}")]
    Refused {
        /// The database.
        place: Arc<str>,
        /// What the database said.
        source: sqlx::Error,
    },
}

#[cfg(feature = "sqlite")]
impl SqlError {
    /// Says that there is no space left before the database does.
    pub(crate) fn full(place: &Arc<str>) -> Self {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Self::Full { place: Arc::clone(place), source: sqlx::Error::Io(full) }
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

/// Why something was not done: for a reason of sessions, or because of the database.
#[derive(Debug)]
pub enum Failure {
    /// A reason of sessions.
    Store(StoreError),
    /// The database did not do it.
    Sql(SqlError),
    /// A row is not of the form that it must have.
    Form(String),
}

impl Failure {
    /// Says it of a session.
    pub(crate) fn of(self, id: &SessionId) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sql(error @ SqlError::Damaged { .. }) => {
                StoreError::Corrupt { id: id.clone(), reason: error.to_string() }
            }
            Self::Sql(error) => error.into(),
            Self::Form(reason) => StoreError::Corrupt { id: id.clone(), reason },
        }
    }

    /// Says it of no session in particular.
    pub(crate) fn of_all(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Sql(error) => error.into(),
            Self::Form(reason) => StoreError::Unavailable(reason.into()),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}
