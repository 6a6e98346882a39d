//! Transactions of SQLite.

use std::{borrow::Cow, mem, path::Path, pin::pin, sync::Arc};

use async_trait::async_trait;
use futures::{
    TryStreamExt as _,
    future::{Either as First, select},
};
use loopwright_core::Timestamp;
use sqlx::{
    Arguments as _, AssertSqlSafe, Column as _, Either, Error, Executor as _, Row as _,
    Sqlite as Driver, TypeInfo as _, ValueRef as _,
    pool::{Pool, PoolConnection},
    sqlite::{SqliteArguments, SqliteRow},
};
use tokio::{runtime::Handle, sync::oneshot::Receiver};

use super::{
    holder,
    turns::{END_PART, NEXT_PART, Turn, Turns},
};
use crate::{
    database::Transaction,
    error::{Failure, SqlError},
    row::{Cell, Row, Value},
};

/// A transaction on a separate connection.
///
/// The connection has a thread of its own, and to ask it costs more than most statements. So the statement that begins the
/// transaction, and those whose result does not matter, are passed on together with the next one.
///
/// SQLite rolls back a transaction on severe errors, such as a full disk. So this type does not guess the state
/// that is left: it closes a connection whose transaction did not end properly, which rolls back everything. A writer that
/// shares its transaction with others leaves it to the next one to roll back its part.
pub(super) struct SqliteTransaction {
    connection: Option<PoolConnection<Driver>>,
    /// The turn of a writer.
    turn: Option<Turn>,
    place: Arc<str>,
    /// The file, of a transaction that may have to wait for another process when it begins.
    path: Option<Arc<Path>>,
    /// What was not passed on yet.
    waiting: Statements,
    /// Whether it is more than single statements.
    is_transaction: bool,
    /// Whether any statement was passed on.
    has_begun: bool,
}

/// Statements that run together.
#[derive(Default)]
struct Statements {
    sql: String,
    values: SqliteArguments,
    /// The number of values.
    bound: usize,
    /// The number of statements.
    count: usize,
}

impl Statements {
    fn add(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), Error> {
        if self.count > 0 {
            self.sql.push_str(";\n");
        }
        self.sql.push_str(&renumbered(sql, self.bound));
        for value in values {
            let added = match *value {
                Value::Int(value) => self.values.add(value),
                Value::Text(value) => self.values.add(value),
                Value::Bytes(value) => self.values.add(value),
            };
            added.map_err(Error::Encode)?;
        }
        self.bound += values.len();
        self.count += 1;
        Ok(())
    }
}

/// Returns a statement whose parameters follow so many others.
fn renumbered(sql: &str, before: usize) -> Cow<'_, str> {
    if before == 0 || !sql.contains('$') {
        return sql.into();
    }
    let mut parts = sql.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        text.push('$');
        match number.parse::<usize>() {
            Ok(number) => text.push_str(&(number + before).to_string()),
            Err(_) => text.push_str(number),
        }
        text.push_str(rest);
    }
    text.into()
}

impl SqliteTransaction {
    /// Begins a transaction that reads one snapshot, or single statements.
    pub(super) async fn reading(
        pool: &Pool<Driver>,
        place: Arc<str>,
        is_transaction: bool,
    ) -> Result<Self, SqlError> {
        let connection = pool.acquire().await.map_err(|error| failed(&place, error))?;
        let mut reading = Self {
            connection: Some(connection),
            turn: None,
            place,
            path: None,
            waiting: Statements::default(),
            is_transaction,
            has_begun: false,
        };
        if is_transaction {
            reading.run_later("BEGIN", &[]).await?;
        }
        Ok(reading)
    }

    /// Begins a transaction that writes, or continues that of the writers before. The file is there to name the process that
    /// keeps it locked in an error.
    pub(super) async fn writing(
        turns: &Turns,
        pool: &Pool<Driver>,
        place: Arc<str>,
        path: Arc<Path>,
    ) -> Result<Self, SqlError> {
        let mut turn = turns.next().await.map_err(|error| failed(&place, error))?;
        let mut writing = Self {
            connection: turn.connection(),
            turn: Some(turn),
            place,
            path: None,
            waiting: Statements::default(),
            is_transaction: true,
            has_begun: false,
        };
        if writing.connection.is_none() {
            let connection = pool.acquire().await.map_err(|error| failed(&writing.place, error))?;
            (writing.connection, writing.path) = (Some(connection), Some(path));
            writing.run_later("BEGIN IMMEDIATE", &[]).await?;
        }
        Ok(writing)
    }

    /// Returns `true` if it continues the transaction of other writers.
    fn is_shared(&self) -> bool {
        self.turn.as_ref().is_some_and(Turn::is_shared)
    }

    /// Returns `true` if nothing was asked of the database.
    fn is_empty(&self) -> bool {
        let begins = usize::from(self.is_transaction && !self.is_shared());
        !self.has_begun && self.waiting.count <= begins
    }

    /// Returns `true` if another writer waits.
    fn is_awaited(&self) -> bool {
        self.turn.as_ref().is_some_and(Turn::is_awaited)
    }

    /// Ends a part, and the transaction if no other writer waits. A part that fails is rolled back, and its error returned after
    /// the commit of the others.
    async fn end_part(mut self) -> Result<(), SqlError> {
        let is_awaited = self.is_awaited();
        let ended = self.end_statements(is_awaited).await;
        let is_left = if ended.is_ok() { is_awaited } else { self.is_shared() };
        let Some(turn) = self.turn.take_if(|_| is_left || ended.is_ok()) else { return ended };
        if is_left {
            let committed = turn.leave(self.connection.take(), ended.is_err());
            self.outcome(committed).await?;
        } else {
            turn.finish(self.connection.take()).await;
        }
        ended
    }

    /// Runs what waits, and commits unless another writer continues the transaction.
    async fn end_statements(&mut self, is_awaited: bool) -> Result<(), SqlError> {
        if !is_awaited {
            return self.command("COMMIT").await;
        }
        if self.is_empty() {
            return Ok(());
        }
        if self.is_shared() {
            self.run_later(END_PART, &[]).await?;
        }
        self.command(NEXT_PART).await
    }

    /// Waits for the commit of all parts.
    async fn outcome(&self, committed: Receiver<Result<(), SqlError>>) -> Result<(), SqlError> {
        // Only a runtime that ends tells nothing.
        committed.await.unwrap_or_else(|_| Err(failed(&self.place, Error::WorkerCrashed)))
    }

    /// Runs what waits and a statement, and passes on each row of the latter. Returns how many rows it changed.
    async fn execute(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        take: &mut (dyn FnMut(&SqliteRow) -> Result<(), Failure> + Send),
    ) -> Result<u64, Failure> {
        let place = Arc::clone(&self.place);
        let failed = |error| failed(&place, error);
        let begins = self.is_transaction && !mem::replace(&mut self.has_begun, true);
        let path = self.path.clone().filter(|_| begins);
        let before = self.waiting.count;
        self.waiting.add(sql, values).map_err(failed)?;
        let Statements { sql, values, .. } = mem::take(&mut self.waiting);
        let done = self.passed_on(sql, values, before, path, take).await;
        if let (Err(Failure::Sql(error)), Some(turn)) = (&done, &mut self.turn) {
            turn.note_cause(error);
        }
        done
    }

    /// Passes on statements, and each row of the last one, which comes after so many. With the file, they begin a transaction.
    async fn passed_on(
        &mut self,
        sql: String,
        values: SqliteArguments,
        before: usize,
        path: Option<Arc<Path>>,
        take: &mut (dyn FnMut(&SqliteRow) -> Result<(), Failure> + Send),
    ) -> Result<u64, Failure> {
        let place = Arc::clone(&self.place);
        let failed = |error| failed(&place, error);
        let stopped = {
            let connection = self.connection.as_deref_mut();
            let connection = connection.ok_or_else(|| failed(Error::WorkerCrashed))?;
            let query = sqlx::query_with(AssertSqlSafe(sql), values);
            let done = async {
                let (mut found, mut ended, mut changed) = (connection.fetch_many(query), 0, 0);
                while let Some(next) = found.try_next().await.map_err(failed)? {
                    match next {
                        Either::Left(done) => {
                            // Statements that change nothing report the changes of an earlier one.
                            (ended, changed) = (ended + 1, done.rows_affected());
                        }
                        Either::Right(row) if ended == before => take(&row)?,
                        Either::Right(_) => {}
                    }
                }
                Ok(changed)
            };
            let Some(path) = path else { return done.await };
            match select(pin!(done), pin!(holder::stopped(&path))).await {
                First::Left((done, _)) => {
                    return done.map_err(|failure| match failure {
                        Failure::Sql(error) => Failure::Sql(holder::named(error, &path)),
                        failure => failure,
                    });
                }
                First::Right((owner, _)) => owner,
            }
        };
        // It still waits for the lock.
        drop(self.connection.take().map(PoolConnection::detach));
        Err(SqlError::InUse { place, owner: stopped }.into())
    }

    /// Runs what waits and a statement.
    async fn command(&mut self, sql: &'static str) -> Result<(), SqlError> {
        self.run(sql, &[]).await.map(drop)
    }

    /// Runs what waits.
    async fn flush(&mut self) -> Result<(), SqlError> {
        if self.waiting.count == 0 { Ok(()) } else { self.command("SELECT 1").await }
    }
}

impl Drop for SqliteTransaction {
    fn drop(&mut self) {
        let connection = self.connection.take();
        match self.turn.take() {
            Some(turn) if turn.is_shared() => {
                let is_torn = self.has_begun || connection.is_none();
                drop(turn.leave(connection, is_torn));
            }
            // A transaction that has not begun leaves nothing behind. A connection returns to its pool in a task.
            _ if self.has_begun || !self.is_transaction || Handle::try_current().is_err() => {
                drop(connection.map(PoolConnection::detach));
            }
            _ => {}
        }
    }
}

/// Returns the error of a statement whose rows are not passed on.
fn of_statement(failure: Failure, place: &Arc<str>) -> SqlError {
    match failure {
        Failure::Sql(error) => error,
        _ => failed(place, Error::WorkerCrashed),
    }
}

#[async_trait]
impl Transaction for SqliteTransaction {
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, SqlError> {
        let done = self.execute(sql, values, &mut |_| Ok(())).await;
        done.map_err(|failure| of_statement(failure, &self.place))
    }

    async fn run_later(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), SqlError> {
        self.waiting.add(sql, values).map_err(|error| failed(&self.place, error))
    }

    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, SqlError> {
        let (place, mut rows) = (Arc::clone(&self.place), Vec::new());
        let mut take = |found: &SqliteRow| {
            rows.push(row(found).map_err(|error| failed(&place, error))?);
            Ok(())
        };
        let done = self.execute(sql, values, &mut take).await;
        done.map_err(|failure| of_statement(failure, &self.place))?;
        Ok(rows)
    }

    async fn each(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        take: &mut (dyn FnMut(Row) -> Result<(), Failure> + Send),
    ) -> Result<(), Failure> {
        let place = Arc::clone(&self.place);
        let mut take = |found: &SqliteRow| take(row(found).map_err(|error| failed(&place, error))?);
        self.execute(sql, values, &mut take).await.map(drop)
    }

    async fn script(&mut self, sql: &'static str) -> Result<(), SqlError> {
        self.flush().await?;
        let connection = self.connection.as_deref_mut();
        let connection = connection.ok_or_else(|| failed(&self.place, Error::WorkerCrashed))?;
        let done = sqlx::raw_sql(sql).execute(connection).await;
        done.map(drop).map_err(|error| failed(&self.place, error))
    }

    async fn clock(&mut self, caller: Timestamp) -> Result<Timestamp, Failure> {
        Ok(caller)
    }

    /// A writer has exclusive access.
    fn for_update(&self) -> &'static str {
        ""
    }

    /// SQLite estimates the number of rows, and not always well.
    fn indexed_by(&self, index: &str) -> String {
        format!(" INDEXED BY {index}")
    }

    fn page(&self) -> &'static str {
        "CAST(
            group_concat(
                b.first || ' ' || b.count || ' ' || length(b.body) || ' ' || COALESCE(b.sum, '-'),
                char(10)
            )
                || char(10) || char(10)
                || group_concat(CASE WHEN length(b.body) < 65536 THEN b.body ELSE '' END, '')
        AS BLOB)"
    }

    async fn stop_writers(&mut self) -> Result<(), SqlError> {
        // A writer has exclusive access once its transaction has begun.
        self.flush().await
    }

    async fn one_at_a_time(&mut self, _lock: i64) -> Result<(), SqlError> {
        Ok(())
    }

    async fn tell(&mut self, _news: &str) -> Result<(), SqlError> {
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<(), SqlError> {
        if !self.is_transaction {
            self.flush().await?;
        } else if self.turn.is_some() && (self.is_shared() || !self.is_empty()) {
            let place = Arc::clone(&self.place);
            // A task of its own, because a caller that stops waiting must not end it in the middle.
            let ended = tokio::spawn(self.end_part()).await;
            return ended.unwrap_or_else(|_| Err(failed(&place, Error::WorkerCrashed)));
        } else if !self.is_empty() {
            self.command("COMMIT").await?;
        }
        drop(self.connection.take());
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) -> Result<(), SqlError> {
        self.waiting = Statements::default();
        if let Some(turn) = self.turn.take_if(|it| it.is_shared()) {
            let connection = self.connection.take();
            let is_torn = self.has_begun || connection.is_none();
            let committed = turn.leave(connection, is_torn);
            return self.outcome(committed).await;
        }
        let is_undone =
            !self.is_transaction || !self.has_begun || self.command("ROLLBACK").await.is_ok();
        if is_undone {
            drop(self.connection.take());
        }
        Ok(())
    }
}

fn row(row: &SqliteRow) -> Result<Row, Error> {
    let cell = |column| {
        let value = row.try_get_raw(column)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        let kind = value.type_info().into_owned();
        Ok(match kind.name() {
            "INTEGER" => Cell::Int(row.try_get_unchecked(column)?),
            // A damaged text can be invalid, which must not prevent reading other rows.
            "TEXT" => String::from_utf8(row.try_get_unchecked(column)?)
                .map_or_else(|error| Cell::Bytes(error.into_bytes()), Cell::Text),
            _ => Cell::Bytes(row.try_get_unchecked(column)?),
        })
    };
    (0..row.len()).map(cell).collect::<Result<_, _>>().map(Row)
}

/// Formats a row as a text.
pub(super) fn words(row: &SqliteRow) -> String {
    let word = |column: &sqlx::sqlite::SqliteColumn| {
        row.try_get_unchecked::<Option<String>, _>(column.ordinal()).ok().flatten()
    };
    row.columns().iter().filter_map(word).collect::<Vec<_>>().join(" ")
}

/// Converts an error of the database.
pub(super) fn failed(place: &Arc<str>, source: Error) -> SqlError {
    let (place, source) = (Arc::clone(place), Arc::new(source));
    let code = match &*source {
        Error::PoolTimedOut => return SqlError::Busy { place, source },
        Error::Database(error) => error.code().and_then(|code| code.parse::<i32>().ok()),
        _ => None,
    };
    // The lower byte is the kind. The others contain details.
    match code.map(|code| code & 0xff) {
        Some(5 | 6) => SqlError::Busy { place, source },
        Some(10) => SqlError::Disk { place, source },
        Some(8) => SqlError::ReadOnly { place, source },
        Some(11) => SqlError::Damaged { place, source },
        Some(13) => SqlError::Full { place, source },
        Some(3 | 14 | 23) => SqlError::Closed { place, source },
        Some(26) => SqlError::NotAStore { place },
        _ => SqlError::Refused { place, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_follow_those_of_earlier_statements() {
        let sql = "UPDATE t SET a = $1, b = $12 WHERE c = $2";
        assert_eq!(renumbered(sql, 0), sql);
        assert_eq!(renumbered(sql, 9), "UPDATE t SET a = $10, b = $21 WHERE c = $11");
        assert_eq!(renumbered("COMMIT", 3), "COMMIT");
    }
}
