//! What a worker tells.

use std::sync::Arc;

use loopwright_sessions::{Job, JobOutcome};
use serde::{Deserialize, Serialize};

/// Something that a worker did or met.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// It took a job.
    Began(Job),
    /// It is done with a job, for this time.
    Ended {
        /// The job.
        job: Job,
        /// How it went.
        outcome: JobOutcome,
    },
    /// Somebody else took its job over.
    Lost(Job),
    /// It took over what another process had that is gone.
    TookOver {
        /// Who is gone.
        owner: Arc<str>,
        /// How many jobs it had.
        jobs: u64,
    },
    /// The queue did not answer; it is asked again.
    Troubled(Arc<str>),
}

/// Listens to a worker. It must not block.
pub trait WorkerListener: Send + Sync {
    /// Takes note of an event.
    fn hear(&self, event: &WorkerEvent);
}

impl<F: Fn(&WorkerEvent) + Send + Sync> WorkerListener for F {
    fn hear(&self, event: &WorkerEvent) {
        self(event);
    }
}

/// How many jobs ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Their agents answered.
    pub done: u64,
    /// Their sessions wait for a decision.
    pub parked: u64,
    /// Their agents were stopped.
    pub stopped: u64,
    /// They were refused or given up.
    pub failed: u64,
    /// They are to be tried again; one job may count more than once.
    pub again: u64,
    /// They were left for somebody else to go on with.
    pub left: u64,
    /// Somebody else took them over.
    pub lost: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, outcome: Option<&JobOutcome>) {
        let count = match outcome {
            Some(JobOutcome::Done) => &mut self.done,
            Some(JobOutcome::Parked(_)) => &mut self.parked,
            Some(JobOutcome::Stopped(_)) => &mut self.stopped,
            Some(JobOutcome::Failed(_)) => &mut self.failed,
            Some(JobOutcome::Again { .. }) => &mut self.again,
            Some(JobOutcome::Left) => &mut self.left,
            None => &mut self.lost,
        };
        *count += 1;
    }
}
