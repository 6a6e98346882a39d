//! The store as a queue of jobs: each method is one transaction.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use loopwright_core::Timestamp;
use loopwright_sessions::{
    ClaimRequest, ClaimedJob, Job, JobId, JobLabels, JobNews, JobOutcome, JobQuery, JobQueue,
    JobRecord, JobStatus, PushOutcome, Schedule, Scheduler, SessionId, StoreError,
};

use crate::{
    claiming::{self, MAX_ENTERING},
    database::{Counter, Database},
    jobs,
    schedules::{self, Pushed},
    store::{SqlStore, within},
};

#[async_trait]
impl<D: Database> Scheduler for SqlStore<D> {
    async fn push(&self, job: &Job, now: Timestamp) -> Result<bool, StoreError> {
        let pushed = within!(self.writing, |it| jobs::push(it, job, now))?;
        if let Some((key, number)) = pushed {
            self.database.acknowledge(Counter::Jobs, key, &job.session, number);
            self.database.tell_jobs();
        }
        Ok(pushed.is_some())
    }

    /// Some hundred jobs at a time are one transaction.
    async fn push_all(&self, jobs: &[Job], now: Timestamp) -> Result<Vec<bool>, StoreError> {
        let mut are_new = Vec::with_capacity(jobs.len());
        for jobs in jobs.chunks(MAX_ENTERING) {
            let pushed = within!(self.writing, |it| jobs::push_all(it, jobs, now))?;
            for (job, pushed) in jobs.iter().zip(pushed) {
                if let Some((key, number)) = pushed {
                    self.database.acknowledge(Counter::Jobs, key, &job.session, number);
                }
                are_new.push(pushed.is_some());
            }
            self.database.tell_jobs();
        }
        Ok(are_new)
    }

    async fn push_if_idle(&self, job: &Job, now: Timestamp) -> Result<PushOutcome, StoreError> {
        match within!(self.writing, |it| jobs::push_if_idle(it, job, now))? {
            None => Ok(PushOutcome::Busy),
            Some(None) => Ok(PushOutcome::Exists),
            Some(Some((key, number))) => {
                self.database.acknowledge(Counter::Jobs, key, &job.session, number);
                self.database.tell_jobs();
                Ok(PushOutcome::Added)
            }
        }
    }

    async fn answered(
        &self,
        session: &SessionId,
        outcome: &JobOutcome,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let jobs = within!(self.writing, session, |it| jobs::answered(it, session, outcome, now))?;
        self.database.tell_jobs();
        Ok(jobs)
    }

    async fn has_jobs(&self, session: &SessionId, now: Timestamp) -> Result<bool, StoreError> {
        within!(self.looking, |it| jobs::has_jobs(it, session, now))
    }

    async fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError> {
        within!(self.looking, |it| jobs::job(it, id))
    }

    async fn records(&self, query: &JobQuery) -> Result<Vec<JobRecord>, StoreError> {
        within!(self.looking, |it| jobs::records(it, query))
    }

    async fn count(&self, status: JobStatus) -> Result<u64, StoreError> {
        within!(self.looking, |it| jobs::count(it, status))
    }

    async fn delete_finished(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.database.forget_jobs();
        within!(self.writing, |it| jobs::forget(it, before))
    }

    async fn add_schedule(&self, schedule: &Schedule) -> Result<bool, StoreError> {
        within!(self.writing, |it| schedules::add(it, schedule))
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        within!(self.looking, |it| schedules::all(it))
    }

    async fn remove_schedule(&self, name: &JobId) -> Result<bool, StoreError> {
        within!(self.writing, |it| schedules::remove(it, name))
    }
}

#[async_trait]
impl<D: Database> JobQueue for SqlStore<D> {
    /// Usually there is nothing to claim, and then nothing is locked.
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<Option<ClaimedJob>, StoreError> {
        let ClaimRequest { labels, now, .. } = request;
        if !within!(self.looking, |it| claiming::has_ready(it, labels, now))? {
            return Ok(None);
        }
        within!(self.writing, |it| claiming::claim(it, request))
    }

    async fn claim_job(
        &self,
        id: &JobId,
        request: ClaimRequest<'_>,
    ) -> Result<Option<ClaimedJob>, StoreError> {
        within!(self.writing, |it| claiming::claim_job(it, id, request))
    }

    async fn has_work(&self, labels: &JobLabels) -> Result<bool, StoreError> {
        within!(self.reading, |it| jobs::has_work(it, labels))
    }

    /// Some hundred jobs at a time are one transaction.
    async fn renew(
        &self,
        owner: &str,
        jobs: &[JobId],
        now: Timestamp,
        lasts: Duration,
    ) -> Result<u64, StoreError> {
        let mut renewed = 0;
        for jobs in jobs.chunks(MAX_ENTERING) {
            renewed += within!(self.writing, |it| jobs::renew(it, owner, jobs, now, lasts))?;
        }
        Ok(renewed)
    }

    async fn holds(&self, claimed: &ClaimedJob) -> Result<bool, StoreError> {
        within!(self.looking, |it| jobs::holds(it, claimed))
    }

    async fn settle(
        &self,
        claimed: &ClaimedJob,
        outcome: &JobOutcome,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let is_settled = within!(self.writing, |it| jobs::settle(it, claimed, outcome, now))?;
        self.database.tell_jobs();
        Ok(is_settled)
    }

    async fn holders(&self) -> Result<Vec<Arc<str>>, StoreError> {
        within!(self.looking, |it| jobs::holders(it))
    }

    async fn release_all(&self, owner: &str, now: Timestamp) -> Result<u64, StoreError> {
        let jobs = within!(self.writing, |it| jobs::give_back(it, owner, now))?;
        self.database.tell_jobs();
        Ok(jobs)
    }

    async fn due_schedules(
        &self,
        now: Timestamp,
    ) -> Result<(Timestamp, Vec<Schedule>), StoreError> {
        within!(self.looking, |it| schedules::due(it, now))
    }

    async fn push_due(
        &self,
        schedule: &Schedule,
        job: Option<&Job>,
        next_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let session = job.map_or(&schedule.session, |it| &it.session);
        let pushed = within!(self.writing, session, |it| {
            schedules::push_due(it, schedule, job, next_at, now)
        })?;
        let Pushed::Done(pushed) = pushed else { return Ok(false) };
        if let Some((key, number)) = pushed {
            self.database.acknowledge(Counter::Jobs, key, session, number);
            self.database.tell_jobs();
        }
        Ok(true)
    }

    fn news(&self) -> Option<JobNews> {
        let (news, is_complete) = self.database.job_news();
        let changes = stream::unfold(news, async |mut news| {
            // There are no news once the store is gone.
            news.changed().await.ok().map(|()| ((), news))
        });
        Some(JobNews { changes: changes.boxed(), is_complete })
    }
}
