//! Whether other processes write to the file.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sqlx::{Error, Pool, Row as _, Sqlite as Driver, SqliteConnection};
use tokio::sync::Mutex;

/// The shortest time from one look to the next. All that ask meanwhile get the same answer.
const LOOKS: Duration = Duration::from_millis(50);
/// How old an answer may be while the connection is in use.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The known writes of other processes.
///
/// SQLite keeps a number in each connection that changes when another connection has written. Only one connection of this
/// process writes, so that its number changes when another process has.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// How often the connection that writes was opened. Each time its number starts anew.
    connections: Arc<AtomicU64>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    looked_at: Option<Instant>,
    /// The number of the connection, and how often it was opened.
    number: (i64, u64),
    changes: u64,
}

impl Others {
    /// Returns the count of opened connections.
    pub(super) fn connections(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.connections)
    }

    /// Returns a number that changes after another process has written. `None` if the connection has been in use for a while.
    pub(super) async fn position(&self, writer: &Pool<Driver>) -> Result<Option<u64>, Error> {
        let mut seen = self.seen.lock().await;
        let is_younger = |age| seen.looked_at.is_some_and(|at| at.elapsed() < age);
        if is_younger(LOOKS) {
            return Ok(Some(seen.changes));
        }
        // A caller that reads waits for no writer.
        let Some(mut connection) = writer.try_acquire() else {
            return Ok(is_younger(MAX_AGE).then_some(seen.changes));
        };
        self.look(&mut seen, &mut connection).await?;
        Ok(Some(seen.changes))
    }

    /// Looks with the connection of a writer that has committed, so that an answer is known however long writers follow each
    /// other.
    pub(super) async fn look_after(&self, connection: &mut SqliteConnection) {
        // A writer waits for no reader.
        let Ok(mut seen) = self.seen.try_lock() else { return };
        if seen.looked_at.is_none_or(|at| at.elapsed() >= LOOKS) {
            // The next one looks again.
            let _looked = self.look(&mut seen, connection).await;
        }
    }

    async fn look(&self, seen: &mut Seen, connection: &mut SqliteConnection) -> Result<(), Error> {
        let row = sqlx::query("PRAGMA data_version").fetch_one(connection).await?;
        let number = (row.try_get(0)?, self.connections.load(Relaxed));
        if number != seen.number {
            (seen.number, seen.changes) = (number, seen.changes + 1);
        }
        seen.looked_at = Some(Instant::now());
        Ok(())
    }
}
