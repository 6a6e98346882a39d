//! PostgreSQL: shared by many machines.

use std::{
    str::FromStr as _,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use loopwright_sessions::Finding;
use sqlx::{
    Error, Executor as _, Postgres as Driver,
    pool::{Pool, PoolOptions},
    postgres::{PgConnectOptions, PgConnection},
};
use tokio::sync::watch::Receiver;

use crate::{
    database::{Access, Database, LogNotification, Transaction},
    error::SqlError,
    schema::{self, Steps, VERSION},
    store::SqlStore,
};

mod job_listener;
mod listener;
mod transaction;

use job_listener::JobListener;
use listener::Listener;
use transaction::{PostgresTransaction, failed};

/// Sessions in a PostgreSQL database, which any number of machines can use at once.
pub type PostgresStore = SqlStore<Postgres>;

/// A schema of tables, `loopwright`, in a database.
///
/// Connections are opened on demand, and again after they were lost. A call fails while the
/// database is unavailable, and later calls succeed when it is back.
#[derive(Debug)]
pub struct Postgres {
    place: Arc<str>,
    pool: Pool<Driver>,
    /// The connection that receives notifications, opened for the first waiting reader.
    listener: OnceLock<Listener>,
    /// The same for the first waiting worker.
    job_listener: OnceLock<JobListener>,
    ears: Pool<Driver>,
    /// The maximum wait for a server that does not respond.
    stall: Duration,
}

/// The maximum number of connections.
const CONNECTIONS: u32 = 8;
/// The number of connections that receive notifications.
const LISTENERS: u32 = 2;
/// The maximum wait for a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum wait for a server that was available and no longer responds, for example while its machine is moved
/// or replaced.
const STALL: Duration = Duration::from_mins(2);
/// The settings of each connection. A row is not waited for longer than a caller would wait, the locks of a client
/// that is gone are released, and no statement is compiled, because that takes longer than it saves.
const BEGINNING: &str = "
    SET search_path TO loopwright;
    SET jit TO off;
    SET lock_timeout TO '20s';
    SET idle_in_transaction_session_timeout TO '60s'";
/// The lock of the process that creates the tables.
const MAKING: i64 = 0x4c6f_6f70_7772;

const STEPS: &Steps = &[
    include_str!("../migrations/postgres/1.sql"),
    include_str!("../migrations/postgres/2.sql"),
    include_str!("../migrations/postgres/3.sql"),
    include_str!("../migrations/postgres/4.sql"),
    include_str!("../migrations/postgres/5.sql"),
    include_str!("../migrations/postgres/6.sql"),
    include_str!("../migrations/postgres/7.sql"),
    include_str!("../migrations/postgres/8.sql"),
    include_str!("../migrations/postgres/9.sql"),
];

impl PostgresStore {
    /// Connects to the database at a URL, and creates the tables if they do not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid, the database cannot be reached, or its tables have a
    /// newer version.
    pub async fn connect(address: &str) -> Result<Self, SqlError> {
        let options = PgConnectOptions::from_str(address)
            .map_err(|_| SqlError::Address("the URL of the PostgreSQL database is invalid"))?
            .application_name("loopwright");
        let place = place(&options);
        let pool = |size| {
            PoolOptions::new()
                .max_connections(size)
                .acquire_timeout(PATIENCE)
                .after_connect(|connection: &mut PgConnection, _| {
                    Box::pin(async move { connection.execute(BEGINNING).await.map(drop) })
                })
                .connect_lazy_with(options.clone())
        };
        let (pool, ears) = (pool(CONNECTIONS), pool(LISTENERS));
        let (listener, job_listener) = (OnceLock::new(), OnceLock::new());
        let stall = Duration::ZERO;
        let mut database =
            Postgres { place: Arc::clone(&place), pool, listener, job_listener, ears, stall };
        database.prepare().await?;
        database.stall = STALL;
        Ok(Self::new(database, place))
    }
}

/// Returns a description of the database without the password.
fn place(options: &PgConnectOptions) -> Arc<str> {
    let host = options.get_socket().map_or_else(
        || format!("{}:{}", options.get_host(), options.get_port()),
        |socket| socket.display().to_string(),
    );
    let user = options.get_username();
    let database = options.get_database().unwrap_or(user);
    format!("PostgreSQL database `{database}` of user `{user}` on `{host}`").into()
}

impl Postgres {
    /// Creates the tables, or migrates them to the current version, while no other process does so.
    async fn prepare(&self) -> Result<(), SqlError> {
        let mut transaction = self.begin(Access::Write).await?;
        let is_there = "SELECT COUNT(*) FROM pg_catalog.pg_tables
            WHERE schemaname = 'loopwright' AND tablename = 'version'";
        let lock = format!("SELECT pg_advisory_xact_lock({MAKING})");
        transaction.run(&lock, &[]).await?;
        let found = if first(&mut *transaction, is_there).await? == 0 {
            transaction.script(MAKE_SCHEMA).await?;
            0
        } else {
            first(&mut *transaction, "SELECT number FROM version").await?
        };
        if found > VERSION {
            let place = Arc::clone(&self.place);
            return Err(SqlError::Newer { place, found, known: VERSION });
        }
        if schema::upgrade(&mut *transaction, STEPS, found).await? {
            transaction.run(&format!("UPDATE version SET number = {VERSION}"), &[]).await?;
        }
        transaction.commit().await
    }
}

/// Creates the schema, unless the user has no right to create one and was given an empty one.
const MAKE_SCHEMA: &str = "
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'loopwright') THEN
            CREATE SCHEMA loopwright;
        END IF;
    END $$;
    CREATE TABLE version (number BIGINT NOT NULL);
    INSERT INTO version VALUES (0)";

async fn first(transaction: &mut dyn Transaction, sql: &str) -> Result<i64, SqlError> {
    let row = transaction.row(sql, &[]).await?;
    Ok(row.and_then(|mut row| row.int(0).ok()).unwrap_or_default())
}

#[async_trait]
impl Database for Postgres {
    async fn begin(&self, access: Access) -> Result<Box<dyn Transaction>, SqlError> {
        let sql = match access {
            Access::Look | Access::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Access::Write => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        };
        let asked_at = Instant::now();
        let transaction = loop {
            match self.pool.begin_with(sql).await {
                // The server was available, and does not respond at present. A caller with a lease keeps it,
                // because no other process can take it in the meantime.
                Err(Error::PoolTimedOut) if asked_at.elapsed() < self.stall => {}
                done => break done.map_err(|error| failed(&self.place, error))?,
            }
        };
        let place = Arc::clone(&self.place);
        Ok(Box::new(PostgresTransaction::new(transaction, place, self.pool.clone())))
    }

    fn news(&self) -> Option<LogNotification> {
        Some(self.listener.get_or_init(|| Listener::start(self.ears.clone())).news())
    }

    /// Triggers notify all processes.
    fn job_news(&self) -> (Receiver<()>, bool) {
        let listener = self.job_listener.get_or_init(|| JobListener::start(self.ears.clone()));
        (listener.news(), true)
    }

    /// The server does this automatically.
    async fn give_back(&self) -> Result<(), SqlError> {
        Ok(())
    }

    async fn close(&self) {
        self.pool.close().await;
        self.ears.close().await;
    }

    /// The server checks its own storage.
    async fn look_below(&self, _repair: bool) -> Result<Vec<Finding>, SqlError> {
        Ok(Vec::new())
    }
}
