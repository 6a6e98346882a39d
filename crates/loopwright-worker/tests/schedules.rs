//! Jobs of schedules.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{AgentLoop, Timestamp, messages::Message};
use loopwright_sessions::{
    ForkPoint, JobId, JobLabels, JobQuery, JobTask, NewSession, Schedule, ScheduleSession,
    SessionHeader, SessionId, SessionQuery, SessionStore as _,
};
use loopwright_store_sql::SqliteStore;
use loopwright_testing::{FakeModel, FrozenClock, ModelDriver, test_loop};
use loopwright_worker::{OnIdle, Worker, WorkerEvent, WorkerOptions};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

struct Echo;

impl LoopFactory for Echo {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(test_loop(ModelDriver::new(FakeModel::echo())))
    }
}

const DAY: u64 = 86_400_000;

fn now() -> Timestamp {
    FrozenClock::new().env(0).clock.now()
}

/// A store with session `a`, and what its workers skipped.
struct World {
    store: Arc<SqliteStore>,
    skipped: Arc<Mutex<Vec<JobId>>>,
    _folder: TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap());
        let header = &SessionHeader::new(SessionId::new("a").unwrap(), "agent", now());
        let definition = &AgentDefinition::new("agent", "works", "You work.");
        store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
        Self { store, skipped: Arc::default(), _folder: folder }
    }

    async fn schedule(&self, runs_in: ScheduleSession, next_at: Timestamp) -> Schedule {
        let schedule = Schedule {
            name: JobId::new("yearly").unwrap(),
            // A clock that sleeps move does not reach the next time while a job runs.
            cron: "0 0 1 1 *".into(),
            session: SessionId::new("a").unwrap(),
            runs_in,
            task: JobTask::SendMessage(Message::user("hi")),
            needs: JobLabels::default(),
            priority: 0,
            next_at,
        };
        assert!(self.store.jobs().unwrap().add_schedule(&schedule).await.unwrap());
        schedule
    }

    /// Lets a worker run until nothing is left to do, and returns how many jobs it completed.
    async fn work(&self) -> u64 {
        let skipped = Arc::clone(&self.skipped);
        let worker = Worker::new(Arc::clone(&self.store) as _, Echo).unwrap();
        let worker = worker
            .with_options(WorkerOptions { on_idle: OnIdle::Exit, ..WorkerOptions::default() })
            .with_env(FrozenClock::new().env(0))
            .with_listener(move |event: &WorkerEvent| {
                if let WorkerEvent::ScheduleSkipped { schedule, .. } = event {
                    skipped.lock().unwrap().push(schedule.clone());
                }
            });
        worker.run(&CancellationToken::new()).await.completed
    }

    async fn sessions_of_jobs(&self) -> Vec<SessionId> {
        let records = self.store.jobs().unwrap().records(&JobQuery::last(9)).await.unwrap();
        records.into_iter().map(|it| it.job.session).collect()
    }

    async fn next(&self) -> Timestamp {
        self.store.jobs().unwrap().schedules().await.unwrap()[0].next_at
    }
}

fn earlier(years: u64) -> Timestamp {
    Timestamp::from_millis(now().millis() - years * 365 * DAY)
}

#[tokio::test]
async fn times_that_were_missed_are_one_job() {
    let world = World::new().await;
    world.schedule(ScheduleSession::Same, earlier(5)).await;
    assert_eq!([world.work().await, world.work().await], [1, 0]);
    assert_eq!(world.sessions_of_jobs().await, [SessionId::new("a").unwrap()]);
    let next = world.next().await;
    assert!(next > now() && next.since(now()) <= Duration::from_millis(366 * DAY), "{next}");
    assert_eq!(next.millis() % DAY, 0);
}

#[tokio::test]
async fn each_time_has_a_fork_of_the_session_if_the_schedule_says_so() {
    let world = World::new().await;
    let schedule = world.schedule(ScheduleSession::Fork, earlier(5)).await;
    // Another worker created the session, and did not push the job.
    let fork = SessionId::derived_tagged(None, &format!("schedule yearly {}", earlier(5)));
    let from = ForkPoint { session: SessionId::new("a").unwrap(), branch: 0, at: 0 };
    let header = SessionHeader::new(fork.clone(), "agent", now());
    let header = &SessionHeader { from: Some(from), ..header };
    let definition = &AgentDefinition::new("agent", "works", "You work.");
    world.store.create(NewSession { header, definition, changes: &[] }).await.unwrap();
    assert_eq!([world.work().await, world.work().await], [1, 0]);
    assert_eq!(world.sessions_of_jobs().await, [fork]);
    let queue = world.store.jobs().unwrap();
    // Another time comes.
    let current = Schedule { next_at: world.next().await, ..schedule };
    assert!(queue.push_due(&current, None, Some(earlier(1)), now()).await.unwrap());
    assert_eq!(world.work().await, 1);
    let sessions = world.sessions_of_jobs().await;
    assert_eq!(sessions.len(), 2);
    assert_ne!(sessions[0], sessions[1]);
    for session in &sessions {
        let header = world.store.header(session).await.unwrap().unwrap();
        assert_eq!(header.from.unwrap().session.as_str(), "a");
    }
    let all = world.store.list(&SessionQuery::first(9)).await.unwrap();
    assert_eq!(all.len(), 3);
}

#[tokio::test]
async fn a_schedule_whose_session_was_deleted_is_skipped_until_its_next_time() {
    for runs_in in [ScheduleSession::Same, ScheduleSession::Fork] {
        let world = World::new().await;
        let schedule = world.schedule(runs_in, earlier(1)).await;
        world.store.delete(&schedule.session, now()).await.unwrap();
        assert_eq!(world.work().await, 0);
        assert_eq!(*world.skipped.lock().unwrap(), std::slice::from_ref(&schedule.name));
        assert!(world.next().await > now());
        assert_eq!(world.work().await, 0);
        assert_eq!(world.skipped.lock().unwrap().len(), 1);
    }
}
