use std::{future::pending, task::Poll};

use futures::{FutureExt as _, channel::oneshot, executor::block_on, poll};
use loopwright_testing::FrozenClock;

use super::*;
use crate::{MemoryStore, conformance::CASES};

const AFTER: Duration = Duration::from_secs(3);

/// A reporter by a clock that only moves when it is told to, and what it reported.
fn reporter() -> (WaitReporter, FrozenClock, Arc<Mutex<Vec<StoreWait>>>) {
    let (clock, reports) = (FrozenClock::manual(), Arc::new(Mutex::new(Vec::new())));
    let sink = Arc::clone(&reports);
    let report = move |wait| sink.lock().unwrap().push(wait);
    (WaitReporter::new(Arc::new(clock.clone()), AFTER, report), clock, reports)
}

#[test]
fn a_call_that_waits_is_reported_once_it_has_waited_for_a_while_and_when_it_is_answered() {
    block_on(async {
        let (reporter, clock, reports) = reporter();
        let (answer, answered) = oneshot::channel();
        let mut call = pin!(reporter.watch(answered));
        assert!(poll!(&mut call).is_pending());
        clock.advance(AFTER.saturating_sub(Duration::from_millis(1)));
        assert!(poll!(&mut call).is_pending());
        assert_eq!(*reports.lock().unwrap(), []);
        clock.advance(Duration::from_millis(1));
        assert!(poll!(&mut call).is_pending());
        assert_eq!(*reports.lock().unwrap(), [StoreWait::Started(AFTER)]);
        clock.advance(Duration::from_secs(9));
        answer.send(7).unwrap();
        assert_eq!(poll!(&mut call), Poll::Ready(Ok(7)));
        let waited = Duration::from_secs(12);
        assert_eq!(*reports.lock().unwrap(), [StoreWait::Started(AFTER), StoreWait::Ended(waited)]);
    });
}

#[test]
fn a_call_that_is_answered_soon_is_not_reported() {
    let (reporter, clock, reports) = reporter();
    assert_eq!(reporter.watch(async { 7 }).now_or_never(), Some(7));
    clock.advance(AFTER);
    assert_eq!(*reports.lock().unwrap(), []);
}

#[test]
fn calls_that_wait_at_the_same_time_are_reported_once_and_dropping_them_ends_the_wait() {
    block_on(async {
        let (reporter, clock, reports) = reporter();
        let mut calls: Vec<_> = (0..2).map(|_| reporter.watch(pending::<()>()).boxed()).collect();
        for call in &mut calls {
            assert!(poll!(call).is_pending());
        }
        clock.advance(AFTER);
        for call in &mut calls {
            assert!(poll!(call).is_pending());
        }
        calls.pop();
        assert_eq!(*reports.lock().unwrap(), [StoreWait::Started(AFTER)]);
        calls.pop();
        assert_eq!(*reports.lock().unwrap(), [StoreWait::Started(AFTER), StoreWait::Ended(AFTER)]);
    });
}

#[tokio::test]
async fn a_store_that_reports_waits_does_what_every_store_must() {
    for fact in CASES {
        let (reporter, ..) = reporter();
        (fact.check)(&ReportingStore::new(Arc::new(MemoryStore::new()), reporter)).await;
    }
}
