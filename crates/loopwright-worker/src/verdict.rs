//! The result of a job, derived from its session.

use std::{error::Error, sync::Arc};

use loopwright_core::{AgentState, ExecutionStatus, Failure, FailureKind, Timestamp};
use loopwright_sessions::{ClaimedJob, Job, JobOutcome, SessionError, StoreError};

use crate::{
    deliver::{ClaimLost, DeliveredJob},
    options::WorkerOptions,
    place::{AgentRefused, SnapshotsElsewhere},
};

/// The result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobResult {
    /// The final outcome.
    Is(JobOutcome),
    /// It failed for a transient reason.
    ForNow(Arc<str>),
    /// Another process holds it.
    Lost,
}

impl JobResult {
    /// Derives the result of a job from a state.
    pub(crate) fn of_state(state: &AgentState, job: &Job) -> Self {
        let is_ahead = DeliveredJob::of(state, &job.id).is_some_and(|heard| heard.is_ahead(state));
        Self::Is(match state.status() {
            ExecutionStatus::InProgress => JobOutcome::Released,
            _ if is_ahead => JobOutcome::Released,
            ExecutionStatus::Pending | ExecutionStatus::Completed => JobOutcome::Done,
            ExecutionStatus::Paused => {
                let asked = state.pending().into_iter().map(|it| it.question.text.clone());
                JobOutcome::NeedsInput(asked.collect::<Vec<_>>().join("; ").into())
            }
            ExecutionStatus::Stopped(_) => JobOutcome::Stopped(state.explain_stop().into()),
            ExecutionStatus::Failed(failure) if is_worth_another_try(failure) => {
                return Self::ForNow(failure.to_string().into());
            }
            ExecutionStatus::Failed(failure) => JobOutcome::Failed(failure.to_string().into()),
        })
    }

    /// Derives the result from an error: a busy session or an unavailable store is transient, all
    /// others are refusals.
    pub(crate) fn of_error(error: &SessionError) -> Self {
        match error {
            SessionError::Action(cause) if cause.is::<ClaimLost>() => Self::Lost,
            SessionError::Action(cause) => match cause.downcast_ref::<AgentRefused>() {
                Some(AgentRefused(cause)) if is_store_away(&**cause) => {
                    Self::ForNow(told(&**cause))
                }
                Some(AgentRefused(cause)) => Self::refused(&**cause),
                None if is_folder_busy(&**cause) => Self::ForNow(told(error)),
                None => Self::refused(error),
            },
            SessionError::Store(
                StoreError::Busy { .. }
                | StoreError::Conflict { .. }
                | StoreError::LeaseLost(_)
                | StoreError::Unavailable(_),
            )
            | SessionError::Journal(_) => Self::ForNow(told(error)),
            _ => Self::refused(error),
        }
    }

    /// Gives a job up.
    pub(crate) fn refused(error: &(dyn Error + 'static)) -> Self {
        Self::Is(JobOutcome::Failed(told(error)))
    }

    /// Says what becomes of the job. Returns `None` if that is not ours to say.
    pub(crate) fn outcome(
        self,
        claimed: &ClaimedJob,
        options: &WorkerOptions,
        now: Timestamp,
    ) -> Option<JobOutcome> {
        match self {
            Self::Is(outcome) => Some(outcome),
            Self::Lost => None,
            Self::ForNow(reason) if claimed.attempts + 1 >= options.max_attempts => {
                let reason = format!("gave up after {} attempts: {reason}", claimed.attempts + 1);
                Some(JobOutcome::Failed(reason.into()))
            }
            Self::ForNow(reason) => {
                let at = now.plus(options.backoff.after(claimed.attempts));
                Some(JobOutcome::Retry { at, reason })
            }
        }
    }
}

/// Returns `true` if a failure may be over later: the provider was away or too busy, or the store was.
pub(crate) fn is_worth_another_try(failure: &Failure) -> bool {
    failure.is_transient || failure.kind == FailureKind::Journal
}

/// Returns `true` if the store did not respond while the agent of a session was prepared.
fn is_store_away(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    let of_session = match error.downcast_ref() {
        Some(SessionError::Store(error)) => Some(error),
        _ => None,
    };
    matches!(error.downcast_ref().or(of_session), Some(StoreError::Unavailable(_)))
}

/// Returns `true` if the working directory of a session may be available later.
fn is_folder_busy(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    #[cfg(all(feature = "workspaces", target_os = "linux"))]
    if error.downcast_ref().is_some_and(crate::folders::FolderError::is_transient) {
        return true;
    }
    error.is::<SnapshotsElsewhere>()
}

/// Writes an error with its causes.
fn told(error: &(dyn Error + 'static)) -> Arc<str> {
    Failure::from_error(FailureKind::Other, error).to_string().into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loopwright_core::BoxError;
    use loopwright_sessions::SessionId;

    use super::*;

    fn claimed(attempts: u32) -> ClaimedJob {
        ClaimedJob {
            job: Job::resume(SessionId::new("a").unwrap()),
            claim: 1,
            attempts,
            crashes: 0,
        }
    }

    #[test]
    fn a_transient_failure_is_retried_at_growing_intervals_and_then_final() {
        let options = WorkerOptions { max_attempts: 3, ..WorkerOptions::default() };
        let outcome = |attempts| {
            let now = Timestamp::from_millis(0);
            JobResult::ForNow("away".into()).outcome(&claimed(attempts), &options, now).unwrap()
        };
        let again = |millis| JobOutcome::Retry {
            at: Timestamp::from_millis(millis),
            reason: "away".into(),
        };
        assert_eq!([outcome(0), outcome(1)], [again(1_000), again(2_000)]);
        assert_eq!(outcome(2), JobOutcome::Failed("gave up after 3 attempts: away".into()));
    }

    #[test]
    fn a_busy_session_and_a_store_that_is_away_are_for_now_and_all_else_is_refused() {
        let id = || SessionId::new("a").unwrap();
        let until = Timestamp::from_millis(0);
        let busy = StoreError::Busy { id: id(), owner: "you".into(), until };
        let away = StoreError::Unavailable("cable".into());
        let cut = || StoreError::Unavailable("cable".into());
        let unprepared: [BoxError; 2] = [cut().into(), SessionError::from(cut()).into()];
        let unprepared = unprepared.map(|it| SessionError::Action(AgentRefused(it).into()));
        let errors = [busy, away, StoreError::LeaseLost(id())].map(SessionError::from);
        for error in errors.into_iter().chain(unprepared) {
            let verdict = JobResult::of_error(&error);
            assert!(matches!(verdict, JobResult::ForNow(_)), "{verdict:?}");
        }
        let gone = JobResult::of_error(&StoreError::NotFound(id()).into());
        assert_eq!(gone, JobResult::Is(JobOutcome::Failed("unknown session `a`".into())));
        assert_eq!(JobResult::of_error(&SessionError::Action(ClaimLost.into())), JobResult::Lost);
    }

    #[test]
    fn delays_double_up_to_a_limit() {
        let backoff = WorkerOptions::default().backoff;
        let seconds = |attempts| backoff.after(attempts).as_secs();
        assert_eq!([seconds(0), seconds(3), seconds(8), seconds(200)], [1, 8, 256, 300]);
        assert_eq!(backoff.max, Duration::from_mins(5));
    }
}
