//! Jobs that an engine delivers to a worker.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::future::{Either, select};
use loopwright_core::{
    AgentLoop, ApprovalDecision, ModelError, ModelErrorKind, RunEnv, ToolOutput,
};
use loopwright_sessions::{
    ClaimRequest, DecideCall, Job, JobId, JobStatus, Scheduler, SessionRuntime,
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use loopwright_worker::{JobCounts, JobDeliveries, JobDelivery, Worker, WorkerOptions};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::worker::{Same, World, agent, asking, id};

fn deliveries(world: &World, agent: &AgentLoop) -> JobDeliveries {
    with_worker(world, world.worker(agent))
}

/// The engine is the queue itself, so that nothing but these tests delivers jobs.
fn with_worker(world: &World, worker: Worker) -> JobDeliveries {
    JobDeliveries::new(worker, Arc::clone(&world.store) as Arc<dyn Scheduler>).unwrap()
}

/// Runs a worker until the test is done, and returns its counts.
async fn during<T>(deliveries: &JobDeliveries, test: impl Future<Output = T>) -> (T, JobCounts) {
    let drain = CancellationToken::new();
    let test = async {
        let result = test.await;
        drain.cancel();
        result
    };
    let (counts, result) = futures::join!(deliveries.run(&drain), test);
    (result, counts)
}

/// An agent whose tool says when it started, and returns when it may.
struct Slow {
    agent: AgentLoop,
    model: FakeModel,
    started: Arc<Notify>,
    may_end: Arc<Notify>,
}

fn slow() -> Slow {
    let [started, may_end] = [(); 2].map(|()| Arc::new(Notify::new()));
    let (starts, ends) = (Arc::clone(&started), Arc::clone(&may_end));
    let tool = MockTool::with_cx("work", "", move |_, _| {
        starts.notify_one();
        let ends = Arc::clone(&ends);
        Box::pin(async move {
            ends.notified().await;
            Ok(ToolOutput::text("worked"))
        })
    });
    let script = [ScenarioStep::tool_call("work", json!({})), ScenarioStep::final_answer("done")];
    let model = FakeModel::script(script);
    Slow { agent: agent(&model).with_tool(tool), model, started, may_end }
}

#[tokio::test]
async fn a_delivered_job_runs_once_and_later_deliveries_learn_how_it_ended() {
    let world = World::with(&["a", "b"]).await;
    let (job, other) = (world.push("a", "hi").await, world.push("b", "unasked").await);
    let deliveries = deliveries(&world, &agent(&FakeModel::echo()));
    let test = async {
        let session = id("a");
        let at_once = [(); 3].map(|()| deliveries.deliver(&session, &job.id));
        let found = futures::future::join_all(at_once).await;
        assert_eq!(found, [JobDelivery::Ended(JobStatus::Completed); 3]);
        let again = deliveries.deliver(&session, &job.id).await;
        assert_eq!(again, JobDelivery::Ended(JobStatus::Completed));
    };
    let ((), counts) = during(&deliveries, test).await;
    assert_eq!(counts, JobCounts { completed: 1, ..JobCounts::default() });
    assert_eq!(world.said("a").await, ["hi", "hi"]);
    assert_eq!(world.record(&job).await.claims, 1);
    assert_eq!(world.record(&other).await.status, JobStatus::Queued);
}

#[tokio::test]
async fn a_job_goes_on_when_its_delivery_is_dropped_and_the_next_delivery_joins_it() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let Slow { agent, model, started, may_end } = slow();
    let deliveries = deliveries(&world, &agent);
    let test = async {
        let session = id("a");
        let dropped = pin!(deliveries.deliver(&session, &job.id));
        let started = pin!(started.notified());
        assert!(matches!(select(dropped, started).await, Either::Right(_)));
        let again = async {
            tokio::task::yield_now().await;
            may_end.notify_one();
        };
        futures::join!(deliveries.deliver(&session, &job.id), again).0
    };
    let (found, counts) = during(&deliveries, test).await;
    assert_eq!(found, JobDelivery::Ended(JobStatus::Completed));
    assert_eq!(counts, JobCounts { completed: 1, ..JobCounts::default() });
    assert_eq!((model.asked(), world.record(&job).await.claims), (2, 1));
}

#[tokio::test]
async fn a_job_that_another_worker_holds_is_elsewhere_until_its_claim_ends() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let deliveries = deliveries(&world, &agent(&FakeModel::echo()));
    let now = || RunEnv::system().clock.now();
    let hour = Duration::from_hours(1);
    let claim = ClaimRequest::new("another", now(), hour);
    assert!(world.queue().claim_job(&job.id, claim).await.unwrap().is_some());
    let test = async {
        let held = deliveries.deliver(&id("a"), &job.id).await;
        world
            .queue()
            .renew("another", std::slice::from_ref(&job.id), now(), Duration::ZERO)
            .await
            .unwrap();
        [held, deliveries.deliver(&id("a"), &job.id).await]
    };
    let (found, counts) = during(&deliveries, test).await;
    assert_eq!(found, [JobDelivery::Elsewhere, JobDelivery::Ended(JobStatus::Completed)]);
    assert_eq!(counts, JobCounts { completed: 1, ..JobCounts::default() });
    let record = world.record(&job).await;
    assert_eq!((record.claims, record.crashes), (2, 1));
}

#[tokio::test]
async fn a_transient_failure_is_to_be_delivered_later_until_the_attempts_are_used_up() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let model = FakeModel::from_fn(|_| Err(ModelError::new(ModelErrorKind::Network, "cable")));
    let options = WorkerOptions { max_attempts: 2, ..WorkerOptions::default() };
    let deliveries = with_worker(&world, world.worker(&agent(&model)).with_options(options));
    let test = async {
        let JobDelivery::Later(delay) = deliveries.deliver(&id("a"), &job.id).await else {
            panic!("it is retried")
        };
        assert!(delay <= options.backoff.initial, "{delay:?}");
        assert_eq!(world.record(&job).await.status, JobStatus::Queued);
        tokio::time::sleep(delay).await;
        let mut last = JobDelivery::Later(delay);
        while let JobDelivery::Later(delay) = last {
            tokio::time::sleep(delay).await;
            last = deliveries.deliver(&id("a"), &job.id).await;
        }
        last
    };
    let (last, counts) = during(&deliveries, test).await;
    assert_eq!(last, JobDelivery::Ended(JobStatus::Failed));
    assert_eq!(counts, JobCounts { failed: 1, retried: 1, ..JobCounts::default() });
}

#[tokio::test]
async fn a_parked_job_that_is_delivered_again_waits_until_every_call_was_decided() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let paid = Arc::new(AtomicUsize::new(0));
    let deliveries = deliveries(&world, &asking(&paid));
    let decide = async |call: u16| {
        let runtime = SessionRuntime::new(Arc::clone(&world.store) as _, Same(asking(&paid)));
        let resolution = ApprovalDecision::Approve;
        let decide = DecideCall { path: Some(vec![call]), resolution };
        runtime.execute(&id("a"), &decide).await.unwrap();
    };
    let test = async {
        let first = deliveries.deliver(&id("a"), &job.id).await;
        decide(0).await;
        let second = deliveries.deliver(&id("a"), &job.id).await;
        decide(1).await;
        [first, second, deliveries.deliver(&id("a"), &job.id).await]
    };
    let (found, _) = Box::pin(during(&deliveries, test)).await;
    let waits = |claim| JobDelivery::NeedsInput { claim, until: None };
    assert_eq!(found, [waits(1), waits(2), JobDelivery::Ended(JobStatus::Completed)]);
    assert_eq!(paid.load(SeqCst), 2);
    assert_eq!(world.said("a").await.iter().filter(|text| *text == "hi").count(), 1);
}

#[tokio::test]
async fn a_cancelled_job_is_stopped_whether_it_runs_or_waits() {
    let world = World::with(&["a"]).await;
    let [runs, waits] = [world.push("a", "one").await, world.push("a", "two").await];
    let Slow { agent, model, started, .. } = slow();
    let deliveries = deliveries(&world, &agent);
    let test = async {
        let session = id("a");
        let cancel = async {
            started.notified().await;
            deliveries.cancel(&session, &runs.id).await.unwrap()
        };
        let (delivered, cancelled) = futures::join!(deliveries.deliver(&session, &runs.id), cancel);
        [delivered, cancelled, deliveries.cancel(&session, &waits.id).await.unwrap()]
    };
    let (found, _) = during(&deliveries, Box::pin(test)).await;
    assert_eq!(found, [JobDelivery::Ended(JobStatus::Stopped); 3]);
    assert_eq!(model.asked(), 1);
    let found = [world.record(&runs).await, world.record(&waits).await];
    assert_eq!(found.map(|it| it.status), [JobStatus::Stopped; 2]);
}

#[tokio::test]
async fn jobs_of_other_sessions_and_unknown_jobs_are_unknown_and_a_drained_worker_runs_none() {
    let world = World::with(&["a", "b"]).await;
    let job = world.push("a", "hi").await;
    let deliveries = deliveries(&world, &agent(&FakeModel::echo()));
    let test = async {
        let other = deliveries.deliver(&id("b"), &job.id).await;
        [other, deliveries.deliver(&id("a"), &JobId::generate()).await]
    };
    let (found, counts) = during(&deliveries, test).await;
    assert_eq!(found, [JobDelivery::Unknown; 2]);
    assert_eq!(deliveries.deliver(&id("a"), &job.id).await, JobDelivery::Elsewhere);
    assert_eq!(counts, JobCounts::default());
    let record: Job = world.record(&job).await.job;
    assert_eq!((record, world.record(&job).await.status), (job, JobStatus::Queued));
}

#[tokio::test]
async fn the_deliveries_of_a_run_that_is_dropped_end_elsewhere() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let Slow { agent, started, .. } = slow();
    let deliveries = deliveries(&world, &agent);
    let (session, drain) = (id("a"), CancellationToken::new());
    let mut delivered = pin!(deliveries.deliver(&session, &job.id));
    {
        let run = pin!(deliveries.run(&drain));
        let started = pin!(started.notified());
        let works = select(run, delivered.as_mut());
        assert!(matches!(select(works, started).await, Either::Right(_)));
    }
    assert_eq!(delivered.await, JobDelivery::Elsewhere);
    assert_eq!(deliveries.deliver(&session, &job.id).await, JobDelivery::Elsewhere);
}
