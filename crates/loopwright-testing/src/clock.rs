//! A clock that stands still.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::future::BoxFuture;
use loopwright_core::{Clock, Env, Timestamp};

/// The moment at which frozen clocks stand at first: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600_000;

/// A clock that only moves when it is told to. Clones show the same time.
///
/// There are two modes. With [`new`](FrozenClock::new), whoever sleeps moves the clock to the end of
/// its sleep and goes on at once. With [`manual`](FrozenClock::manual), whoever sleeps waits until
/// somebody calls [`advance`](FrozenClock::advance).
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
    sleepers: Vec<Waker>,
}

impl Default for FrozenClock {
    fn default() -> Self {
        Self::new()
    }
}

impl FrozenClock {
    /// Creates a clock that sleeping moves on.
    pub fn new() -> Self {
        Self::of(Mode::SleepAdvances)
    }

    /// Creates a clock that only [`advance`](FrozenClock::advance) moves on.
    pub fn manual() -> Self {
        Self::of(Mode::Manual)
    }

    fn of(mode: Mode) -> Self {
        Self { mode, time: Arc::default() }
    }

    /// Lets time pass, and wakes whoever sleeps.
    pub fn advance(&self, duration: Duration) {
        let mut time = self.time();
        time.passed += duration;
        time.sleepers.drain(..).for_each(Waker::wake);
    }

    /// Makes surroundings of this clock and a seed.
    pub fn env(&self, seed: u64) -> Env {
        Env { clock: Arc::new(self.clone()), seed }
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START).plus(self.monotonic())
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

/// Makes surroundings in which sleeping moves a frozen clock on, and ids are made of the seed.
pub fn test_env(seed: u64) -> Env {
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
    fn who_sleeps_by_a_manual_clock_waits_for_it() {
        let clock = FrozenClock::manual();
        let mut sleep = clock.sleep(Duration::from_secs(3));
        assert_eq!(run_until_stuck(&mut sleep), None);
        clock.advance(Duration::from_secs(2));
        assert_eq!(run_until_stuck(&mut sleep), None);
        clock.clone().advance(Duration::from_secs(1));
        assert_eq!(run_until_stuck(&mut sleep), Some(()));
    }
}
