//! Jobs that an engine delivers to a worker, instead of the worker claiming them.

use std::{
    collections::HashMap,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    StreamExt as _,
    channel::{mpsc, oneshot},
    future::{Either, select},
};
use loopwright_core::Timestamp;
use loopwright_sessions::{
    ClaimRequest, ControlMessage, JobId, JobOutcome, JobQueue, JobStatus, Scheduler, SessionId,
    StoreError,
};
use tokio_util::sync::CancellationToken;

use crate::{
    event::JobCounts,
    runner::JobRunner,
    upkeep::{Upkeep, Watched},
    worker::{NoQueue, Worker},
};

/// The longest time for which a delivered job waits for its start. The engine then finds another worker.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The interval between looks for decisions and due schedules.
const ROUND: Duration = Duration::from_secs(1);

/// The shortest delay before the next delivery of a job.
const MIN_DELAY: Duration = Duration::from_millis(50);

/// A worker whose jobs an engine delivers. Clones are the same worker.
///
/// Jobs are recorded in the queue of the store, as those are that workers claim by themselves. The worker claims a delivered
/// job there, so that a job that is delivered to two workers runs on one. It resumes parked jobs by the engine's
/// [`answered`](Scheduler::answered), and passes the jobs of schedules to its [`push`](Scheduler::push).
#[derive(Clone)]
pub struct JobDeliveries(Arc<Inner>);

struct Inner {
    worker: Worker,
    engine: Arc<dyn Scheduler>,
    sender: mpsc::UnboundedSender<Delivery>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<Delivery>>>,
    /// The jobs that were delivered and have no result yet.
    open: Mutex<HashMap<JobId, OpenDelivery>>,
}

/// A job that the worker is to run.
struct Delivery {
    session: SessionId,
    job: JobId,
}

#[derive(Default)]
struct OpenDelivery {
    is_started: bool,
    replies: Vec<oneshot::Sender<JobDelivery>>,
}

/// What became of a delivered job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobDelivery {
    /// It has ended.
    Ended(JobStatus),
    /// Its session waits for a decision. Deliver it again once that is made.
    NeedsInput {
        /// The number of the claim that ended with this.
        claim: u64,
        /// The time at which to deliver it again without a decision.
        until: Option<Timestamp>,
    },
    /// Deliver it again after this time.
    Later(Duration),
    /// Another worker runs it, or should run it. Deliver it again soon, until it has ended.
    Elsewhere,
    /// The job does not exist, or belongs to another session.
    Unknown,
}

impl JobDeliveries {
    /// Creates a worker whose jobs an engine delivers.
    ///
    /// # Errors
    ///
    /// Returns an error if the store of the worker has no job queue.
    pub fn new(worker: Worker, engine: Arc<dyn Scheduler>) -> Result<Self, NoQueue> {
        if worker.store.jobs().is_none() {
            return Err(NoQueue);
        }
        let (sender, receiver) = mpsc::unbounded();
        let receiver = Mutex::new(Some(receiver));
        Ok(Self(Arc::new(Inner { worker, engine, sender, receiver, open: Mutex::default() })))
    }

    /// Runs delivered jobs until `drain` is cancelled, as [`Worker::run`] does, and returns the number of jobs by outcome. Only
    /// the first call runs jobs. Once it has ended or was dropped, every delivery is [`Elsewhere`](JobDelivery::Elsewhere).
    pub async fn run(&self, drain: &CancellationToken) -> JobCounts {
        let Inner { worker, engine, receiver, .. } = &*self.0;
        let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (Some(queue), Some(receiver)) = (worker.store.jobs(), receiver) else {
            return JobCounts::default();
        };
        let (tally, watched) = (Mutex::default(), Watched::default());
        let runner = JobRunner { worker, queue, drain, tally: &tally };
        let upkeep = Upkeep { worker, queue, engine: Some(&**engine), watched: &watched };
        let run = DeliveryRun { deliveries: self, queue, drain, runner, upkeep };
        let drained = pin!(drain.cancelled());
        let work = receiver.take_until(drained).for_each_concurrent(
            worker.options.concurrency.get(),
            async |it| {
                run.perform(it).await;
            },
        );
        let rounds = run.rounds();
        let work = async {
            let _done = select(pin!(work), pin!(rounds)).await;
        };
        let _closing = Closing(self);
        worker.work(pin!(work), upkeep, drain).await;
        tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job of a session, as far as that goes now. Its record has the outcome before this returns.
    ///
    /// A job that has started goes on if this future is dropped, and the next delivery to the same worker joins it. A job that
    /// cannot start because of other jobs is [`Elsewhere`](JobDelivery::Elsewhere) after ten seconds.
    pub async fn deliver(&self, session: &SessionId, job: &JobId) -> JobDelivery {
        let mut reply = self.send(session, job);
        let wait = self.0.worker.env.clock.sleep(MAX_WAIT);
        if let Either::Left((ended, _)) = select(&mut reply, wait).await {
            return ended.unwrap_or(JobDelivery::Elsewhere);
        }
        if self.open().get(job).is_some_and(|it| it.is_started) {
            return reply.await.unwrap_or(JobDelivery::Elsewhere);
        }
        JobDelivery::Elsewhere
    }

    /// Stops a job: its run, if it runs on this worker, or else the job itself, unless another worker holds it.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is unavailable.
    pub async fn cancel(
        &self,
        session: &SessionId,
        job: &JobId,
    ) -> Result<JobDelivery, StoreError> {
        let Worker { store, .. } = &self.0.worker;
        if self.open().get(job).is_some_and(|it| it.is_started) {
            store.send_control(session, &ControlMessage::Cancel).await?;
            return Ok(self.send(session, job).await.unwrap_or(JobDelivery::Elsewhere));
        }
        let Some(queue) = store.jobs() else { return Ok(JobDelivery::Unknown) };
        if let Some(claimed) = queue.claim_job(job, self.request()).await? {
            let outcome = JobOutcome::Stopped("the engine cancelled the job".into());
            let _held = self.0.worker.held.hold(job);
            self.0.worker.settle(queue, &claimed, &outcome).await;
        }
        let record = queue.job(job).await?;
        Ok(match record.map(|it| it.status) {
            None => JobDelivery::Unknown,
            Some(status) if status.is_over() => JobDelivery::Ended(status),
            Some(_) => JobDelivery::Elsewhere,
        })
    }

    fn request(&self) -> ClaimRequest<'_> {
        let Worker { owner, env, options, .. } = &self.0.worker;
        ClaimRequest::new(owner, env.clock.now(), options.lease_ttl)
    }

    /// Sends a job to the worker, or joins its earlier delivery.
    fn send(&self, session: &SessionId, job: &JobId) -> oneshot::Receiver<JobDelivery> {
        let (reply, receiver) = oneshot::channel();
        let mut open = self.open();
        if let Some(delivery) = open.get_mut(job) {
            delivery.replies.push(reply);
            return receiver;
        }
        let delivery = Delivery { session: session.clone(), job: job.clone() };
        // A worker that has ended drops the reply.
        if self.0.sender.unbounded_send(delivery).is_ok() {
            open.insert(job.clone(), OpenDelivery { is_started: false, replies: vec![reply] });
        }
        receiver
    }

    /// Marks a job as started. Returns `false` if no delivery waits for it any more.
    fn start(&self, job: &JobId) -> bool {
        let mut open = self.open();
        let Some(delivery) = open.get_mut(job) else { return false };
        delivery.is_started = delivery.replies.iter().any(|it| !it.is_canceled());
        let is_started = delivery.is_started;
        if !is_started {
            open.remove(job);
        }
        is_started
    }

    fn finish(&self, job: &JobId, ended: JobDelivery) {
        let delivery = self.open().remove(job);
        for reply in delivery.into_iter().flat_map(|it| it.replies) {
            // The delivery may have been dropped.
            let _received = reply.send(ended);
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<JobId, OpenDelivery>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for JobDeliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobDeliveries").field("worker", &self.0.worker).finish_non_exhaustive()
    }
}

/// Ends all deliveries when the run ends or is dropped. What has not ended here runs elsewhere; so does what is delivered from
/// then on.
struct Closing<'a>(&'a JobDeliveries);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.0.sender.close_channel();
        self.0.open().clear();
    }
}

/// A worker that runs delivered jobs.
struct DeliveryRun<'a> {
    deliveries: &'a JobDeliveries,
    queue: &'a dyn JobQueue,
    drain: &'a CancellationToken,
    runner: JobRunner<'a>,
    upkeep: Upkeep<'a>,
}

impl DeliveryRun<'_> {
    /// Looks for decisions and due schedules again and again.
    async fn rounds(&self) {
        loop {
            self.upkeep.resume_parked().await;
            self.upkeep.push_scheduled().await;
            self.runner.worker.env.clock.sleep(ROUND).await;
        }
    }

    async fn perform(&self, delivery: Delivery) {
        if !self.deliveries.start(&delivery.job) {
            return;
        }
        let ended = self.attempt(&delivery).await.unwrap_or_else(|error| {
            self.runner.worker.troubled(&error);
            JobDelivery::Elsewhere
        });
        self.deliveries.finish(&delivery.job, ended);
    }

    async fn attempt(&self, delivery: &Delivery) -> Result<JobDelivery, StoreError> {
        let Some(mut record) = self.queue.job(&delivery.job).await? else {
            return Ok(JobDelivery::Unknown);
        };
        if record.job.session != delivery.session {
            return Ok(JobDelivery::Unknown);
        }
        // A claim of a process of this machine that has died is released, and then free.
        for _ in 0..2 {
            if self.drain.is_cancelled() {
                return Ok(JobDelivery::Elsewhere);
            }
            let request = self.deliveries.request();
            if let Some(claimed) = self.queue.claim_job(&delivery.job, request).await? {
                let outcome = self.runner.perform(&claimed).await;
                return self.after(&delivery.session, claimed.claim, outcome).await;
            }
            let Some(found) = self.queue.job(&delivery.job).await? else {
                return Ok(JobDelivery::Unknown);
            };
            record = found;
            if record.status != JobStatus::Running {
                break;
            }
            self.upkeep.take_over().await;
        }
        Ok(match record.status {
            JobStatus::Queued => self.later(record.ready_at),
            status if status.is_over() && status != JobStatus::NeedsInput => {
                JobDelivery::Ended(status)
            }
            _ => JobDelivery::Elsewhere,
        })
    }

    /// Returns what follows from an outcome.
    async fn after(
        &self,
        session: &SessionId,
        claim: u64,
        outcome: Option<JobOutcome>,
    ) -> Result<JobDelivery, StoreError> {
        Ok(match outcome {
            None | Some(JobOutcome::Released) => JobDelivery::Elsewhere,
            Some(JobOutcome::Retry { at, .. }) => self.later(at),
            Some(JobOutcome::NeedsInput(_)) => {
                let until = self.runner.worker.waits_until(session).await?;
                JobDelivery::NeedsInput { claim, until }
            }
            Some(outcome) => JobDelivery::Ended(outcome.status()),
        })
    }

    fn later(&self, at: Timestamp) -> JobDelivery {
        let now = self.runner.worker.env.clock.now();
        JobDelivery::Later(at.since(now).max(MIN_DELAY))
    }
}
