//! The scheduler: jobs are recorded in the session store and delivered by Restate.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use loopwright_core::Timestamp;
use loopwright_sessions::{
    Job, JobId, JobLabels, JobOutcome, JobQuery, JobQueue, JobRecord, JobStatus, PushOutcome,
    Schedule, Scheduler, SessionId, SessionStore, StoreError,
};
use loopwright_worker::NoQueue;

use crate::{
    error::RestateError,
    ingress::{Ingress, idempotency_key},
    service::RestateService,
};

/// The number of concurrent requests of one call.
const AT_ONCE: usize = 16;

/// The most jobs that a look at parked jobs finds, and those of one page of overdue ones.
const MAX_FOUND: usize = 1_000;

/// The most pages of waiting jobs that one look for overdue ones reads. The next look continues there.
const MAX_PAGES: usize = 10;

/// The most deliveries that a worker remembers.
const MAX_KNOWN: usize = 100_000;

/// What a worker remembers of the jobs that it has sent again.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// The deliveries that Restate knows.
    known: HashSet<String>,
    /// The job before which the next look continues; `None` for the newest ones.
    before: Option<JobId>,
}

/// Jobs that Restate delivers.
///
/// A job is recorded in the queue of the session store before Restate learns of it. If the process dies in between, or Restate
/// is away, workers send it later. Recorded jobs need a label that no worker has which claims jobs by itself, so both kinds
/// of workers can use one store.
#[derive(Clone)]
pub struct RestateScheduler {
    store: Arc<dyn SessionStore>,
    ingress: Ingress,
    label: JobLabels,
}

impl RestateScheduler {
    /// Creates a scheduler for the sessions of a store, with the address of Restate's ingress, such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is invalid.
    pub fn new(
        store: Arc<dyn SessionStore>,
        url: &str,
        service: &RestateService,
    ) -> Result<Self, RestateError> {
        let ingress = Ingress::new(url, service.clone())?;
        Ok(Self { store, ingress, label: service.label() })
    }

    /// Sends the jobs that should have started before this time, but for those whose next delivery is known, and adds them to
    /// the known ones. Those that Restate has are not delivered twice. Returns their number.
    ///
    /// Workers call this from time to time, for jobs that were recorded by a process that died before it sent them. A call reads a
    /// limited number of waiting jobs, and the next one those before, until all were read.
    pub(crate) async fn send_overdue(
        &self,
        before: Timestamp,
        overdue: &mut Overdue,
    ) -> Result<usize, StoreError> {
        let mut sent = 0;
        for _ in 0..MAX_PAGES {
            let query = JobQuery {
                status: Some(JobStatus::Queued),
                before: overdue.before.clone(),
                ..JobQuery::last(MAX_FOUND)
            };
            let mut page = self.queue()?.records(&query).await?;
            let next = page.last().filter(|_| page.len() == MAX_FOUND);
            let next = next.map(|it| it.job.id.clone());
            page.retain(|it| {
                self.is_ours(it)
                    && it.ready_at.max(it.updated_at) < before
                    && !overdue.known.contains(&idempotency_key(it))
            });
            // The newest come first.
            page.reverse();
            let (keys, result) = self.send_all(page, before).await;
            if overdue.known.len() > MAX_KNOWN {
                overdue.known.clear();
            }
            sent += keys.len();
            overdue.known.extend(keys);
            // A job that is refused again and again does not keep the next look from older ones.
            overdue.before = next;
            result?;
            if overdue.before.is_none() {
                break;
            }
        }
        Ok(sent)
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &RestateService {
        self.ingress.service()
    }

    pub(crate) fn store(&self) -> &dyn SessionStore {
        &*self.store
    }

    fn queue(&self) -> Result<&dyn JobQueue, StoreError> {
        self.store.jobs().ok_or_else(|| StoreError::Unavailable(NoQueue.into()))
    }

    fn is_ours(&self, record: &JobRecord) -> bool {
        record.job.needs == self.label
    }

    /// Returns a job as it is recorded.
    fn labelled(&self, job: &Job) -> Result<Job, StoreError> {
        let needs = self.needs(&job.needs, job.priority)?;
        Ok(Job { needs, ..job.clone() })
    }

    fn needs(&self, needs: &JobLabels, priority: i32) -> Result<JobLabels, StoreError> {
        let reason = if !needs.is_empty() && *needs != self.label {
            "Restate does not deliver jobs by label; omit labels, or use a Restate service for \
            each kind of worker"
        } else if priority != 0 {
            "Restate does not order jobs by priority; omit the priority, or use the database queue"
        } else {
            return Ok(self.label.clone());
        };
        Err(StoreError::Unsupported(reason.into()))
    }

    /// Returns a record as it was pushed.
    fn unlabelled(&self, mut record: JobRecord) -> JobRecord {
        if self.is_ours(&record) {
            record.job.needs = JobLabels::default();
        }
        record
    }

    /// Sends a job that was just recorded, or one that was recorded before and has not started.
    async fn send_pushed(&self, id: &JobId, now: Timestamp) -> Result<(), StoreError> {
        let record = self.queue()?.job(id).await?;
        match record {
            Some(record) if record.status == JobStatus::Queued && self.is_ours(&record) => {
                Ok(self.send(&record, now).await?)
            }
            _ => Ok(()),
        }
    }

    async fn send(&self, record: &JobRecord, now: Timestamp) -> Result<(), RestateError> {
        let delay = record.job.start_at.filter(|_| record.claims == 0);
        let delay = delay.map_or(Duration::ZERO, |at| at.since(now));
        self.ingress.send(record, delay).await
    }

    /// Sends jobs, those of each session in their order. Returns the keys of the accepted deliveries, and the first error.
    ///
    /// A job that Restate refuses delays only the later ones of its session. If Restate is unavailable, the remaining ones are not
    /// sent.
    async fn send_all(
        &self,
        records: impl IntoIterator<Item = JobRecord>,
        now: Timestamp,
    ) -> (Vec<String>, Result<(), StoreError>) {
        let mut by_session: BTreeMap<SessionId, Vec<JobRecord>> = BTreeMap::new();
        for record in records {
            by_session.entry(record.job.session.clone()).or_default().push(record);
        }
        let send = |records: Vec<JobRecord>| async move {
            let mut keys = Vec::with_capacity(records.len());
            for record in &records {
                if let Err(error) = self.send(record, now).await {
                    return (keys, Err(error));
                }
                keys.push(idempotency_key(record));
            }
            (keys, Ok(()))
        };
        let mut results =
            stream::iter(by_session.into_values().map(send)).buffer_unordered(AT_ONCE);
        let (mut accepted, mut first) = (Vec::new(), Ok(()));
        while let Some((keys, result)) = results.next().await {
            accepted.extend(keys);
            if let Err(error) = result {
                let is_refusal = matches!(error, RestateError::Refused { .. });
                first = first.and(Err(error.into()));
                if !is_refusal {
                    break;
                }
            }
        }
        (accepted, first)
    }
}

#[async_trait]
impl Scheduler for RestateScheduler {
    /// If Restate does not accept the job, it is recorded all the same, and workers send it later.
    async fn push(&self, job: &Job, now: Timestamp) -> Result<bool, StoreError> {
        let is_new = self.queue()?.push(&self.labelled(job)?, now).await?;
        self.send_pushed(&job.id, now).await?;
        Ok(is_new)
    }

    async fn push_all(&self, jobs: &[Job], now: Timestamp) -> Result<Vec<bool>, StoreError> {
        let jobs: Vec<Job> = jobs.iter().map(|it| self.labelled(it)).collect::<Result<_, _>>()?;
        let are_new = self.queue()?.push_all(&jobs, now).await?;
        let new = jobs.iter().zip(&are_new).filter(|(_, is_new)| **is_new);
        let record = |job: &Job| JobRecord {
            job: job.clone(),
            status: JobStatus::Queued,
            claims: 0,
            attempts: 0,
            crashes: 0,
            ready_at: now,
            owner: None,
            reason: None,
            created_at: now,
            updated_at: now,
        };
        self.send_all(new.map(|(job, _)| record(job)), now).await.1?;
        Ok(are_new)
    }

    async fn push_if_idle(&self, job: &Job, now: Timestamp) -> Result<PushOutcome, StoreError> {
        let outcome = self.queue()?.push_if_idle(&self.labelled(job)?, now).await?;
        if outcome != PushOutcome::Busy {
            self.send_pushed(&job.id, now).await?;
        }
        Ok(outcome)
    }

    /// Has Restate deliver released jobs again, before their records change: so none is lost if the process dies in
    /// between.
    async fn answered(
        &self,
        session: &SessionId,
        outcome: &JobOutcome,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let queue = self.queue()?;
        if *outcome == JobOutcome::Released {
            let query = JobQuery {
                status: Some(JobStatus::NeedsInput),
                session: Some(session.clone()),
                ..JobQuery::last(MAX_FOUND)
            };
            let mut parked = queue.records(&query).await?;
            parked.retain(|it| self.is_ours(it));
            parked.reverse();
            self.send_all(parked, now).await.1?;
        }
        queue.answered(session, outcome, now).await
    }

    async fn has_jobs(&self, session: &SessionId, now: Timestamp) -> Result<bool, StoreError> {
        self.queue()?.has_jobs(session, now).await
    }

    async fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.queue()?.job(id).await?.map(|it| self.unlabelled(it)))
    }

    async fn records(&self, query: &JobQuery) -> Result<Vec<JobRecord>, StoreError> {
        let records = self.queue()?.records(query).await?;
        Ok(records.into_iter().map(|it| self.unlabelled(it)).collect())
    }

    async fn count(&self, status: JobStatus) -> Result<u64, StoreError> {
        self.queue()?.count(status).await
    }

    async fn delete_finished(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.queue()?.delete_finished(before).await
    }

    /// The workers push its jobs when they are due.
    async fn add_schedule(&self, schedule: &Schedule) -> Result<bool, StoreError> {
        let needs = self.needs(&schedule.needs, schedule.priority)?;
        self.queue()?.add_schedule(&Schedule { needs, ..schedule.clone() }).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        let mut schedules = self.queue()?.schedules().await?;
        for schedule in schedules.iter_mut().filter(|it| it.needs == self.label) {
            schedule.needs = JobLabels::default();
        }
        Ok(schedules)
    }

    async fn remove_schedule(&self, name: &JobId) -> Result<bool, StoreError> {
        self.queue()?.remove_schedule(name).await
    }
}

impl fmt::Debug for RestateScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestateScheduler").field("ingress", &self.ingress).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
