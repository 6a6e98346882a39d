//! Events of a worker.

use std::sync::Arc;

use loopwright_sessions::{Job, JobId, JobOutcome};
use serde::{Deserialize, Serialize};

/// An event of a worker.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// The worker started a job.
    JobStarted(Job),
    /// The worker finished a job, or this attempt of it.
    JobFinished {
        /// The job.
        job: Job,
        /// The outcome.
        outcome: JobOutcome,
    },
    /// Another process took the job over.
    JobLost(Job),
    /// The worker released the jobs of a process that has exited.
    JobsTakenOver {
        /// The owner name of that process.
        owner: Arc<str>,
        /// The number of its jobs.
        jobs: u64,
    },
    /// A time of a schedule has no job.
    ScheduleSkipped {
        /// The name of the schedule.
        schedule: JobId,
        /// The reason, such as that its session was deleted.
        reason: Arc<str>,
    },
    /// The queue did not respond; the worker tries again.
    QueueUnavailable(Arc<str>),
}

/// Listens to a worker. It must not block.
pub trait WorkerListener: Send + Sync {
    /// Handles an event.
    fn on_event(&self, event: &WorkerEvent);
}

impl<F: Fn(&WorkerEvent) + Send + Sync> WorkerListener for F {
    fn on_event(&self, event: &WorkerEvent) {
        self(event);
    }
}

/// The number of jobs by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCounts {
    /// Jobs whose agent answered.
    pub completed: u64,
    /// Jobs whose session waits for a decision.
    pub needs_input: u64,
    /// Jobs whose agent was stopped.
    pub stopped: u64,
    /// Jobs that were refused or abandoned.
    pub failed: u64,
    /// Attempts that will be repeated; a job counts once for each attempt.
    pub retried: u64,
    /// Jobs that this worker released for another worker.
    pub released: u64,
    /// Jobs that another worker took over.
    pub lost: u64,
}

impl JobCounts {
    pub(crate) fn count(&mut self, outcome: Option<&JobOutcome>) {
        let count = match outcome {
            Some(JobOutcome::Done) => &mut self.completed,
            Some(JobOutcome::NeedsInput(_)) => &mut self.needs_input,
            Some(JobOutcome::Stopped(_)) => &mut self.stopped,
            Some(JobOutcome::Failed(_)) => &mut self.failed,
            Some(JobOutcome::Retry { .. }) => &mut self.retried,
            Some(JobOutcome::Released) => &mut self.released,
            None => &mut self.lost,
        };
        *count += 1;
    }
}
