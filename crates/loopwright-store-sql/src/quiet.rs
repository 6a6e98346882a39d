//! Sessions for whose process there is no control message.
//!
//! Each run asks for control messages twice a second, and nearly always there are none. So a process that has found none does
//! not ask the database again until it has written about the session itself, or another process has written anything.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use loopwright_sessions::{Lease, SessionId};

/// The most questions in a row that the database is not asked. It finds what a writer left that was cut off in the middle.
const MAX_SKIPPED: u32 = 20;

/// The sessions without a control message. Others are asked for.
#[derive(Default)]
pub(crate) struct QuietSessions(Mutex<Known>);

#[derive(Default)]
struct Known {
    sessions: HashMap<SessionId, Quiet>,
    /// How often this process has written about any session.
    own_writes: u64,
}

struct Quiet {
    /// The number of the lease that was still held.
    lease: u64,
    foreign_writes: u64,
    skipped: u32,
}

/// What was written before a question.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    own_writes: u64,
    foreign_writes: Option<u64>,
}

impl QuietSessions {
    /// Returns the moment after so many writes of other processes. Take it before the database is asked.
    pub(crate) fn moment(&self, foreign_writes: Option<u64>) -> Moment {
        Moment { own_writes: self.known().own_writes, foreign_writes }
    }

    /// Returns `true` if there is no message, and the lease is still held.
    pub(crate) fn is_quiet(&self, lease: &Lease, now: Moment) -> bool {
        let mut known = self.known();
        let Some(quiet) = known.sessions.get_mut(&lease.id) else { return false };
        quiet.skipped += 1;
        quiet.lease == lease.number
            && Some(quiet.foreign_writes) == now.foreign_writes
            && quiet.skipped <= MAX_SKIPPED
    }

    /// Records that the database had no message when it was asked after this moment.
    pub(crate) fn note(&self, lease: &Lease, asked_at: Moment) {
        let mut known = self.known();
        let Some(foreign_writes) = asked_at.foreign_writes else { return };
        if known.own_writes == asked_at.own_writes {
            let quiet = Quiet { lease: lease.number, foreign_writes, skipped: 0 };
            known.sessions.insert(lease.id.clone(), quiet);
        }
    }

    /// Forgets sessions, once the result is dropped: when a write about them has ended.
    pub(crate) fn telling<'a>(
        &'a self,
        sessions: impl IntoIterator<Item = &'a SessionId>,
    ) -> impl Drop + 'a {
        Telling(self, sessions.into_iter().collect())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write about sessions.
struct Telling<'a>(&'a QuietSessions, Vec<&'a SessionId>);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        let mut known = self.0.known();
        known.own_writes += 1;
        for session in &self.1 {
            known.sessions.remove(*session);
        }
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::Timestamp;

    use super::*;

    fn lease(number: u64) -> Lease {
        let (id, owner) = (SessionId::new("a").unwrap(), "worker".into());
        Lease { id, owner, number, until: Timestamp::from_millis(9), last_control: 0 }
    }

    /// Returns the sessions after one question without an answer.
    fn asked() -> QuietSessions {
        let quiet = QuietSessions::default();
        quiet.note(&lease(1), quiet.moment(Some(5)));
        quiet
    }

    fn is_quiet(quiet: &QuietSessions, number: u64, foreign_writes: Option<u64>) -> bool {
        quiet.is_quiet(&lease(number), quiet.moment(foreign_writes))
    }

    #[test]
    fn a_session_is_quiet_until_something_is_written() {
        let quiet = asked();
        assert!(!is_quiet(&QuietSessions::default(), 1, Some(5)));
        let seen = [(1, Some(5)), (1, Some(6)), (2, Some(5)), (1, None), (1, Some(5))];
        let seen = seen.map(|(lease, writes)| is_quiet(&quiet, lease, writes));
        assert_eq!(seen, [true, false, false, false, true]);
        drop(quiet.telling([&lease(1).id]));
        assert!(!is_quiet(&quiet, 1, Some(5)));
    }

    #[test]
    fn an_answer_from_before_a_write_is_not_kept() {
        let quiet = QuietSessions::default();
        let moment = quiet.moment(Some(5));
        drop(quiet.telling([&SessionId::new("b").unwrap()]));
        quiet.note(&lease(1), moment);
        quiet.note(&lease(1), quiet.moment(None));
        assert!(!is_quiet(&quiet, 1, Some(5)));
    }

    #[test]
    fn the_database_is_asked_again_after_some_questions() {
        let quiet = asked();
        let seen = (0..30).filter(|_| is_quiet(&quiet, 1, Some(5))).count();
        assert_eq!(seen, MAX_SKIPPED as usize);
    }
}
