//! Sessions that stay in a worker's memory between its jobs.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopwright_agent::LoopFactory;
use loopwright_core::{
    AgentLoop, BoxError,
    messages::{Transcript, TurnBody},
};
use loopwright_sessions::{AgentSession, CacheLimits, SessionHeader};
use loopwright_testing::{FakeModel, FrozenClock};
use loopwright_worker::{AgentResolver, JobCounts, OnIdle, Worker, WorkerOptions};
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

/// Finds one agent for all sessions, and notes their conversations.
struct Noting {
    agent: AgentLoop,
    turns: Arc<Mutex<Vec<Transcript>>>,
}

#[async_trait]
impl AgentResolver for Noting {
    async fn of(&self, header: &SessionHeader) -> Result<Arc<dyn LoopFactory>, BoxError> {
        Err(format!("session `{}` is already loaded", header.id).into())
    }

    async fn of_session(&self, session: &AgentSession) -> Result<Arc<dyn LoopFactory>, BoxError> {
        self.turns.lock().unwrap().push(session.state().transcript().clone());
        Ok(Arc::new(Same(self.agent.clone())))
    }
}

#[tokio::test]
async fn a_job_loads_its_session_once_for_the_agent_and_the_run() {
    let world = World::with(&["a"]).await;
    let model = FakeModel::echo();
    let turns = Arc::<Mutex<Vec<Transcript>>>::default();
    for text in ["1", "2"] {
        world.push("a", text).await;
        // A worker that does not have the session yet.
        let agents = Noting { agent: agent(&model), turns: Arc::clone(&turns) };
        let worker = Worker::with_agents(Arc::clone(&world.store) as _, agents).unwrap();
        let options = WorkerOptions { on_idle: OnIdle::Exit, ..WorkerOptions::default() };
        let worker = worker.with_options(options).with_env(FrozenClock::new().env(0));
        let counts = worker.run(&CancellationToken::new()).await;
        assert_eq!(counts, JobCounts { completed: 1, ..JobCounts::default() });
    }
    let (turns, requests) = (turns.lock().unwrap(), model.requests());
    assert_eq!([turns[0].len(), turns[1].len()], [0, 2]);
    // Turns of sessions that were loaded separately are not the same ones.
    assert!(requests[1].prompt.turns.starts_with(&turns[1]));
}
