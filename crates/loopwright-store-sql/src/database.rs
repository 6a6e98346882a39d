//! The operations that a database must support.

use std::path::Path;

use async_trait::async_trait;
use loopwright_core::Timestamp;
use loopwright_sessions::{Finding, SessionId, SessionLog};
use tokio::sync::watch::Receiver;

use crate::{
    error::{Failure, SqlError},
    row::{Row, Value},
};

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads with statements of which each sees its own snapshot, and changes nothing.
    Look,
    /// It reads one snapshot and changes nothing.
    Read,
    /// It can write.
    Write,
}

/// A database that may hold sessions.
#[async_trait]
pub trait Database: Send + Sync + 'static {
    /// Begins a transaction. Dropping it rolls it back.
    async fn begin(&self, access: Access) -> Result<Box<dyn Transaction>, SqlError>;

    /// Returns notifications about new log entries. `None` means that the database sends none.
    fn news(&self) -> Option<LogNotification>;

    /// Returns notifications about jobs, and whether they report the jobs of all processes.
    fn job_news(&self) -> (Receiver<()>, bool);

    /// Notifies the workers of this process that jobs may be ready, if the database does not do so.
    fn tell_jobs(&self) {}

    /// Returns a number that changes after another process has written. `None` if that is not known.
    async fn foreign_writes(&self) -> Result<Option<u64>, SqlError> {
        Ok(None)
    }

    /// Returns freed space to the file system.
    async fn give_back(&self) -> Result<(), SqlError>;

    /// Records the acknowledged value of a session's counter outside the database.
    fn acknowledge(&self, _counter: Counter, _key: i64, _id: &SessionId, _number: u64) {}

    /// Forgets the acknowledged jobs, because some of them are about to be removed.
    fn forget_jobs(&self) {}

    /// Returns the acknowledged sessions of which no data is left.
    fn lost(&self) -> Vec<SessionId> {
        Vec::new()
    }

    /// Forgets a session of which no data is left.
    fn forget_lost(&self, _id: &SessionId) {}

    /// Closes all connections once they are unused.
    async fn close(&self);

    /// Writes a copy of the database into a new file.
    async fn back_up(&self, _to: &Path) -> Result<(), SqlError> {
        Err(SqlError::NoBackup)
    }

    /// Checks the database below the tables, and repairs damage that can be repaired without loss.
    async fn look_below(&self, repair: bool) -> Result<Vec<Finding>, SqlError>;
}

/// A number that grows with acknowledged writes of a session, so that a loss is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// The version of the session.
    Version,
    /// The number of the last entry of a log.
    Notes(SessionLog),
    /// The number of its last job.
    Jobs,
    /// The number of the last control message.
    Messages,
}

/// A transaction.
#[async_trait]
pub trait Transaction: Send {
    /// Runs a statement, and returns how many rows it changed.
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, SqlError>;

    /// Adds a statement whose result does not matter. It runs before the next statement or the commit, so that a database in
    /// another thread or on another machine is asked once for both; its error is that of the next statement.
    async fn run_later(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), SqlError> {
        self.run(sql, values).await.map(drop)
    }

    /// Runs a statement, and returns its rows.
    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, SqlError>;

    /// Runs a statement, and passes on each row as it arrives.
    async fn each(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        take: &mut (dyn FnMut(Row) -> Result<(), Failure> + Send),
    ) -> Result<(), Failure>;

    /// Runs statements without parameters.
    async fn script(&mut self, sql: &'static str) -> Result<(), SqlError>;

    /// Returns the current time for leases and claims: the caller's if one machine uses the
    /// database, the database's own if several do, because their clocks can differ.
    async fn clock(&mut self, caller: Timestamp) -> Result<Timestamp, Failure>;

    /// Returns the end of a query that locks the rows it finds.
    fn for_update(&self) -> &'static str;

    /// Returns the collation of a text column that is compared by bytes.
    fn by_bytes(&self) -> &'static str {
        ""
    }

    /// Returns the clause that makes a query use this index. Empty if the database needs none.
    fn indexed_by(&self, index: &str) -> String;

    /// Returns the expression that joins batches `b`, without large bodies.
    fn page(&self) -> &'static str;

    /// Blocks all other writers until the transaction ends.
    async fn stop_writers(&mut self) -> Result<(), SqlError>;

    /// Waits until no other transaction holds this lock, and holds it until the transaction ends. Does nothing where writers
    /// have exclusive access.
    async fn one_at_a_time(&mut self, lock: i64) -> Result<(), SqlError>;

    /// Notifies waiting readers of new log entries after the commit.
    async fn tell(&mut self, news: &str) -> Result<(), SqlError>;

    /// Commits the transaction.
    async fn commit(self: Box<Self>) -> Result<(), SqlError>;

    /// Rolls the transaction back. Returns an error if it may have seen writes of others that were lost.
    async fn rollback(self: Box<Self>) -> Result<(), SqlError>;

    /// Returns the first row of a statement, or `None` if there is none.
    async fn row(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, SqlError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }
}

/// Notifications about log entries.
#[derive(Debug)]
pub struct LogNotification {
    /// Receives the name of a log with new entries or of a deleted session, or an empty name if any log can have
    /// new entries.
    pub(crate) heard: tokio::sync::broadcast::Receiver<std::sync::Arc<str>>,
    /// Whether notifications are available at present.
    pub(crate) is_on: std::sync::Arc<std::sync::atomic::AtomicBool>,
}
