//! The store: each of its methods is one transaction, or a part of one that the database rolls back alone. A method that
//! writes returns once the database has committed, and what is committed survives a crash and a loss of power.

use std::{fmt, path::Path, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use loopwright_agent::AgentDefinition;
use loopwright_core::{ChangeRecord, Clock, Seq, Timestamp};
use loopwright_sessions::{
    AppendRequest, ControlMessage, Finding, ForeignWrites, JobQueue, Lease, LeaseRequest,
    LoadedSession, LogEntry, LogWaiters, NewSession, Posted, ReclaimStats, Salvaged, SessionHeader,
    SessionId, SessionList, SessionLog, SessionQuery, SessionStatus, SessionStore, StoreError,
    UsageLedger, WAIT_LIMIT, stored::decode_from,
};

use crate::{
    appending::LogAppender,
    database::{Access, Counter, Database, LogNotification, Transaction},
    error::Failure,
    head::stands_for,
    leasing, listing, loading,
    maintenance::{self, Health, Named, Restored},
    notes,
    quiet::QuietSessions,
    writing,
};

/// Runs an operation in its own transaction, and adds the session to its error.
macro_rules! within {
    ($self:ident.$begin:ident, |$transaction:ident| $done:expr, $of:expr) => {{
        let mut transaction = $self.$begin().await?;
        let $transaction = &mut *transaction;
        let done = $done.await;
        $crate::store::end(transaction, done).await.map_err($of)
    }};
    ($self:ident.$begin:ident, $id:expr, |$transaction:ident| $done:expr) => {
        within!($self.$begin, |$transaction| $done, |failure| failure.of($id))
    };
    ($self:ident.$begin:ident, |$transaction:ident| $done:expr) => {
        within!($self.$begin, |$transaction| $done, $crate::error::Failure::of_all)
    };
}
pub(crate) use within;

/// Sessions in a database: SQLite or PostgreSQL.
pub struct SqlStore<D> {
    pub(crate) database: Arc<D>,
    pub(crate) place: Arc<str>,
    /// The readers that wait, unless the database notifies them.
    waiters: LogWaiters,
    appender: LogAppender<D>,
    quiet: QuietSessions,
}

impl<D: Database> SqlStore<D> {
    pub(crate) fn new(database: D, place: Arc<str>) -> Self {
        let (database, waiters) = (Arc::new(database), LogWaiters::new());
        let appender = LogAppender::new(Arc::clone(&database), waiters.clone());
        Self { database, place, waiters, appender, quiet: QuietSessions::default() }
    }

    async fn posted(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        within!(self.looking, &lease.id, |it| leasing::collect(it, lease))
    }

    async fn begin(&self, access: Access) -> Result<Box<dyn Transaction>, StoreError> {
        Ok(self.database.begin(access).await?)
    }

    pub(crate) async fn reading(&self) -> Result<Box<dyn Transaction>, StoreError> {
        self.begin(Access::Read).await
    }

    /// Begins an operation that reads with single statements, each of which sees its own snapshot.
    pub(crate) async fn looking(&self) -> Result<Box<dyn Transaction>, StoreError> {
        self.begin(Access::Look).await
    }

    pub(crate) async fn writing(&self) -> Result<Box<dyn Transaction>, StoreError> {
        self.begin(Access::Write).await
    }

    /// Waits until a log may have entries after a number, in a database that sends notifications.
    async fn wait_for_news(
        &self,
        mut news: LogNotification,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let (began, mut is_told) = (clock.monotonic(), false);
        loop {
            let found = self.read_log(id, log, after, WAIT_LIMIT).await?;
            let waited = clock.monotonic().saturating_sub(began);
            let left = at_most.checked_sub(waited).filter(|it| !it.is_zero());
            let Some(left) = left.filter(|_| found.is_empty()) else { return Ok(found) };
            if is_told
                && self.header(id).await?.is_some_and(|it| it.status == SessionStatus::Deleted)
            {
                return Ok(found);
            }
            is_told = notes::hear(&mut news, id, log, clock, left).await;
        }
    }

    /// Checks one session, and repairs it if `repair` is set.
    async fn check_named(&self, named: Named, repair: bool) -> Result<Option<Finding>, StoreError> {
        let Named { key, id, deleted } = named;
        match (id, deleted) {
            (Ok(id), None) => self.check_session(key, &id, repair).await,
            (Ok(id), Some(failure)) => {
                self.check_row(key, &id, &failure.of(&id), repair).await.map(Some)
            }
            (Err(_), _) => self.check_name(key, repair).await.map(Some),
        }
    }

    /// Checks one session whose ID is intact, and repairs it if `repair` is set.
    async fn check_session(
        &self,
        key: i64,
        id: &SessionId,
        repair: bool,
    ) -> Result<Option<Finding>, StoreError> {
        let mut transaction = self.reading().await?;
        let health = maintenance::look(&mut *transaction, id).await;
        transaction.rollback().await?;
        let (readable, error) = match health {
            Health::Good => return Ok(None),
            Health::Bad(error) => return self.check_row(key, id, &error, repair).await.map(Some),
            Health::Part(readable, error) => (readable, error),
        };
        if !repair {
            return Ok(Some(maintenance::finding(id, &error, None)));
        }
        let problem = maintenance::finding(id, &error, None).problem;
        within!(self.writing, id, |it| maintenance::go_on_from(it, id, readable, &problem))?;
        let repaired = format!(
            "when the session is resumed, it is read only up to change {readable}; later tool \
                calls may have taken effect; no session was deleted"
        );
        Ok(Some(maintenance::finding(id, &error, Some(repaired))))
    }
}

impl<D: Database> SqlStore<D> {
    /// Repairs the row of a session that cannot be loaded, if the row is the reason.
    async fn check_row(
        &self,
        key: i64,
        id: &SessionId,
        error: &StoreError,
        repair: bool,
    ) -> Result<Finding, StoreError> {
        if !repair {
            return Ok(maintenance::finding(id, error, None));
        }
        let restored = within!(self.writing, id, |it| maintenance::restore_row(it, key))?;
        let agent = match restored {
            Restored::Deleted => None,
            _ => within!(self.writing, id, |it| maintenance::restore_definition(it, id, key))?,
        };
        let repaired = match (restored, agent) {
            (Restored::Nothing, None) => None,
            (Restored::Nothing, Some(agent)) => {
                Some(format!("the session is suspended and now has {agent}"))
            }
            (Restored::Columns(columns), _) => {
                Some(format!("the session is suspended and lacks its {}", columns.join(", ")))
            }
            (Restored::Altered, _) => Some(LOOK.to_owned()),
            (Restored::Deleted, _) => Some(STAYS.to_owned()),
        };
        Ok(maintenance::finding(id, error, repaired))
    }

    /// Reports that the ID of a session is damaged, and gives the session another one.
    async fn check_name(&self, key: i64, repair: bool) -> Result<Finding, StoreError> {
        let repaired = if repair {
            let name = within!(self.writing, |it| maintenance::rename(it, key))?;
            Some(format!("the session was renamed to `{name}` and suspended"))
        } else {
            None
        };
        let problem = "the ID of a session is damaged".to_owned();
        Ok(Finding { session: stands_for(key), problem, repaired })
    }
}

/// The other processes that use a database.
struct Others<'a, D>(&'a D);

impl<D: Database> ForeignWrites for Others<'_, D> {
    async fn position(&self) -> Option<u64> {
        // Readers find out about an error when they read.
        self.0.foreign_writes().await.ok().flatten()
    }
}

/// The finding about an acknowledged session that is not in the database.
const LOST: &str = "the session is lost: the `-wal` file that the database needs is damaged";

/// The number of sessions that are checked concurrently.
const AT_ONCE: usize = 3;
/// The repair of a session with an altered column.
const LOOK: &str = "the session is suspended; check its title, directory and steps";
/// The repair of a session of which nothing else is left.
const STAYS: &str = "the session stays deleted, because none of its other data exists";

/// Commits a transaction, or rolls it back if its operation failed.
pub(crate) async fn end<T>(
    transaction: Box<dyn Transaction>,
    done: Result<T, Failure>,
) -> Result<T, Failure> {
    match done {
        Ok(value) => {
            transaction.commit().await?;
            Ok(value)
        }
        Err(failure) => {
            transaction.rollback().await?;
            Err(failure)
        }
    }
}

#[async_trait]
impl<D: Database> SessionStore for SqlStore<D> {
    async fn create(&self, new: NewSession<'_>) -> Result<SessionHeader, StoreError> {
        let (key, header) = within!(self.writing, &new.header.id, |it| writing::create(it, new))?;
        self.database.acknowledge(Counter::Version, key, &header.id, header.version);
        Ok(header)
    }

    async fn header(&self, id: &SessionId) -> Result<Option<SessionHeader>, StoreError> {
        let found = within!(self.looking, id, |it| loading::find(it, id))?;
        if found.is_none() && self.database.lost().contains(id) {
            return Err(StoreError::Corrupt { id: id.clone(), reason: LOST.to_owned() });
        }
        Ok(found)
    }

    async fn definition(&self, id: &SessionId) -> Result<Option<AgentDefinition>, StoreError> {
        within!(self.reading, id, |it| loading::definition(it, id))
    }

    async fn load(&self, id: &SessionId) -> Result<Option<LoadedSession>, StoreError> {
        match within!(self.reading, id, |it| loading::begin(it, id))? {
            Some(loading) => loading.end().await.map(Some),
            None => Ok(None),
        }
    }

    async fn load_from(
        &self,
        id: &SessionId,
        branch: u32,
        first: Seq,
    ) -> Result<Option<(SessionHeader, Vec<ChangeRecord>)>, StoreError> {
        let newer = within!(self.reading, id, |it| loading::read_from(it, id, branch, first))?;
        let Some((header, batches)) = newer else { return Ok(None) };
        let changes = decode_from(id, first, header.length, &batches)?;
        Ok(changes.map(|it| (header, it)))
    }

    async fn append(&self, write: AppendRequest<'_>) -> Result<u64, StoreError> {
        let (key, version) = within!(self.writing, write.id, |it| writing::append(it, write))?;
        self.database.acknowledge(Counter::Version, key, write.id, version);
        Ok(version)
    }

    async fn rewind(
        &self,
        id: &SessionId,
        expected: u64,
        at: Seq,
        lease: Option<&Lease>,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let rewound =
            within!(self.writing, id, |it| writing::rewind(it, id, expected, at, lease, now));
        let (key, version) = rewound?;
        self.database.acknowledge(Counter::Version, key, id, version);
        Ok(version)
    }

    async fn list(&self, query: &SessionQuery) -> Result<SessionList, StoreError> {
        let mut page = within!(self.looking, |it| listing::list(it, query))?;
        if query.after.is_none() {
            page.unreadable.extend(self.database.lost());
        }
        Ok(page)
    }

    async fn delete(&self, id: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let _told = self.quiet.telling([id]);
        if let Some((key, version)) = within!(self.writing, id, |it| writing::delete(it, id, now))?
        {
            self.database.acknowledge(Counter::Version, key, id, version);
            self.waiters.wake_all(id);
        }
        Ok(())
    }

    async fn delete_unused(
        &self,
        ids: &[SessionId],
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<SessionId>, StoreError> {
        let _told = self.quiet.telling(ids);
        let deleted = within!(self.writing, |it| writing::delete_unused(it, ids, before, now))?;
        for (key, id, version) in &deleted {
            self.database.acknowledge(Counter::Version, *key, id, *version);
        }
        Ok(deleted.into_iter().map(|(_, id, _)| id).collect())
    }

    async fn named(&self, beginning: &str, most: usize) -> Result<Vec<SessionId>, StoreError> {
        let mut names = within!(self.looking, |it| listing::named(it, beginning, most))?;
        names.extend(
            self.database.lost().into_iter().filter(|it| it.as_str().starts_with(beginning)),
        );
        Ok(names)
    }

    async fn lease(&self, id: &SessionId, claim: LeaseRequest<'_>) -> Result<Lease, StoreError> {
        let _told = self.quiet.telling([id]);
        within!(self.writing, id, |it| leasing::lease(it, id, claim))
    }

    async fn renew(
        &self,
        lease: &Lease,
        now: Timestamp,
        lasts: Duration,
    ) -> Result<Lease, StoreError> {
        within!(self.writing, &lease.id, |it| leasing::renew(it, lease, now, lasts))
    }

    async fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let _told = self.quiet.telling([&lease.id]);
        within!(self.writing, &lease.id, |it| leasing::release(it, lease))
    }

    async fn holder(&self, id: &SessionId, now: Timestamp) -> Result<Option<Arc<str>>, StoreError> {
        match within!(self.looking, id, |it| leasing::holder(it, id, now)) {
            Err(StoreError::NotFound(_)) => Ok(None),
            found => found,
        }
    }

    async fn send_control(
        &self,
        id: &SessionId,
        control: &ControlMessage,
    ) -> Result<(), StoreError> {
        let _told = self.quiet.telling([id]);
        let (key, number) = within!(self.writing, id, |it| leasing::post(it, id, control))?;
        self.database.acknowledge(Counter::Messages, key, id, number);
        Ok(())
    }

    async fn take_control(&self, lease: &Lease) -> Result<Vec<Posted>, StoreError> {
        // Every run asks this twice a second, and seldom is there anything.
        let now = self.quiet.moment(self.database.foreign_writes().await?);
        if self.quiet.is_quiet(lease, now) {
            return Ok(Vec::new());
        }
        let posted = self.posted(lease).await?;
        if posted.is_empty() {
            self.quiet.note(lease, now);
        }
        Ok(posted)
    }

    async fn append_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        notes: &[Arc<[u8]>],
        keep: Option<u64>,
    ) -> Result<u64, StoreError> {
        self.appender.append(id, log, notes, keep).await
    }

    async fn read_log(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        within!(self.looking, id, |it| notes::notes(it, id, log, after, limit))
    }

    async fn wait(
        &self,
        id: &SessionId,
        log: SessionLog,
        after: u64,
        clock: &dyn Clock,
        at_most: Duration,
    ) -> Result<Vec<LogEntry>, StoreError> {
        if let Some(news) = self.database.news() {
            return self.wait_for_news(news, id, log, after, clock, at_most).await;
        }
        let reader = self.waiters.register(id, log, after);
        let read = || self.read_log(id, log, after, WAIT_LIMIT);
        reader.wait_beside(clock, at_most, read, &Others(&*self.database)).await
    }

    async fn reclaim(&self, abandoned: bool) -> Result<ReclaimStats, StoreError> {
        let reclaimed = within!(self.writing, |it| maintenance::reclaim(it, abandoned))?;
        self.database.give_back().await?;
        Ok(reclaimed)
    }

    async fn check(&self, repair: bool) -> Result<Vec<Finding>, StoreError> {
        let mut findings = self.database.look_below(repair).await?;
        let named = within!(self.reading, |it| maintenance::names(it))?;
        let checks = stream::iter(named).map(|named| self.check_named(named, repair));
        let mut checks = pin!(checks.buffered(AT_ONCE));
        while let Some(finding) = checks.next().await {
            findings.extend(finding?);
        }
        for (key, id, problem) in within!(self.reading, |it| maintenance::losses(it))? {
            let repaired = if repair {
                within!(self.writing, |it| maintenance::accept_loss(it, key))?;
                Some("the session continues without the missing data when it is resumed".to_owned())
            } else {
                None
            };
            findings.push(Finding { session: Some(id), problem, repaired });
        }
        for id in self.database.lost() {
            let repaired = repair.then(|| {
                self.database.forget_lost(&id);
                "the session is no longer listed".to_owned()
            });
            findings.push(Finding { session: Some(id), problem: LOST.to_owned(), repaired });
        }
        Ok(findings)
    }

    async fn close(&self) {
        self.database.close().await;
    }

    async fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        Ok(self.database.back_up(to).await?)
    }

    async fn missing(&self, id: &SessionId) -> Result<Option<Finding>, StoreError> {
        let problem = within!(self.reading, id, |it| loading::missing(it, id))?;
        let finding = |problem| Finding { session: Some(id.clone()), problem, repaired: None };
        Ok(problem.map(finding))
    }

    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvaged>, StoreError> {
        within!(self.reading, id, |it| loading::salvage(it, id))
    }

    fn jobs(&self) -> Option<&dyn JobQueue> {
        Some(self)
    }

    fn ledger(&self) -> Option<&dyn UsageLedger> {
        Some(self)
    }
}

impl<D> fmt::Debug for SqlStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlStore({})", self.place)
    }
}
