//! Claims that a worker renews.

use loopwright_sessions::{ClaimRequest, JobStatus};
use loopwright_testing::{FakeModel, FrozenClock};
use loopwright_worker::{JobCounts, WorkerOptions};
use tokio_util::sync::CancellationToken;

use crate::worker::{World, agent};

#[tokio::test]
async fn a_claim_that_its_worker_never_learned_of_ends_by_itself() {
    let world = World::with(&["a"]).await;
    let job = world.push("a", "hi").await;
    let env = FrozenClock::new().env(0);
    // As if the connection to the database had broken before its response.
    let request = ClaimRequest::new("me", env.clock.now(), WorkerOptions::default().lease_ttl);
    assert!(world.queue().claim(request).await.unwrap().is_some());
    let worker = world.worker(&agent(&FakeModel::echo())).with_env(env).with_owner("me");
    let tally = worker.run(&CancellationToken::new()).await;
    assert_eq!(tally, JobCounts { completed: 1, ..JobCounts::default() });
    let record = world.record(&job).await;
    assert_eq!((record.status, record.claims, record.crashes), (JobStatus::Completed, 2, 1));
}
