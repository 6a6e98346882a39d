//! Delivery of a job to its session, exactly once.

use std::borrow::Cow;

use async_trait::async_trait;
use futures::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use loopwright_core::{AgentState, Edit, ExecutionStatus, Key};
use loopwright_sessions::{
    ActionCx, AgentSession, ClaimedJob, JobId, JobQueue, JobTask, SendMessage, SessionAction,
    SessionError,
};
use serde::{Deserialize, Serialize};

use crate::{place::JobPlace, verdict::is_worth_another_try};

/// The last job that a session heard of. Jobs of one session come one after the other, so that earlier ones matter only
/// if they were parked.
const HEARD: Key<DeliveredJob> = Key::session("worker", "heard");

/// How many earlier jobs a session remembers.
const MAX_EARLIER: usize = 32;

/// What a session remembers of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveredJob {
    job: JobId,
    /// The number of the execution that does the job.
    execution: u32,
    /// Earlier jobs, which may be delivered again because they were parked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<JobId>,
}

/// Another process holds the job now.
#[derive(Debug, thiserror::Error)]
#[error("another worker has claimed the job")]
pub(crate) struct ClaimLost;

/// Runs a job, from the point where an earlier delivery of it ended.
pub(crate) struct DeliverJob<'a> {
    pub(crate) queue: &'a dyn JobQueue,
    pub(crate) claimed: &'a ClaimedJob,
    /// Where it is done. `None` means that the runtime has the agent.
    pub(crate) place: Option<&'a JobPlace<'a>>,
}

impl DeliveredJob {
    /// Returns what a state remembers of a job, if that is the last one it heard of.
    pub(crate) fn of(state: &AgentState, job: &JobId) -> Option<Self> {
        state.get(&HEARD).filter(|heard| heard.job == *job)
    }

    /// Returns `true` if the execution that does the job did not begin yet.
    pub(crate) fn is_ahead(&self, state: &AgentState) -> bool {
        state.execution_count() < self.execution
    }

    /// Has a state remember that it heard of a job. What it says and this are kept together.
    fn note(state: AgentState, job: &JobId) -> Result<AgentState, SessionError> {
        // What was interrupted continues, and does the job on the way.
        let execution = state.execution_count() + u32::from(!state.is_resumable());
        let mut earlier = Vec::new();
        if let Some(last) = state.get(&HEARD) {
            earlier = last.earlier;
            earlier.push(last.job);
            earlier.drain(..earlier.len().saturating_sub(MAX_EARLIER));
        }
        let heard = Self { job: job.clone(), execution, earlier };
        let value =
            serde_json::to_value(&heard).map_err(|error| SessionError::Action(error.into()))?;
        Ok(state.edit(Edit::Set(HEARD.slot(), Some(value))))
    }
}

#[async_trait]
impl SessionAction for DeliverJob<'_> {
    fn name(&self) -> Cow<'static, str> {
        match self.claimed.job.task {
            JobTask::SendMessage(_) => "job_say".into(),
            JobTask::Resume => "job_go_on".into(),
        }
    }

    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        // From here on no other process can work with the session, a caller that claims the job.
        if !self.queue.holds(self.claimed).await? {
            return Err(SessionError::Action(ClaimLost.into()));
        }
        let Some(place) = self.place else { return self.deliver(session, cx)?.await };
        cx.supervisor.keep_lease(place.open(&session, cx).boxed()).await??;
        let run_cx = place.run_cx(cx);
        let delivered = self.deliver(session, &run_cx)?.await;
        cx.supervisor.keep_lease(place.close(delivered).boxed()).await?
    }
}

impl DeliverJob<'_> {
    /// Returns the work that is left of the job.
    fn deliver<'a>(
        &'a self,
        session: AgentSession,
        cx: &'a ActionCx<'_>,
    ) -> Result<BoxFuture<'a, Result<AgentSession, SessionError>>, SessionError> {
        let (state, job) = (session.state().clone(), &self.claimed.job);
        if self.claimed.crashes > 0 || DeliveredJob::of(&state, &job.id).is_some() {
            // Who was asked to stop was doing this very job.
            cx.heed_earlier_requests();
        }
        if let Some(heard) = DeliveredJob::of(&state, &job.id) {
            let is_open = heard.is_ahead(&state) || state.is_interrupted();
            let goes_on = is_open || has_failed_for_now(&state);
            return Ok(if goes_on { cx.run(session, state).boxed() } else { left_as(session) });
        }
        if state.get(&HEARD).is_some_and(|heard| heard.earlier.contains(&job.id)) {
            // A later job went on with what this one began.
            return Ok(left_as(session));
        }
        Ok(match &job.task {
            JobTask::SendMessage(message) => {
                let session = session.with_state(DeliveredJob::note(state, &job.id)?);
                let action = SendMessage::new(message.clone());
                async move { action.execute(session, cx).await }.boxed()
            }
            JobTask::Resume if session.is_unfinished() => {
                // A caller that asks for it knows of the limit that was reached, and each job has the limits of a turn.
                let state = if state.is_resumable() { state.renew_budget() } else { state };
                cx.run(session, DeliveredJob::note(state, &job.id)?).boxed()
            }
            // A message that was sent to a run as it ended is heard by this one.
            JobTask::Resume if cx.has_waiting_messages() => {
                let state = cx.with_waiting_messages(state);
                cx.run(session, DeliveredJob::note(state, &job.id)?).boxed()
            }
            JobTask::Resume => left_as(session),
        })
    }
}

/// Leaves a session as it is.
fn left_as(session: AgentSession) -> BoxFuture<'static, Result<AgentSession, SessionError>> {
    future::ready(Ok(session)).boxed()
}

/// Returns `true` if the last execution failed for a reason that may be over.
fn has_failed_for_now(state: &AgentState) -> bool {
    matches!(state.status(), ExecutionStatus::Failed(failure) if is_worth_another_try(failure))
}

#[cfg(test)]
mod tests;
