//! The worker.

use std::{
    fmt,
    pin::pin,
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
use loopwright_core::{EventSink, OnInterrupted, RunEnv};
use loopwright_sessions::{
    ClaimRequest, ClaimedJob, JobLabels, JobOutcome, JobQueue, Owner, SessionError, SessionRuntime,
    SessionStore, StoreError,
};
use tokio_util::sync::CancellationToken;

use crate::{
    agents::{AgentResolver, Everywhere},
    deliver::DeliverJob,
    event::{JobCounts, WorkerEvent, WorkerListener},
    options::{OnIdle, WorkerOptions},
    parked::ParkedJobs,
    schedules::DueSchedules,
    signal::JobSignal,
    verdict::JobResult,
};

/// Runs the jobs of a queue, one after the other or several at once.
///
/// Any number of workers can use one queue, in any number of processes.
pub struct Worker {
    store: Arc<dyn SessionStore>,
    agents: Arc<dyn AgentResolver>,
    options: WorkerOptions,
    env: RunEnv,
    owner: Arc<str>,
    labels: JobLabels,
    listeners: Vec<Arc<dyn WorkerListener>>,
    sinks: Vec<Arc<dyn EventSink>>,
    event_log: Option<BroadcastConfig>,
    signal: JobSignal,
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
        })
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(self, options: WorkerOptions) -> Self {
        Self { options, ..self }
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
    /// [follow](SessionRuntime::with_event_log).
    #[must_use]
    pub fn with_event_log(self, config: BroadcastConfig) -> Self {
        Self { event_log: Some(config), ..self }
    }

    /// Looks for jobs as soon as this signal fires, in addition to the notifications of the queue and to polling.
    #[must_use]
    pub fn with_signal(self, signal: JobSignal) -> Self {
        Self { signal, ..self }
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
        let shift = WorkerRun {
            worker: self,
            queue,
            drain,
            tally: Mutex::default(),
            parked: ParkedJobs::default(),
            schedules: DueSchedules::default(),
        };
        let jobs = stream::unfold(News::of(queue), async |mut news| {
            shift.next(&mut news).await.map(|job| (job, news))
        });
        let limit = self.options.concurrency.get();
        let work = jobs.for_each_concurrent(limit, async |claimed| shift.perform(claimed).await);
        let late = async {
            drain.cancelled().await;
            self.env.clock.sleep(self.options.drain_timeout).await;
        };
        let work = async {
            if let Either::Right(_) = select(pin!(work), pin!(late)).await {
                // What cannot be given back ends by itself.
                let _given = queue.release_all(&self.owner, self.env.clock.now()).await;
            }
        };
        let _done = select(pin!(work), pin!(shift.keep())).await;
        shift.tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: impl FnOnce() -> WorkerEvent) {
        if !self.listeners.is_empty() {
            let event = event();
            for listener in &self.listeners {
                listener.on_event(&event);
            }
        }
    }

    fn troubled(&self, error: &StoreError) {
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
    tally: Mutex<JobCounts>,
    parked: ParkedJobs,
    schedules: DueSchedules,
}

impl WorkerRun<'_> {
    /// Waits for a job; `None` once the worker drains, or if it exits when idle.
    async fn next(&self, news: &mut News) -> Option<ClaimedJob> {
        let Worker { options, env, owner, labels, .. } = self.worker;
        while !self.drain.is_cancelled() {
            self.resume_parked().await;
            self.push_scheduled().await;
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
            self.take_over().await;
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

    /// Renews the claims while jobs run.
    async fn keep(&self) {
        let Worker { options, env, owner, .. } = self.worker;
        loop {
            env.clock.sleep(options.lease_ttl / 3).await;
            let now = env.clock.now();
            if let Err(error) = self.queue.renew(owner, now, options.lease_ttl).await {
                self.worker.troubled(&error);
            }
            self.take_over().await;
            self.resume_parked().await;
            self.push_scheduled().await;
        }
    }

    /// Lets parked jobs be claimed that were decided about. If that cannot be found out now, it can be later.
    async fn resume_parked(&self) {
        let Worker { store, env, .. } = self.worker;
        if let Err(error) = self.parked.resume(store, self.queue, env).await {
            self.worker.tell(|| WorkerEvent::QueueUnavailable(error.to_string().into()));
        }
    }

    /// Pushes the jobs of schedules that are due. If that fails, the next attempt pushes them.
    async fn push_scheduled(&self) {
        let Worker { store, env, .. } = self.worker;
        // Boxed, because it is rarely more than a look at the time.
        match Box::pin(self.schedules.push(store, self.queue, env)).await {
            Ok(skipped) => {
                for (schedule, reason) in skipped {
                    let schedule = schedule.name;
                    self.worker.tell(|| WorkerEvent::ScheduleSkipped { schedule, reason });
                }
            }
            Err(error) => self.worker.troubled(&error),
        }
    }

    /// Gives back what processes of this machine had that are gone. If that cannot be found out now, it can
    /// be later.
    async fn take_over(&self) {
        for owner in self.queue.holders().await.unwrap_or_default() {
            if !Owner::parse(&owner).is_some_and(|it| it.is_gone()) {
                continue;
            }
            let now = self.worker.env.clock.now();
            match self.queue.release_all(&owner, now).await {
                Ok(0) | Err(_) => {}
                Ok(jobs) => self.worker.tell(|| WorkerEvent::JobsTakenOver { owner, jobs }),
            }
        }
    }

    /// Does a job, as far as that goes this time.
    async fn perform(&self, claimed: ClaimedJob) {
        let Worker { options, env, .. } = self.worker;
        self.worker.tell(|| WorkerEvent::JobStarted(claimed.job.clone()));
        let verdict = self.attempt(&claimed).await;
        let outcome = verdict.outcome(&claimed, options, env.clock.now());
        let outcome = match outcome {
            Some(outcome) if self.settle(&claimed, &outcome).await => Some(outcome),
            _ => None,
        };
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).count(outcome.as_ref());
        self.worker.tell(|| match outcome {
            Some(outcome) => WorkerEvent::JobFinished { job: claimed.job, outcome },
            None => WorkerEvent::JobLost(claimed.job),
        });
    }

    async fn attempt(&self, claimed: &ClaimedJob) -> JobResult {
        let (worker, job) = (self.worker, &claimed.job);
        if claimed.crashes >= worker.options.max_crashes {
            let reason =
                format!("gave up: {} workers died while processing the job", claimed.crashes);
            return JobResult::Is(JobOutcome::Failed(reason.into()));
        }
        let header = match worker.store.header(&job.session).await {
            Ok(Some(header)) => header,
            Ok(None) => {
                let error = SessionError::Store(StoreError::NotFound(job.session.clone()));
                return JobResult::of_error(&error);
            }
            Err(error) => return JobResult::of_error(&error.into()),
        };
        let loops = match worker.agents.of(&header).await {
            Ok(loops) => loops,
            Err(error) => return JobResult::refused(&*error),
        };
        let runtime = SessionRuntime::new(Arc::clone(&worker.store), loops)
            .with_env(worker.env.clone())
            .with_owner(Arc::clone(&worker.owner))
            .with_lease_ttl(worker.options.lease_ttl)
            .with_interrupted(OnInterrupted::RequireApproval)
            .with_shutdown(self.drain.clone());
        let runtime = worker
            .sinks
            .iter()
            .fold(runtime, |runtime, sink| runtime.with_event_sink(Arc::clone(sink)));
        let runtime = match worker.event_log {
            Some(config) => runtime.with_event_log(config),
            None => runtime,
        };
        match runtime.execute(&job.session, &DeliverJob { queue: self.queue, claimed }).await {
            Ok(session) => JobResult::of_state(session.state(), job),
            Err(error) => JobResult::of_error(&error),
        }
    }

    /// Records the outcome, retrying until the store responds. Returns `true` if the job was still
    /// held.
    async fn settle(&self, claimed: &ClaimedJob, outcome: &JobOutcome) -> bool {
        let clock = &self.worker.env.clock;
        loop {
            match self.queue.settle(claimed, outcome, clock.now()).await {
                Ok(is_heard) => return is_heard,
                Err(error) => {
                    self.worker.troubled(&error);
                    clock.sleep(TROUBLE).await;
                }
            }
        }
    }
}
