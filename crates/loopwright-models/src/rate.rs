//! Rate limits of providers.

use std::{
    collections::VecDeque,
    num::{NonZeroU32, NonZeroU64},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::{Either, select};
use loopwright_core::{Clock, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What the limits count over.
const MINUTE: Duration = Duration::from_mins(1);

/// The rate limits of a provider per minute. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Requests, including failed attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Input and output tokens. They are estimated before a response, and counted after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<NonZeroU64>,
}

/// The rate limit of one provider. Waiting requests are sent in order of arrival.
///
/// A caller that stops waiting has not used anything. The time is the callers' clock's, which must
/// agree.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    rate: RateLimit,
    /// Only one waits for the time to pass; the others wait for it.
    turn: Semaphore,
    window: Mutex<Window>,
}

/// The requests of the last minute, oldest first.
#[derive(Debug, Default)]
struct Window {
    admitted: VecDeque<Admitted>,
    next: u64,
    /// Nothing is let through before.
    held_until: Timestamp,
}

#[derive(Debug)]
struct Admitted {
    number: u64,
    at: Timestamp,
    tokens: u64,
}

/// Why a request was not let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateLimited {
    /// Its turn would come after the deadline; so long it would have to wait, if that is known.
    PastDeadline(Option<Duration>),
    /// The provider requires a longer wait than the request allows.
    ProviderHold(Duration),
}

/// How long a request may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLimits {
    /// By the clock's monotonic time.
    pub(crate) deadline: Option<Duration>,
    /// The longest wait that a provider may ask for.
    pub(crate) longest_hold: Duration,
}

/// A request that was let through.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    limiter: &'a RateLimiter,
    number: u64,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self::new(RateLimit::default())
    }
}

impl RateLimiter {
    pub(crate) fn new(rate: RateLimit) -> Self {
        Self { rate, turn: Semaphore::new(1), window: Mutex::default() }
    }

    /// Waits until a request of about this number of tokens may be sent.
    ///
    /// # Errors
    ///
    /// Returns an error if that is not in time, or takes too long.
    pub(crate) async fn admit(
        &self,
        tokens: u64,
        clock: &dyn Clock,
        patience: WaitLimits,
    ) -> Result<Permit<'_>, RateLimited> {
        let _turn = self.turn(clock, patience.deadline).await?;
        loop {
            let now = clock.now();
            let wait = {
                let mut window = self.window();
                let held = window.held_until.since(now);
                if held > patience.longest_hold {
                    return Err(RateLimited::ProviderHold(held));
                }
                let wait = held.max(window.wait(self.rate, tokens, now));
                if wait.is_zero() {
                    return Ok(Permit {
                        limiter: self,
                        number: window.admit(self.rate, tokens, now),
                    });
                }
                wait
            };
            let resumes = clock.monotonic().saturating_add(wait);
            if patience.deadline.is_some_and(|deadline| resumes >= deadline) {
                return Err(RateLimited::PastDeadline(Some(wait)));
            }
            clock.sleep(wait).await;
        }
    }

    async fn turn(
        &self,
        clock: &dyn Clock,
        deadline: Option<Duration>,
    ) -> Result<Option<SemaphorePermit<'_>>, RateLimited> {
        if let Ok(permit) = self.turn.try_acquire() {
            return Ok(Some(permit));
        }
        // Nobody closes it, and if somebody did, everyone would pass.
        let acquired = self.turn.acquire();
        let Some(deadline) = deadline else { return Ok(acquired.await.ok()) };
        let late = clock.sleep(deadline.saturating_sub(clock.monotonic()));
        match select(Box::pin(acquired), late).await {
            Either::Left((permit, _)) => Ok(permit.ok()),
            Either::Right(_) => Err(RateLimited::PastDeadline(None)),
        }
    }

    /// Lets nothing through before this moment, because the provider asked for it.
    pub(crate) fn hold(&self, until: Timestamp) {
        let mut window = self.window();
        window.held_until = window.held_until.max(until);
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Replaces the estimate by what was really consumed.
    pub(crate) fn settle(self, tokens: u64) {
        let mut window = self.limiter.window();
        // Numbers follow one another, so that the place is known.
        let oldest = window.admitted.front().map(|it| it.number);
        let place = oldest.and_then(|oldest| self.number.checked_sub(oldest));
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(admitted) = place.and_then(|place| window.admitted.get_mut(place)) {
            admitted.tokens = tokens;
        }
    }
}

impl Window {
    /// Returns how long a request has to wait.
    fn wait(&mut self, rate: RateLimit, tokens: u64, now: Timestamp) -> Duration {
        while self.admitted.front().is_some_and(|it| it.at.plus(MINUTE) <= now) {
            self.admitted.pop_front();
        }
        let for_requests = rate.requests_per_minute.and_then(|most| {
            let most = usize::try_from(most.get()).unwrap_or(usize::MAX);
            let too_many = (self.admitted.len() + 1).checked_sub(most)?;
            self.admitted.get(too_many.checked_sub(1)?)
        });
        let for_tokens =
            rate.tokens_per_minute.and_then(|most| self.in_the_way(most.get(), tokens));
        let waits = [for_requests, for_tokens].into_iter().flatten();
        waits.map(|it| it.at.plus(MINUTE).since(now)).max().unwrap_or_default()
    }

    /// Returns the last of the requests that have to be forgotten before there is room for so many
    /// tokens. What never fits alone is let through alone.
    fn in_the_way(&self, most: u64, tokens: u64) -> Option<&Admitted> {
        let mut sum: u64 = self.admitted.iter().map(|it| it.tokens).sum();
        let room = most.saturating_sub(tokens);
        let mut last = None;
        for admitted in &self.admitted {
            if sum <= room {
                break;
            }
            sum -= admitted.tokens;
            last = Some(admitted);
        }
        last
    }

    /// Records a request, unless there are no limits, because the record is then never used.
    fn admit(&mut self, rate: RateLimit, tokens: u64, now: Timestamp) -> u64 {
        let number = self.next;
        self.next += 1;
        if rate != RateLimit::default() {
            self.admitted.push_back(Admitted { number, at: now, tokens });
        }
        number
    }
}

#[cfg(test)]
mod tests;
