//! What a step of a long conversation costs.

use std::{
    num::NonZeroUsize,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{
    AgentLoop, ChatModel, InferCx, ModelError,
    messages::{InferenceRequest, InferenceResponse, Message, Role},
};
use loopwright_restate::{RestateWorker, listen};
use loopwright_sessions::{Job, JobStatus, Scheduler, SessionStore};
use loopwright_survival::{Failure, open::open, script::ANSWER};
use loopwright_testing::{MockTool, ModelDriver, ScenarioStep, test_loop};
use loopwright_worker::{Worker, WorkerOptions};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    create,
    engine::{Engine, free_port},
    kills::registered,
    now,
    worker::scheduler,
};

/// The steps of a turn, the last of which is the answer.
const OF_A_TURN: u32 = 10;
/// The parts of the conversation whose costs are compared.
const PARTS: usize = 10;
/// A step may cost so much more than one of the first part.
const GROWTH: f64 = 1.1;

/// Runs a conversation turn by turn through Restate, and prints what each part of it cost.
pub(crate) async fn run(
    server: &Path,
    folder: &Path,
    url: &str,
    steps: usize,
) -> Result<(), Failure> {
    let engine = Engine::start(server, folder).await?;
    let store = open(url).await?;
    let scheduler = scheduler(&store, &engine.ingress())?;
    let worker = RestateWorker::new(worker(&store)?, scheduler.clone())?;
    let port = free_port()?;
    let listener = listen(([127, 0, 0, 1], port).into())?;
    let drain = CancellationToken::new();
    let conversation = async {
        registered(&engine, port).await?;
        converse(&*store, &scheduler, steps, &drain).await
    };
    let (counts, turns) = futures::join!(worker.run(listener, &drain), conversation);
    report("through Restate", counts?.completed, &turns?, steps)
}

/// Runs the same conversation through the queue of the database.
pub(crate) async fn run_queued(url: &str, steps: usize) -> Result<(), Failure> {
    let store = open(url).await?;
    let (worker, drain) = (worker(&store)?, CancellationToken::new());
    let scheduler = store.scheduler().ok_or("the store has no queue")?;
    let conversation = converse(&*store, scheduler, steps, &drain);
    let (counts, turns) = futures::join!(worker.run(&drain), conversation);
    report("through the queue", counts.completed, &turns?, steps)
}

fn worker(store: &Arc<dyn SessionStore>) -> Result<Worker, Failure> {
    let options = WorkerOptions { concurrency: NonZeroUsize::MIN, ..WorkerOptions::default() };
    Ok(Worker::new(Arc::clone(store), Agents)?.with_options(options))
}

/// Returns how long each turn took, and has the worker end.
async fn converse(
    store: &dyn SessionStore,
    scheduler: &dyn Scheduler,
    steps: usize,
    drain: &CancellationToken,
) -> Result<Vec<Duration>, Failure> {
    let turns = async {
        let session = create(store).await?;
        let mut turns = Vec::new();
        for _ in 0..steps / OF_A_TURN as usize {
            let job = Job::send_message(session.clone(), Message::user("go"));
            let began = Instant::now();
            scheduler.push(&job, now()).await?;
            let ended = loop {
                let record = scheduler.job(&job.id).await?.ok_or("the job is lost")?;
                if record.status.is_over() {
                    break record.status;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            if ended != JobStatus::Completed {
                return Err(format!("a turn ended as {ended}").into());
            }
            turns.push(began.elapsed());
        }
        Ok(turns)
    };
    let turns = turns.await;
    drain.cancel();
    turns
}

/// Prints what each part cost, and fails if the middle or the end cost more than the beginning. The fastest tenth of the turns is
/// compared, because other programs of the machine delay the rest.
fn report(way: &str, number: u64, turns: &[Duration], steps: usize) -> Result<(), Failure> {
    println!("{number} turns of {OF_A_TURN} steps {way}");
    println!("| steps | a step, median | a step of the fastest tenth |");
    println!("|--:|--:|--:|");
    let mut costs = Vec::new();
    for (index, part) in turns.chunks(turns.len().div_ceil(PARTS).max(1)).enumerate() {
        let mut times = part.to_vec();
        times.sort();
        let [median, fast] = [times.len() / 2, times.len() / 10].map(|it| times[it] / OF_A_TURN);
        println!("| {} | {median:.2?} | {fast:.2?} |", (index + 1) * steps / PARTS);
        costs.push(fast);
    }
    let [first, .., last] = &*costs else { return Err("there is nothing to compare".into()) };
    for (name, part) in [("middle", costs[costs.len() / 2]), ("end", *last)] {
        let ratio = part.as_secs_f64() / first.as_secs_f64();
        println!("a step at the {name} costs {ratio:.2} of one at the beginning");
        if ratio > GROWTH {
            return Err(format!("a step at the {name} costs more than {GROWTH}").into());
        }
    }
    Ok(())
}

/// An agent that answers after nine steps with a tool.
struct Agents;

impl LoopFactory for Agents {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let look = MockTool::new("look", "", |_| Ok::<_, String>("seen"));
        Ok(test_loop(ModelDriver::new(Model)).with_tool(look))
    }
}

struct Model;

#[async_trait]
impl ChatModel for Model {
    async fn infer(
        &self,
        request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let turns = request.prompt.turns.iter().rev();
        let since = turns.take_while(|turn| turn.message().role() != Role::User).count();
        let step = if since + 1 < OF_A_TURN as usize {
            ScenarioStep::tool_call("look", json!({}))
        } else {
            ScenarioStep::final_answer(ANSWER)
        };
        step.to_response()
    }
}
