//! A clock that tests control.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::future::BoxFuture;
use loopwright_core::{Clock, RunEnv, Timestamp};

/// The moment at which frozen clocks stand at first: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

/// A clock that moves only on request. Clones show the same time.
///
/// [`advance`](FrozenClock::advance) moves the time of day and the monotonic clock together;
/// [`set_time_of_day`](FrozenClock::set_time_of_day) moves the time of day alone, as when the clock of a machine
/// is set.
///
/// It has two modes. With [`new`](FrozenClock::new), a sleep moves the clock to its end and returns
/// at once. With [`manual`](FrozenClock::manual), a sleep waits until the test calls
/// [`advance`](FrozenClock::advance).
#[derive(Clone, Debug)]
pub struct FrozenClock {
    mode: Mode,
    time: Arc<Mutex<Time>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    SleepAdvances,
    Manual,
}

#[derive(Debug, Default)]
struct Time {
    passed: Duration,
    /// The time of day when nothing had passed, if it was set.
    start: Option<Timestamp>,
    sleepers: Vec<Waker>,
}

impl Default for FrozenClock {
    fn default() -> Self {
        Self::new()
    }
}

impl FrozenClock {
    /// Creates a clock that a sleep moves.
    pub fn new() -> Self {
        Self::of(Mode::SleepAdvances)
    }

    /// Creates a clock that only [`advance`](FrozenClock::advance) moves.
    pub fn manual() -> Self {
        Self::of(Mode::Manual)
    }

    fn of(mode: Mode) -> Self {
        Self { mode, time: Arc::default() }
    }

    /// Moves the clock, and wakes sleeps that end.
    pub fn advance(&self, duration: Duration) {
        let mut time = self.time();
        time.passed += duration;
        time.sleepers.drain(..).for_each(Waker::wake);
    }

    /// Sets the time of day, forwards or back. The monotonic clock and pending sleeps are not
    /// affected.
    pub fn set_time_of_day(&self, at: Timestamp) {
        let mut time = self.time();
        let passed = u64::try_from(time.passed.as_millis()).unwrap_or(u64::MAX);
        time.start = Some(Timestamp::from_millis(at.millis().saturating_sub(passed)));
    }

    /// Creates an environment from this clock and a seed.
    pub fn env(&self, seed: u64) -> RunEnv {
        RunEnv { clock: Arc::new(self.clone()), seed }
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        let time = self.time();
        time.start.unwrap_or(Timestamp::from_millis(START)).plus(time.passed)
    }

    fn monotonic(&self) -> Duration {
        self.time().passed
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { clock: self.clone(), until: self.monotonic().saturating_add(duration) })
    }
}

struct Sleep {
    clock: FrozenClock,
    until: Duration,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut time = self.clock.time();
        if self.clock.mode == Mode::SleepAdvances {
            time.passed = time.passed.max(self.until);
        }
        if time.passed >= self.until {
            return Poll::Ready(());
        }
        time.sleepers.push(cx.waker().clone());
        Poll::Pending
    }
}

/// Creates an environment with a frozen clock that a sleep moves, and IDs from the seed.
pub fn test_env(seed: u64) -> RunEnv {
    FrozenClock::new().env(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{block_on, run_until_stuck};

    #[test]
    fn sleeping_moves_the_clock_and_takes_no_time() {
        let clock = FrozenClock::new();
        let began = clock.now();
        block_on(clock.sleep(Duration::from_secs(3)));
        assert_eq!(clock.now().since(began), Duration::from_secs(3));
        assert_eq!(clock.monotonic(), Duration::from_secs(3));
    }

    #[test]
    fn the_time_of_day_can_be_set_and_the_monotonic_clock_goes_on() {
        let (clock, second) = (FrozenClock::manual(), Duration::from_secs(1));
        clock.advance(second);
        let mut sleep = clock.sleep(second);
        for moment in [0, 4_000_000_000_000].map(Timestamp::from_millis) {
            let moment = moment.plus(second);
            clock.set_time_of_day(moment);
            assert_eq!((clock.now(), clock.monotonic()), (moment, second));
        }
        assert_eq!(run_until_stuck(&mut sleep), None);
        let before = clock.now();
        clock.advance(second);
        assert_eq!(clock.now().since(before), second);
        assert_eq!(run_until_stuck(&mut sleep), Some(()));
    }

    #[test]
    fn a_sleep_on_a_manual_clock_waits_for_it() {
        let clock = FrozenClock::manual();
        let mut sleep = clock.sleep(Duration::from_secs(3));
        assert_eq!(run_until_stuck(&mut sleep), None);
        clock.advance(Duration::from_secs(2));
        assert_eq!(run_until_stuck(&mut sleep), None);
        clock.clone().advance(Duration::from_secs(1));
        assert_eq!(run_until_stuck(&mut sleep), Some(()));
    }
}
