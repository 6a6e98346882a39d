//! What each principal may consume.

use std::{
    collections::HashMap,
    num::{NonZeroU32, NonZeroU64},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures::lock::{Mutex as AsyncMutex, OwnedMutexGuard};
use loopwright_core::{Timestamp, messages::Cost};
use loopwright_sessions::{AllowanceRequest, PrincipalTag, SessionId, SessionStore, UsageLedger};
use serde::{Deserialize, Serialize};

use crate::{principal::Principal, problem::Problem, rate::RateLimiter};

/// The period of requests.
const MINUTE: Duration = Duration::from_mins(1);
/// A server takes at most this part of an allowance at once, and is then free to count without the store.
const PARTS: u64 = 10;
/// When a client tries again whose runs are too many.
const RUNS_RETRY: u64 = 5;
/// How many principals are remembered before those are forgotten that have not sent anything of late.
const MAX_REMEMBERED: usize = 10_000;

/// Limits of a principal. `None` means no limit.
///
/// All servers of a session store enforce them together. Those of a day and of runs do not apply to the
/// [local user](Principal::local).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrincipalLimits {
    /// Requests in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// Runs that are queued or running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_runs: Option<NonZeroU32>,
    /// Tokens, input and output, on a day in UTC. A run that has started is not stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<NonZeroU64>,
    /// The cost on a day in UTC, as far as prices are known. A run that has started is not stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_day: Option<Cost>,
}

impl PrincipalLimits {
    /// Returns `true` if nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these limits, and others where these have none.
    #[must_use]
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            requests_per_minute: self.requests_per_minute.or(others.requests_per_minute),
            open_runs: self.open_runs.or(others.open_runs),
            tokens_per_day: self.tokens_per_day.or(others.tokens_per_day),
            cost_per_day: self.cost_per_day.or(others.cost_per_day),
        }
    }
}

/// The limits of a server, and what it knows of its principals.
#[derive(Default)]
pub(crate) struct Limiter {
    /// The limits of principals that have none of their own.
    pub(crate) defaults: PrincipalLimits,
    /// The requests of a minute, for stores that count nothing.
    rate: RateLimiter,
    /// Requests that were taken from the store, by the name of the principal.
    taken: Mutex<HashMap<Arc<str>, Taken>>,
    /// Limits of principals, as of their last requests.
    known: Mutex<HashMap<PrincipalTag, PrincipalLimits>>,
    /// The locks of principals whose runs are limited, while they are in use.
    admissions: Mutex<HashMap<PrincipalTag, Weak<AsyncMutex<()>>>>,
}

/// The permission to start a run, held until the run is recorded. Of concurrent requests of a principal whose runs are
/// limited, each sees the runs of those before it.
#[derive(Default)]
#[must_use]
pub(crate) struct Admission {
    _turn: Option<OwnedMutexGuard<()>>,
}

/// Requests that a server took from the allowance of a principal.
#[derive(Clone, Copy)]
struct Taken {
    left: u64,
    ends: Timestamp,
}

impl Limiter {
    /// Counts a request of a principal, and refuses it if it is one too many.
    pub(crate) async fn count(
        &self,
        store: &dyn SessionStore,
        principal: &Principal,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let limits = principal.limits().or(self.defaults);
        self.remember(principal, limits);
        let Some(per_minute) = limits.requests_per_minute else { return Ok(()) };
        let refused = match store.ledger() {
            Some(ledger) => self.take(ledger, principal, per_minute, now).await?,
            None => self.rate.count(principal.name(), per_minute, now).err(),
        };
        refused.map_or(Ok(()), |wait| {
            let seconds = seconds(wait);
            let text = format!("too many requests; try again in {seconds} s");
            Err(Problem::too_many_requests(text).with_retry_after(seconds))
        })
    }

    fn remember(&self, principal: &Principal, limits: PrincipalLimits) {
        let Some(tag) = principal.tag() else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(tag.clone(), limits);
    }

    /// Takes a request from the allowance, and returns how long the principal has to wait if there is none.
    async fn take(
        &self,
        ledger: &dyn UsageLedger,
        principal: &Principal,
        per_minute: NonZeroU32,
        now: Timestamp,
    ) -> Result<Option<Duration>, Problem> {
        let limit = u64::from(per_minute.get());
        {
            let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
            if taken.len() >= MAX_REMEMBERED {
                taken.retain(|_, it| it.ends > now);
            }
            if let Some(known) = taken.get_mut(principal.name()).filter(|it| it.ends > now) {
                if known.left == 0 {
                    return Ok(Some(known.ends.since(now)));
                }
                known.left -= 1;
                if known.left == 0 {
                    // The next request asks the store for more.
                    taken.remove(principal.name());
                }
                return Ok(None);
            }
        }
        let request = AllowanceRequest { wanted: (limit / PARTS).max(1), limit, period: MINUTE };
        let allowance = ledger.take(principal.tag(), &request, now).await?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = now.plus(allowance.left);
        let others = taken.get(principal.name()).filter(|it| it.ends > now).map_or(0, |it| it.left);
        let left = others + allowance.granted;
        if left == 0 {
            taken.insert(Arc::clone(principal.name()), Taken { left, ends });
            return Ok(Some(allowance.left));
        }
        if left > 1 {
            taken.insert(Arc::clone(principal.name()), Taken { left: left - 1, ends });
        } else {
            taken.remove(principal.name());
        }
        Ok(None)
    }

    fn limits_of(&self, session: &SessionId) -> Option<(PrincipalTag, PrincipalLimits)> {
        let tag = session.tag()?;
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let limits = known.get(&tag).copied().unwrap_or(self.defaults);
        Some((tag, limits))
    }

    /// Refuses to continue or start a run of a principal that has consumed what it may on this day.
    pub(crate) async fn admit_more(
        &self,
        store: &dyn SessionStore,
        session: &SessionId,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let Some((tag, limits)) = self.limits_of(session) else { return Ok(()) };
        if limits.tokens_per_day.is_none() && limits.cost_per_day.is_none() {
            return Ok(());
        }
        let today = ledger(store)?.spent_today(Some(&tag), now).await?;
        let cost = Cost::from_picodollars(today.picodollars);
        let used = if limits.tokens_per_day.is_some_and(|it| today.tokens >= it.get()) {
            "token"
        } else if limits.cost_per_day.is_some_and(|it| cost >= it) {
            "cost"
        } else {
            return Ok(());
        };
        let text = format!("today's {used} limit has been reached; see `/v1/usage`");
        Err(Problem::too_many_requests(text).with_retry_after(seconds(today.left)))
    }

    /// Waits for the requests of a principal that are starting runs.
    async fn turn(&self, tag: &PrincipalTag) -> OwnedMutexGuard<()> {
        let lock = {
            let mut admissions = self.admissions.lock().unwrap_or_else(PoisonError::into_inner);
            let known = admissions.get(tag).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                admissions.retain(|_, it| it.strong_count() > 0);
                let lock = Arc::default();
                admissions.insert(tag.clone(), Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }

    /// Refuses to start another run of a principal that has as many as it may have.
    pub(crate) async fn admit(
        &self,
        store: &dyn SessionStore,
        session: &SessionId,
        now: Timestamp,
    ) -> Result<Admission, Problem> {
        self.admit_more(store, session, now).await?;
        let Some((tag, limits)) = self.limits_of(session) else { return Ok(Admission::default()) };
        let Some(max) = limits.open_runs else { return Ok(Admission::default()) };
        let turn = self.turn(&tag).await;
        if ledger(store)?.open_jobs(Some(&tag)).await? < u64::from(max.get()) {
            return Ok(Admission { _turn: Some(turn) });
        }
        let text = format!("{max} runs are queued or running; wait until a run has ended");
        Err(Problem::too_many_requests(text).with_retry_after(RUNS_RETRY))
    }
}

fn ledger(store: &dyn SessionStore) -> Result<&dyn UsageLedger, Problem> {
    store.ledger().ok_or_else(|| Problem::unavailable("the session store does not record usage"))
}

/// Returns whole seconds, at least one.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use loopwright_sessions::MemoryStore;

    use super::*;
    use crate::principal::Role;

    #[test]
    fn a_run_that_starts_delays_only_runs_of_the_same_limited_principal() {
        let (limiter, store) = (Limiter::default(), MemoryStore::default());
        let principal = |name: &str, open_runs: u32| {
            let limits = PrincipalLimits {
                open_runs: NonZeroU32::new(open_runs),
                ..PrincipalLimits::default()
            };
            let principal = Principal::new(name, Role::Run);
            limiter.remember(&principal, limits);
            principal
        };
        let (ada, bob, eve) = (principal("ada", 1), principal("bob", 1), principal("eve", 0));
        // The store counts no runs, so that a request whose turn it is ends with an error.
        let admitted = |principal: &Principal| {
            let session = principal.new_session_id();
            let admitted = limiter.admit(&store, &session, Timestamp::from_millis(0));
            admitted.now_or_never().map(|it| it.is_ok())
        };
        let turn = limiter.turn(ada.tag().unwrap()).now_or_never().unwrap();
        assert_eq!(
            [&ada, &bob, &eve, &Principal::local()].map(admitted),
            [None, Some(false), Some(true), Some(true),]
        );
        drop(turn);
        assert_eq!(admitted(&ada), Some(false));
        assert_eq!(limiter.admissions.lock().unwrap().len(), 1);
    }
}
