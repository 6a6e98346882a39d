//! Who runs jobs, and when: the trait of schedulers, and that of queues from which workers claim jobs.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::stream::BoxStream;
use loopwright_core::Timestamp;

use crate::{
    id::{JobId, SessionId},
    jobs::{ClaimedJob, Job, JobOutcome, JobQuery, JobRecord, JobStatus},
    labels::JobLabels,
    schedule::Schedule,
    store::StoreError,
};

/// Runs jobs on workers, as the programs see it that push jobs and look at them.
///
/// The queue of a database is one implementation, the [`JobQueue`], from which workers claim jobs. A workflow engine that
/// calls workers itself is another. In both, the session store has the conversation and what took effect, and the
/// scheduler has only references to it.
///
/// A job does not run before its [start](Job::start_at). In a queue, it runs on a worker that has every label that it
/// [needs](Job::needs), and among jobs that can run, those with the highest [priority](Job::priority) start first. Among those, each principal, which
/// the [tag](SessionId::tag) of the session names, gets its turn, so a principal with many jobs does not delay the
/// others. Jobs of one principal start in the order in which they could run.
///
/// A job is delivered at least once: if its worker dies, another worker gets it. Jobs of one session are delivered one
/// after the other, in the order in which they were pushed. A job that waits for a retry blocks the later ones; one that
/// waits for its start does not.
/// Acknowledged writes survive a crash of the machine.
/// An engine that cannot choose by labels or priorities refuses such jobs as [`Unsupported`](StoreError::Unsupported).
/// [`conformance::SCHEDULER_CASES`](crate::conformance::SCHEDULER_CASES) contains tests of these rules, and
/// [`conformance::ORDER_CASES`](crate::conformance::ORDER_CASES) tests of the order.
#[async_trait]
pub trait Scheduler: Send + Sync {
    /// Adds a job, and returns `true` if it is new. An existing job with the same ID does not
    /// change.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if the session does not exist.
    async fn push(&self, job: &Job, now: Timestamp) -> Result<bool, StoreError>;

    /// Adds jobs as [`push`](Scheduler::push) does, and returns for each of them whether it is new. If this fails, some of
    /// them may have been added.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if a session does not exist.
    async fn push_all(&self, jobs: &[Job], now: Timestamp) -> Result<Vec<bool>, StoreError> {
        let mut are_new = Vec::with_capacity(jobs.len());
        for job in jobs {
            are_new.push(self.push(job, now).await?);
        }
        Ok(are_new)
    }

    /// Adds a job if no other job of its session is queued or running. One that waits for its start does not count. Of two
    /// calls at once for one session, one adds its job.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if the session does not exist.
    async fn push_if_idle(&self, job: &Job, now: Timestamp) -> Result<PushOutcome, StoreError>;

    /// Ends the jobs of a session that wait for a decision, because the session has continued.
    /// Returns their number.
    async fn answered(
        &self,
        session: &SessionId,
        outcome: &JobOutcome,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Returns `true` if a job of the session is queued or running. One that waits for its [start](Job::start_at) does not
    /// count.
    async fn has_jobs(&self, session: &SessionId, now: Timestamp) -> Result<bool, StoreError>;

    /// Returns the record of a job, or `None` if it does not exist.
    async fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError>;

    /// Returns the records of jobs up to the limit, the newest first.
    async fn records(&self, query: &JobQuery) -> Result<Vec<JobRecord>, StoreError>;

    /// Returns the number of jobs with a status.
    async fn count(&self, status: JobStatus) -> Result<u64, StoreError>;

    /// Deletes jobs that ended and last changed their status before a time, and returns their
    /// number. Their IDs can be used again.
    async fn delete_finished(&self, before: Timestamp) -> Result<u64, StoreError>;

    /// Adds a schedule, and returns `true` if its name is new. An existing schedule does not change.
    ///
    /// At each time, one job is pushed, however many workers there are. Times that have passed when the scheduler runs again are
    /// one job.
    async fn add_schedule(&self, schedule: &Schedule) -> Result<bool, StoreError>;

    /// Returns all schedules, ordered by name.
    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError>;

    /// Removes a schedule, and returns `true` if it existed. Its jobs stay.
    async fn remove_schedule(&self, name: &JobId) -> Result<bool, StoreError>;
}

/// A scheduler from which workers claim jobs.
///
/// A queue for many machines uses its own clock for claims and delays.
/// [`conformance::JOB_CASES`](crate::conformance::JOB_CASES) contains tests of these rules.
#[async_trait]
pub trait JobQueue: Scheduler {
    /// Claims the next job for a worker, for a limited time. Returns `None` if the worker can run none now. The cost does
    /// not grow with the number of jobs that wait.
    ///
    /// A job can be claimed again if its holder did not [`renew`](JobQueue::renew) it in time.
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<Option<ClaimedJob>, StoreError>;

    /// Claims this job for a worker, for a limited time, whatever labels it needs and whichever jobs come before it: the caller has
    /// decided that it runs now. A job that waits for a decision can be claimed too. Returns `None` if it does not exist or has
    /// ended, its time has not come, or another claim lasts.
    async fn claim_job(
        &self,
        id: &JobId,
        request: ClaimRequest<'_>,
    ) -> Result<Option<ClaimedJob>, StoreError>;

    /// Returns `true` if a job runs, or waits for a worker with these labels. A job that waits for its
    /// [start](Job::start_at) does not count.
    async fn has_work(&self, labels: &JobLabels) -> Result<bool, StoreError>;

    /// Extends the claims of a holder on these jobs, and returns their number. Its other claims end at their time: a holder does
    /// not know of a claim whose response it never received.
    async fn renew(
        &self,
        owner: &str,
        jobs: &[JobId],
        now: Timestamp,
        lasts: Duration,
    ) -> Result<u64, StoreError>;

    /// Returns `true` if no other worker has claimed the job since, and it has not ended.
    async fn holds(&self, claimed: &ClaimedJob) -> Result<bool, StoreError>;

    /// Records the outcome of a job. Returns `true` if the job was still held; otherwise it does
    /// not change.
    async fn settle(
        &self,
        claimed: &ClaimedJob,
        outcome: &JobOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Returns the holders of jobs.
    async fn holders(&self) -> Result<Vec<Arc<str>>, StoreError>;

    /// Releases all jobs of a holder that has exited. Returns their number.
    async fn release_all(&self, owner: &str, now: Timestamp) -> Result<u64, StoreError>;

    /// Returns the current time of the queue, and the schedules whose next time has come.
    async fn due_schedules(&self, now: Timestamp)
    -> Result<(Timestamp, Vec<Schedule>), StoreError>;

    /// Pushes the job of a due schedule and sets the next time, or removes the schedule if that is `None`. Returns `false` and
    /// changes nothing if another worker has done so.
    ///
    /// # Errors
    ///
    /// [`NotFound`](StoreError::NotFound) if the session of the job does not exist. The schedule is not changed.
    async fn push_due(
        &self,
        schedule: &Schedule,
        job: Option<&Job>,
        next_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Returns notifications that jobs may be ready. `None`, the default, means that workers must poll.
    fn news(&self) -> Option<JobNews> {
        None
    }
}

/// Notifications that jobs may be ready, because they were pushed or released, or the job before them has ended.
///
/// Nothing is reported of jobs whose time has come, and of those of a worker that has died: workers poll for these.
pub struct JobNews {
    /// Yields when there are news. Several at once can be one item.
    pub changes: BoxStream<'static, ()>,
    /// Whether it reports the jobs of all processes. If not, it reports those of this process only.
    pub is_complete: bool,
}

impl fmt::Debug for JobNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobNews").field("is_complete", &self.is_complete).finish_non_exhaustive()
    }
}

/// A request for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRequest<'a> {
    /// The new holder.
    pub owner: &'a str,
    /// The labels of the worker.
    pub labels: &'a JobLabels,
    /// The current time.
    pub now: Timestamp,
    /// The duration of the claim.
    pub ttl: Duration,
}

impl<'a> ClaimRequest<'a> {
    /// Creates a request of a worker without labels.
    pub fn new(owner: &'a str, now: Timestamp, ttl: Duration) -> Self {
        Self { owner, labels: JobLabels::EMPTY, now, ttl }
    }

    /// Sets the labels of the worker.
    #[must_use]
    pub fn with_labels(self, labels: &'a JobLabels) -> Self {
        Self { labels, ..self }
    }
}

/// What became of a job that was to be added only to an idle session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The job is in the queue now.
    Added,
    /// A job with the same ID exists; it does not change.
    Exists,
    /// Another job of the session is queued or running; the job was not added.
    Busy,
}
