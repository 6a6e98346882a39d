//! Actions on sessions.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use futures::future::BoxFuture;
use loopwright_agent::LoopFactory;
use loopwright_core::{
    AgentLoop, AgentState, EventSinks, ExecutionStatus, Journal, OnAsk, OnInterrupted, Run, RunEnv,
    RunOptions,
};
use tokio_util::sync::CancellationToken;

use crate::{
    client_tools::ClientTools,
    error::SessionError,
    session::AgentSession,
    store::{Lease, SessionStore},
    supervisor::RunSupervisor,
};

/// An action on a session. The runtime loads the session, runs the action and saves the result.
#[async_trait]
pub trait SessionAction: Send + Sync {
    /// Returns the name of the action in events.
    fn name(&self) -> Cow<'static, str>;

    /// Runs the action.
    ///
    /// # Errors
    ///
    /// Returns an error if the action fails. Changes that an agent has already made are saved,
    /// others are not.
    async fn execute(
        &self,
        session: AgentSession,
        cx: &ActionCx<'_>,
    ) -> Result<AgentSession, SessionError>;

    /// Returns the control message for the process that runs a busy session; `None` refuses the
    /// action.
    fn if_busy(&self) -> Option<crate::store::ControlMessage> {
        None
    }
}

/// The context of an action.
pub struct ActionCx<'a> {
    /// Creates the agent from the session's definition.
    pub loops: &'a dyn LoopFactory,
    /// Stores the changes of a run, while it runs.
    pub journal: Arc<dyn Journal>,
    /// The session store.
    pub store: &'a Arc<dyn SessionStore>,
    /// Time and IDs.
    pub env: &'a RunEnv,
    /// Listeners to agents.
    pub sinks: &'a EventSinks,
    /// The policy for interrupted calls that must not happen twice.
    pub interrupted: OnInterrupted,
    /// The policy for calls that need an approval, an answer or a result.
    pub on_ask: OnAsk,
    /// Cancels the action.
    pub cancel: &'a CancellationToken,
    /// Control messages to the process that runs the session.
    pub supervisor: &'a RunSupervisor,
}

impl ActionCx<'_> {
    /// Runs the agent of a session from a state that is derived from the session's own. Resumes an
    /// interrupted execution, or starts a new one. A message that arrives as the agent answers
    /// starts another one.
    ///
    /// # Errors
    ///
    /// Returns an error if the session is not active, or its agent cannot be built. A failure of
    /// the run is part of the state.
    pub fn run(
        &self,
        session: AgentSession,
        state: AgentState,
    ) -> impl Future<Output = Result<AgentSession, SessionError>> + Send {
        // While the run waits, the state is in it and nowhere else. An async fn has room for its arguments twice.
        let started = self.start(&session, state);
        let AgentSession { header, definition, .. } = session;
        async move {
            let (agent, mut run) = started?;
            loop {
                let state = Box::new(self.supervisor.drive_boxed(run).await);
                let goes_on = *state.status() == ExecutionStatus::Completed
                    && !self.cancel.is_cancelled()
                    && !self.supervisor.leave.is_cancelled();
                let late = if goes_on { self.supervisor.late_messages().await } else { Vec::new() };
                if late.is_empty() {
                    return Ok(AgentSession { header, definition, state });
                }
                run = agent.start(state.with_appended_messages(late), self.options()).into();
            }
        }
    }

    /// Creates the agent of a session and starts its run.
    fn start(
        &self,
        session: &AgentSession,
        state: AgentState,
    ) -> Result<(AgentLoop, Box<Run>), SessionError> {
        session.require_active()?;
        let agent = self.loops.instantiate(&session.definition)?;
        let agent = ClientTools::of(&state).added_to(agent);
        let run = agent.start(state, self.options());
        Ok((agent, run.into()))
    }

    /// Makes the next [`run`](ActionCx::run) obey requests to stop or cancel that were accepted
    /// before this action started. Call it when the action continues the work of a process that
    /// ended before it could obey them. Otherwise they are dropped, because they were meant for a
    /// run that has ended.
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
            on_ask: self.on_ask,
            ..RunOptions::default()
        }
    }

    /// Returns the lease on the session, as it was renewed last.
    pub fn lease(&self) -> Option<Lease> {
        self.supervisor.journal.lease()
    }

    /// Returns the same context with another journal for runs. The journal must pass all changes on to the one of this
    /// context.
    #[must_use]
    pub fn with_journal(&self, journal: Arc<dyn Journal>) -> ActionCx<'_> {
        ActionCx { journal, ..*self }
    }

    /// Returns `true` if the session has messages that no run has received.
    pub fn has_waiting_messages(&self) -> bool {
        self.supervisor.has_waiting()
    }

    /// Appends the messages to the session that no run has received, so that the next message
    /// follows them. A run that starts without them receives them first.
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

/// An action from a closure.
struct Closure<F> {
    name: Cow<'static, str>,
    run: F,
}

/// Creates an action from a closure.
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
