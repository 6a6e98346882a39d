//! Errors of the database.

use std::sync::Arc;

use loopwright_sessions::{SessionId, StoreError};

/// A failed database operation. The message names the database, never a password.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The URL has an unknown scheme.
    #[error("{0}; write `sqlite:PATH` or `postgres://USER@HOST/DATABASE`")]
    Address(&'static str),
    /// The program was built without support for the database.
    #[error("this program was built without {database}; build it with the feature `{feature}`")]
    NotBuilt {
        /// The kind of database.
        database: &'static str,
        /// The feature that adds it.
        feature: &'static str,
    },
    /// The database has its own tools for backups.
    #[error("a PostgreSQL database is backed up with its own tools; use, for example, `pg_dump`")]
    NoBackup,
    /// The database exists, but it is not a store of sessions.
    #[error("{place} exists but is not a session store; name another file")]
    NotAStore {
        /// The database.
        place: Arc<str>,
    },
    /// A newer program wrote the database.
    #[error(
        "{place} has schema version {found}, but this program supports versions up to {known}; update \
         the program"
    )]
    Newer {
        /// The database.
        place: Arc<str>,
        /// The version of its tables.
        found: i64,
        /// The latest supported version.
        known: i64,
    },
    /// Other processes locked it for too long.
    #[error(
        "{place} stayed locked by other processes for too long; try again, or stop the process that holds the lock"
    )]
    Busy {
        /// The database.
        place: Arc<str>,
        /// The error of the database.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The disk is full.
    #[error("no disk space left for {place}; free some space and try again")]
    Full {
        /// The database.
        place: Arc<str>,
        /// The error of the database.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A disk operation failed.
    #[error(
        "{place} cannot be read or written; free disk space, raise the file size limit (`ulimit -f`), \
         or check the disk for damage"
    )]
    Disk {
        /// The database.
        place: Arc<str>,
        /// The error of the database.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The database can be read but not written.
    #[error("{place} cannot be written; make the file, its directory and its disk writable")]
    ReadOnly {
        /// The database.
        place: Arc<str>,
        /// The error of the database.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The file was deleted or replaced while it was open.
    #[error("{place} was deleted or replaced while in use: further writes would be lost")]
    Gone {
        /// The database.
        place: Arc<str>,
    },
    /// The database cannot be opened.
    #[error("{place} cannot be opened; check that it exists and that this user has access")]
    Closed {
        /// The database.
        place: Arc<str>,
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The file or directory cannot be created.
    #[error("{place} cannot be created; name a location that this user can write to")]
    Place {
        /// The database.
        place: Arc<str>,
        /// The cause.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The database cannot be reached.
    #[error(
        "{place} cannot be reached; check that the server is running and that the address is correct"
    )]
    Unreachable {
        /// The database.
        place: Arc<str>,
        /// The error of the connection.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The stored data is damaged.
    #[error("{place} is damaged; repair it, or restore a backup")]
    Damaged {
        /// The database.
        place: Arc<str>,
        /// The error of the database.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// Another owner uses the database.
    #[error("{place} is in use by {owner}; stop that process first")]
    InUse {
        /// The database.
        place: Arc<str>,
        /// The owner.
        owner: String,
    },
    /// The operation failed for another reason.
    #[error("{place} rejected the operation: {source}")]
    Refused {
        /// The database.
        place: Arc<str>,
        /// The error of the database.
        source: Arc<sqlx::Error>,
    },
}

#[cfg(feature = "sqlite")]
impl SqlError {
    /// Creates the error for a file or directory that cannot be created.
    pub(crate) fn place(place: &Arc<str>, source: std::io::Error) -> Self {
        Self::Place { place: Arc::clone(place), source: Arc::new(source) }
    }

    /// Creates the error for a full disk before the database reports it.
    pub(crate) fn full(place: &Arc<str>) -> Self {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Self::Full { place: Arc::clone(place), source: Arc::new(sqlx::Error::Io(full)) }
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}

/// A failed operation: because of a session, or because of the database.
#[derive(Debug)]
pub enum Failure {
    /// An error of a session.
    Store(StoreError),
    /// An error of the database.
    Sql(SqlError),
    /// A row does not have the required form.
    Form(String),
}

impl Failure {
    /// Converts it into an error about a session.
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

    /// Converts it into an error about no particular session.
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
