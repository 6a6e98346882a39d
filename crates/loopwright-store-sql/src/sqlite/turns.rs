//! The writers of this process, one after the other. Those that wait for each other are one transaction, because most of the
//! cost of a small one is that of its commit, which waits for the disk.
//!
//! A writer that ends while no other one waits commits at once. If others wait, it leaves its *part* to them: a savepoint marks
//! its end, and the next writer continues the transaction. All that waited when the first part was left are a *group*: behind
//! them in the queue is a task that commits, unless the last of them does so before.
//!
//! - A part that fails, or whose caller stops waiting in the middle, is rolled back to the savepoint. The others stay.
//! - All writers of a group have their answers after the commit. So what a caller is told is on the disk, and an error does not
//!   depend on a part that is lost either.
//! - If the whole transaction is lost, as on a severe error of the disk, or because the runtime of the task ends, all writers of
//!   the group have the error.

use std::{
    mem,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use futures::{FutureExt as _, future::BoxFuture};
use sqlx::{Error, Executor as _, Sqlite as Driver, pool::PoolConnection};
use tokio::{
    runtime::Handle,
    sync::{
        Mutex, OwnedMutexGuard,
        oneshot::{self, Receiver, Sender},
    },
    time::timeout,
};

use super::{QUEUE, others::Others, transaction::failed};
use crate::error::SqlError;

#[cfg(test)]
mod tests;

/// The savepoint between two parts, which begins the next one.
pub(super) const NEXT_PART: &str = "SAVEPOINT part";
/// Ends a part, before [`NEXT_PART`] begins another one.
pub(super) const END_PART: &str = "RELEASE part";
/// Rolls back what was done since the last part.
const UNDO_PART: &str = "ROLLBACK TO part";

/// The queue of the writers. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    place: Arc<str>,
    group: Arc<Mutex<Group>>,
    /// The number of writers that wait for their turn.
    waiting: Arc<AtomicUsize>,
    others: Arc<Others>,
}

/// The writers of a transaction that have left their parts.
#[derive(Debug, Default)]
struct Group {
    /// The connection with the transaction, unless a writer has the turn.
    connection: Option<PoolConnection<Driver>>,
    /// Those that wait for the commit.
    writers: Vec<Sender<Result<(), SqlError>>>,
    /// Whether the last writer left a part that must be rolled back.
    is_torn: bool,
    /// The error of the last statement that failed.
    cause: Option<SqlError>,
    /// Exists as long as the task that commits.
    committer: Weak<()>,
}

/// The turn of a writer.
#[derive(Debug)]
pub(super) struct Turn {
    group: OwnedMutexGuard<Group>,
    turns: Turns,
}

/// A writer that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Turns {
    pub(super) fn new(place: Arc<str>, others: Arc<Others>) -> Self {
        Self { place, group: Arc::default(), waiting: Arc::default(), others }
    }

    /// Waits for the turn. Callers have it in the order in which they asked.
    pub(super) async fn next(&self) -> Result<Turn, Error> {
        let waiting = Waiting::new(&self.waiting);
        let group = timeout(QUEUE, Arc::clone(&self.group).lock_owned()).await;
        drop(waiting);
        let mut turn = Turn { group: group.map_err(|_| Error::PoolTimedOut)?, turns: self.clone() };
        if let Err(error) = turn.group.undo_torn(&self.place).await {
            drop(turn.group.tell(&Err(error)));
        }
        Ok(turn)
    }

    /// Ends the use of a connection, after a commit.
    async fn end(&self, connection: Option<PoolConnection<Driver>>) {
        if let Some(mut connection) = connection {
            self.others.look_after(&mut connection).await;
        }
    }
}

impl Turn {
    /// Returns `true` if the transaction has parts of other writers.
    pub(super) fn is_shared(&self) -> bool {
        !self.group.writers.is_empty()
    }

    /// Returns `true` if a writer waits for its turn.
    pub(super) fn is_awaited(&self) -> bool {
        self.turns.waiting.load(Relaxed) > 0
    }

    /// Returns the connection with the transaction of other writers. `None` if there is none.
    pub(super) fn connection(&mut self) -> Option<PoolConnection<Driver>> {
        self.group.connection.take()
    }

    /// Records why a statement failed, for the writers that lose their parts if the transaction is lost.
    pub(super) fn note_cause(&mut self, error: &SqlError) {
        if self.is_shared() {
            self.group.cause = Some(error.clone());
        }
    }

    /// Ends the turn with a part that is complete, or that must be rolled back. Returns the result of the commit.
    pub(super) fn leave(
        mut self,
        connection: Option<PoolConnection<Driver>>,
        is_torn: bool,
    ) -> Receiver<Result<(), SqlError>> {
        let (writer, committed) = oneshot::channel();
        self.group.connection = connection;
        self.group.is_torn = is_torn;
        self.group.writers.push(writer);
        // There is none for the first part, or if the runtime of the first writer has ended.
        if self.group.committer.strong_count() == 0 {
            self.commit_later();
        }
        committed
    }

    /// Ends the turn, and the transaction of all writers, which was committed.
    pub(super) async fn finish(mut self, connection: Option<PoolConnection<Driver>>) {
        self.group.connection = connection;
        let connection = self.group.tell(&Ok(()));
        self.turns.end(connection).await;
    }

    /// Commits after the writers that wait now.
    fn commit_later(self) {
        let Self { mut group, turns } = self;
        let exists = Arc::new(());
        group.committer = Arc::downgrade(&exists);
        let mut turn = Arc::clone(&turns.group).lock_owned().boxed();
        // This takes the place in the queue, because the turn is not over.
        let _waits = turn.as_mut().now_or_never();
        drop(group);
        let committer = Committer { turns, turn: Some(turn), group: None, exists };
        // Without a runtime, no other task can commit.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(committer.run());
        }
    }
}

/// Commits for a group. If it is dropped before that, because its runtime ends, and no writer continues the transaction, the
/// transaction is rolled back.
struct Committer {
    turns: Turns,
    /// Its place in the queue, until it has its turn.
    turn: Option<BoxFuture<'static, OwnedMutexGuard<Group>>>,
    /// The group, from its turn to the end of the commit.
    group: Option<OwnedMutexGuard<Group>>,
    exists: Arc<()>,
}

impl Committer {
    async fn run(mut self) {
        if let Some(turn) = &mut self.turn {
            self.group = Some(turn.await);
        }
        self.turn = None;
        if let Some(group) = &mut self.group {
            let connection = group.commit(&self.turns.place).await;
            self.group = None;
            self.turns.end(connection).await;
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // Another writer that has the turn, or has it next, sees that there is no committer.
        self.exists = Arc::default();
        let is_queued = self.turn.take().is_some();
        let group = self.group.take();
        let group = group.or_else(|| {
            is_queued.then(|| Arc::clone(&self.turns.group).try_lock_owned().ok()).flatten()
        });
        if let Some(mut group) = group {
            drop(group.tell(&Err(failed(&self.turns.place, Error::WorkerCrashed))));
        }
    }
}

impl Group {
    /// Commits the complete parts. Returns the connection if it can be used again.
    async fn commit(&mut self, place: &Arc<str>) -> Option<PoolConnection<Driver>> {
        if self.writers.is_empty() {
            return None;
        }
        let committed = match self.undo_torn(place).await {
            Ok(()) => self.run("COMMIT", place).await,
            Err(error) => Err(error),
        };
        self.tell(&committed)
    }

    /// Rolls back what the last writer left.
    async fn undo_torn(&mut self, place: &Arc<str>) -> Result<(), SqlError> {
        if self.is_torn {
            let undone = self.run(UNDO_PART, place).await;
            // After a severe error the transaction does not exist any more.
            undone.map_err(|error| self.cause.take().unwrap_or(error))?;
        }
        (self.is_torn, self.cause) = (false, None);
        Ok(())
    }

    async fn run(&mut self, sql: &'static str, place: &Arc<str>) -> Result<(), SqlError> {
        let connection = self.connection.as_deref_mut();
        let connection = connection.ok_or_else(|| failed(place, Error::WorkerCrashed))?;
        connection.execute(sql).await.map(drop).map_err(|error| failed(place, error))
    }

    /// Tells all writers the result, and ends the group. Returns the connection if it can be used again.
    fn tell(&mut self, result: &Result<(), SqlError>) -> Option<PoolConnection<Driver>> {
        let Self { connection, writers, .. } = mem::take(self);
        for writer in writers {
            // A caller that stopped waiting does not want to know.
            writer.send(result.clone()).ok();
        }
        if result.is_err() {
            // What is left of the transaction is rolled back.
            drop(connection.map(PoolConnection::detach));
            return None;
        }
        connection
    }
}
