//! What is done with a session.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use futures::future::BoxFuture;
use loopwright_agent::LoopFactory;
use loopwright_core::{
    AgentState, EventSinks, ExecutionStatus, Journal, OnInterrupted, RunEnv, RunOptions,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::SessionError, session::AgentSession, store::SessionStore, supervisor::RunSupervisor,
};

/// Something that is done with a session: the runtime loads it, hands it over and saves what comes
/// back.
#[async_trait]
pub trait SessionAction: Send + Sync {
    /// Returns the name under which it is told of.
    fn name(&self) -> Cow<'static, str>;

    /// Does it.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being done. Nothing is saved then, but for what an agent had done
    /// already.
    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError>;

    /// Returns what is left to the process that runs a session that is busy; `None` if the action is refused
    /// then.
    fn if_busy(&self) -> Option<crate::store::ControlMessage> {
        None
    }
}

/// What an action may use.
pub struct ActionCx<'a> {
    /// Makes the agent of the session's definition.
    pub loops: &'a dyn LoopFactory,
    /// Keeps what a run changes, while it runs.
    pub journal: Arc<dyn Journal>,
    /// Where sessions are kept.
    pub store: &'a Arc<dyn SessionStore>,
    /// Time and ids.
    pub env: &'a RunEnv,
    /// Who listens to agents.
    pub sinks: &'a EventSinks,
    /// What is done about calls that were interrupted and must not happen twice.
    pub interrupted: OnInterrupted,
    /// Cancels the action.
    pub cancel: &'a CancellationToken,
    /// What others want of the process that runs the session.
    pub supervisor: &'a RunSupervisor,
}

impl ActionCx<'_> {
    /// Runs the agent of a session from a state that is made of the session's own: what was interrupted
    /// continues, or else a new execution begins. A message that comes as the agent answers begins another one.
    ///
    /// # Errors
    ///
    /// If the session is not active, or its agent cannot be put together. How the run went is part of
    /// the state.
    pub async fn run(
        &self,
        session: AgentSession,
        state: AgentState,
    ) -> Result<AgentSession, SessionError> {
        session.require_active()?;
        let agent = self.loops.instantiate(&session.definition)?;
        let mut state = state;
        loop {
            state = self.supervisor.drive(agent.start(state, self.options())).await;
            let goes_on = *state.status() == ExecutionStatus::Completed
                && !self.cancel.is_cancelled()
                && !self.supervisor.leave.is_cancelled();
            let late = if goes_on { self.supervisor.late_messages().await } else { Vec::new() };
            if late.is_empty() {
                return Ok(session.with_state(state));
            }
            state = state.with_appended_messages(late);
        }
    }

    /// Has the next [`run`](ActionCx::run) heed requests to stop or cancel that were accepted before this action began.
    /// Call it when the action continues the work of a process that ended before it could heed them. Otherwise they
    /// are dropped: they were meant for a run that has ended.
    pub fn heed_earlier_requests(&self) {
        self.supervisor.heed_earlier();
    }

    fn options(&self) -> RunOptions {
        RunOptions {
            env: self.env.clone(),
            journal: Some(Arc::clone(&self.journal)),
            sinks: self.sinks.clone(),
            is_top_level: true,
            cancel: self.cancel.clone(),
            on_interrupted: self.interrupted,
            ..RunOptions::default()
        }
    }

    /// Returns `true` if messages were sent to the session that no run has heard.
    pub fn has_waiting_messages(&self) -> bool {
        self.supervisor.has_waiting()
    }

    /// Appends the messages that were sent to the session and that no run has heard, so that what is said next
    /// comes after them. A run that is started without them hears them first.
    #[must_use]
    pub fn with_waiting_messages(&self, state: AgentState) -> AgentState {
        state.with_appended_messages(self.supervisor.take_waiting())
    }
}

impl std::fmt::Debug for ActionCx<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActionCx").finish_non_exhaustive()
    }
}

/// An action that a closure does.
struct Closure<F> {
    name: Cow<'static, str>,
    run: F,
}

/// Makes an action of a closure.
///
/// ```
/// use loopwright_sessions::{action_fn, AgentSession};
///
/// let rename = action_fn("rename", |session: AgentSession| async move {
///     Ok(session.with_title("about this and that"))
/// });
/// ```
pub fn action_fn<F, R>(name: impl Into<Cow<'static, str>>, run: F) -> impl SessionAction + 'static
where
    F: Fn(AgentSession) -> R + Send + Sync + 'static,
    R: Future<Output = Result<AgentSession, SessionError>> + Send + 'static,
{
    let run = move |session| -> BoxFuture<'static, _> { Box::pin(run(session)) };
    Closure { name: name.into(), run }
}

#[async_trait]
impl<F> SessionAction for Closure<F>
where
    F: Fn(AgentSession) -> BoxFuture<'static, Result<AgentSession, SessionError>> + Send + Sync,
{
    fn name(&self) -> Cow<'static, str> {
        self.name.clone()
    }

    async fn execute(
        &self,
        session: AgentSession,
        _cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError> {
        (self.run)(session).await
    }
}
