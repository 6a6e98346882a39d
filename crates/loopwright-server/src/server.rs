//! The shared state of the routes.

use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use axum::http::{Method, StatusCode};
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{AgentLoop, Clock, RunEnv};
use loopwright_sessions::{
    AgentSession, Job, JobOutcome, PushOutcome, Scheduler, SessionHeader, SessionId,
    SessionRuntime, SessionStore,
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::AccessControl,
    agents::ServedAgents,
    audit::{AuditEntry, is_recorded},
    events::EventStreams,
    limits::{Admission, Limiter, PrincipalLimits},
    metrics::Metrics,
    principal::Principal,
    problem::Problem,
};

/// The most bytes of the body of a request.
const MAX_BODY: usize = 1 << 20;

/// The most bytes of a file that is sent or received.
const MAX_FILE: usize = 32 << 20;

/// A server of agents over HTTP: the shared state of its routes. Cheap to clone.
///
/// Runs are jobs in the store's queue, which a worker of this process, or any other that shares the
/// store, processes. So a run belongs to its session and not to a connection, and outlives the
/// server.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    store: Arc<dyn SessionStore>,
    agents: Arc<dyn ServedAgents>,
    access: AccessControl,
    env: RunEnv,
    queued: Arc<dyn Fn() + Send + Sync>,
    drain: CancellationToken,
    streams: EventStreams,
    metrics: Metrics,
    max_body: usize,
    #[cfg(feature = "mcp")]
    mcp: Option<crate::mcp_mount::McpMount>,
    max_file: usize,
    limiter: Limiter,
    audit: Option<Audit>,
}

/// What records requests.
type Audit = Arc<dyn Fn(&AuditEntry) + Send + Sync>;

/// The store has no job queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this session store has no job queue; use a SQLite or PostgreSQL store")]
pub struct NoJobQueue;

/// Builds a [`Server`].
pub struct ServerBuilder(Inner);

impl Server {
    /// Creates a builder for the sessions of a store, with these agents and this access.
    ///
    /// # Errors
    ///
    /// Returns an error if the store has no job queue.
    pub fn builder(
        store: Arc<dyn SessionStore>,
        agents: impl ServedAgents + 'static,
        access: AccessControl,
    ) -> Result<ServerBuilder, NoJobQueue> {
        if store.jobs().is_none() {
            return Err(NoJobQueue);
        }
        Ok(ServerBuilder(Inner {
            streams: EventStreams::new(Arc::clone(&store)),
            store,
            agents: Arc::new(agents),
            access,
            env: RunEnv::system(),
            queued: Arc::new(|| {}),
            drain: CancellationToken::new(),
            metrics: Metrics::default(),
            max_body: MAX_BODY,
            #[cfg(feature = "mcp")]
            mcp: None,
            max_file: MAX_FILE,
            limiter: Limiter::default(),
            audit: None,
        }))
    }

    #[cfg(feature = "mcp")]
    pub(crate) fn mcp(&self) -> Option<&crate::mcp_mount::McpMount> {
        self.0.mcp.as_ref()
    }

    pub(crate) fn store(&self) -> &Arc<dyn SessionStore> {
        &self.0.store
    }

    pub(crate) fn agents(&self) -> &dyn ServedAgents {
        &*self.0.agents
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.env.clock
    }

    pub(crate) fn access(&self) -> &AccessControl {
        &self.0.access
    }

    pub(crate) fn max_body(&self) -> usize {
        self.0.max_body
    }

    #[cfg(feature = "files")]
    pub(crate) fn max_file(&self) -> usize {
        self.0.max_file
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Counts a request of a principal, and refuses it if it is one too many.
    pub(crate) async fn count(&self, principal: &Principal) -> Result<(), Problem> {
        self.0.limiter.count(&**self.store(), principal, self.clock().now()).await
    }

    /// Returns the limits of principals that have none of their own.
    pub(crate) fn limits(&self) -> PrincipalLimits {
        self.0.limiter.defaults
    }

    /// Records a request, if it belongs on record.
    pub(crate) fn record(
        &self,
        principal: Option<&Principal>,
        method: &Method,
        path: &str,
        status: StatusCode,
    ) {
        let Some(audit) = self.0.audit.as_ref().filter(|_| is_recorded(method, status)) else {
            return;
        };
        audit(&AuditEntry {
            at: self.clock().now(),
            principal: principal.map(|it| Arc::clone(it.name())),
            method: method.to_string(),
            path: path.to_owned(),
            status: status.as_u16(),
        });
    }

    pub(crate) fn streams(&self) -> &EventStreams {
        &self.0.streams
    }

    /// Returns what ends when the server shuts down.
    pub(crate) fn drain(&self) -> &CancellationToken {
        &self.0.drain
    }

    pub(crate) fn queue(&self) -> Result<&dyn Scheduler, Problem> {
        self.0.store.scheduler().ok_or_else(|| Problem::unavailable(NoJobQueue.to_string()))
    }

    /// Queues a job that starts a run, if the limits of its principal allow another one. Returns `true` if it is new.
    pub(crate) async fn push(&self, job: &Job) -> Result<bool, Problem> {
        let _admission = self.admit(job).await?;
        self.push_continuing(job).await
    }

    /// Queues a job that continues a run, and returns `true` if it is new.
    pub(crate) async fn push_continuing(&self, job: &Job) -> Result<bool, Problem> {
        self.require_running()?;
        let is_new = self.queue()?.push(job, self.clock().now()).await?;
        (self.0.queued)();
        Ok(is_new)
    }

    /// Lets the job continue that waited for decisions, or queues one that resumes the session if none did. A second job would
    /// resume a run again that the decisions have stopped.
    pub(crate) async fn continue_decided(&self, session: &SessionId) -> Result<(), Problem> {
        self.require_running()?;
        let (queue, now) = (self.queue()?, self.clock().now());
        if queue.answered(session, &JobOutcome::Released, now).await? == 0 {
            queue.push_if_idle(&Job::resume(session.clone()), now).await?;
        }
        (self.0.queued)();
        Ok(())
    }

    /// Refuses to continue a run if its principal has consumed what it may on this day.
    pub(crate) async fn admit_more(&self, session: &SessionId) -> Result<(), Problem> {
        self.0.limiter.admit_more(&**self.store(), session, self.clock().now()).await
    }

    async fn admit(&self, job: &Job) -> Result<Admission, Problem> {
        let admitted = self.0.limiter.admit(&**self.store(), &job.session, self.clock().now());
        match admitted.await {
            // A repeated request starts nothing.
            Err(_) if self.queue()?.job(&job.id).await?.is_some() => Ok(Admission::default()),
            admitted => admitted,
        }
    }

    /// Queues a job that starts a run, if its session has none and the limits of its principal allow another one. Returns
    /// `true` if it is new.
    pub(crate) async fn push_if_idle(&self, job: &Job) -> Result<bool, Problem> {
        self.require_running()?;
        let _admission = self.admit(job).await?;
        let outcome = self.queue()?.push_if_idle(job, self.clock().now()).await?;
        if outcome == PushOutcome::Busy {
            return Err(Problem::conflict("the session is running; use another `mode`, or wait"));
        }
        (self.0.queued)();
        Ok(outcome == PushOutcome::Added)
    }

    fn require_running(&self) -> Result<(), Problem> {
        if self.0.drain.is_cancelled() {
            return Err(Problem::unavailable("the server is shutting down; try again"));
        }
        Ok(())
    }

    /// Returns a runtime that builds no agents.
    pub(crate) fn runtime(&self) -> SessionRuntime {
        SessionRuntime::new(Arc::clone(&self.0.store), NoAgent).with_env(self.0.env.clone())
    }

    /// Returns the agent of a session.
    pub(crate) async fn agent_of(&self, session: &AgentSession) -> Result<AgentLoop, Problem> {
        let header = session.header();
        let loops = self.0.agents.of(header).await.map_err(|error| unbuilt(header, &*error))?;
        loops.instantiate(session.definition()).map_err(|error| unbuilt(header, &error))
    }
}

fn unbuilt(session: &SessionHeader, error: &(dyn std::error::Error + Send + Sync)) -> Problem {
    tracing::error!(%error, session = %session.id, "the agent cannot be built");
    Problem::conflict("the session's agent cannot be built on this server")
}

/// Builds no agent: for actions that need none.
struct NoAgent;

impl LoopFactory for NoAgent {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Err(BuildError::NoDriver)
    }
}

impl ServerBuilder {
    /// Sets the source of time and IDs.
    #[must_use]
    pub fn with_env(mut self, env: RunEnv) -> Self {
        self.0.streams = self.0.streams.with_clock(Arc::clone(&env.clock));
        self.0.env = env;
        self
    }

    /// Sets a callback for each queued job, to wake a worker of this process.
    #[must_use]
    pub fn with_queued(mut self, queued: impl Fn() + Send + Sync + 'static) -> Self {
        self.0.queued = Arc::new(queued);
        self
    }

    /// Sets the shutdown token: after it fires, no runs start here and all streams end.
    #[must_use]
    pub fn with_shutdown(mut self, drain: CancellationToken) -> Self {
        self.0.drain = drain;
        self
    }

    /// Sets the interval of heartbeats in streams. The default is 15 seconds.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.0.streams = self.0.streams.with_heartbeat(heartbeat);
        self
    }

    /// Sets how long a reader that has read all events of a session waits for another run. The default is 10 seconds.
    #[must_use]
    pub fn with_linger(mut self, linger: Duration) -> Self {
        self.0.streams = self.0.streams.with_linger(linger);
        self
    }

    /// Sets the maximum size of a request body in bytes. The default is 1 MiB.
    #[must_use]
    pub fn with_max_body(mut self, bytes: usize) -> Self {
        self.0.max_body = bytes;
        self
    }

    /// Sets the most bytes of a file that is sent or received. The default is 32 MiB.
    #[must_use]
    pub fn with_max_file(mut self, bytes: usize) -> Self {
        self.0.max_file = bytes;
        self
    }

    /// Limits how many requests each principal may send in a minute. The default is no limit.
    #[must_use]
    pub fn with_rate(mut self, per_minute: NonZeroU32) -> Self {
        self.0.limiter.defaults.requests_per_minute = Some(per_minute);
        self
    }

    /// Sets the limits of principals that have none of their own. The default is no limits.
    #[must_use]
    pub fn with_limits(mut self, limits: PrincipalLimits) -> Self {
        self.0.limiter.defaults = limits;
        self
    }

    /// Calls this for each request that changes something or is refused, once it is answered.
    #[must_use]
    pub fn with_audit(mut self, audit: impl Fn(&AuditEntry) + Send + Sync + 'static) -> Self {
        self.0.audit = Some(Arc::new(audit));
        self
    }

    /// Serves clients of the Model Context Protocol at `/mcp`: agents as tools, sessions as resources, and the prompts of
    /// this content, which are the same for all principals.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn with_mcp(mut self, prompts: Option<Arc<dyn loopwright_mcp::ServedContent>>) -> Self {
        self.0.mcp = Some(crate::mcp_mount::McpMount::new(prompts));
        self
    }

    /// Builds the server.
    pub fn build(mut self) -> Server {
        self.0.streams = self.0.streams.with_shutdown(self.0.drain.clone());
        Server(Arc::new(self.0))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("access", &self.0.access).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("access", &self.0.access).finish_non_exhaustive()
    }
}
