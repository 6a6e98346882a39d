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
    assert_eq!(RetryPolicy::never().delay(&unavailable(), 1, b"x"), None);
}

#[test]
fn delays_double_up_to_the_longest() {
    let policy = RetryPolicy {
        attempts: 10,
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
fn what_cannot_succeed_is_given_up() {
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
        parse_retry_after(|header| (header == name).then_some(value), now)
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

#[tokio::test]
async fn a_wait_beyond_the_deadline_is_not_begun() {
    let policy = RetryPolicy { base_delay: Duration::from_secs(50), ..RetryPolicy::default() };
    let clock = SystemClock::default();
    let deadline = Some(clock.now().plus(Duration::from_secs(1)));
    let mut attempts =
        Attempts { policy: &policy, request: b"x", clock: &clock, deadline, made: 0 };
    assert!(attempts.wait(unavailable()).await.is_err());
}
