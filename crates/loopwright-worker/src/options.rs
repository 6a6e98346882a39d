//! How a worker works.

use std::{num::NonZeroUsize, time::Duration};

/// How a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// How many jobs it does at once; one if nothing is said.
    pub concurrency: NonZeroUsize,
    /// How long its claims and leases last unless they are renewed, which it does three times as often: so
    /// long others wait if the whole machine dies. A process that dies alone is noticed at once by those of
    /// its machine. Fifteen seconds if nothing is said.
    pub lease: Duration,
    /// How often it looks for jobs while there are none; four times a second if nothing is said.
    pub looks: Duration,
    /// How often a job is tried; ten times if nothing is said. A job whose worker died does not count as
    /// tried.
    pub attempts: u32,
    /// How long a job that failed for now waits.
    pub backoff: Backoff,
    /// How many workers may die of a job before it is given up; twenty if nothing is said.
    pub deaths: u32,
    /// How long the steps that are under way may take to end once the worker is to drain; half a minute if
    /// nothing is said.
    pub drain: Duration,
    /// What it does when there is nothing left to do.
    pub idle: Idle,
}

/// How long a job waits before it is tried again: twice as long each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first time.
    pub first: Duration,
    /// The most.
    pub most: Duration,
}

/// What a worker does when there is nothing left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// It waits for more.
    #[default]
    Waits,
    /// It ends, once no job waits or runs anywhere.
    Ends,
}

impl Backoff {
    /// Returns how long a job waits that failed so often before.
    pub fn after(self, attempts: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempts).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.most)
    }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: NonZeroUsize::MIN,
            lease: Duration::from_secs(15),
            looks: Duration::from_millis(250),
            attempts: 10,
            backoff: Backoff { first: Duration::from_secs(1), most: Duration::from_mins(5) },
            deaths: 20,
            drain: Duration::from_secs(30),
            idle: Idle::Waits,
        }
    }
}
