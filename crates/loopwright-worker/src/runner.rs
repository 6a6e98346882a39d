//! One claimed job, from its start to its recorded outcome.

use std::sync::{Arc, Mutex, PoisonError};

use loopwright_core::OnInterrupted;
use loopwright_sessions::{ClaimedJob, JobOutcome, JobQueue, SessionRuntime};
use tokio_util::sync::CancellationToken;

use crate::{
    deliver::DeliverJob,
    event::{JobCounts, WorkerEvent},
    place::JobPlace,
    verdict::JobResult,
    worker::Worker,
};

#[cfg(test)]
mod sizes;

/// Runs claimed jobs for a worker.
#[derive(Clone, Copy)]
pub(crate) struct JobRunner<'a> {
    pub(crate) worker: &'a Worker,
    /// The queue that knows who holds the job.
    pub(crate) queue: &'a dyn JobQueue,
    pub(crate) drain: &'a CancellationToken,
    pub(crate) tally: &'a Mutex<JobCounts>,
}

impl JobRunner<'_> {
    /// Does a job, as far as that goes this time, and returns the outcome that was recorded. `None` if another process
    /// holds the job now.
    pub(crate) async fn perform(&self, claimed: &ClaimedJob) -> Option<JobOutcome> {
        let Worker { options, env, held, .. } = self.worker;
        let _held = held.hold(&claimed.job.id);
        self.worker.tell(|| WorkerEvent::JobStarted(claimed.job.clone()));
        let verdict = self.attempt(claimed).await;
        let outcome = verdict.outcome(claimed, options, env.clock.now());
        let outcome = match outcome {
            Some(outcome) if self.worker.settle(self.queue, claimed, &outcome).await => {
                Some(outcome)
            }
            _ => None,
        };
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).count(outcome.as_ref());
        self.worker.tell(|| match outcome.clone() {
            Some(outcome) => WorkerEvent::JobFinished { job: claimed.job.clone(), outcome },
            None => WorkerEvent::JobLost(claimed.job.clone()),
        });
        outcome
    }

    async fn attempt(&self, claimed: &ClaimedJob) -> JobResult {
        let (worker, job) = (self.worker, &claimed.job);
        if claimed.crashes >= worker.options.max_crashes {
            let reason =
                format!("gave up: {} workers died while processing the job", claimed.crashes);
            return JobResult::Is(JobOutcome::Failed(reason.into()));
        }
        let place = JobPlace::new(&*worker.agents);
        #[cfg(all(feature = "workspaces", target_os = "linux"))]
        let place = place.with_folders(worker.folders.as_ref());
        let runtime = SessionRuntime::new(Arc::clone(&worker.store), place.agent().clone())
            .with_env(worker.env.clone())
            .with_owner(Arc::clone(&worker.owner))
            .with_lease_ttl(worker.options.lease_ttl)
            .with_cache(worker.cache.clone())
            .with_interrupted(OnInterrupted::RequireApproval)
            .with_on_ask(worker.options.on_ask)
            .with_shutdown(self.drain.clone());
        let runtime = worker
            .sinks
            .iter()
            .fold(runtime, |runtime, sink| runtime.with_event_sink(Arc::clone(sink)));
        let runtime = match worker.event_log {
            Some(config) => runtime.with_event_log(config),
            None => runtime,
        };
        let deliver = DeliverJob { queue: self.queue, claimed, place: Some(&place) };
        match runtime.execute(&job.session, &deliver).await {
            Ok(session) => {
                place.clean().await;
                JobResult::of_state(session.state(), job)
            }
            Err(error) => JobResult::of_error(&error),
        }
    }
}
