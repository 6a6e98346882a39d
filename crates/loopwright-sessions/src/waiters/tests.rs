use std::{cell::RefCell, pin::pin};

use loopwright_testing::{FrozenClock, block_on, poll_times, run_until_stuck};

use super::*;

const HOUR: Duration = Duration::from_hours(1);

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn bodies(texts: &[&str]) -> Vec<Arc<[u8]>> {
    texts.iter().map(|it| it.as_bytes().into()).collect()
}

fn entry(number: u64, text: &str) -> LogEntry {
    LogEntry { number, body: text.as_bytes().into() }
}

/// Reads an empty log.
async fn none() -> Result<Vec<LogEntry>, StoreError> {
    Ok(Vec::new())
}

/// Returns when an empty log is read, in milliseconds.
fn reads(waiters: &LogWaiters, at_most: Duration) -> Vec<u128> {
    let (clock, times) = (FrozenClock::new(), RefCell::new(Vec::new()));
    let read = || {
        times.borrow_mut().push(clock.monotonic().as_millis());
        none()
    };
    let reader = waiters.register(&id("a"), SessionLog::Events, 0);
    block_on(reader.wait(&clock, at_most, read)).unwrap();
    times.into_inner()
}

#[test]
fn the_polling_interval_doubles_up_to_a_second() {
    let polled = reads(&LogWaiters::new(), Duration::from_secs(4));
    assert_eq!(polled, [0, 100, 300, 700, 1_500, 2_500, 3_500, 4_000]);
}

#[test]
fn readers_of_a_store_of_one_process_do_not_poll() {
    assert_eq!(reads(&LogWaiters::for_one_process(), HOUR), [0, HOUR.as_millis()]);
}

#[test]
fn a_reader_that_has_the_last_entry_of_this_process_waits_without_reading_first() {
    let waiters = LogWaiters::new();
    waiters.wake(&id("a"), SessionLog::Events, 2, &bodies(&["2"]));
    let times = |after| {
        let (clock, times) = (FrozenClock::new(), RefCell::new(Vec::new()));
        let read = || {
            times.borrow_mut().push(clock.monotonic().as_millis());
            none()
        };
        let reader = waiters.register(&id("a"), SessionLog::Events, after);
        block_on(reader.wait(&clock, Duration::from_secs(2), read)).unwrap();
        times.into_inner()
    };
    assert_eq!([times(1), times(2)], [vec![0, 100, 300, 700, 1_500, 2_000], vec![1_000, 2_000]]);
    waiters.wake_all(&id("a"));
    assert_eq!(times(2)[0], 0);
}

/// Other processes that write at the same moments as a reader polls.
struct Writes(Mutex<Vec<Option<u64>>>);

impl ForeignWrites for Writes {
    async fn position(&self) -> Option<u64> {
        self.0.lock().unwrap().pop().flatten()
    }
}

#[test]
fn a_reader_polls_only_if_other_processes_may_have_written() {
    let (clock, times) = (FrozenClock::new(), RefCell::new(Vec::new()));
    let read = || {
        times.borrow_mut().push(clock.monotonic().as_millis());
        none()
    };
    let (waiters, at_most) = (LogWaiters::new(), Duration::from_secs(6));
    let reader = waiters.register(&id("a"), SessionLog::Events, 0);
    // At 0, 100, 300, 700, 1,500, 2,500, 3,500, 4,500, 5,500 and 6,000 ms.
    let mut writes = [1, 1, 2, 2, 2, 0, 3, 3, 3, 3].map(|it| Some(it).filter(|it| *it > 0));
    writes.reverse();
    let writes = Writes(Mutex::new(writes.into()));
    block_on(reader.wait_beside(&clock, at_most, read, &writes)).unwrap();
    assert_eq!(times.into_inner(), [0, 300, 2_500, 3_500, 6_000]);
}

#[test]
fn the_number_of_remembered_logs_is_limited() {
    let waiters = LogWaiters::new();
    for name in 0..MAX_KNOWN + 9 {
        waiters.wake(&id(&format!("s{name}")), SessionLog::Events, 1, &[]);
    }
    let registry = waiters.registry();
    assert_eq!([registry.appended.len(), registry.known.len()], [MAX_KNOWN; 2]);
    assert!(!registry.appended.contains_key(&(id("s8"), SessionLog::Events)));
}

#[test]
fn an_entry_that_comes_after_the_read_and_before_the_wait_ends_the_wait() {
    let (waiters, clock) = (LogWaiters::new(), FrozenClock::manual());
    let read = async || {
        let found = none().await;
        waiters.wake(&id("a"), SessionLog::Events, 1, &bodies(&["1"]));
        found
    };
    let reader = waiters.register(&id("a"), SessionLog::Events, 0);
    let found = run_until_stuck(reader.wait(&clock, HOUR, read)).unwrap().unwrap();
    assert_eq!(found, [entry(1, "1")]);
}

#[test]
fn a_reader_is_handed_what_follows_its_number_without_a_gap() {
    let waiters = LogWaiters::new();
    let reader = waiters.register(&id("a"), SessionLog::Events, 2);
    let wake =
        |last, texts: &[&str]| waiters.wake(&id("a"), SessionLog::Events, last, &bodies(texts));
    wake(4, &["2", "3", "4"]);
    wake(4, &["4"]);
    wake(5, &["5"]);
    // Another process has appended the sixth.
    wake(7, &["7"]);
    assert_eq!(reader.handed(), [entry(3, "3"), entry(4, "4"), entry(5, "5")]);
    let reader = waiters.register(&id("a"), SessionLog::Events, 7);
    wake(9, &["9"]);
    assert_eq!(reader.handed(), []);
    let many: Vec<_> = std::iter::repeat_n("x", WAIT_LIMIT + 9).collect();
    wake(7 + many.len() as u64, &many);
    assert_eq!(reader.handed().len(), WAIT_LIMIT);
}

#[test]
fn only_the_reader_that_waits_for_an_entry_is_woken() {
    let waiters = LogWaiters::new();
    let others =
        [("a", SessionLog::Events, 2), ("a", SessionLog::Files, 0), ("b", SessionLog::Events, 0)];
    let others = others.map(|(name, log, after)| waiters.register(&id(name), log, after));
    let meant = waiters.register(&id("a"), SessionLog::Events, 1);
    waiters.wake(&id("a"), SessionLog::Events, 2, &bodies(&["2"]));
    waiters.wake(&id("c"), SessionLog::Events, 9, &bodies(&["9"]));
    assert!(run_until_stuck(meant.woken()).is_some());
    assert!(others.iter().all(|it| run_until_stuck(it.woken()).is_none()));
}

#[test]
fn a_deletion_wakes_all_readers_of_the_session() {
    let waiters = LogWaiters::new();
    let readers = ["a", "a", "b"].map(|it| waiters.register(&id(it), SessionLog::Events, 7));
    waiters.wake_all(&id("a"));
    let woken = readers.each_ref().map(|it| run_until_stuck(it.woken()).is_some());
    assert_eq!(woken, [true, true, false]);
}

#[test]
fn the_registry_has_one_entry_for_each_reader_that_waits() {
    let (waiters, clock) = (LogWaiters::new(), FrozenClock::manual());
    let names: Vec<_> = (0..1_000).map(|it| id(&format!("s{}", it / 2))).collect();
    let readers: Vec<_> =
        names.iter().map(|id| waiters.register(id, SessionLog::Events, 0)).collect();
    assert_eq!((waiters.len(), waiters.registry().sessions.len()), (1_000, 500));
    drop(readers);
    assert!(waiters.is_empty());
    {
        // A wait that is dropped in the middle leaves nothing behind.
        let reader = waiters.register(&id("a"), SessionLog::Events, 1);
        let mut wait = pin!(async move { reader.wait(&clock, HOUR, none).await });
        assert!(poll_times(wait.as_mut(), 9).is_none());
        assert_eq!(waiters.len(), 1);
    }
    assert!(waiters.is_empty());
}
