//! What a database has to be able to do for its tables to be used.

use std::path::Path;

use async_trait::async_trait;
use loopwright_core::Timestamp;
use loopwright_sessions::{Finding, SessionId, SessionLog};

use crate::{
    error::{Failure, SqlError},
    row::{Row, Value},
};

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It sees one moment, and changes nothing.
    Read,
    /// It may change things.
    Write,
}

/// A database that may hold sessions.
#[async_trait]
pub trait Database: Send + Sync + 'static {
    /// Begins a transaction. Dropping it undoes it.
    async fn begin(&self, access: Access) -> Result<Box<dyn Transaction>, SqlError>;

    /// Returns notifications about log entries from now on; `None` if the caller must poll.
    fn news(&self) -> Option<LogNotification>;

    /// Gives space back that was freed.
    async fn give_back(&self) -> Result<(), SqlError>;

    /// Remembers outside of the database how far a counter of a session was acknowledged.
    fn acknowledge(&self, _counter: Counter, _key: i64, _id: &SessionId, _number: u64) {}

    /// Stops remembering the jobs that were acknowledged, as some of them are about to be removed.
    fn forget_jobs(&self) {}

    /// Returns the sessions that were acknowledged and of which nothing is left.
    fn lost(&self) -> Vec<SessionId> {
        Vec::new()
    }

    /// Stops naming a session of which nothing is left.
    fn forget_lost(&self, _id: &SessionId) {}

    /// Closes all connections, once nothing uses them any more.
    async fn close(&self);

    /// Writes a copy of the database into a new file.
    async fn back_up(&self, _to: &Path) -> Result<(), SqlError> {
        Err(SqlError::Address(
            "back up a PostgreSQL database with its own tools, such as `pg_dump`",
        ))
    }

    /// Looks for damage below the tables, and repairs what can be repaired without loss.
    async fn look_below(&self, repair: bool) -> Result<Vec<Finding>, SqlError>;
}

/// What grows with each acknowledged write for a session, so that a loss is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Its version.
    Version,
    /// The notes of a log.
    Notes(SessionLog),
    /// The number of its last job.
    Jobs,
    /// The number of the last control message.
    Messages,
}

/// Something that happens as a whole or not at all.
#[async_trait]
pub trait Transaction: Send {
    /// Runs a statement, and returns how many rows it changed.
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, SqlError>;

    /// Runs a statement, and returns the rows that it gives.
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, SqlError>;

    /// Runs a statement, and hands each row on as it comes.
    async fn each(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        take: &mut (dyn FnMut(Row) -> Result<(), Failure> + Send),
    ) -> Result<(), Failure>;

    /// Runs statements that need no values.
    async fn script(&mut self, sql: &'static str) -> Result<(), SqlError>;

    /// Returns the time that leases and claims end by: that of the caller where one machine has the database, and
    /// the database's own where many do, since their clocks may differ.
    async fn clock(&mut self, caller: Timestamp) -> Result<Timestamp, Failure>;

    /// Returns what a query ends with that keeps others off the rows it finds.
    fn for_update(&self) -> &'static str;

    /// Returns what follows a column of text that is compared by its bytes.
    fn by_bytes(&self) -> &'static str {
        ""
    }

    /// Returns what follows a table in a query that has to use this index, if that must be said.
    fn indexed_by(&self, index: &str) -> String;

    /// Returns what strings batches `b` together, with large bodies left out.
    fn page(&self) -> &'static str;

    /// Keeps all others from writing sessions until the end.
    async fn stop_writers(&mut self) -> Result<(), SqlError>;

    /// Tells those who wait, once it is done, that there are notes.
    async fn tell(&mut self, news: &str) -> Result<(), SqlError>;

    /// Makes it happen.
    async fn commit(self: Box<Self>) -> Result<(), SqlError>;

    /// Undoes it.
    async fn rollback(self: Box<Self>);

    /// Returns the first row that a statement gives, if it gives any.
    async fn row(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, SqlError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }
}

/// Notifications about log entries.
#[derive(Debug)]
pub struct LogNotification {
    /// Names the log that has new notes; nothing if any may have.
    pub(crate) heard: tokio::sync::broadcast::Receiver<std::sync::Arc<str>>,
    /// Whether notifications are available at present.
    pub(crate) is_on: std::sync::Arc<std::sync::atomic::AtomicBool>,
}
