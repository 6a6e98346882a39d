use std::{sync::Arc, time::Duration};

use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{
    AgentLoop, Budget, ModelError, ModelErrorKind, OnInterrupted, Timestamp, messages::Message,
};
use loopwright_sessions::{
    ChangeBudget, ClaimRequest, Job, JobOutcome, SessionFactory, SessionId, SessionRuntime,
    SessionStore as _,
};
use loopwright_store_sql::SqliteStore;
use loopwright_testing::{FakeModel, ModelDriver, ScenarioStep, test_loop};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::verdict::JobResult;

struct Same(AgentLoop);

impl LoopFactory for Same {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.0.clone())
    }
}

/// A store with one session, and an agent with a script.
struct World {
    store: Arc<SqliteStore>,
    model: FakeModel,
    agent: AgentLoop,
    _folder: TempDir,
}

fn id() -> SessionId {
    SessionId::new("a").unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000)
}

impl World {
    async fn new(script: impl IntoIterator<Item = ScenarioStep>) -> Self {
        Self::of(FakeModel::script(script)).await
    }

    async fn of(model: FakeModel) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("sessions.db")).await.unwrap());
        let agent = test_loop(ModelDriver::new(model.clone()));
        let world = Self { store, model, agent, _folder: folder };
        let definition = AgentDefinition::new("agent", "works", "You work.");
        let session = SessionFactory::new().create_from(definition, AgentState::new(), id(), now());
        world.runtime().create(session).await.unwrap();
        world
    }

    fn runtime(&self) -> SessionRuntime {
        SessionRuntime::new(Arc::clone(&self.store) as _, Same(self.agent.clone()))
            .with_interrupted(OnInterrupted::RequireApproval)
    }

    fn queue(&self) -> &dyn JobQueue {
        self.store.jobs().unwrap()
    }

    async fn push(&self, text: &str) -> Job {
        let job = Job::send_message(id(), Message::user(text));
        self.queue().push(&job, now()).await.unwrap();
        job
    }

    async fn claim(&self) -> ClaimedJob {
        self.queue()
            .claim(ClaimRequest::new("me", now(), Duration::from_secs(9)))
            .await
            .unwrap()
            .unwrap()
    }

    /// Claims a job whose holder died.
    async fn claim_again(&self) -> ClaimedJob {
        assert_eq!(self.queue().release_all("me", now()).await.unwrap(), 1);
        self.claim().await
    }

    async fn deliver(&self, claimed: &ClaimedJob) -> JobResult {
        self.deliver_by(&self.runtime(), claimed).await
    }

    async fn deliver_by(&self, runtime: &SessionRuntime, claimed: &ClaimedJob) -> JobResult {
        match runtime
            .execute(&id(), &DeliverJob { queue: self.queue(), claimed, place: None })
            .await
        {
            Ok(session) => JobResult::of_state(session.state(), &claimed.job),
            Err(error) => JobResult::of_error(&error),
        }
    }

    /// Returns what was said in the session, by whomever.
    async fn said(&self) -> Vec<String> {
        let session = self.runtime().session(&id()).await.unwrap();
        session.state().transcript().iter().map(|turn| turn.message().text()).collect()
    }
}

fn done() -> JobResult {
    JobResult::Is(JobOutcome::Done)
}

#[tokio::test]
async fn a_job_that_is_delivered_twice_is_heard_and_answered_once() {
    let world = World::new([ScenarioStep::final_answer("hello")]).await;
    world.push("hi").await;
    assert_eq!(world.deliver(&world.claim().await).await, done());
    assert_eq!(world.deliver(&world.claim_again().await).await, done());
    assert_eq!((world.said().await, world.model.asked()), (vec!["hi".into(), "hello".into()], 1));
}

#[tokio::test]
async fn a_worker_that_lost_a_job_reports_nothing() {
    let world = World::new([ScenarioStep::final_answer("hello")]).await;
    world.push("hi").await;
    let lost = world.claim().await;
    let held = world.claim_again().await;
    assert_eq!(world.deliver(&lost).await, JobResult::Lost);
    assert_eq!(world.said().await, Vec::<String>::new());
    assert_eq!(world.deliver(&held).await, done());
    assert_eq!(world.deliver(&lost).await, JobResult::Lost);
    assert_eq!(world.said().await, ["hi", "hello"]);
}

#[tokio::test]
async fn a_worker_that_lost_a_job_reports_nothing_after_the_next_one() {
    let script = ["one", "two"].map(ScenarioStep::final_answer);
    let world = World::new(script).await;
    for text in ["first", "second"] {
        world.push(text).await;
    }
    let lost = world.claim().await;
    for _ in 0..2 {
        let held = if world.queue().holds(&lost).await.unwrap() {
            world.claim_again().await
        } else {
            world.claim().await
        };
        assert_eq!(world.deliver(&held).await, done());
        assert!(world.queue().settle(&held, &JobOutcome::Done, now()).await.unwrap());
    }
    assert_eq!(world.deliver(&lost).await, JobResult::Lost);
    assert_eq!(world.said().await, ["first", "one", "second", "two"]);
}

#[tokio::test]
async fn a_message_taken_and_abandoned_before_its_run_is_answered_by_the_next_worker() {
    let script = ["one", "two"].map(ScenarioStep::final_answer);
    let world = World::new(script).await;
    world.push("first").await;
    let first = world.claim().await;
    assert_eq!(world.deliver(&first).await, done());
    assert!(world.queue().settle(&first, &JobOutcome::Done, now()).await.unwrap());
    // It is told to leave before it begins.
    world.push("second").await;
    let leave = CancellationToken::new();
    leave.cancel();
    let leaving = world.runtime().with_shutdown(leave);
    let left = world.deliver_by(&leaving, &world.claim().await).await;
    assert_eq!(left, JobResult::Is(JobOutcome::Released));
    assert_eq!((world.said().await.len(), world.model.asked()), (3, 1));
    assert_eq!(world.deliver(&world.claim_again().await).await, done());
    assert_eq!(world.said().await, ["first", "one", "second", "two"]);
}

#[tokio::test]
async fn a_failure_of_the_agent_is_kept_and_not_repeated() {
    let world = World::of(FakeModel::from_fn(|_| {
        Err(ModelError::new(ModelErrorKind::InvalidRequest, "nonsense"))
    }))
    .await;
    world.push("hi").await;
    for is_again in [false, true] {
        let claimed = if is_again { world.claim_again().await } else { world.claim().await };
        let verdict = world.deliver(&claimed).await;
        let JobResult::Is(JobOutcome::Failed(reason)) = verdict else { panic!("{verdict:?}") };
        assert!(reason.contains("nonsense"), "{reason}");
    }
    assert_eq!(world.model.asked(), 1);
}

#[tokio::test]
async fn a_job_that_continues_a_session_after_a_limit_may_use_as_much_again() {
    let call = || ScenarioStep::tool_call("missing", serde_json::json!({}));
    let world = World::new([call(), call(), ScenarioStep::final_answer("done")]).await;
    let two_steps = Budget { steps: Some(2), ..Budget::unlimited() };
    world.runtime().execute(&id(), &ChangeBudget(two_steps)).await.unwrap();
    world.push("go").await;
    let first = world.claim().await;
    let verdict = world.deliver(&first).await;
    let JobResult::Is(JobOutcome::Stopped(reason)) = &verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("steps_limit"), "{reason}");
    // The same job does not get more by being delivered again.
    let first = world.claim_again().await;
    assert_eq!(world.deliver(&first).await, verdict);
    let stopped = JobOutcome::Stopped("a limit".into());
    assert!(world.queue().settle(&first, &stopped, now()).await.unwrap());
    world.queue().push(&Job::resume(id()), now()).await.unwrap();
    assert_eq!(world.deliver(&world.claim().await).await, done());
    assert_eq!((world.said().await.last().unwrap().as_str(), world.model.asked()), ("done", 3));
}

#[tokio::test]
async fn going_on_with_what_is_finished_does_nothing() {
    let world = World::new([ScenarioStep::final_answer("hello")]).await;
    world.queue().push(&Job::resume(id()), now()).await.unwrap();
    assert_eq!(world.deliver(&world.claim().await).await, done());
    assert_eq!((world.said().await.len(), world.model.asked()), (0, 0));
}

#[tokio::test]
async fn a_session_that_takes_no_message_refuses_the_job() {
    let world = World::new([ScenarioStep::final_answer("hello")]).await;
    world.runtime().execute(&id(), &loopwright_sessions::SuspendSession).await.unwrap();
    world.push("hi").await;
    let verdict = world.deliver(&world.claim().await).await;
    let JobResult::Is(JobOutcome::Failed(reason)) = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains("resume it first"), "{reason}");
    assert_eq!(world.said().await, Vec::<String>::new());
}
