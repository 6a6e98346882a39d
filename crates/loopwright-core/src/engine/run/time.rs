//! The clock of a run.

use std::time::Duration;

use crate::{change::Change, clock::Timestamp, run::Run};

/// The minimum time that is recorded as a change of its own.
const LEAST: Duration = Duration::from_millis(1);

/// The last reading of the clock. The run reads it once between two waits, because its own work
/// takes almost no time.
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

    /// Returns the active time since the last record of it.
    pub(super) fn working(&mut self) -> Duration {
        self.monotonic().saturating_sub(self.lap_began)
    }

    /// Starts a lap. The active time before it is already recorded, or does not count.
    pub(super) fn start_timing(&mut self) {
        self.lap_began = self.monotonic();
    }

    /// Ends a lap and returns its duration.
    pub(super) fn lap(&mut self) -> Duration {
        let working = self.working();
        self.start_timing();
        working
    }

    /// Records the active time beyond the steps, unless it is negligible.
    pub(super) fn record_work(&mut self) {
        if self.working() >= LEAST {
            let time = self.lap();
            self.record(Change::Worked(time));
        }
    }

    /// Marks the reading as outdated, after a wait or after other code ran.
    pub(super) fn time_passed(&mut self) {
        self.reading = CachedClock::default();
    }

    fn monotonic(&mut self) -> Duration {
        *self.reading.monotonic.get_or_insert_with(|| self.options.env.clock.monotonic())
    }
}
