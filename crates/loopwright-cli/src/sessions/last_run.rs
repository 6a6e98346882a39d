//! The ending of the last run of a session.

use loopwright_core::{Change, ChangeRecord, ExecutionStatus};
use loopwright_sessions::{SessionHeader, SessionStore};

use super::change::owner;

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
        INCOMPLETE if matches!(owner(store, header).await, Ok(Some(_))) => Some(RUNNING),
        word => Some(word),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use loopwright_sessions::{LeaseRequest, MemoryStore, Owner, SessionRuntime};
    use loopwright_testing::FakeModel;

    use super::*;
    use crate::session::now;

    #[tokio::test]
    async fn the_owner_of_a_session_is_found_without_taking_the_session() {
        let store: Arc<dyn SessionStore> = Arc::new(MemoryStore::new());
        let agent = loopwright_agent::AgentBuilder::base()
            .with(loopwright_capabilities::llm::UseLlm::from_model(FakeModel::script(["Hi."])))
            .build()
            .unwrap();
        let runtime = SessionRuntime::new(Arc::clone(&store), agent);
        let id = runtime.open("s").await.unwrap().id().clone();
        let header = store.header(&id).await.unwrap().unwrap();
        let me = Owner::this_process().to_string();
        let ttl = Duration::from_mins(1);
        let claim = LeaseRequest { owner: &me, replaces: None, now: now(), ttl };
        let first = store.lease(&id, claim).await.unwrap();
        assert_eq!(owner(&*store, &header).await.unwrap().as_deref(), Some(&*me));
        store.release(&first).await.unwrap();
        assert_eq!(owner(&*store, &header).await.unwrap(), None);
        assert_eq!(store.lease(&id, claim).await.unwrap().number, first.number + 1);
    }
}
