//! The ending of the last run of a session.

use loopwright_core::{Change, ChangeRecord, ExecutionStatus};
use loopwright_sessions::{SessionHeader, SessionId, SessionStore};

/// The most sessions whose last run is looked up: each is read.
const MAX: usize = 100;

/// Returns in a word how the last run of each session ended: `new` if none began, `incomplete` if it is
/// under way or was interrupted. `None` where that is not known.
pub(super) async fn last_runs(
    store: &dyn SessionStore,
    sessions: &[SessionHeader],
) -> Vec<Option<&'static str>> {
    let read = sessions.iter().take(MAX).map(|it| last_run(store, &it.id));
    let mut runs = futures::future::join_all(read).await;
    runs.resize(sessions.len(), None);
    runs
}

async fn last_run(store: &dyn SessionStore, id: &SessionId) -> Option<&'static str> {
    let loaded = store.load(id).await.ok()??;
    Some(word(&loaded.changes).unwrap_or("new"))
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
        Change::ExecutionStarted { .. } | Change::ExecutionResumed => Some("incomplete"),
        _ => None,
    })
}
