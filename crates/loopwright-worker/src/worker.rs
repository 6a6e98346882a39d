//! The worker.

use std::{
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{
    StreamExt as _,
    future::{Either, select},
    stream::{self, BoxStream},
};
use loopwright_agent::LoopFactory;
use loopwright_broadcast::BroadcastConfig;
use loopwright_core::{EventSink, RunEnv, Timestamp};
use loopwright_sessions::{
    CacheLimits, ClaimRequest, ClaimedJob, JobLabels, JobOutcome, JobQueue, Owner, SessionCache,
    SessionError, SessionId, SessionStore, StoreError,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{AgentResolver, Everywhere},
    event::{JobCounts, WorkerEvent, WorkerListener},
    options::{OnIdle, WorkerOptions},
    runner::JobRunner,
    signal::JobSignal,
    upkeep::{HeldJobs, Upkeep, Watched},
};

/// Runs the jobs of a queue, one after the other or several at once.
///
/// Any number of workers can use one queue, in any number of processes.
pub struct Worker {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) agents: Arc<dyn AgentResolver>,
    pub(crate) options: WorkerOptions,
    pub(crate) env: RunEnv,
    pub(crate) owner: Arc<str>,
    pub(crate) labels: JobLabels,
    listeners: Vec<Arc<dyn WorkerListener>>,
    pub(crate) sinks: Vec<Arc<dyn EventSink>>,
    pub(crate) event_log: Option<BroadcastConfig>,
    signal: JobSignal,
    pub(crate) cache: SessionCache,
    pub(crate) held: HeldJobs,
    #[cfg(all(feature = "workspaces", target_os = "linux"))]
    pub(crate) folders: Option<crate::folders::SessionFolders>,
}

/// The store has no job queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this session store has no job queue; use a SQLite or PostgreSQL store")]
pub struct NoQueue;

/// The delay after the queue did not respond.
const TROUBLE: Duration = Duration::from_secs(1);

impl Worker {
    /// Creates a worker for the jobs in a store. It creates agents from the definitions of the
    /// sessions.
    ///
    /// # Errors
    ///
    /// Returns an error if the store has no job queue.
    pub fn new(
        store: Arc<dyn SessionStore>,
        loops: impl LoopFactory + 'static,
    ) -> Result<Self, NoQueue> {
        Self::with_agents(store, Everywhere(Arc::new(loops)))
    }

    /// Creates a worker with agents that depend on the session.
    ///
    /// # Errors
    ///
    /// Returns an error if the store has no job queue.
    pub fn with_agents(
        store: Arc<dyn SessionStore>,
        agents: impl AgentResolver + 'static,
    ) -> Result<Self, NoQueue> {
        if store.jobs().is_none() {
            return Err(NoQueue);
        }
        Ok(Self {
            store,
            agents: Arc::new(agents),
            options: WorkerOptions::default(),
            env: RunEnv::system(),
            owner: Owner::this_process().to_string().into(),
            labels: JobLabels::default(),
            listeners: Vec::new(),
            sinks: Vec::new(),
            event_log: None,
            signal: JobSignal::new(),
            cache: SessionCache::new(CacheLimits::default()),
            held: HeldJobs::default(),
            #[cfg(all(feature = "workspaces", target_os = "linux"))]
            folders: None,
        })
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(self, options: WorkerOptions) -> Self {
        Self { options, cache: SessionCache::new(options.cache), ..self }
    }

    /// Returns the options.
    pub fn options(&self) -> &WorkerOptions {
        &self.options
    }

    /// Sets the source of time and IDs.
    #[must_use]
    pub fn with_env(self, env: RunEnv) -> Self {
        Self { env, ..self }
    }

    /// Sets the owner of claims and leases. The default is a name that no other process has.
    #[must_use]
    pub fn with_owner(self, owner: impl Into<Arc<str>>) -> Self {
        Self { owner: owner.into(), ..self }
    }

    /// Sets the labels of the worker. It runs the jobs that need no others.
    #[must_use]
    pub fn with_labels(self, labels: JobLabels) -> Self {
        Self { labels, ..self }
    }

    /// Adds a listener to the events of the worker.
    #[must_use]
    pub fn with_listener(mut self, listener: impl WorkerListener + 'static) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// Stores the events of agents with their sessions, so that others can
    /// [follow](loopwright_sessions::SessionRuntime::with_event_log).
    #[must_use]
    pub fn with_event_log(self, config: BroadcastConfig) -> Self {
        Self { event_log: Some(config), ..self }
    }

    /// Looks for jobs as soon as this signal fires, in addition to the notifications of the queue and to polling.
    #[must_use]
    pub fn with_signal(self, signal: JobSignal) -> Self {
        Self { signal, ..self }
    }

    /// Restores the working directories of sessions from object storage, and saves them as agents change them. By default,
    /// they are used as they are on this machine.
    #[cfg(all(feature = "workspaces", target_os = "linux"))]
    #[must_use]
    pub fn with_folders(self, folders: crate::folders::SessionFolders) -> Self {
        Self { folders: Some(folders), ..self }
    }

    /// Adds a listener to the events of agents.
    #[must_use]
    pub fn with_event_sink(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Runs until `drain` is cancelled, and returns the number of jobs by outcome.
    ///
    /// After `drain` is cancelled, the worker takes no more jobs, agents end their current step,
    /// and another process continues their jobs. Steps that take longer than the
    /// [`drain_timeout`](WorkerOptions::drain_timeout) are cut off, as they are if this future is
    /// dropped. Calls that must not happen twice then have an unknown outcome.
    pub async fn run(&self, drain: &CancellationToken) -> JobCounts {
        let Some(queue) = self.store.jobs() else { return JobCounts::default() };
        let (tally, watched) = (Mutex::default(), Watched::default());
        let runner = JobRunner { worker: self, queue, drain, tally: &tally };
        let upkeep = Upkeep { worker: self, queue, engine: None, watched: &watched };
        let shift = WorkerRun { worker: self, queue, drain, runner, upkeep };
        let jobs = stream::unfold(News::of(queue), async |mut news| {
            shift.next(&mut news).await.map(|job| (job, news))
        });
        let limit = self.options.concurrency.get();
        let work = jobs.for_each_concurrent(limit, async |claimed: ClaimedJob| {
            shift.runner.perform(&claimed).await;
        });
        self.work(pin!(work), upkeep, drain).await;
        tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until that is done, or cut off because it drains for too long.
    pub(crate) async fn work(
        &self,
        work: Pin<&mut impl Future<Output = ()>>,
        upkeep: Upkeep<'_>,
        drain: &CancellationToken,
    ) {
        let late = async {
            drain.cancelled().await;
            self.env.clock.sleep(self.options.drain_timeout).await;
        };
        let work = async {
            if let Either::Right(_) = select(work, pin!(late)).await {
                // What cannot be given back ends by itself.
                let _given = upkeep.queue.release_all(&self.owner, self.env.clock.now()).await;
            }
        };
        let _done = select(pin!(work), pin!(upkeep.keep())).await;
    }

    /// Records the outcome of a job, retrying until the store responds. Returns `true` if the job was still held.
    pub(crate) async fn settle(
        &self,
        queue: &dyn JobQueue,
        claimed: &ClaimedJob,
        outcome: &JobOutcome,
    ) -> bool {
        let clock = &self.env.clock;
        loop {
            match queue.settle(claimed, outcome, clock.now()).await {
                Ok(was_held) => return was_held,
                Err(error) => {
                    self.troubled(&error);
                    clock.sleep(TROUBLE).await;
                }
            }
        }
    }

    /// Returns the time until which a session waits for a decision; `None` without a limit.
    pub(crate) async fn waits_until(
        &self,
        session: &SessionId,
    ) -> Result<Option<Timestamp>, StoreError> {
        match self.cache.load(&*self.store, session).await {
            Ok(session) => Ok(session.state().waits_until()),
            Err(SessionError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::Unavailable(error.into())),
        }
    }

    pub(crate) fn tell(&self, event: impl FnOnce() -> WorkerEvent) {
        if !self.listeners.is_empty() {
            let event = event();
            for listener in &self.listeners {
                listener.on_event(&event);
            }
        }
    }

    pub(crate) fn troubled(&self, error: &StoreError) {
        self.tell(|| WorkerEvent::QueueUnavailable(error.to_string().into()));
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("owner", &self.owner)
            .field("labels", &self.labels)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// What a queue reports, while a worker waits for jobs.
struct News {
    changes: BoxStream<'static, ()>,
    /// How many times the polling interval the worker waits.
    patience: u32,
}

impl News {
    fn of(queue: &dyn JobQueue) -> Self {
        let news = queue.news();
        let patience = if news.as_ref().is_some_and(|it| it.is_complete) { 4 } else { 1 };
        let changes = news.map_or_else(|| stream::empty().boxed(), |it| it.changes);
        // A stream that has ended reports nothing.
        Self { changes: changes.chain(stream::pending()).boxed(), patience }
    }
}

/// A running worker.
struct WorkerRun<'a> {
    worker: &'a Worker,
    queue: &'a dyn JobQueue,
    drain: &'a CancellationToken,
    runner: JobRunner<'a>,
    upkeep: Upkeep<'a>,
}

impl WorkerRun<'_> {
    /// Waits for a job; `None` once the worker drains, or if it exits when idle.
    async fn next(&self, news: &mut News) -> Option<ClaimedJob> {
        let Worker { options, env, owner, labels, .. } = self.worker;
        while !self.drain.is_cancelled() {
            self.upkeep.resume_parked().await;
            self.upkeep.push_scheduled().await;
            let request = ClaimRequest::new(owner, env.clock.now(), options.lease_ttl);
            let pause = match self.queue.claim(request.with_labels(labels)).await {
                Ok(Some(claimed)) => return Some(claimed),
                Ok(None) if options.on_idle == OnIdle::Exit && self.is_all_over().await => {
                    return None;
                }
                Ok(None) => options.poll_interval * news.patience,
                Err(error) => {
                    self.worker.troubled(&error);
                    TROUBLE
                }
            };
            self.upkeep.take_over().await;
            let drained = pin!(self.drain.cancelled());
            let signalled = pin!(self.worker.signal.received());
            let woken = select(news.changes.next(), select(drained, signalled));
            let _woken = select(env.clock.sleep(pause), woken).await;
        }
        None
    }

    async fn is_all_over(&self) -> bool {
        matches!(self.queue.has_work(&self.worker.labels).await, Ok(false))
    }
}
