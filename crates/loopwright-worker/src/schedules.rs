//! Jobs of schedules, which workers push when they are due.

use std::{sync::Arc, time::Duration};

use futures::lock::Mutex;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{AgentLoop, RunEnv};
use loopwright_sessions::{
    Job, JobQueue, Schedule, ScheduleSession, SessionError, SessionId, SessionRuntime,
    SessionStore, StoreError,
};

use crate::cron::CronTimes;

/// The interval between checks of schedules.
const INTERVAL: Duration = Duration::from_secs(1);

/// Pushes the jobs of schedules.
#[derive(Default)]
pub(crate) struct DueSchedules {
    /// When it was last done. Locked meanwhile, so that a worker does not end before jobs that it is pushing.
    last: Mutex<Option<Duration>>,
}

/// What became of the schedules that were due.
#[derive(Default)]
pub(crate) struct DueJobs {
    /// The jobs that were pushed.
    pub(crate) pushed: Vec<Job>,
    /// Schedules whose time has no job, and the reasons.
    pub(crate) skipped: Vec<(Schedule, Arc<str>)>,
}

impl DueSchedules {
    /// Pushes the job of each schedule whose time has come, unless another worker has done so. Times that were missed while
    /// no worker ran are one job.
    pub(crate) async fn push(
        &self,
        store: &Arc<dyn SessionStore>,
        queue: &dyn JobQueue,
        env: &RunEnv,
    ) -> Result<DueJobs, StoreError> {
        let mut done = DueJobs::default();
        let (mut last, began) = (self.last.lock().await, env.clock.monotonic());
        if last.is_some_and(|last| began.saturating_sub(last) < INTERVAL) {
            return Ok(done);
        }
        let (clock, due) = queue.due_schedules(env.clock.now()).await?;
        for schedule in due {
            // A pattern that this program cannot read is left to others.
            let Ok(times) = CronTimes::parse(&schedule.cron) else { continue };
            let next = times.after(clock.max(schedule.next_at));
            let now = env.clock.now();
            let pushed = match job(store, &schedule, env).await {
                Ok(job) => {
                    let is_pushed = queue.push_due(&schedule, Some(&job), next, now).await;
                    is_pushed.map(|is_pushed| is_pushed.then_some(job))
                }
                Err(error) => Err(error),
            };
            match pushed {
                Ok(job) => done.pushed.extend(job),
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                Err(error) => {
                    if queue.push_due(&schedule, None, next, now).await? {
                        done.skipped.push((schedule, error.to_string().into()));
                    }
                }
            }
        }
        *last = Some(began);
        Ok(done)
    }
}

/// Returns the job of a schedule's due time. If it needs a session of its own, that has a name of its own, too: workers that do
/// this at the same time create one session.
async fn job(
    store: &Arc<dyn SessionStore>,
    schedule: &Schedule,
    env: &RunEnv,
) -> Result<Job, StoreError> {
    let session = match schedule.runs_in {
        ScheduleSession::Same => schedule.session.clone(),
        ScheduleSession::Fork => {
            let key = format!("schedule {} {}", schedule.name, schedule.next_at);
            let fork = SessionId::derived_tagged(schedule.session.tag().as_ref(), &key);
            let runtime = SessionRuntime::new(Arc::clone(store), NoAgent).with_env(env.clone());
            match runtime.fork(&schedule.session, None, Some(fork.clone())).await {
                Ok(_) | Err(SessionError::Store(StoreError::Exists(_))) => fork,
                Err(SessionError::Store(error)) => return Err(error),
                Err(error) => return Err(StoreError::Unavailable(error.into())),
            }
        }
    };
    schedule.next_job(session).map_err(|error| StoreError::Corrupt {
        id: schedule.session.clone(),
        reason: error.to_string(),
    })
}

/// Creates no agent, because a fork runs none.
struct NoAgent;

impl LoopFactory for NoAgent {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Err(BuildError::NoDriver)
    }
}
