use loopwright_core::SystemClock;

use super::*;

fn error(kind: ModelErrorKind, status: Option<u16>) -> ModelError {
    ModelError { status, ..ModelError::new(kind, "x") }
}

fn unavailable() -> ModelError {
    error(ModelErrorKind::Unavailable, Some(503))
}

#[test]
fn attempts_are_counted_as_attempts() {
    let policy = RetryPolicy::default();
    let delays = [1, 2, 3].map(|attempt| policy.delay(&unavailable(), attempt, b"x").is_some());
    assert_eq!(delays, [true, true, false]);
    assert_eq!(RetryPolicy::none().delay(&unavailable(), 1, b"x"), None);
}

#[test]
fn delays_double_up_to_the_longest() {
    let policy = RetryPolicy {
        max_attempts: 10,
        base_delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(5),
        jitter: 0.0,
    };
    let delays =
        [1, 2, 3, 4, 9].map(|it| policy.delay(&unavailable(), it, b"x").unwrap().as_secs());
    assert_eq!(delays, [1, 2, 4, 5, 5]);
}

#[test]
fn chance_depends_on_request_and_attempt_only() {
    assert!((chance(b"a", 1) - chance(b"a", 1)).abs() < f64::EPSILON);
    assert!((chance(b"a", 1) - chance(b"b", 1)).abs() > f64::EPSILON);
    assert!((chance(b"a", 1) - chance(b"a", 2)).abs() > f64::EPSILON);
    assert!((0..100).all(|it| (0.0..=1.0).contains(&chance(b"a", it))));
}

#[test]
fn a_request_that_cannot_succeed_is_not_retried() {
    use ModelErrorKind::{
        Auth, ContextLength, InvalidRequest, Network, Quota, RateLimited, Timeout,
    };
    let may = |kind, status| may_succeed_later(&error(kind, status));
    assert!(may(Network, None) && may(Timeout, None) && may(RateLimited, Some(200)));
    assert!(!may(Quota, Some(429)) && !may(ContextLength, Some(500)));
    assert!(!may(Auth, None) && !may(InvalidRequest, Some(200)) && !may(Network, Some(501)));
}

#[test]
fn a_provider_names_its_wait_in_several_ways() {
    let now = Timestamp::from_millis(784_111_767_000);
    let read = |name: &'static str, value: &'static str| {
        parse_retry_after(429, |header| (header == name).then_some(value), now)
    };
    assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
    assert_eq!(read("retry-after", "0.5"), Some(Duration::from_millis(500)));
    let moment = "Sun, 06 Nov 1994 08:49:37 GMT";
    assert_eq!(read("retry-after", moment), Some(Duration::from_secs(10)));
    assert_eq!(read("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
    for nonsense in ["", "soon", "-1", "NaN", "1e300"] {
        assert_eq!(read("retry-after", nonsense), None, "{nonsense}");
    }
}

#[test]
fn a_limit_says_in_several_ways_when_it_is_lifted() {
    let now = Timestamp::from_millis(1_790_000_000_000);
    let read = |value: &str| parse_reset(value, now).map(|it| it.as_millis());
    for (value, expect) in [
        ("1s", Some(1000)),
        ("6m0s", Some(360_000)),
        ("120ms", Some(120)),
        ("1h2m3.5s", Some(3_723_500)),
        ("7", Some(7000)),
        ("0.25", Some(250)),
        ("1790000002", Some(2000)),
        ("1790000000500", Some(500)),
        ("1789999999", Some(0)),
        ("2026-09-21T14:13:30Z", Some(10_000)),
        ("", None),
        ("s", None),
        ("1", Some(1000)),
        ("1x", None),
        ("1m2", None),
        ("-1", None),
        ("NaN", None),
        ("1e300", None),
    ] {
        assert_eq!(read(value), expect, "{value}");
    }
}

#[test]
fn the_limit_that_is_used_up_counts_and_only_if_the_rate_is_limited() {
    let read = |status, headers: &[(&str, &'static str)]| {
        let find = |name: &str| headers.iter().find(|it| it.0 == name).map(|it| it.1);
        parse_retry_after(status, find, Timestamp::default()).map(|it| it.as_secs())
    };
    let both = [
        ("x-ratelimit-remaining-requests", "9"),
        ("x-ratelimit-reset-requests", "2s"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "5s"),
    ];
    assert_eq!((read(429, &both), read(200, &both), read(500, &both)), (Some(5), None, None));
    let unsaid = [("x-ratelimit-reset-requests", "2s"), ("x-ratelimit-reset-tokens", "5s")];
    assert_eq!(read(429, &unsaid), Some(2));
    assert_eq!(read(429, &[("x-ratelimit-reset", "3")]), Some(3));
    assert_eq!(read(429, &[("retry-after", "1"), ("x-ratelimit-reset", "3")]), Some(1));
    assert_eq!(read(429, &[]), None);
}

#[tokio::test]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let policy = RetryPolicy { base_delay: Duration::from_secs(50), ..RetryPolicy::default() };
    let clock = SystemClock::default();
    let deadline = Some(clock.monotonic() + Duration::from_secs(1));
    let mut attempts =
        Attempts { policy: &policy, request: b"x", clock: &clock, deadline, made: 0 };
    assert!(attempts.wait(unavailable()).await.is_err());
}
