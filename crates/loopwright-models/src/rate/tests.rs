use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::{BoxFuture, FutureExt as _};

use super::*;

/// A clock that is as late as it is told to be; whoever sleeps asks it again whenever polled.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (clock, until) = (self.clone(), self.now().plus(duration));
        Box::pin(std::future::poll_fn(move |_| {
            if clock.now() >= until { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }))
    }
}

const PATIENT: WaitLimits = WaitLimits { deadline: None, longest_hold: MINUTE };

fn limiter(requests: u32, tokens: u64) -> RateLimiter {
    RateLimiter::new(RateLimit {
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU64::new(tokens),
    })
}

fn passes(limiter: &RateLimiter, tokens: u64, clock: &Hand) -> bool {
    limiter.admit(tokens, clock, PATIENT).now_or_never().is_some_and(|it| it.is_ok())
}

#[test]
fn without_a_rate_everything_passes() {
    let (limiter, clock) = (limiter(0, 0), Hand::default());
    assert!((0..1000).all(|_| passes(&limiter, u64::MAX / 2000, &clock)));
}

#[test]
fn without_a_rate_nothing_is_kept() {
    let (limiter, clock) = (limiter(0, 0), Hand::default());
    assert!((0..1000).all(|_| passes(&limiter, 1, &clock)));
    assert_eq!(limiter.window().admitted.len(), 0);
}

#[test]
fn usage_counts_for_its_own_request_after_older_ones_expire() {
    let (limiter, clock) = (limiter(0, 100), Hand::default());
    let admit = || limiter.admit(30, &clock, PATIENT).now_or_never().unwrap().unwrap();
    let oldest = admit();
    clock.pass(40);
    let (second, third) = (admit(), admit());
    clock.pass(20);
    third.settle(10);
    assert!(passes(&limiter, 60, &clock) && !passes(&limiter, 1, &clock));
    oldest.settle(0);
    assert!(!passes(&limiter, 1, &clock), "it was forgotten");
    second.settle(20);
    assert!(passes(&limiter, 10, &clock) && !passes(&limiter, 1, &clock));
}

#[test]
fn no_more_requests_pass_in_any_minute_than_are_allowed() {
    let (limiter, clock) = (limiter(2, 0), Hand::default());
    assert!(passes(&limiter, 0, &clock));
    clock.pass(30);
    assert!(passes(&limiter, 0, &clock) && !passes(&limiter, 0, &clock));
    clock.pass(29);
    assert!(!passes(&limiter, 0, &clock));
    clock.pass(1);
    assert!(passes(&limiter, 0, &clock) && !passes(&limiter, 0, &clock));
    clock.pass(30);
    assert!(passes(&limiter, 0, &clock) && !passes(&limiter, 0, &clock));
}

#[test]
fn no_more_tokens_pass_in_any_minute_than_are_allowed() {
    let (limiter, clock) = (limiter(0, 100), Hand::default());
    assert!(passes(&limiter, 60, &clock) && passes(&limiter, 40, &clock));
    assert!(!passes(&limiter, 1, &clock));
    clock.pass(60);
    assert!(passes(&limiter, 1, &clock));
}

#[test]
fn a_request_above_the_limit_passes_alone() {
    let (limiter, clock) = (limiter(0, 100), Hand::default());
    assert!(passes(&limiter, 1, &clock) && !passes(&limiter, 500, &clock));
    clock.pass(60);
    assert!(passes(&limiter, 500, &clock) && !passes(&limiter, 1, &clock));
}

#[test]
fn an_estimate_is_replaced_by_what_was_consumed() {
    let (limiter, clock) = (limiter(0, 100), Hand::default());
    let pass = limiter.admit(90, &clock, PATIENT).now_or_never().unwrap().unwrap();
    assert!(!passes(&limiter, 80, &clock));
    pass.settle(20);
    assert!(passes(&limiter, 80, &clock) && !passes(&limiter, 1, &clock));
}

#[test]
fn requests_pass_in_the_order_of_their_arrival() {
    let (limiter, clock) = (limiter(1, 0), Hand::default());
    assert!(passes(&limiter, 0, &clock));
    let mut first = pin!(limiter.admit(0, &clock, PATIENT));
    let mut second = pin!(limiter.admit(0, &clock, PATIENT));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    clock.pass(60);
    assert!(second.as_mut().now_or_never().is_none());
    assert!(first.as_mut().now_or_never().is_some());
    assert!(second.as_mut().now_or_never().is_none());
    clock.pass(60);
    assert!(second.as_mut().now_or_never().is_some());
}

#[test]
fn a_dropped_request_gives_its_place_back() {
    let (limiter, clock) = (limiter(1, 0), Hand::default());
    assert!(passes(&limiter, 0, &clock));
    let mut first = Box::pin(limiter.admit(0, &clock, PATIENT));
    let mut second = pin!(limiter.admit(0, &clock, PATIENT));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    drop(first);
    clock.pass(60);
    assert!(second.as_mut().now_or_never().is_some());
}

#[test]
fn no_request_waits_beyond_its_deadline() {
    let (limiter, clock) = (limiter(1, 0), Hand::default());
    assert!(passes(&limiter, 0, &clock));
    let until =
        |seconds: u64| WaitLimits { deadline: Some(Duration::from_secs(seconds)), ..PATIENT };
    let refused = limiter.admit(0, &clock, until(60)).now_or_never().unwrap().unwrap_err();
    assert_eq!(refused, RateLimited::PastDeadline(Some(MINUTE)));
    let mut first = pin!(limiter.admit(0, &clock, PATIENT));
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = pin!(limiter.admit(0, &clock, until(10)));
    assert!(second.as_mut().now_or_never().is_none());
    clock.pass(10);
    assert_eq!(
        second.as_mut().now_or_never().unwrap().unwrap_err(),
        RateLimited::PastDeadline(None)
    );
}

#[test]
fn a_provider_that_asks_to_wait_holds_everyone_back() {
    let (limiter, clock) = (limiter(0, 0), Hand::default());
    limiter.hold(Timestamp::from_millis(7000));
    limiter.hold(Timestamp::from_millis(3000));
    assert!(!passes(&limiter, 0, &clock));
    clock.pass(7);
    assert!(passes(&limiter, 0, &clock));
    limiter.hold(Timestamp::from_millis(3_600_000));
    let refused = limiter.admit(0, &clock, PATIENT).now_or_never().unwrap().unwrap_err();
    assert_eq!(refused, RateLimited::ProviderHold(Duration::from_secs(3593)));
}
