//! SQLite: one file, shared by many processes of one machine.

use std::{
    path::Path,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::future::{Either, select};
use loopwright_sessions::{Finding, SessionId};
use sqlx::{
    Sqlite as Driver,
    pool::{Pool, PoolOptions},
    sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::sync::watch::{Receiver, Sender};

use crate::{
    database::{Access, Counter, Database, LogNotification, Transaction},
    error::SqlError,
    schema::{self, Steps, VERSION},
    store::SqlStore,
};

mod acknowledged;
mod file;
mod guard;
mod holder;
mod losses;
mod others;
mod salvage;
#[cfg(test)]
mod tests;
mod transaction;
mod turns;

use acknowledged::{Acknowledged, Mark};
use guard::Guard;
use others::Others;
use transaction::{SqliteTransaction, failed};
use turns::Turns;

/// Sessions in a file on this machine, which any number of its processes can use at once.
pub type SqliteStore = SqlStore<Sqlite>;

/// A SQLite database file.
///
/// Only one caller writes at a time, and those that wait for each other share a transaction: none has its answer before that
/// is on the disk, so acknowledged writes survive a loss of power. Readers see a consistent snapshot and do not wait for
/// writers.
#[derive(Debug)]
pub struct Sqlite {
    place: Arc<str>,
    path: Arc<Path>,
    /// The only connection that writes.
    writer: Pool<Driver>,
    turns: Turns,
    readers: Pool<Driver>,
    guard: Guard,
    acknowledged: Acknowledged,
    /// Acknowledged sessions of which no data is left.
    lost: Mutex<Vec<Mark>>,
    /// Notifies the workers of this process.
    jobs: Sender<()>,
    others: Arc<Others>,
}

/// The maximum time that other processes can lock the file.
const PATIENCE: Duration = Duration::from_secs(20);
/// The maximum wait for the connections of this process, which wait for other processes.
const QUEUE: Duration = Duration::from_mins(1);
/// The interval of attempts to open a file that another process is creating.
const TRIES_EVERY: Duration = Duration::from_millis(20);
/// The page size of a new file, in bytes. Appending changes writes about eight whole pages, so small pages need a
/// quarter of the writes. Reads are not slower.
const PAGE: u32 = 512;
/// The number of statements, or of statements that run together, that each connection keeps prepared.
const STATEMENTS: usize = 256;
/// The maximum number of concurrent readers.
const READERS: u32 = 3;
/// The application ID that identifies Loopwright's SQLite files.
const APPLICATION: i64 = 0x4c6f_6f70;
/// The size to which the write-ahead log is truncated after it was merged, in bytes.
const LARGEST_LOG: &str = "16777216";

const STEPS: &Steps = &[
    include_str!("../migrations/sqlite/1.sql"),
    include_str!("../migrations/sqlite/2.sql"),
    include_str!("../migrations/sqlite/3.sql"),
    include_str!("../migrations/sqlite/4.sql"),
    include_str!("../migrations/sqlite/5.sql"),
    include_str!("../migrations/sqlite/6.sql"),
    include_str!("../migrations/sqlite/7.sql"),
    include_str!("../migrations/sqlite/8.sql"),
    include_str!("../migrations/sqlite/9.sql"),
];

impl SqliteStore {
    /// Opens a file of sessions, and creates it if it does not exist. Only this user can access the
    /// new file and any new directories.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be opened or created, or is not a store of sessions.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, SqlError> {
        Self::open_patiently(path.as_ref(), PATIENCE).await
    }

    async fn open_patiently(path: &Path, patience: Duration) -> Result<Self, SqlError> {
        let path: Arc<Path> = path.into();
        let place: Arc<str> = format!("`{}`", path.display()).into();
        file::make(&path).map_err(|error| SqlError::place(&place, error))?;
        let open = |mode| Sqlite::connect(&path, &place, patience, mode);
        if !Guard::of(&path).has_room(&path) {
            // Even a reader would map a file for which there is no space.
            let database = match Mode::of_read_only(&path) {
                Mode::Immutable => open(Mode::Immutable).await?,
                Mode::Writable | Mode::ReadOnly => return Err(SqlError::full(&place)),
            };
            return Ok(Self::new(database, place));
        }
        let database = match open(Mode::Writable).await {
            // SQLite needs a file beside the database, which cannot be created there.
            Err(error @ (SqlError::Closed { .. } | SqlError::ReadOnly { .. })) => {
                match open(Mode::of_read_only(&path)).await {
                    Ok(database) if !file::is_writable(&path) => database,
                    _ => return Err(error),
                }
            }
            opened => opened?,
        };
        Ok(Self::new(database, place))
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Writable,
    /// In a place that cannot be written.
    ReadOnly,
    /// In a place that cannot be written, if the file itself contains everything.
    Immutable,
}

impl Mode {
    /// Returns how to open a file in a place that cannot be written.
    fn of_read_only(path: &Path) -> Self {
        let log = std::fs::metadata(file::beside(path, "-wal"));
        if log.is_ok_and(|it| it.len() > 0) { Self::ReadOnly } else { Self::Immutable }
    }
}

impl Sqlite {
    async fn connect(
        path: &Arc<Path>,
        place: &Arc<str>,
        patience: Duration,
        mode: Mode,
    ) -> Result<Self, SqlError> {
        let plain = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(patience)
            .statement_cache_capacity(STATEMENTS)
            .read_only(mode != Mode::Writable)
            .immutable(mode == Mode::Immutable);
        let writing = match mode {
            Mode::Writable => plain
                .clone()
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .page_size(PAGE)
                .auto_vacuum(SqliteAutoVacuum::Incremental)
                .pragma("journal_size_limit", LARGEST_LOG),
            Mode::ReadOnly | Mode::Immutable => plain.clone(),
        };
        let pool = |size, options: SqliteConnectOptions, opened: Arc<AtomicU64>| {
            PoolOptions::new()
                .after_connect(move |_, _| {
                    opened.fetch_add(1, Relaxed);
                    Box::pin(async { Ok(()) })
                })
                .max_connections(size)
                .acquire_timeout(QUEUE)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
                .connect_lazy_with(options)
        };
        let others = Arc::new(Others::default());
        let writer = pool(1, writing, others.connections());
        let readers = pool(READERS, plain.pragma("query_only", "ON"), Arc::default());
        let database = Sqlite {
            place: Arc::clone(place),
            turns: Turns::new(Arc::clone(place), Arc::clone(&others)),
            guard: Guard::of(path),
            acknowledged: Acknowledged::beside(path),
            path: Arc::clone(path),
            writer,
            readers,
            lost: Mutex::default(),
            jobs: Sender::new(()),
            others,
        };
        database.prepare(patience).await?;
        database.compare().await?;
        Ok(database)
    }

    /// Creates the tables, or migrates them to the current version. Another process can be doing the same: SQLite
    /// does not wait for a file that is being created.
    async fn prepare(&self, patience: Duration) -> Result<(), SqlError> {
        let patient = async {
            loop {
                match self.upgrade().await {
                    Err(SqlError::Busy { .. }) => tokio::time::sleep(TRIES_EVERY).await,
                    done => return done,
                }
            }
        };
        match tokio::time::timeout(patience, patient).await {
            Ok(done) => done,
            Err(_) => self.upgrade().await,
        }
    }

    /// Migrates the tables to the current version if the file belongs to Loopwright. A connection that changes
    /// nothing finds that out. It stays open for reading, also because closing the last connection to a file waits
    /// until the log is merged into it.
    async fn upgrade(&self) -> Result<(), SqlError> {
        let mut looking = self.begin(Access::Read).await?;
        let found = self.version(&mut *looking).await;
        looking.rollback().await?;
        if found? == VERSION {
            return Ok(());
        }
        let mut transaction = self.begin(Access::Write).await?;
        let found = self.version(&mut *transaction).await?;
        if schema::upgrade(&mut *transaction, STEPS, found).await? {
            let marks =
                format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};");
            for mark in marks.split_inclusive(';') {
                transaction.run(mark, &[]).await?;
            }
        }
        transaction.commit().await
    }

    /// Returns the version of the tables, or 0 if there are none.
    async fn version(&self, transaction: &mut dyn Transaction) -> Result<i64, SqlError> {
        let [application, version, tables] = {
            let mut found = [0; 3];
            let questions = [
                "PRAGMA application_id",
                "PRAGMA user_version",
                "SELECT COUNT(*) FROM sqlite_schema",
            ];
            for (found, question) in found.iter_mut().zip(questions) {
                let row = transaction.row(question, &[]).await?;
                *found = row.and_then(|mut row| row.int(0).ok()).unwrap_or_default();
            }
            found
        };
        let place = || Arc::clone(&self.place);
        if application != APPLICATION && (application, version, tables) != (0, 0, 0) {
            return Err(SqlError::NotAStore { place: place() });
        }
        if version > VERSION {
            return Err(SqlError::Newer { place: place(), found: version, known: VERSION });
        }
        Ok(version)
    }

    /// Checks the pages of the file, and rebuilds the indexes if nothing else is damaged.
    async fn soundness(&self, repair: bool) -> Result<Vec<Finding>, SqlError> {
        let mut findings = Vec::new();
        let mut problems = self.alone(&self.readers, "PRAGMA integrity_check").await?;
        problems.retain(|problem| problem != "ok");
        if !problems.is_empty() {
            let is_repaired = repair && self.reindex().await.unwrap_or_default();
            let repaired = is_repaired.then(|| "the indexes were rebuilt".to_owned());
            findings.extend(problems.into_iter().map(|problem| Finding {
                session: None,
                problem,
                repaired: repaired.clone(),
            }));
        }
        Ok(findings)
    }

    /// Refuses a write that could be lost.
    fn guard(&self) -> Result<(), SqlError> {
        if !self.guard.is_there(&self.path) {
            return Err(SqlError::Gone { place: Arc::clone(&self.place) });
        }
        if !self.guard.has_room(&self.path) {
            return Err(SqlError::full(&self.place));
        }
        Ok(())
    }

    /// Rebuilds the indexes of the tables that have separate ones. Returns `true` if the file needed nothing else;
    /// otherwise nothing is changed, because an index may hold the rest of a lost row. The other tables are
    /// indexes themselves, and rebuilding them would keep only the readable part of a damaged row.
    async fn reindex(&self) -> Result<bool, SqlError> {
        let mut transaction = self.begin(Access::Write).await?;
        match is_mended(&mut *transaction).await {
            Ok(true) => transaction.commit().await.map(|()| true),
            other => {
                transaction.rollback().await?;
                other
            }
        }
    }

    /// Runs statements that cannot run in a transaction.
    async fn alone(
        &self,
        pool: &Pool<Driver>,
        statement: &'static str,
    ) -> Result<Vec<String>, SqlError> {
        let failed = |error| failed(&self.place, error);
        let rows = sqlx::query(statement).fetch_all(pool).await.map_err(failed)?;
        Ok(rows.iter().map(transaction::words).collect())
    }
}

/// Rebuild the indexes of the tables that have separate ones.
const REBUILDS: [&str; 4] =
    ["REINDEX sessions", "REINDEX control_messages", "REINDEX jobs", "REINDEX log_entries"];

async fn is_mended(transaction: &mut dyn Transaction) -> Result<bool, SqlError> {
    let names = losses::names_of_index(transaction).await?;
    for sql in REBUILDS {
        transaction.run(sql, &[]).await?;
    }
    let told = transaction.rows("PRAGMA integrity_check", &[]).await?;
    let told: Vec<_> = told.into_iter().filter_map(|mut row| row.text(0).ok()).collect();
    if told != ["ok"] {
        return Ok(false);
    }
    losses::give_names_back(transaction, names).await?;
    Ok(true)
}

#[async_trait]
impl Database for Sqlite {
    async fn begin(&self, access: Access) -> Result<Box<dyn Transaction>, SqlError> {
        let place = Arc::clone(&self.place);
        let begun = if access == Access::Write {
            self.guard()?;
            let path = Arc::clone(&self.path);
            let begun = SqliteTransaction::writing(&self.turns, &self.writer, place, path);
            match select(pin!(begun), pin!(holder::stopped(&self.path))).await {
                Either::Left((begun, _)) => begun,
                Either::Right((owner, _)) => {
                    return Err(SqlError::InUse { place: Arc::clone(&self.place), owner });
                }
            }
        } else {
            SqliteTransaction::reading(&self.readers, place, access == Access::Read).await
        };
        Ok(Box::new(begun.map_err(|error| holder::named(error, &self.path))?))
    }

    fn news(&self) -> Option<LogNotification> {
        None
    }

    fn job_news(&self) -> (Receiver<()>, bool) {
        (self.jobs.subscribe(), false)
    }

    fn tell_jobs(&self) {
        self.jobs.send_replace(());
    }

    fn acknowledge(&self, counter: Counter, key: i64, id: &SessionId, number: u64) {
        self.acknowledged.write(&Mark { counter, key, id: id.clone(), number });
    }

    fn forget_jobs(&self) {
        // If they stay, removed jobs are reported as missing.
        let _removed = self.acknowledged.remove_all(Counter::Jobs);
    }

    fn lost(&self) -> Vec<SessionId> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.iter().map(|it| it.id.clone()).collect()
    }

    fn forget_lost(&self, id: &SessionId) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        for mark in lost.extract_if(.., |it| it.id == *id) {
            // If it stays, the next process reports it again.
            let _removed = self.acknowledged.remove(mark.key);
        }
    }

    /// The last process that closes the file merges the log into it.
    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        let is_merged = std::fs::metadata(file::beside(&self.path, "-wal")).is_err();
        if is_merged && self.lost().is_empty() {
            // The next process compares the remaining entries again.
            let _cleared = self.acknowledged.clear();
        }
    }

    async fn back_up(&self, to: &Path) -> Result<(), SqlError> {
        let failed = |error| SqlError::place(&format!("`{}`", to.display()).into(), error);
        let partial = file::make_partial(to).map_err(failed)?;
        let name = partial.to_string_lossy().into_owned();
        let written = sqlx::query("VACUUM INTO $1").bind(name).execute(&self.writer).await;
        let published = match written {
            Ok(_) => file::publish(&partial, to).map_err(failed),
            Err(error) => Err(transaction::failed(&self.place, error)),
        };
        if published.is_err() {
            // An incomplete copy is useless.
            let _removed = std::fs::remove_file(partial);
        }
        published
    }

    async fn foreign_writes(&self) -> Result<Option<u64>, SqlError> {
        self.others.position(&self.writer).await.map_err(|error| failed(&self.place, error))
    }

    async fn give_back(&self) -> Result<(), SqlError> {
        self.alone(&self.writer, "PRAGMA incremental_vacuum").await?;
        self.alone(&self.writer, "PRAGMA wal_checkpoint(TRUNCATE)").await?;
        Ok(())
    }

    async fn look_below(&self, repair: bool) -> Result<Vec<Finding>, SqlError> {
        let mut findings = self.soundness(repair).await?;
        for problem in self.alone(&self.readers, "PRAGMA foreign_key_check").await? {
            let problem = format!("a row refers to a missing row: {problem}");
            findings.push(Finding { session: None, problem, repaired: None });
        }
        findings.extend(file::open_to_others(&self.path, repair));
        Ok(findings)
    }
}
