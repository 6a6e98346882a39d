//! What a worker tells.

use std::sync::Arc;

use loopwright_sessions::{Job, JobOutcome};
use serde::{Deserialize, Serialize};

/// Something that a worker did or met.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// It took a job.
    JobStarted(Job),
    /// It is done with a job, for this time.
    JobFinished {
        /// The job.
        job: Job,
        /// How it went.
        outcome: JobOutcome,
    },
    /// Another process took its job over.
    JobLost(Job),
    /// It took over what another process had that is gone.
    JobsTakenOver {
        /// Who is gone.
        owner: Arc<str>,
        /// How many jobs it had.
        jobs: u64,
    },
    /// The queue did not answer; it is asked again.
    QueueUnavailable(Arc<str>),
}

/// Listens to a worker. It must not block.
pub trait WorkerListener: Send + Sync {
    /// Takes note of an event.
    fn on_event(&self, event: &WorkerEvent);
}

impl<F: Fn(&WorkerEvent) + Send + Sync> WorkerListener for F {
    fn on_event(&self, event: &WorkerEvent) {
        self(event);
    }
}

/// How many jobs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobCounts {
    /// Jobs whose agent answered.
    pub completed: u64,
    /// Jobs whose session waits for a decision.
    pub needs_input: u64,
    /// Jobs whose agent was stopped.
    pub stopped: u64,
    /// Jobs that were refused or given up.
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
