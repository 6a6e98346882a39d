//! The policy for retries of requests.

use std::{
    hash::{DefaultHasher, Hasher as _},
    time::{Duration, SystemTime},
};

use loopwright_core::{Clock, ModelError, ModelErrorKind, Timestamp};

/// The number and the delays of retries.
///
/// Only requests that can succeed later are sent again, and only before any part of a response has
/// arrived. If the provider asks for a longer wait than `max_delay`, or than the time to the
/// deadline, the request fails at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The maximum number of attempts: 1 means no retries.
    pub max_attempts: u32,
    /// The wait before the second attempt; it doubles with every further attempt.
    pub base_delay: Duration,
    /// The maximum wait.
    pub max_delay: Duration,
    /// The random share of a wait, between 0 and 1.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::new(60, 0),
            jitter: 0.25,
        }
    }
}

impl RetryPolicy {
    /// Creates a policy without retries.
    pub fn none() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// Returns the wait after a failed attempt, counted from one, or `None` if the request must not
    /// be sent again.
    ///
    /// The random part depends only on the request's bytes and the attempt.
    pub fn delay(&self, error: &ModelError, attempt: u32, request: &[u8]) -> Option<Duration> {
        if attempt >= self.max_attempts || !may_succeed_later(error) {
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

/// Returns `true` if the same request may succeed later: by the status, or without one by the kind.
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
    /// By the clock's monotonic time.
    pub(crate) deadline: Option<Duration>,
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
        let resumes = self.clock.monotonic().saturating_add(delay);
        if self.deadline.is_some_and(|deadline| resumes >= deadline) {
            return Err(error);
        }
        let (attempt, kind, status) = (self.made, error.kind, error.status);
        tracing::warn!(target: "loopwright::model", attempt, ?kind, status, ?delay, "model call will be retried");
        self.clock.sleep(delay).await;
        Ok(())
    }
}

/// Reads how long a provider asks to wait: milliseconds, seconds, or a moment. If it limits the rate
/// and does not ask, it may still say when its limits are lifted.
pub(crate) fn parse_retry_after<'h>(
    status: u16,
    headers: impl Fn(&str) -> Option<&'h str>,
    now: Timestamp,
) -> Option<Duration> {
    let millis = headers("retry-after-ms").and_then(|text| text.trim().parse().ok());
    if let Some(millis) = millis {
        return Some(Duration::from_millis(millis));
    }
    let Some(text) = headers("retry-after").map(str::trim) else {
        return (status == TOO_MANY).then(|| reset(headers, now))?;
    };
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let moment: SystemTime = httpdate::parse_http_date(text).ok()?;
    Some(Timestamp::from(moment).since(now))
}

/// The status of a rate that is limited.
const TOO_MANY: u16 = 429;

/// What is limited, and the headers that say how much of it is left and when there will be more.
const LIMITS: [(&str, &str); 6] = [
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
];

/// Reads when the limits are lifted: the last of those of which nothing is left, or, if none is named,
/// the first of all.
fn reset<'h>(headers: impl Fn(&str) -> Option<&'h str>, now: Timestamp) -> Option<Duration> {
    let wait = |name| parse_reset(headers(name)?.trim(), now);
    let is_used_up = |name| headers(name).is_some_and(|left| left.trim().starts_with('0'));
    let used_up = LIMITS.iter().filter(|(left, _)| is_used_up(left));
    let last = used_up.filter_map(|(_, reset)| wait(reset)).max();
    last.or_else(|| LIMITS.iter().filter_map(|(_, reset)| wait(reset)).min())
}

/// Reads a wait such as `6m0s`, `120ms` or `1.5`, or a moment: RFC 3339, or seconds or milliseconds
/// since 1970.
fn parse_reset(text: &str, now: Timestamp) -> Option<Duration> {
    /// A number from which on it is a moment, in seconds or in milliseconds.
    const MOMENT: f64 = 1e9;
    const MOMENT_MILLIS: f64 = 1e12;
    let seconds = |seconds| Duration::try_from_secs_f64(seconds).ok();
    let since = |moment: Option<Duration>| Some(Timestamp::default().plus(moment?).since(now));
    match text.parse::<f64>() {
        Ok(number) if number >= MOMENT_MILLIS => since(seconds(number / 1e3)),
        Ok(number) if number >= MOMENT => since(seconds(number)),
        Ok(number) => seconds(number),
        Err(_) => match text.parse::<Timestamp>() {
            Ok(moment) => Some(moment.since(now)),
            Err(_) => parse_units(text),
        },
    }
}

/// Reads hours, minutes, seconds and milliseconds, as Go writes them.
fn parse_units(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let number = rest.split_at(rest.find(|c| !is_number(c))?);
        let unit = number.1.find(is_number).map_or(number.1, |end| &number.1[..end]);
        rest = &number.1[unit.len()..];
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.0.parse::<f64>().ok()? * scale).ok()?;
        sum = sum.checked_add(part)?;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests;
