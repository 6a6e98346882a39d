//! Whether appends run on the calling thread or on another thread.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// What takes no longer is waited for sooner than a thread is woken and put to sleep again.
const FAST_APPEND: Duration = Duration::from_micros(200);
/// After this number of fast ones in a row, the next one is expected to be fast, too.
const FAST_STREAK: u32 = 64;

/// Whether a [`FileStore`](super::FileStore) may block the thread that appends to a session.
///
/// Passing an append to another thread and waiting for it costs about 20 µs of CPU time, which is
/// more than many disks need. Operations that wait for another process, or read what others
/// appended, never block the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AppendMode {
    /// As long as the disk is fast: each of the last 64 appends took at most 200 µs.
    #[default]
    Adaptive,
    /// Never: all operations run on the store's own threads.
    Offload,
    /// Always.
    Inline,
}

/// How quick appends were.
#[derive(Debug)]
pub(super) struct AppendLatency {
    blocking: AppendMode,
    /// How many of the last ones were quick.
    row: AtomicU32,
}

impl AppendLatency {
    pub(super) fn new(blocking: AppendMode) -> Self {
        Self { blocking, row: AtomicU32::new(0) }
    }

    /// Returns `true` if the next append may block.
    pub(super) fn may_block(&self) -> bool {
        match self.blocking {
            AppendMode::Adaptive => self.row.load(Relaxed) >= FAST_STREAK,
            AppendMode::Offload => false,
            AppendMode::Inline => true,
        }
    }

    /// Takes note of how long an append took that began then, unless it failed.
    pub(super) fn note<T, E>(&self, began: Instant, appended: &Result<T, E>) {
        if appended.is_ok() {
            self.took(began.elapsed());
        }
    }

    fn took(&self, time: Duration) {
        if time > FAST_APPEND {
            self.row.store(0, Relaxed);
        } else {
            // One that was slow meanwhile counts.
            let row = self.row.load(Relaxed);
            let _raced = self.row.compare_exchange(row, row.saturating_add(1), Relaxed, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(blocking: AppendMode, took: impl IntoIterator<Item = Duration>) -> bool {
        let pace = AppendLatency::new(blocking);
        took.into_iter().for_each(|it| pace.took(it));
        pace.may_block()
    }

    #[test]
    fn a_disk_that_was_quick_for_long_enough_may_block() {
        assert!(!after(AppendMode::Adaptive, [FAST_APPEND; FAST_STREAK as usize - 1]));
        assert!(after(AppendMode::Adaptive, [FAST_APPEND; FAST_STREAK as usize]));
    }

    #[test]
    fn one_slow_append_has_to_be_made_up_for() {
        let slow = [FAST_APPEND + Duration::from_nanos(1)];
        let quick = [FAST_APPEND; FAST_STREAK as usize];
        assert!(!after(AppendMode::Adaptive, quick.into_iter().chain(slow)));
        assert!(after(AppendMode::Adaptive, quick.into_iter().chain(slow).chain(quick)));
    }

    #[test]
    fn a_requested_append_mode_holds_on_every_disk() {
        assert!(after(AppendMode::Inline, [Duration::MAX]));
        assert!(!after(AppendMode::Offload, [Duration::ZERO; 2 * FAST_STREAK as usize]));
    }
}
