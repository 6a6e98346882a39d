//! Sessions that stay in a worker's memory between its jobs.

use std::sync::Arc;

use loopwright_core::messages::TurnBody;
use loopwright_sessions::CacheLimits;
use loopwright_testing::{FakeModel, FrozenClock};
use loopwright_worker::{JobCounts, OnIdle, Worker, WorkerOptions};
use tokio_util::sync::CancellationToken;

use crate::worker::{Same, World, agent};

/// Creates a worker that exits when no jobs are left.
fn worker(world: &World, model: &FakeModel, cache: CacheLimits) -> Worker {
    let options = WorkerOptions { on_idle: OnIdle::Exit, cache, ..WorkerOptions::default() };
    let worker = Worker::new(Arc::clone(&world.store) as _, Same(agent(model))).unwrap();
    worker.with_options(options).with_env(FrozenClock::new().env(0))
}

#[tokio::test]
async fn the_next_job_of_a_session_loads_only_what_is_new_since_the_last_one() {
    let off = CacheLimits { sessions: 0, ..CacheLimits::default() };
    for (cache, is_kept) in [(CacheLimits::default(), true), (off, false)] {
        let world = World::with(&["a"]).await;
        let model = FakeModel::echo();
        let [own, other] = [worker(&world, &model, cache), worker(&world, &model, off)];
        for (text, by) in [("1", &own), ("2", &other), ("3", &own), ("4", &own)] {
            world.push("a", text).await;
            let counts = by.run(&CancellationToken::new()).await;
            assert_eq!(counts, JobCounts { completed: 1, ..JobCounts::default() });
        }
        assert_eq!(world.said("a").await, ["1", "1", "2", "2", "3", "3", "4", "4"]);
        let requests = model.requests();
        let turns = requests.iter().map(|it| &it.prompt.turns).collect::<Vec<_>>();
        // Turns of sessions that were loaded separately are not the same ones.
        let shares = |of: usize| turns[of].starts_with(turns[0]);
        assert_eq!([1, 2, 3].map(shares), [false, is_kept, is_kept]);
        let last = turns[3].last().map(|it| it.body());
        assert!(matches!(last, Some(TurnBody::Input(_))), "{last:?}");
    }
}
