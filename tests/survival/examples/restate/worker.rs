//! A worker process, and the scripted agent that it runs.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use loopwright_agent::{AgentDefinition, BuildError, LoopFactory};
use loopwright_core::{AgentLoop, ApprovalRequest, CallableHook, Interceptor, ToolDecision};
use loopwright_restate::{RestateScheduler, RestateWorker, listen};
use loopwright_sessions::SessionStore;
use loopwright_survival::{Failure, ledger::Ledger, open::open, script::Script};
use loopwright_worker::{Worker, WorkerOptions};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::SERVICE;

/// The steps of a session, the last of which is the answer.
pub(crate) const STEPS: u32 = 20;
/// The step before whose call the user is asked.
const ASKS_AT: u32 = 8;
/// How long each call takes.
const PACE: Duration = Duration::from_millis(50);
/// The jobs that a worker runs at once.
const AT_ONCE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// The options of a worker process, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Options {
    /// The session store.
    pub(crate) store: String,
    /// The ingress of Restate. `None` means that the worker claims jobs by itself.
    pub(crate) ingress: Option<String>,
    /// The port that all workers share.
    pub(crate) port: u16,
    /// The name of the worker. Other workers cannot see that its process has died, as if it ran on another machine.
    pub(crate) owner: String,
}

/// Runs a worker until it is killed.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let store = open(&options.store).await?;
    let agents = Agents(Script::noting(STEPS, Ledger::stdout()?));
    let of_worker = WorkerOptions { concurrency: AT_ONCE, ..WorkerOptions::default() };
    let worker = Worker::new(Arc::clone(&store), agents)?.with_options(of_worker);
    let (worker, forever) = (worker.with_owner(options.owner.clone()), CancellationToken::new());
    let Some(ingress) = &options.ingress else {
        worker.run(&forever).await;
        return Ok(());
    };
    let worker = RestateWorker::new(worker, scheduler(&store, ingress)?)?;
    let listener = listen(([127, 0, 0, 1], options.port).into())?;
    worker.run(listener, &forever).await?;
    Ok(())
}

pub(crate) fn scheduler(
    store: &Arc<dyn SessionStore>,
    ingress: &str,
) -> Result<RestateScheduler, Failure> {
    Ok(RestateScheduler::new(Arc::clone(store), ingress, &SERVICE.parse()?)?)
}

/// The scripted agent, which asks once in each session.
struct Agents(Script);

impl LoopFactory for Agents {
    fn instantiate(&self, definition: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let agent = self.0.instantiate(definition)?;
        let asks = CallableHook::new("asks").before_tool_async(async |_call, state, _cx| {
            // Workers are killed in the middle of steps.
            tokio::time::sleep(PACE).await;
            let asks = state.step_count() + 1 == ASKS_AT;
            let ask = || ToolDecision::Ask(ApprovalRequest::new("go on?", "asks"));
            Ok(if asks { ask() } else { ToolDecision::Run })
        });
        Ok(agent.with_interceptor(Interceptor::from_hook(Arc::new(asks))))
    }
}
