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
    pub lease_ttl: Duration,
    /// How often it looks for jobs while there are none; four times a second if nothing is said.
    pub poll_interval: Duration,
    /// How often a job is tried; ten times if nothing is said. A job whose worker died does not count as
    /// tried.
    pub max_attempts: u32,
    /// How long a job that failed for now waits.
    pub backoff: Backoff,
    /// How many workers may die of a job before it is given up; twenty if nothing is said.
    pub max_crashes: u32,
    /// How long the steps that are under way may take to end once the worker is to drain; half a minute if
    /// nothing is said.
    pub drain_timeout: Duration,
    /// What it does when there is nothing left to do.
    pub on_idle: OnIdle,
}

/// How long a job waits before it is tried again: twice as long each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first time.
    pub initial: Duration,
    /// The most.
    pub max: Duration,
}

/// What a worker does when there is nothing left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnIdle {
    /// It waits for more.
    #[default]
    Wait,
    /// It ends, once no job waits or runs anywhere.
    Exit,
}

impl Backoff {
    /// Returns how long a job waits that failed so often before.
    pub fn after(self, attempts: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempts).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max)
    }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: NonZeroUsize::MIN,
            lease_ttl: Duration::from_secs(15),
            poll_interval: Duration::from_millis(250),
            max_attempts: 10,
            backoff: Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(5) },
            max_crashes: 20,
            drain_timeout: Duration::from_secs(30),
            on_idle: OnIdle::Wait,
        }
    }
}
