//! The ending of the last run of a session.

use loopwright_core::{Change, ChangeRecord, ExecutionStatus};
use loopwright_sessions::{SessionHeader, SessionStore, StoreError};

use super::change::hold;

/// The most sessions whose last run is looked up: each is read.
const MAX: usize = 100;

/// What is known of a run that has begun and not ended.
const INCOMPLETE: &str = "incomplete";

/// The same, if a process has the session.
pub(crate) const RUNNING: &str = "running";

/// Returns in a word how the last run of each session ended: `new` if none began, `running` if a process has the session, and
/// `incomplete` if it was interrupted. `None` where that is not known.
pub(crate) async fn last_runs(
    store: &dyn SessionStore,
    sessions: &[SessionHeader],
) -> Vec<Option<&'static str>> {
    let read = sessions.iter().take(MAX).map(|it| last_run(store, it));
    let mut runs = futures::future::join_all(read).await;
    runs.resize(sessions.len(), None);
    runs
}

async fn last_run(store: &dyn SessionStore, header: &SessionHeader) -> Option<&'static str> {
    let loaded = store.load(&header.id).await.ok()??;
    match word(&loaded.changes).unwrap_or("new") {
        INCOMPLETE if is_held(store, header).await => Some(RUNNING),
        word => Some(word),
    }
}

/// Returns `true` if a process has a session, for its own run or for that of the session it works for.
async fn is_held(store: &dyn SessionStore, header: &SessionHeader) -> bool {
    match hold(store, header).await {
        Ok(lease) => {
            // The lease ends by itself, too.
            store.release(&lease).await.ok();
            false
        }
        Err(error) => matches!(error, StoreError::Busy { .. }),
    }
}

fn word(changes: &[ChangeRecord]) -> Option<&'static str> {
    changes.iter().rev().find_map(|it| match &it.change {
        Change::ExecutionEnded(status) => Some(match status {
            ExecutionStatus::Completed => "completed",
            ExecutionStatus::Stopped(_) => "stopped",
            ExecutionStatus::Failed(_) => "failed",
            other => other.as_str(),
        }),
        Change::ExecutionPaused => Some("paused"),
        Change::ExecutionStarted { .. } | Change::ExecutionResumed => Some(INCOMPLETE),
        _ => None,
    })
}
