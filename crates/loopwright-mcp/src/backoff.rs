//! The delay before a failed server is started again.

use std::time::{Duration, Instant};

/// The first wait; it doubles with each failure.
const FIRST: Duration = Duration::from_secs(1);

/// The longest wait.
const MAX: Duration = Duration::from_mins(1);

/// A connection that lasts this long counts as a success.
const STABLE: Duration = Duration::from_secs(30);

/// Failures in a row, and when the next attempt may be made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Counts a failure.
    pub(crate) fn fail(&mut self, now: Instant) {
        let wait = FIRST.saturating_mul(1 << self.failures.min(10)).min(MAX);
        self.failures = self.failures.saturating_add(1);
        self.until = now.checked_add(wait);
    }

    /// Counts the end of a connection that was open for `lasted`.
    pub(crate) fn end(&mut self, now: Instant, lasted: Duration) {
        if lasted >= STABLE {
            *self = Self::default();
        } else {
            self.fail(now);
        }
    }

    /// Returns the time until the next attempt, or `None` if it may be made now.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.until?.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// Allows the next attempt now.
    pub(crate) fn clear_wait(&mut self) {
        self.until = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_end_after_a_stable_connection() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.wait(now), None);
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                backoff.end(now, Duration::from_secs(2));
                backoff.wait(now).unwrap().as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.wait(now + MAX), None);
        backoff.end(now, STABLE);
        assert_eq!(backoff.wait(now), None);
    }
}
