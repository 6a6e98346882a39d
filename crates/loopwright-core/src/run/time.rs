//! The time as a run reads it.

use std::time::Duration;

use crate::{clock::Timestamp, run::Run};

/// What the clock showed when it was last looked at. Between two things that are waited for it is looked at
/// once: what a run does by itself takes no time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    now: Option<Timestamp>,
    monotonic: Option<Duration>,
}

impl Run {
    /// Returns the time of day.
    pub(super) fn now(&mut self) -> Timestamp {
        *self.reading.now.get_or_insert_with(|| self.options.env.clock.now())
    }

    /// Returns how long the step has been worked on.
    pub(super) fn step_took(&mut self) -> Duration {
        self.monotonic().saturating_sub(self.step_began)
    }

    /// Notes that a step begins.
    pub(super) fn start_timing(&mut self) {
        self.step_began = self.monotonic();
    }

    /// Says that something was waited for, or that others had the word.
    pub(super) fn time_passed(&mut self) {
        self.reading = Reading::default();
    }

    fn monotonic(&mut self) -> Duration {
        *self.reading.monotonic.get_or_insert_with(|| self.options.env.clock.monotonic())
    }
}
