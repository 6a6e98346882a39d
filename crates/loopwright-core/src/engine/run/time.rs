//! The time as a run reads it.

use std::time::Duration;

use crate::{change::Change, clock::Timestamp, run::Run};

/// The least that is worth a change of its own.
const LEAST: Duration = Duration::from_millis(1);

/// What the clock showed when it was last looked at. Between two things that are waited for it is looked at
/// once: what a run does by itself takes no time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachedClock {
    now: Option<Timestamp>,
    monotonic: Option<Duration>,
}

impl Run {
    /// Returns the time of day.
    pub(super) fn now(&mut self) -> Timestamp {
        *self.reading.now.get_or_insert_with(|| self.options.env.clock.now())
    }

    /// Returns how long has been worked since that was last recorded.
    pub(super) fn working(&mut self) -> Duration {
        self.monotonic().saturating_sub(self.lap_began)
    }

    /// Begins a lap: what was worked before it is recorded, or does not count.
    pub(super) fn start_timing(&mut self) {
        self.lap_began = self.monotonic();
    }

    /// Ends a lap and returns how long it was.
    pub(super) fn lap(&mut self) -> Duration {
        let working = self.working();
        self.start_timing();
        working
    }

    /// Puts on record what has been worked beyond the steps, unless it is next to nothing.
    pub(super) fn record_work(&mut self) {
        if self.working() >= LEAST {
            let time = self.lap();
            self.record(Change::Worked(time));
        }
    }

    /// Says that something was waited for, or that others had the word.
    pub(super) fn time_passed(&mut self) {
        self.reading = CachedClock::default();
    }

    fn monotonic(&mut self) -> Duration {
        *self.reading.monotonic.get_or_insert_with(|| self.options.env.clock.monotonic())
    }
}
