//! Options of a worker.

use std::{num::NonZeroUsize, time::Duration};

use loopwright_core::OnAsk;
use loopwright_sessions::CacheLimits;

/// Options of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// The number of concurrent jobs; 1 by default.
    pub concurrency: NonZeroUsize,
    /// The duration of its claims and leases without renewal; 15 seconds by default. The worker
    /// renews them three times as often. Other workers wait this long if the whole machine dies.
    /// Workers on the same machine detect the death of a process at once.
    pub lease_ttl: Duration,
    /// The polling interval while there are no jobs; a quarter of a second by default. If the queue [reports](loopwright_sessions::JobNews)
    /// the jobs of all processes, the worker polls four times less often.
    pub poll_interval: Duration,
    /// The maximum number of attempts of a job; 10 by default. An attempt whose worker died does
    /// not count.
    pub max_attempts: u32,
    /// The delay before a retry of a job.
    pub backoff: Backoff,
    /// The number of workers that can die during a job before it is abandoned; 20 by default.
    pub max_crashes: u32,
    /// The time limit for the current steps when the worker drains; 30 seconds by default.
    pub drain_timeout: Duration,
    /// The behavior when no jobs are left.
    pub on_idle: OnIdle,
    /// The policy for calls that need an approval, an answer or a result; by default, the job waits for the decision.
    pub on_ask: OnAsk,
    /// The limits of the sessions that stay in memory after a job, so that the next one loads only what is new.
    pub cache: CacheLimits,
}

/// The delay before a retry of a job, which doubles each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub initial: Duration,
    /// The maximum delay.
    pub max: Duration,
}

/// The behavior of a worker when no jobs are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnIdle {
    /// Waits for more jobs.
    #[default]
    Wait,
    /// Exits once no job runs on any worker, and none waits that this worker could run now.
    ///
    /// Jobs that need other labels, and jobs that wait for their start, do not count.
    Exit,
}

impl Backoff {
    /// Returns the delay after this number of failed attempts.
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
            on_ask: OnAsk::Pause,
            cache: CacheLimits::default(),
        }
    }
}
