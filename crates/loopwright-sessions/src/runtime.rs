//! The runtime, which loads sessions, runs actions on them and saves the changes.

mod held;
mod loading;
mod rewinding;
#[cfg(test)]
mod sizes;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use loopwright_agent::LoopFactory;
use loopwright_broadcast::BroadcastConfig;
use loopwright_core::{
    EventSink, EventSinks, ExecutionStatus, OnAsk, OnInterrupted, Priority, RunEnv, Spend,
    Timestamp,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::held::DroppedLeases;
use crate::{
    action::{ActionCx, SessionAction},
    error::SessionError,
    event::{SessionEvent, SessionListener, SessionSnapshot},
    event_log::{self, EventLog},
    header::{SessionHeader, SessionList, SessionQuery, SessionRelation},
    hook::{SessionHook, SessionHooks, SessionStage},
    id::SessionId,
    jobs::JobOutcome,
    journal::StoreJournal,
    kept::{HistoryEnd, SessionCache},
    owner::Owner,
    repository::SessionRepository,
    session::AgentSession,
    store::{ControlMessage, Lease, LeaseRequest, Posted, SessionStore, StoreError},
    subagents::SubagentLeases,
    supervisor::{Instant, RunSupervisor},
};

/// Loads sessions, runs actions on them and saves the changes.
///
/// Only one runtime works with a session at a time: it holds a lease on the session, which other
/// processes see. While an agent runs, every checkpoint is saved at once. Clones share the store
/// and own the same leases.
#[derive(Clone)]
pub struct SessionRuntime {
    repository: SessionRepository,
    loops: Arc<dyn LoopFactory>,
    hooks: SessionHooks,
    listeners: Vec<Arc<dyn SessionListener>>,
    sinks: EventSinks,
    env: RunEnv,
    owner: Arc<str>,
    lasts: Duration,
    interrupted: OnInterrupted,
    on_ask: OnAsk,
    /// The selection of events to store; `None` stores none.
    event_log: Option<BroadcastConfig>,
    leave: CancellationToken,
    /// Leases of actions whose future was dropped.
    dropped: DroppedLeases,
    /// Sessions that are not loaded again as a whole.
    cache: Option<SessionCache>,
}

/// The `tracing` target of this module.
const TARGET: &str = "loopwright::session";

/// The number of sessions in a page.
const PAGE: usize = 100;

/// The duration of a lease without renewal.
const LASTS: Duration = Duration::from_secs(30);

impl SessionRuntime {
    /// Creates a runtime that stores sessions in `store` and creates their agents with `loops`.
    pub fn new(store: Arc<dyn SessionStore>, loops: impl LoopFactory + 'static) -> Self {
        Self {
            repository: SessionRepository::new(store),
            loops: Arc::new(loops),
            hooks: SessionHooks::new(),
            listeners: Vec::new(),
            sinks: EventSinks::default(),
            env: RunEnv::system(),
            owner: Owner::this_process().to_string().into(),
            lasts: LASTS,
            interrupted: OnInterrupted::default(),
            on_ask: OnAsk::default(),
            event_log: None,
            leave: CancellationToken::new(),
            dropped: DroppedLeases::default(),
            cache: None,
        }
    }

    /// Adds a hook.
    #[must_use]
    pub fn with_hook(mut self, priority: Priority, hook: impl SessionHook + 'static) -> Self {
        self.hooks = self.hooks.with_hook(priority, hook);
        self
    }

    /// Adds a listener to the events of sessions.
    #[must_use]
    pub fn with_listener(mut self, listener: impl SessionListener + 'static) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// Adds a listener to the events of agents.
    #[must_use]
    pub fn with_event_sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.add(sink);
        self
    }

    /// Stores the events of agents with their sessions, in this selection, for callers that
    /// [follow](crate::EventFollower) them.
    ///
    /// Events are stored while the agent continues, and no agent waits for them. A run that has
    /// ended waits for them a few seconds at most.
    #[must_use]
    pub fn with_event_log(mut self, config: BroadcastConfig) -> Self {
        self.event_log = Some(config);
        self
    }

    /// Keeps the sessions of actions in a cache, so that the next action reads only what was written since. By default, each
    /// action loads its whole session.
    #[must_use]
    pub fn with_cache(mut self, cache: SessionCache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the source of time and IDs.
    #[must_use]
    pub fn with_env(mut self, env: RunEnv) -> Self {
        self.repository.clock = Arc::clone(&env.clock);
        self.env = env;
        self
    }

    /// Sets the owner of the leases. The default is a name that no other process has.
    #[must_use]
    pub fn with_owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Sets the duration of a lease without renewal; 30 seconds by default. If this process dies,
    /// other machines wait this long.
    #[must_use]
    pub fn with_lease_ttl(mut self, lasts: Duration) -> Self {
        self.lasts = lasts;
        self
    }

    /// Sets the policy for interrupted calls that must not happen twice. By default, the model is
    /// informed that their outcome is unknown. With [`OnInterrupted::RequireApproval`], the session
    /// pauses until a [`DecideCall`](crate::DecideCall).
    #[must_use]
    pub fn with_interrupted(mut self, interrupted: OnInterrupted) -> Self {
        self.interrupted = interrupted;
        self
    }

    /// Sets the policy for calls that need an approval, an answer or a result. By default, the session pauses.
    #[must_use]
    pub fn with_on_ask(mut self, on_ask: OnAsk) -> Self {
        self.on_ask = on_ask;
        self
    }

    /// Sets the shutdown token. After cancellation, each run stops at the end of its current step and stays
    /// in progress, so that another process can resume it.
    #[must_use]
    pub fn with_shutdown(mut self, leave: CancellationToken) -> Self {
        self.leave = leave;
        self
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Timestamp {
        self.env.clock.now()
    }

    /// Creates a session.
    ///
    /// # Errors
    ///
    /// Returns an error if the ID is taken, a hook refuses it or the store fails.
    pub async fn create(&self, session: AgentSession) -> Result<AgentSession, SessionError> {
        let id = session.id().clone();
        let session = self.pass(SessionStage::BeforeCreate, session).await?;
        let session = self.pass(SessionStage::BeforeSave, session).await?;
        let created = self.repository.create(session).await;
        let session = self.told_if_unsaved(&id, created)?;
        self.told_as_saved(session, &[SessionStage::AfterSave, SessionStage::AfterCreate]).await
    }

    /// Returns the session with this ID, or creates this one if none exists.
    ///
    /// # Errors
    ///
    /// As for [`session`](SessionRuntime::session) and [`create`](SessionRuntime::create). If
    /// another process creates it at the same time, the session of that process is returned.
    pub async fn open_or_create(
        &self,
        session: AgentSession,
    ) -> Result<AgentSession, SessionError> {
        let id = session.id().clone();
        if self.store().header(&id).await?.is_some() {
            return self.session(&id).await;
        }
        match self.create(session).await {
            Err(SessionError::Store(StoreError::Exists(_))) => self.session(&id).await,
            created => created,
        }
    }

    /// Runs an action on a session, and saves the changes. Dropping the future interrupts the
    /// action: recorded changes stay, and this runtime or a clone can use the session at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist or another process uses it, the action fails,
    /// or its changes cannot be saved.
    pub async fn execute(
        &self,
        id: &SessionId,
        action: &dyn SessionAction,
    ) -> Result<AgentSession, SessionError> {
        self.execute_until(id, action, &CancellationToken::new()).await
    }

    /// Runs an action on a session, with a token that cancels it.
    ///
    /// # Errors
    ///
    /// As for [`execute`](SessionRuntime::execute).
    pub async fn execute_until(
        &self,
        id: &SessionId,
        action: &dyn SessionAction,
        cancel: &CancellationToken,
    ) -> Result<AgentSession, SessionError> {
        let taken = Instant::of(&self.env);
        let lease = match self.lease(id).await {
            Ok(lease) => lease,
            Err(error) => return self.when_busy(id, action, error).await,
        };
        tracing::debug!(target: TARGET, session = %id, lease = lease.number, "lease acquired");
        let held = self.dropped.hold(&lease);
        // Requests that were sent before the lease was taken were for the run before, unless the action continues that
        // run. What was sent since is for this one, and heard as it runs.
        let mut posted = match lease.last_control {
            0 => Vec::new(),
            _ => self.store().take_control(&lease).await.unwrap_or_default(),
        };
        posted.retain(|it| it.number <= lease.last_control);
        let subagents = SubagentLeases::new(self.store(), &self.env.clock, &lease, self.lasts);
        let subagents = Arc::new(subagents);
        let leased = Leased { lease: lease.clone(), taken, posted, subagents: subagents.clone() };
        let span =
            tracing::info_span!(target: TARGET, "session", session = %id, action = &*action.name());
        let done = contained(async {
            let (session, end) = self.load_leased(id).await?;
            self.execute_leased(session, end, action, cancel, leased).await
        });
        let done = done.instrument(span).await;
        subagents.release_all().await;
        // A lease that cannot be given back ends by itself.
        let _ended = self.store().release(&lease).await;
        held.released();
        tracing::debug!(target: TARGET, session = %id, lease = lease.number, "lease released");
        done
    }

    /// Takes the lease on a session. Does not wait for the lease of a process on this machine that
    /// has exited.
    async fn lease(&self, id: &SessionId) -> Result<Lease, StoreError> {
        self.dropped.release(self.store(), id).await;
        let now = self.env.clock.now();
        let claim = LeaseRequest { owner: &self.owner, replaces: None, now, ttl: self.lasts };
        match self.store().lease(id, claim).await {
            Err(StoreError::Busy { owner, .. })
                if Owner::parse(&owner).is_some_and(|it| it.is_gone()) =>
            {
                self.store().lease(id, LeaseRequest { replaces: Some(&owner), ..claim }).await
            }
            taken => taken,
        }
    }

    /// Sends an action to the process that works with the session, if the action allows it.
    async fn when_busy(
        &self,
        id: &SessionId,
        action: &dyn SessionAction,
        error: StoreError,
    ) -> Result<AgentSession, SessionError> {
        if let (StoreError::Busy { owner, .. }, Some(control)) = (&error, action.if_busy())
            // The run of another session reads what is sent to that one.
            && Owner::session_of(owner).is_none()
        {
            self.store().send_control(id, &control).await?;
            return self.load(id).await;
        }
        tracing::warn!(target: TARGET, session = %id, "session is not available");
        let text: Arc<str> = error.to_string().into();
        self.tell(|| SessionEvent::LoadFailed { session: id.clone(), error: text });
        Err(error.into())
    }

    async fn execute_leased(
        &self,
        session: AgentSession,
        end: Option<HistoryEnd>,
        action: &dyn SessionAction,
        cancel: &CancellationToken,
        leased: Leased,
    ) -> Result<AgentSession, SessionError> {
        let before = (*session.header).clone();
        let Leased { lease, taken, posted, subagents } = leased;
        let lease = Some(lease);
        let journal = StoreJournal::new(&self.repository, before.clone(), lease, None);
        let journal = Arc::new(journal.with_subagents(subagents).with_end(end));
        let supervisor = RunSupervisor {
            store: Arc::clone(self.store()),
            journal: Arc::clone(&journal),
            env: self.env.clone(),
            lasts: self.lasts,
            leave: self.leave.clone(),
            waiting: Mutex::default(),
            earlier: Mutex::default(),
            heeded: Mutex::default(),
            renewed: Mutex::new(taken),
        };
        let supervisor = supervisor.with_earlier(posted);
        let (sinks, telling) = self.telling(&before.id);
        // Sessions that run at the same time have ids of their own.
        let env = self.env.child(before.id.as_str());
        let cx = ActionCx {
            loops: &*self.loops,
            journal: Arc::clone(&journal) as _,
            store: self.store(),
            env: &env,
            sinks: &sinks,
            interrupted: self.interrupted,
            on_ask: self.on_ask,
            cancel,
            supervisor: &supervisor,
        };
        let was_paused = *session.state.status() == ExecutionStatus::Paused;
        let spent = session.state.total_spent();
        let session = match telling {
            None => action.execute(session, &cx).await?,
            Some(telling) => telling.beside(action.execute(session, &cx)).await?,
        };
        let executed = |status_after| SessionEvent::ActionExecuted {
            session: before.id.clone(),
            action: action.name(),
            before: before.version,
            after: journal.header().version,
            status_before: before.status,
            status_after,
        };
        if session.id() != &before.id {
            // A fork: it is kept already, and this session is as it was.
            self.tell(|| executed(before.status));
            self.tell(|| SessionEvent::Saved(SessionSnapshot::of(&session.header)));
            return Ok(session);
        }
        let session = self.pass(SessionStage::AfterAction, session).await?;
        let session = self.pass(SessionStage::BeforeSave, session).await?;
        self.tell(|| executed(session.status()));
        let saved = self.save_now(session, &journal).await?;
        self.record_spend(&saved, spent).await;
        if was_paused {
            self.end_parked_jobs(&saved).await;
        }
        Ok(saved)
    }

    /// Counts what a session consumed for its principal. The local user has no limits, so that nothing is counted.
    async fn record_spend(&self, session: &AgentSession, before: Spend) {
        let total = session.state.total_spent();
        if total == before || session.id().tag().is_none() {
            return;
        }
        let Some(ledger) = self.store().ledger() else { return };
        let now = self.env.clock.now();
        if let Err(error) = ledger.record_spend(session.id(), before, total, now).await {
            // The next record of the session includes it.
            tracing::warn!(target: TARGET, session = %session.id(), %error, "usage not recorded");
        }
    }

    /// Ends the jobs that wait for a decision about a session that has continued.
    async fn end_parked_jobs(&self, session: &AgentSession) {
        let outcome = match session.state.status() {
            ExecutionStatus::Completed => JobOutcome::Done,
            ExecutionStatus::Stopped(_) => JobOutcome::Stopped(session.state.explain_stop().into()),
            ExecutionStatus::Failed(failure) => JobOutcome::Failed(failure.to_string().into()),
            ExecutionStatus::Pending | ExecutionStatus::InProgress | ExecutionStatus::Paused => {
                return;
            }
        };
        if let Some(jobs) = self.store().jobs() {
            // What they are called is for people: it changes nothing.
            let _ended = jobs.answered(session.id(), &outcome, self.env.clock.now()).await;
        }
    }

    /// Returns the listeners to the agent, and the log of its events if one is configured.
    fn telling(&self, id: &SessionId) -> (EventSinks, Option<event_log::LogWriter>) {
        let mut sinks = self.sinks.clone();
        let telling = self.event_log.map(|config| {
            let log = EventLog::new(Arc::clone(self.store()), id.clone());
            let telling = event_log::LogWriter::new(config, id, log, Arc::clone(&self.env.clock));
            sinks.wiretap(telling.sink());
            telling
        });
        (sinks, telling)
    }

    /// Calls the hooks for stages after a session was saved, and reports the save regardless of
    /// their results.
    async fn told_as_saved(
        &self,
        mut session: AgentSession,
        stages: &[SessionStage],
    ) -> Result<AgentSession, SessionError> {
        let at = SessionSnapshot::of(&session.header);
        let passed = contained(async {
            for stage in stages {
                session = self.pass(*stage, session).await?;
            }
            Ok(session)
        });
        let passed = passed.await;
        self.tell(|| SessionEvent::Saved(at));
        passed
    }

    /// Returns the header of a session, even if it is deleted.
    ///
    /// # Errors
    ///
    /// Returns an error if it does not exist, or the store fails.
    pub async fn info(&self, id: &SessionId) -> Result<SessionHeader, SessionError> {
        let header = self.store().header(id).await?;
        Ok(header.ok_or_else(|| StoreError::NotFound(id.clone()))?)
    }

    /// Returns a page of sessions.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn list(&self, query: &SessionQuery) -> Result<SessionList, SessionError> {
        Ok(self.store().list(query).await?)
    }

    /// Asks the process that runs a session to stop after the step.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist.
    pub async fn stop(&self, id: &SessionId) -> Result<(), SessionError> {
        Ok(self.store().send_control(id, &ControlMessage::Stop).await?)
    }

    /// Asks the process that runs a session to stop now.
    ///
    /// # Errors
    ///
    /// Returns an error if the session does not exist.
    pub async fn cancel(&self, id: &SessionId) -> Result<(), SessionError> {
        Ok(self.store().send_control(id, &ControlMessage::Cancel).await?)
    }

    /// Permanently deletes a session and the sessions of its sub-agents. A process that runs it fails at its
    /// next write.
    ///
    /// # Errors
    ///
    /// Returns an error if the store fails.
    pub async fn delete(&self, id: &SessionId) -> Result<(), SessionError> {
        let mut doomed = vec![id.clone()];
        while let Some(id) = doomed.pop() {
            self.store().delete(&id, self.env.clock.now()).await?;
            let mut query = SessionQuery::first(PAGE);
            query.kinship = SessionRelation::ChildOf(id);
            loop {
                let page = self.store().list(&query).await?;
                let children = page.sessions.into_iter().filter(|it| it.call.is_some());
                doomed.extend(children.map(|it| it.id));
                let Some(next) = page.next else { break };
                query.after = Some(next);
            }
        }
        Ok(())
    }

    fn store(&self) -> &Arc<dyn SessionStore> {
        &self.repository.store
    }

    async fn pass(
        &self,
        stage: SessionStage,
        session: AgentSession,
    ) -> Result<AgentSession, SessionError> {
        self.hooks.pass(stage, session).await.map_err(SessionError::Action)
    }

    fn told_if_unsaved(
        &self,
        id: &SessionId,
        saved: Result<AgentSession, SessionError>,
    ) -> Result<AgentSession, SessionError> {
        saved.inspect_err(|error| {
            let text: Arc<str> = error.to_string().into();
            self.tell(|| SessionEvent::SaveFailed { session: id.clone(), error: text });
        })
    }

    fn tell(&self, event: impl FnOnce() -> SessionEvent) {
        if !self.listeners.is_empty() {
            let event = event();
            for listener in &self.listeners {
                // A listener that panics hears of the next event all the same.
                let _contained = catch_unwind(AssertUnwindSafe(|| listener.on_event(&event)));
            }
        }
    }
}

impl fmt::Debug for SessionRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRuntime").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// A session on which this runtime has a lease.
struct Leased {
    lease: Lease,
    /// When the lease was requested.
    taken: Instant,
    /// The control messages at that time.
    posted: Vec<Posted>,
    /// The leases on the sessions of its sub-agents.
    subagents: Arc<SubagentLeases>,
}

/// Converts a panic into an error, so that the cleanup can run.
fn contained<'a, T: Send + 'a>(
    work: impl Future<Output = Result<T, SessionError>> + Send + 'a,
) -> BoxFuture<'a, Result<T, SessionError>> {
    let done = AssertUnwindSafe(Box::pin(work)).catch_unwind();
    Box::pin(done.map(|done| {
        done.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(SessionError::Panicked(text.unwrap_or_else(|| "no message".to_owned())))
        })
    }))
}
