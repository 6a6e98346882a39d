//! Appends to logs. Those that wait at the same time have their statements in common, because most of the cost of an append is
//! that of its statements and its commit.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use loopwright_sessions::{LogWaiters, SessionId, SessionLog, StoreError};
use tokio::sync::oneshot::{self, Sender};

use crate::{
    database::{Access, Counter, Database},
    error::{Failure, SqlError},
    notes::{self, NewEntries},
    store::end,
};

/// The largest number of appends in a transaction.
const MAX_APPENDS: usize = 256;
/// How long no transaction begins after one with the appends of several callers: what they append meanwhile is one
/// transaction. A caller that is alone never waits.
const PAUSE: Duration = Duration::from_millis(20);
/// The size of the entries, in bytes, with which a transaction is full.
const MAX_BYTES: usize = 4 << 20;

/// Appends to the logs of a database. Clones share the queue.
pub(crate) struct LogAppender<D> {
    database: Arc<D>,
    waiters: LogWaiters,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Append>,
    /// Whether a task writes what waits.
    is_written: bool,
}

/// The entries of one caller.
struct Append {
    id: SessionId,
    log: SessionLog,
    entries: Vec<Arc<[u8]>>,
    keep: Option<u64>,
    done: Sender<Result<u64, StoreError>>,
}

impl Append {
    fn new_entries(&self) -> NewEntries<'_> {
        NewEntries { id: &self.id, log: self.log, entries: &self.entries, keep: self.keep }
    }
}

/// The key of the session and the number of the last entry.
type Appended = (i64, u64);

impl<D: Database> LogAppender<D> {
    pub(crate) fn new(database: Arc<D>, waiters: LogWaiters) -> Self {
        Self { database, waiters, queue: Arc::default() }
    }

    /// Implements [`SessionStore::append_log`](loopwright_sessions::SessionStore::append_log). If the future is dropped,
    /// the entries may still be added.
    pub(crate) async fn append(
        &self,
        id: &SessionId,
        log: SessionLog,
        entries: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        let (done, result) = oneshot::channel();
        let append = Append { id: id.clone(), log, entries: entries.to_vec(), keep, done };
        let is_first = {
            let mut queue = self.queue();
            queue.waiting.push(append);
            !mem::replace(&mut queue.is_written, true)
        };
        if is_first {
            // A task of its own, because a caller that stops waiting must not undo the appends of others.
            tokio::spawn(WriteAll { appender: self.clone(), is_done: false }.run());
        }
        result.await.unwrap_or_else(|_| Err(gone().of(id)))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the appends of the next transaction from the queue. Those of one session keep their order.
    fn next(&self) -> Vec<Append> {
        let mut queue = self.queue();
        let (mut count, mut size) = (0, 0);
        for append in queue.waiting.iter().take(MAX_APPENDS) {
            size += append.entries.iter().map(|it| it.len()).sum::<usize>();
            if count > 0 && size > MAX_BYTES {
                break;
            }
            count += 1;
        }
        let mut group: Vec<Append> = queue.waiting.drain(..count).collect();
        queue.is_written = count > 0;
        drop(queue);
        // All processes lock sessions in the same order, so that none waits for another in a circle.
        group.sort_by(|a, b| a.id.cmp(&b.id));
        group
    }

    /// Writes appends in one transaction. If the database refuses one of them, writes each in its own, so that none fails
    /// because of another.
    async fn write(&self, group: Vec<Append>) {
        let failure = match self.transaction(&group).await {
            Ok(results) => {
                group.into_iter().zip(results).for_each(|(append, it)| self.finish(append, it));
                return;
            }
            Err(failure) => failure,
        };
        match (<[Append; 1]>::try_from(group), failure) {
            (Ok([append]), failure) => self.finish(append, Err(failure)),
            (Err(group), Failure::Sql(error)) if !matches!(error, SqlError::Refused { .. }) => {
                for append in group {
                    self.finish(append, Err(error.clone().into()));
                }
            }
            (Err(group), _) => {
                for append in group {
                    let result = self.transaction(std::slice::from_ref(&append)).await;
                    let result = result.and_then(|it| it.into_iter().next().ok_or_else(gone)?);
                    self.finish(append, result);
                }
            }
        }
    }

    /// Writes appends in one transaction. The inner errors are those of sessions that do not exist.
    async fn transaction(
        &self,
        group: &[Append],
    ) -> Result<Vec<Result<Appended, Failure>>, Failure> {
        let all: Vec<_> = group.iter().map(Append::new_entries).collect();
        let mut transaction = self.database.begin(Access::Write).await?;
        let done = notes::append_all(&mut *transaction, &all).await;
        let results = end(transaction, done).await?;
        Ok(results.into_iter().map(|it| it.map_err(Failure::Store)).collect())
    }

    /// Tells the caller and the readers.
    fn finish(&self, append: Append, result: Result<Appended, Failure>) {
        let Append { id, log, entries, done, .. } = append;
        let result = result.map_err(|failure| failure.of(&id)).map(|(key, number)| {
            self.database.acknowledge(Counter::Notes(log), key, &id, number);
            self.waiters.wake(&id, log, number, &entries);
            number
        });
        // A caller that stopped waiting does not want to know.
        done.send(result).ok();
    }
}

fn gone() -> Failure {
    Failure::Store(StoreError::Unavailable(
        "the program ended before the entries were stored".into(),
    ))
}

/// Writes all appends that wait. If it is dropped, those that it has not written fail.
struct WriteAll<D: Database> {
    appender: LogAppender<D>,
    is_done: bool,
}

impl<D: Database> WriteAll<D> {
    async fn run(mut self) {
        loop {
            let group = self.appender.next();
            if group.is_empty() {
                self.is_done = true;
                return;
            }
            let is_shared = group.len() > 1;
            self.appender.write(group).await;
            if is_shared {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

impl<D: Database> Drop for WriteAll<D> {
    fn drop(&mut self) {
        // Only a runtime that ends, or a panic, drops it in the middle.
        if !self.is_done {
            *self.appender.queue() = Queue::default();
        }
    }
}

impl<D> Clone for LogAppender<D> {
    fn clone(&self) -> Self {
        let Self { database, waiters, queue } = self;
        Self { database: Arc::clone(database), waiters: waiters.clone(), queue: Arc::clone(queue) }
    }
}
