//! Jobs that wait for a decision, and resume once it is made.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::Timestamp;
use loopwright_sessions::{
    JobOutcome, JobQuery, JobRecord, JobStatus, Scheduler, SessionError, SessionId, SessionStatus,
    StoreError,
};

use crate::{deliver::DeliveredJob, worker::Worker};

/// The interval between checks of parked jobs.
const INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of parked jobs in a check.
const MAX_PARKED: usize = 1_000;

/// What was seen of the sessions of parked jobs.
#[derive(Default)]
pub(crate) struct ParkedJobs {
    /// When they were looked at last.
    last: Mutex<Option<Duration>>,
    /// The versions of sessions that still wait, and until when. They are not loaded again before they are written, or
    /// before that time.
    seen: Mutex<HashMap<SessionId, (u64, Option<Timestamp>)>>,
}

impl ParkedJobs {
    /// Lets workers claim the jobs again whose sessions have every answer they wait for, or whose deadlines have passed. The decision may come from any
    /// process: it is read off the session, so none is missed, whenever the process that made it ended. Jobs of deleted
    /// sessions fail.
    pub(crate) async fn resume(
        &self,
        worker: &Worker,
        queue: &dyn Scheduler,
    ) -> Result<(), SessionError> {
        if !self.is_due(worker.env.clock.monotonic()) {
            return Ok(());
        }
        let query = JobQuery { status: Some(JobStatus::NeedsInput), ..JobQuery::last(MAX_PARKED) };
        let parked = queue.records(&query).await?;
        let sessions: HashSet<&SessionId> = parked.iter().map(|it| &it.job.session).collect();
        lock(&self.seen).retain(|id, _| sessions.contains(id));
        for record in &parked {
            self.resume_job(record, worker, queue).await?;
        }
        Ok(())
    }

    async fn resume_job(
        &self,
        record: &JobRecord,
        worker: &Worker,
        queue: &dyn Scheduler,
    ) -> Result<(), SessionError> {
        let Worker { store, env, cache, .. } = worker;
        let now = env.clock.now();
        let id = &record.job.session;
        let header = match store.header(id).await {
            Ok(Some(header)) => header,
            Err(error @ StoreError::Unavailable(_)) => return Err(error.into()),
            // A session that cannot be read keeps no other from being resumed.
            Ok(None) | Err(_) => return Ok(()),
        };
        if header.status == SessionStatus::Deleted {
            let reason = StoreError::NotFound(id.clone()).to_string();
            queue.answered(id, &JobOutcome::Failed(reason.into()), now).await?;
            return Ok(());
        }
        let is_as_seen = lock(&self.seen).get(id).is_some_and(|(version, until)| {
            *version == header.version && until.is_none_or(|until| now < until)
        });
        if is_as_seen {
            return Ok(());
        }
        let waits_until = match cache.load(&**store, id).await {
            Ok(session) => {
                let state = session.state();
                let is_answered = state.is_interrupted() && !state.waits_at(now);
                // A later job of the session goes on with what this one began.
                if is_answered && DeliveredJob::of(state, &record.job.id).is_some() {
                    queue.answered(id, &JobOutcome::Released, now).await?;
                }
                state.waits_until()
            }
            Err(error @ SessionError::Store(StoreError::Unavailable(_))) => return Err(error),
            Err(_) => None,
        };
        lock(&self.seen).insert(id.clone(), (header.version, waits_until));
        Ok(())
    }

    fn is_due(&self, now: Duration) -> bool {
        let mut last = lock(&self.last);
        let is_due = last.is_none_or(|last| now.saturating_sub(last) >= INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
