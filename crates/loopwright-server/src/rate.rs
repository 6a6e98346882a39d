//! How many requests a principal may send.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use loopwright_core::Timestamp;

/// How many principals are remembered before those are forgotten that have not sent anything of late.
const MAX_REMEMBERED: usize = 10_000;
/// How long the requests of a minute count.
const MINUTE: Duration = Duration::from_mins(1);

/// Limits the requests of each principal: so many a minute, which may come at once.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    /// For each principal, the moment at which all its requests are made up for.
    settled: Mutex<HashMap<Arc<str>, Timestamp>>,
}

impl RateLimiter {
    /// Counts a request; if it is one too many, returns how long the principal has to wait.
    pub(crate) fn count(
        &self,
        principal: &Arc<str>,
        per_minute: NonZeroU32,
        now: Timestamp,
    ) -> Result<(), Duration> {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if settled.len() >= MAX_REMEMBERED {
            settled.retain(|_, until| *until > now);
        }
        let each = MINUTE / per_minute.get();
        let until = settled.get(principal).copied().unwrap_or(now).max(now).plus(each);
        let debt = until.since(now);
        if debt > MINUTE {
            return Err(debt.saturating_sub(MINUTE));
        }
        settled.insert(Arc::clone(principal), until);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_may_send_its_requests_at_once_and_then_one_at_a_time() {
        let (limiter, rate) = (RateLimiter::default(), NonZeroU32::new(60).unwrap());
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let start = Timestamp::from_millis(1_000_000);
        let sent = |who, now: Timestamp| {
            (0..100).filter(|_| limiter.count(who, rate, now).is_ok()).count()
        };
        assert_eq!(sent(&ada, start), 60);
        assert_eq!(limiter.count(&ada, rate, start), Err(Duration::from_secs(1)));
        assert_eq!(sent(&bob, start), 60);
        assert_eq!(sent(&ada, start.plus(Duration::from_secs(3))), 3);
        assert_eq!(sent(&ada, start.plus(Duration::from_mins(5))), 60);
    }
}
