//! What a worker does beside its jobs: it renews claims, takes over jobs of dead processes, resumes parked jobs, and pushes those
//! of schedules.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use loopwright_sessions::{JobId, JobQueue, Owner, Scheduler};

use crate::{event::WorkerEvent, parked::ParkedJobs, schedules::DueSchedules, worker::Worker};

/// The upkeep of the jobs in a queue.
#[derive(Clone, Copy)]
pub(crate) struct Upkeep<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) queue: &'a dyn JobQueue,
    /// The engine that delivers the jobs, unless workers claim them.
    pub(crate) engine: Option<&'a dyn Scheduler>,
    pub(crate) watched: &'a Watched,
}

/// What the upkeep remembers between its rounds.
#[derive(Default)]
pub(crate) struct Watched {
    parked: ParkedJobs,
    schedules: DueSchedules,
}

/// The jobs that a worker works on, and how often: the claim of a job can be lost while its run has not ended, and the same worker can
/// claim it again.
#[derive(Debug, Default)]
pub(crate) struct HeldJobs(Mutex<HashMap<JobId, usize>>);

impl HeldJobs {
    /// Has the claim of a job renewed until the result is dropped.
    pub(crate) fn hold<'a>(&'a self, job: &'a JobId) -> HeldJob<'a> {
        *self.locked().entry(job.clone()).or_default() += 1;
        HeldJob { held: self, job }
    }

    fn ids(&self) -> Vec<JobId> {
        self.locked().keys().cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<JobId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job whose claim is renewed.
pub(crate) struct HeldJob<'a> {
    held: &'a HeldJobs,
    job: &'a JobId,
}

impl Drop for HeldJob<'_> {
    fn drop(&mut self) {
        let mut held = self.held.locked();
        if let Some(count) = held.get_mut(self.job) {
            *count -= 1;
            if *count == 0 {
                held.remove(self.job);
            }
        }
    }
}

impl Upkeep<'_> {
    /// Renews the claims while jobs run.
    pub(crate) async fn keep(&self) {
        let Worker { options, env, owner, .. } = self.worker;
        loop {
            env.clock.sleep(options.lease_ttl / 3).await;
            let (now, held) = (env.clock.now(), self.worker.held.ids());
            if let Err(error) = self.queue.renew(owner, &held, now, options.lease_ttl).await {
                self.worker.troubled(&error);
            }
            self.take_over().await;
            self.resume_parked().await;
            self.push_scheduled().await;
        }
    }

    /// Lets parked jobs be claimed that were decided about. If that cannot be found out now, it can be later.
    pub(crate) async fn resume_parked(&self) {
        let scheduler = self.engine.unwrap_or(self.queue);
        if let Err(error) = self.watched.parked.resume(self.worker, scheduler).await {
            self.worker.tell(|| WorkerEvent::QueueUnavailable(error.to_string().into()));
        }
    }

    /// Pushes the jobs of schedules that are due. If that fails, the next attempt pushes them.
    pub(crate) async fn push_scheduled(&self) {
        let Worker { store, env, .. } = self.worker;
        // Boxed, because it is rarely more than a look at the time.
        match Box::pin(self.watched.schedules.push(store, self.queue, env)).await {
            Ok(due) => {
                for (schedule, reason) in due.skipped {
                    let schedule = schedule.name;
                    self.worker.tell(|| WorkerEvent::ScheduleSkipped { schedule, reason });
                }
                for job in due.pushed {
                    // It is recorded already, and the engine is told of it.
                    if let Some(engine) = self.engine
                        && let Err(error) = engine.push(&job, env.clock.now()).await
                    {
                        self.worker.troubled(&error);
                    }
                }
            }
            Err(error) => self.worker.troubled(&error),
        }
    }

    /// Gives back what processes of this machine had that are gone. If that cannot be found out now, it can
    /// be later.
    pub(crate) async fn take_over(&self) {
        for owner in self.queue.holders().await.unwrap_or_default() {
            if !Owner::parse(&owner).is_some_and(|it| it.is_gone()) {
                continue;
            }
            let now = self.worker.env.clock.now();
            match self.queue.release_all(&owner, now).await {
                Ok(0) | Err(_) => {}
                Ok(jobs) => self.worker.tell(|| WorkerEvent::JobsTakenOver { owner, jobs }),
            }
        }
    }
}
