//! Requests that another process answers while a dialog shows them.

use std::sync::Arc;

use loopwright_core::{PendingApproval, SystemClock, Timestamp};
use loopwright_sessions::{AgentSession, SessionId, SessionStore, ShownRequest};

use crate::loops::maintenance_runtime;
use crate::session::{SessionsError, now};

/// The result of an answer that came second.
pub(crate) const SUPERSEDED: &str =
    "your answer has no effect: another process answered or changed the request first";

/// Why a dialog closes by itself.
pub(crate) const SETTLED: &str = "another process answered or changed this request";

/// Why there is nothing left to do after a dialog.
pub(crate) const FINISHED: &str = "another process finished this run";

/// Waits until a request, read at a version of its session, no longer waits for an answer: its deadline has passed, another process
/// has answered it, or the session cannot be read.
pub(crate) fn closed(
    store: &Arc<dyn SessionStore>,
    id: &SessionId,
    request: &ShownRequest,
    version: Option<u64>,
    deadline: Option<Timestamp>,
) -> impl Future<Output = ()> + Send + use<> {
    let (store, id, request) = (Arc::clone(store), id.clone(), request.clone());
    let (mut version, left) = (version.unwrap_or_default(), deadline.map(|at| at.since(now())));
    let settled = async move {
        let (runtime, clock) = (maintenance_runtime(&store), SystemClock::default());
        while let Ok(Some(written)) = store.wait_for_write(&id, version, &clock).await {
            version = written.version;
            let Ok(session) = runtime.session(&id).await else { return };
            let state = session.state();
            let waits = |it: &PendingApproval<'_>| ShownRequest::of(&id, state, it) == request;
            if !state.pending().iter().any(waits) {
                return;
            }
        }
    };
    async move {
        match left {
            Some(left) => drop(tokio::time::timeout(left, settled).await),
            None => settled.await,
        }
    }
}

/// Returns the session of a run that another process continued and finished. Returns `None` if the run is unfinished.
///
/// # Errors
///
/// Returns an error if the session cannot be read.
pub(crate) async fn finished(
    store: &Arc<dyn SessionStore>,
    id: &SessionId,
) -> Result<Option<AgentSession>, SessionsError> {
    let session = maintenance_runtime(store).session(id).await?;
    Ok(Some(session).filter(|it| !it.is_unfinished()))
}

#[cfg(test)]
mod tests {
    use loopwright_capabilities::questions::UseQuestions;
    use loopwright_core::ApprovalDecision;
    use loopwright_sessions::{DecideCall, MemoryStore, SessionRuntime};
    use loopwright_testing::{FakeModel, ScenarioStep};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_run_is_finished_when_no_work_is_left_and_its_session_is_returned() {
        let store: Arc<dyn SessionStore> = Arc::new(MemoryStore::new());
        let model = FakeModel::script([
            ScenarioStep::tool_call("ask_user", json!({ "question": "Which?" })),
            "The red one.".into(),
        ]);
        let agent = loopwright_agent::AgentBuilder::base()
            .with(loopwright_capabilities::llm::UseLlm::from_model(model))
            .with(UseQuestions::default())
            .build()
            .unwrap();
        let runtime = SessionRuntime::new(Arc::clone(&store), agent);
        let mut chat = runtime.open("s").await.unwrap();
        let id = chat.id().clone();
        assert!(chat.ask("Go.").await.is_err());
        let answer = async || {
            let session = finished(&store, &id).await.unwrap();
            session.map(|it| it.state().text())
        };
        assert_eq!(answer().await, None);
        let decide = DecideCall { path: None, resolution: ApprovalDecision::Reply("red".into()) };
        runtime.execute(&id, &decide).await.unwrap();
        assert_eq!(answer().await, None);
        chat.resume().await.unwrap();
        assert_eq!(answer().await.as_deref(), Some("The red one."));
    }
}
