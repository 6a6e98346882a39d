//! What holds of readers that wait for log entries.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::Poll,
    time::Duration,
};

use futures::{future::BoxFuture, poll};
use loopwright_core::{Clock, Timestamp};

use super::{ConformanceCase, create, header, id, keeping::bodies, moment};
use crate::store::{LogEntry, SessionLog, SessionStore, StoreError};

/// Longer than any test takes.
const HOUR: Duration = Duration::from_hours(1);
/// More often than any store is polled until it waits.
const POLLS: usize = 12;

macro_rules! facts {
    ($($name:ident),* $(,)?) => {
        /// What holds of every store that wakes its readers.
        pub const WAKE_CASES: &[ConformanceCase] = &[
            $(ConformanceCase { name: stringify!($name), check: |store| Box::pin($name(store)) }),*
        ];
    };
}

facts![
    an_entry_wakes_a_reader_whenever_it_is_added,
    an_entry_of_another_log_wakes_no_reader,
    a_deletion_wakes_the_readers_of_the_session,
];

/// A clock on which no time passes. It counts the sleeps, each of which ends at once or never.
struct StoppedClock {
    ends_sleeps: bool,
    sleeps: AtomicUsize,
}

impl StoppedClock {
    fn new(ends_sleeps: bool) -> Self {
        Self { ends_sleeps, sleeps: AtomicUsize::new(0) }
    }

    fn sleeps(&self) -> usize {
        self.sleeps.load(Ordering::SeqCst)
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        moment(0)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _duration: Duration) -> BoxFuture<'static, ()> {
        self.sleeps.fetch_add(1, Ordering::SeqCst);
        if !self.ends_sleeps {
            return Box::pin(pending());
        }
        let mut is_second = false;
        Box::pin(poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

type Wait<'a> = Pin<Box<dyn Future<Output = Result<Vec<LogEntry>, StoreError>> + Send + 'a>>;

/// Polls a wait up to this number of times, but no longer than until it sleeps.
async fn poll_wait(wait: &mut Wait<'_>, clock: &StoppedClock, polls: usize) {
    let mut left = polls;
    poll_fn(|cx| {
        if left > 0 && clock.sleeps() == 0 {
            left -= 1;
            assert!(wait.as_mut().poll(cx).is_pending(), "there is no entry");
        }
        if left > 0 && clock.sleeps() == 0 { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

async fn add(store: &dyn SessionStore, name: &str, log: SessionLog) {
    store.append_log(&id(name), log, &bodies(&["x"]), None).await.unwrap();
}

/// Adds an entry before each poll of a wait.
async fn entry_ends_wait(store: &dyn SessionStore, ends_sleeps: bool) {
    create(store, &header("a"), &[]).await;
    let a = id("a");
    for (polls, after) in (0..POLLS).zip(0_u64..) {
        let clock = StoppedClock::new(ends_sleeps);
        let mut wait = store.wait(&a, SessionLog::Events, after, &clock, HOUR);
        poll_wait(&mut wait, &clock, polls).await;
        add(store, "a", SessionLog::Events).await;
        let waited = wait.await.unwrap();
        let found = store.read_log(&a, SessionLog::Events, after, 9).await.unwrap();
        assert_eq!(found.len(), 1, "after {polls} polls");
        assert!(waited.is_empty() || waited == found, "after {polls} polls: {waited:?}");
    }
}

pub(super) async fn an_entry_ends_a_wait_whenever_it_is_added(store: &dyn SessionStore) {
    entry_ends_wait(store, true).await;
}

async fn an_entry_wakes_a_reader_whenever_it_is_added(store: &dyn SessionStore) {
    entry_ends_wait(store, false).await;
}

async fn an_entry_of_another_log_wakes_no_reader(store: &dyn SessionStore) {
    // From here on, a store that receives notifications is connected.
    entry_ends_wait(store, false).await;
    create(store, &header("b"), &[]).await;
    let (a, b, last) = (id("a"), id("b"), POLLS as u64);
    let (clock, other) = (StoppedClock::new(false), StoppedClock::new(false));
    let mut wait = store.wait(&b, SessionLog::Events, 0, &clock, HOUR);
    poll_wait(&mut wait, &clock, usize::MAX).await;
    let mut woken = store.wait(&a, SessionLog::Events, last, &other, HOUR);
    poll_wait(&mut woken, &other, usize::MAX).await;
    add(store, "b", SessionLog::Files).await;
    add(store, "a", SessionLog::Events).await;
    woken.await.unwrap();
    for _ in 0..POLLS {
        assert!(poll!(&mut wait).is_pending(), "it was woken");
    }
    add(store, "b", SessionLog::Events).await;
    wait.await.unwrap();
    assert_eq!(clock.sleeps(), 1, "it was woken and waited again");
}

async fn a_deletion_wakes_the_readers_of_the_session(store: &dyn SessionStore) {
    create(store, &header("a"), &[]).await;
    let (a, clock) = (id("a"), StoppedClock::new(false));
    let mut wait = store.wait(&a, SessionLog::Events, 0, &clock, HOUR);
    poll_wait(&mut wait, &clock, usize::MAX).await;
    store.delete(&a, moment(1)).await.unwrap();
    wait.await.unwrap();
}
