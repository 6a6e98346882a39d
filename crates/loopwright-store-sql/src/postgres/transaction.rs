//! Transactions of PostgreSQL.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use futures::TryStreamExt as _;
use loopwright_core::Timestamp;
use sqlx::{
    AssertSqlSafe, Error, Postgres as Driver, Row as _, TypeInfo as _, ValueRef as _,
    pool::Pool,
    postgres::{PgArguments, PgRow},
    query::Query,
};

use super::listener::CHANNEL;
use crate::{
    database::Transaction,
    error::{Failure, SqlError},
    row::{Cell, Row, Value},
};

/// A transaction on a connection of the pool. A dropped transaction is rolled back before the connection is used
/// again.
pub(super) struct PostgresTransaction {
    inner: sqlx::Transaction<'static, Driver>,
    place: Arc<str>,
    pool: Pool<Driver>,
    /// What listeners are told once the transaction is committed.
    news: Vec<String>,
}

impl PostgresTransaction {
    pub(super) fn new(
        inner: sqlx::Transaction<'static, Driver>,
        place: Arc<str>,
        pool: Pool<Driver>,
    ) -> Self {
        Self { inner, place, pool, news: Vec::new() }
    }
}

#[async_trait]
impl Transaction for PostgresTransaction {
    async fn run(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, SqlError> {
        let done = query(sql, values).execute(&mut *self.inner).await;
        done.map(|done| done.rows_affected()).map_err(|error| failed(&self.place, error))
    }

    async fn rows(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, SqlError> {
        let rows = query(sql, values).fetch_all(&mut *self.inner).await;
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
        let mut rows = query(sql, values).fetch(&mut *self.inner);
        while let Some(found) = rows.try_next().await.map_err(failed)? {
            take(row(&found).map_err(failed)?)?;
        }
        Ok(())
    }

    async fn script(&mut self, sql: &'static str) -> Result<(), SqlError> {
        let done = sqlx::raw_sql(sql).execute(&mut *self.inner).await;
        done.map(drop).map_err(|error| failed(&self.place, error))
    }

    async fn clock(&mut self, _caller: Timestamp) -> Result<Timestamp, Failure> {
        let sql = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT";
        let row = self.row(sql, &[]).await?;
        row.ok_or_else(|| Failure::Form("the database returned no time".to_owned()))?.moment(0)
    }

    fn for_update(&self) -> &'static str {
        " FOR NO KEY UPDATE"
    }

    fn by_bytes(&self) -> &'static str {
        " COLLATE \"C\""
    }

    fn indexed_by(&self, _index: &str) -> String {
        String::new()
    }

    fn page(&self) -> &'static str {
        "convert_to(
            string_agg(
                b.first || ' ' || b.count || ' ' || octet_length(b.body) || ' '
                    || COALESCE(CAST(b.sum AS TEXT), '-'),
                chr(10)
            )
                || chr(10) || chr(10),
            'UTF8'
        ) || string_agg(CASE WHEN octet_length(b.body) < 65536 THEN b.body ELSE '' END, '')"
    }

    async fn stop_writers(&mut self) -> Result<(), SqlError> {
        self.script("LOCK TABLE sessions IN EXCLUSIVE MODE").await
    }

    async fn one_at_a_time(&mut self, lock: i64) -> Result<(), SqlError> {
        self.run("SELECT pg_advisory_xact_lock($1)", &[lock.into()]).await.map(drop)
    }

    /// Of transactions that notify, the server commits one at a time, and each waits for the disk while it does. So listeners are told in
    /// a transaction of its own, which writes nothing.
    async fn tell(&mut self, news: &str) -> Result<(), SqlError> {
        self.news.push(news.to_owned());
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<(), SqlError> {
        let Self { inner, place, pool, news } = *self;
        inner.commit().await.map_err(|error| failed(&place, error))?;
        if !news.is_empty() {
            let told = sqlx::query("SELECT pg_notify($1, news) FROM unnest($2::text[]) AS news");
            // Readers also poll, so nothing is lost if this fails.
            let _told = told.bind(CHANNEL).bind(news).execute(&pool).await;
        }
        Ok(())
    }

    async fn rollback(self: Box<Self>) -> Result<(), SqlError> {
        // If that fails, the connection is lost, and the server rolls back.
        let _undone_by_the_server = self.inner.rollback().await;
        Ok(())
    }
}

fn query<'q>(sql: &'q str, values: &[Value<'q>]) -> Query<'q, Driver, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for value in values {
        query = match *value {
            Value::Int(value) => query.bind(value),
            Value::Text(value) => query.bind(value.map(without_nul)),
            Value::Bytes(value) => query.bind(value),
        };
    }
    query
}

/// Replaces the NUL character, which PostgreSQL cannot store in a text.
fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

fn row(row: &PgRow) -> Result<Row, Error> {
    let cell = |column| {
        let value = row.try_get_raw(column)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        let kind = value.type_info().into_owned();
        Ok(match kind.name() {
            "INT8" => Cell::Int(row.try_get(column)?),
            "INT4" => Cell::Int(row.try_get::<i32, _>(column)?.into()),
            "BYTEA" => Cell::Bytes(row.try_get(column)?),
            _ => Cell::Text(row.try_get_unchecked(column)?),
        })
    };
    (0..row.len()).map(cell).collect::<Result<_, _>>().map(Row)
}

/// Converts an error of the database.
pub(super) fn failed(place: &Arc<str>, source: Error) -> SqlError {
    let (place, source) = (Arc::clone(place), Arc::new(source));
    let code = match &*source {
        Error::Database(error) => error.code().map(Cow::into_owned),
        _ => return SqlError::Unreachable { place, source },
    };
    match code.as_deref().unwrap_or_default() {
        "55P03" | "40001" | "40P01" => SqlError::Busy { place, source },
        "53100" => SqlError::Full { place, source },
        "25006" => SqlError::ReadOnly { place, source },
        "28000" | "28P01" | "3D000" | "42501" => SqlError::Closed { place, source },
        "XX001" | "XX002" => SqlError::Damaged { place, source },
        code if ["08", "53", "57"].iter().any(|class| code.starts_with(class)) => {
            SqlError::Unreachable { place, source }
        }
        _ => SqlError::Refused { place, source },
    }
}
