//! A clock that is slow.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use loopwright_core::{Clock, SystemClock, Timestamp};

/// The machine's clock, so much slow. Clones go back together.
#[derive(Clone, Debug, Default)]
pub struct SlowClock {
    clock: SystemClock,
    slow: Arc<AtomicU64>,
}

impl SlowClock {
    /// Makes a clock that is slow by so many milliseconds.
    pub fn new(slow: u64) -> Self {
        let clock = Self::default();
        clock.set_back(slow);
        clock
    }

    /// Goes back by so many milliseconds.
    pub fn set_back(&self, millis: u64) {
        self.slow.fetch_add(millis, SeqCst);
    }
}

impl Clock for SlowClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.now().millis().saturating_sub(self.slow.load(SeqCst)))
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.clock.sleep(duration)
    }
}
