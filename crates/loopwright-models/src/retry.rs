//! Which requests are sent again, and when.

use std::{
    hash::{DefaultHasher, Hasher as _},
    time::{Duration, SystemTime},
};

use loopwright_core::{Clock, ModelError, ModelErrorKind, Timestamp};

/// Says how often and how soon a request that failed is sent again.
///
/// Only what may succeed later is sent again, and only as long as nothing of an answer was seen. A
/// provider that names a time to wait is heard: if it asks for more than `max_delay`, or for more
/// than is left until the deadline, the request is given up at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How often a request is sent at most: 1 means that nothing is repeated.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles with every further one.
    pub base_delay: Duration,
    /// The longest wait.
    pub max_delay: Duration,
    /// The share of a wait, between 0 and 1, that is left to chance.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::new(60, 0),
            jitter: 0.25,
        }
    }
}

impl RetryPolicy {
    /// Sends everything once.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Returns how long to wait after a failed attempt, counted from one; nothing if the request is
    /// to be given up.
    ///
    /// The chance in it is a function of the request's bytes and the attempt.
    pub fn delay(&self, error: &ModelError, attempt: u32, request: &[u8]) -> Option<Duration> {
        if attempt >= self.attempts || !may_succeed_later(error) {
            return None;
        }
        match error.retry_after {
            Some(asked) => (asked <= self.max_delay).then_some(asked),
            None => Some(self.backoff(attempt, request)),
        }
    }

    fn backoff(&self, attempt: u32, request: &[u8]) -> Duration {
        let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let longest = self.base_delay.saturating_mul(doubled).min(self.max_delay);
        longest.mul_f64(1.0 - self.jitter.clamp(0.0, 1.0) * chance(request, attempt))
    }
}

/// Tells whether the same request may succeed later: by the status, or without one by the kind.
fn may_succeed_later(error: &ModelError) -> bool {
    match (error.kind, error.status) {
        (ModelErrorKind::Quota | ModelErrorKind::ContextLength, _) => false,
        (_, Some(408 | 409 | 429 | 500 | 502 | 503 | 504 | 529)) => true,
        (_, Some(300..)) => false,
        (kind, _) => kind.is_retryable(),
    }
}

/// A number from 0 to 1 that depends on the request and the attempt only.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
fn chance(request: &[u8], attempt: u32) -> f64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(request);
    hasher.write_u32(attempt);
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Counts the attempts at one request and waits between them.
pub(crate) struct Attempts<'a> {
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) request: &'a [u8],
    pub(crate) clock: &'a dyn Clock,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) made: u32,
}

impl Attempts<'_> {
    /// Waits until the request may be sent again.
    ///
    /// # Errors
    ///
    /// The error itself, if the request is to be given up.
    pub(crate) async fn wait(&mut self, error: ModelError) -> Result<(), ModelError> {
        self.made += 1;
        let Some(delay) = self.policy.delay(&error, self.made, self.request) else {
            return Err(error);
        };
        let now = self.clock.now();
        if self.deadline.is_some_and(|deadline| now.plus(delay) >= deadline) {
            return Err(error);
        }
        self.clock.sleep(delay).await;
        Ok(())
    }
}

/// Reads how long a provider asks to wait: milliseconds, seconds, or a moment.
pub(crate) fn parse_retry_after<'h>(
    headers: impl Fn(&str) -> Option<&'h str>,
    now: Timestamp,
) -> Option<Duration> {
    let millis = headers("retry-after-ms").and_then(|text| text.trim().parse().ok());
    if let Some(millis) = millis {
        return Some(Duration::from_millis(millis));
    }
    let text = headers("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let moment: SystemTime = httpdate::parse_http_date(text).ok()?;
    Some(Timestamp::from(moment).since(now))
}

#[cfg(test)]
mod tests;
