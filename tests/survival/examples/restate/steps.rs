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
use loopwright_sessions::{Job, JobStatus, Scheduler as _, SessionRepository};
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

/// Runs a conversation turn by turn, and prints what each part of it cost.
pub(crate) async fn run(
    server: &Path,
    folder: &Path,
    url: &str,
    steps: usize,
) -> Result<(), Failure> {
    let engine = Engine::start(server, folder).await?;
    let store = open(url).await?;
    let scheduler = scheduler(&store, &engine.ingress())?;
    let options = WorkerOptions { concurrency: NonZeroUsize::MIN, ..WorkerOptions::default() };
    let worker = Worker::new(Arc::clone(&store), Agents)?.with_options(options);
    let worker = RestateWorker::new(worker, scheduler.clone())?;
    let port = free_port()?;
    let listener = listen(([127, 0, 0, 1], port).into())?;
    let drain = CancellationToken::new();
    let number = steps / OF_A_TURN as usize;
    let converse = async {
        registered(&engine, port).await?;
        let session = create(&*store).await?;
        let repository = SessionRepository::new(Arc::clone(&store));
        let mut turns = Vec::with_capacity(number);
        for _ in 0..number {
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
            let took = began.elapsed();
            // Each turn loads the session, with and without Restate.
            let began = Instant::now();
            repository.load(&session).await?;
            turns.push((took, began.elapsed()));
        }
        drain.cancel();
        Ok::<_, Failure>(turns)
    };
    let (counts, turns) = futures::join!(worker.run(listener, &drain), converse);
    let (counts, turns) = (counts?, turns?);
    println!("{} turns of {OF_A_TURN} steps through Restate", counts.completed);
    println!("| steps | a turn, median | loading the session | the rest of a step |");
    println!("|--:|--:|--:|--:|");
    let mut rests = Vec::new();
    for (index, some) in turns.chunks(turns.len().div_ceil(PARTS).max(1)).enumerate() {
        let turn = median(some.iter().map(|it| it.0));
        let load = median(some.iter().map(|it| it.1));
        let rest = turn.saturating_sub(load) / OF_A_TURN;
        println!("| {} | {turn:.2?} | {load:.2?} | {rest:.2?} |", (index + 1) * steps / PARTS);
        rests.push(rest);
    }
    if let [_, second, .., last] = &*rests {
        let ratio = last.as_secs_f64() / second.as_secs_f64();
        println!("without loading, a step of the last part costs {ratio:.2} of one of the second");
    }
    Ok(())
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
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
