//! Transactions of SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use loopwright_core::Timestamp;
use sqlx::{
    AssertSqlSafe, Column as _, Error, Row as _, Sqlite as Driver, TypeInfo as _, ValueRef as _,
    pool::{Pool, PoolConnection},
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use crate::{
    database::Transaction,
    error::{Failure, SqlError},
    row::{Cell, Row, Value},
};

/// A transaction on a separate connection.
///
/// SQLite rolls back a transaction on severe errors, such as a full disk. So this type does not guess the state
/// that is left: it closes a connection whose transaction did not end properly, which rolls back everything.
pub(super) struct SqliteTransaction {
    connection: Option<PoolConnection<Driver>>,
    place: Arc<str>,
    /// Whether it is more than single statements.
    has_begun: bool,
}

impl SqliteTransaction {
    pub(super) async fn begin(
        pool: &Pool<Driver>,
        place: Arc<str>,
        sql: Option<&'static str>,
    ) -> Result<Self, SqlError> {
        let connection = pool.acquire().await.map_err(|error| failed(&place, error))?;
        let has_begun = sql.is_some();
        let mut begun = Self { connection: Some(connection), place, has_begun };
        if let Some(sql) = sql {
            begun.command(sql).await?;
        }
        Ok(begun)
    }

    fn connection(&mut self) -> Result<&mut sqlx::SqliteConnection, SqlError> {
        let place = &self.place;
        let connection = self.connection.as_deref_mut();
        connection.ok_or_else(|| failed(place, Error::WorkerCrashed))
    }

    async fn end_with(&mut self, sql: &'static str) -> Result<(), SqlError> {
        if self.has_begun { self.command(sql).await } else { Ok(()) }
    }

    async fn command(&mut self, sql: &'static str) -> Result<(), SqlError> {
        let done = sqlx::query(sql).execute(self.connection()?).await;
        done.map(drop).map_err(|error| failed(&self.place, error))
    }
}

impl Drop for SqliteTransaction {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

#[async_trait]
impl Transaction for SqliteTransaction {
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, SqlError> {
        let done = query(sql, values).execute(self.connection()?).await;
        done.map(|done| done.rows_affected()).map_err(|error| failed(&self.place, error))
    }

    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, SqlError> {
        let rows = query(sql, values).fetch_all(self.connection()?).await;
        let rows = rows.and_then(|rows| rows.iter().map(row).collect());
        rows.map_err(|error| failed(&self.place, error))
    }

    async fn each(
        &mut self,
        sql: &str,
        values: &[Value<'_>],
        take: &mut (dyn FnMut(Row) -> Result<(), Failure> + Send),
    ) -> Result<(), Failure> {
        let place = Arc::clone(&self.place);
        let failed = |error| failed(&place, error);
        let mut rows = query(sql, values).fetch(self.connection()?);
        while let Some(found) = rows.try_next().await.map_err(failed)? {
            take(row(&found).map_err(failed)?)?;
        }
        Ok(())
    }

    async fn script(&mut self, sql: &'static str) -> Result<(), SqlError> {
        let done = sqlx::raw_sql(sql).execute(self.connection()?).await;
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
        Ok(())
    }

    async fn one_at_a_time(&mut self, _lock: i64) -> Result<(), SqlError> {
        Ok(())
    }

    async fn tell(&mut self, _news: &str) -> Result<(), SqlError> {
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<(), SqlError> {
        self.end_with("COMMIT").await?;
        drop(self.connection.take());
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) {
        if self.end_with("ROLLBACK").await.is_ok() {
            drop(self.connection.take());
        }
    }
}

fn query<'q>(sql: &'q str, values: &[Value<'q>]) -> Query<'q, Driver, SqliteArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for value in values {
        query = match *value {
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
            Value::Bytes(value) => query.bind(value),
        };
    }
    query
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
    let place = Arc::clone(place);
    let code = match &source {
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
