//! Calls that wait for a decision: a run of which several calls wait, one of them two sub-agents deep, is
//! killed at every write, before, between and after the decisions, which other processes make. Every call runs, none runs
//! twice or without a decision, and none is asked about again, but for calls that a kill interrupted: whether these took
//! effect is asked, and the user looks.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc::{Sender, channel},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, AgentLoopExt as _, BuildError, LoopFactory};
use loopwright_capabilities::child::{ChildAgent, ChildError};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, BoxError, ExecutionStatus, Hook,
    HookCx, HookPoint, HookPoints, Interceptor, OnInterrupted, PendingApproval, SideEffects,
    ToolCx, ToolDecision, ToolError, ToolOptions, ToolOutput,
    messages::{InferenceRequest, ToolCall, TurnBody},
};
use loopwright_sessions::{
    ContinueRun, DecideCall, MemoryStore, SendMessage, SessionFactory, SessionId,
    SessionRepository, SessionRuntime, SessionStore as _,
};
use loopwright_survival::{
    ledger::Entry,
    watched::{Watched, Watcher},
};
use loopwright_testing::{FakeModel, FrozenClock, MockTool, ScenarioStep};
use serde_json::{Value, json};
use tokio::runtime::Builder;

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// What outlives processes: what was done to the world, and what their users saw.
#[derive(Default)]
struct World {
    /// Writes of all processes.
    writes: AtomicU64,
    /// The sums that were paid, in order.
    paid: Mutex<Vec<u64>>,
    /// The calls that a user has begun to approve, by their addresses.
    approving: Mutex<BTreeSet<Vec<u16>>>,
    /// Those whose approval was acknowledged.
    approved: Mutex<BTreeSet<Vec<u16>>>,
    /// What must not happen.
    violations: Mutex<Vec<String>>,
}

/// The call that pays a sum.
fn address_of(sum: u64) -> Vec<u16> {
    match sum {
        0 => vec![0, 0, 0],
        sum => vec![u16::try_from(sum).unwrap()],
    }
}

impl World {
    fn pay(&self, sum: u64) {
        let address = address_of(sum);
        if sum != 2 && !self.approving.lock().unwrap().contains(&address) {
            self.violations.lock().unwrap().push(format!("{sum} was paid without a decision"));
        }
        self.paid.lock().unwrap().push(sum);
    }
}

/// Ends a process at one of the writes of all processes: from then on it does nothing.
struct Killer {
    world: Arc<World>,
    at: Option<(u64, Side)>,
    died: Sender<Ended>,
    number: AtomicU64,
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Killed,
    Done,
}

impl Killer {
    fn dies(&self, side: Side) {
        if self.at == Some((self.number.load(SeqCst), side)) {
            self.died.send(Ended::Killed).ok();
            loop {
                thread::park();
            }
        }
    }
}

impl Watcher for Killer {
    fn before(&self, _write: u64) {
        self.number.store(self.world.writes.fetch_add(1, SeqCst) + 1, SeqCst);
        self.dies(Side::Before);
    }

    fn after(&self, _write: u64, _kept: Option<Entry>) {
        self.dies(Side::After);
    }
}

/// Asks about every payment but those of sum 2.
struct Asks;

#[async_trait]
impl Hook for Asks {
    fn name(&self) -> Cow<'static, str> {
        "asks".into()
    }

    fn points(&self) -> HookPoints {
        HookPoint::BeforeTool.into()
    }

    async fn before_tool(
        &self,
        call: &ToolCall,
        _: &AgentState,
        _: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        let is_free = &*call.name != "pay" || call.arguments.contains('2');
        let ask = || ApprovalRequest { text: "pay?".into(), source: "asks".into() };
        Ok(if is_free { ToolDecision::Run } else { ToolDecision::Ask(ask()) })
    }
}

struct Agent(Arc<World>);

impl LoopFactory for Agent {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let world = Arc::clone(&self.0);
        let pay = MockTool::new("pay", "", move |arguments: Value| {
            world.pay(arguments["sum"].as_u64().unwrap_or_default());
            Ok::<_, BoxError>("paid")
        });
        let options =
            ToolOptions { side_effects: SideEffects::AtMostOnce, ..ToolOptions::default() };
        let agent = AgentLoop::simple(FakeModel::from_fn(|request| answer(request).to_response()))
            .with_tool(spawning("outer", "helper"))
            .with_tool(spawning("inner", "payer"))
            .with_tool(pay.with_options(options));
        Ok(agent.with_interceptor(Interceptor::from_hook(Arc::new(Asks))))
    }
}

/// Answers as a function of what an agent was asked and has done: asked again, it answers the same.
fn answer(request: &InferenceRequest) -> ScenarioStep {
    let said = request.prompt.stable().next().map(|it| it.message().text()).unwrap_or_default();
    let turns = request.prompt.turns.iter();
    let calls = turns.filter(|it| matches!(it.body(), TurnBody::ToolExchange(_))).count();
    match (said.as_str(), calls) {
        ("go", 0) => ScenarioStep::tool_calls([
            ("outer", json!({})),
            ("pay", json!({ "sum": 1 })),
            ("pay", json!({ "sum": 2 })),
        ]),
        ("outer", 0) => ScenarioStep::tool_call("inner", json!({})),
        ("inner", 0) => ScenarioStep::tool_call("pay", json!({ "sum": 0 })),
        (said, _) => ScenarioStep::final_answer(format!("{said} is done")),
    }
}

fn spawning(tool: &'static str, child: &'static str) -> MockTool {
    let spawn = MockTool::with_cx(tool, "", move |_, cx| Box::pin(spawn(tool, child, cx)));
    let side_effects = SideEffects::Resumable;
    spawn.with_options(ToolOptions { side_effects, ..ToolOptions::default() })
}

async fn spawn(
    tool: &'static str,
    child: &'static str,
    cx: &ToolCx<'_>,
) -> Result<ToolOutput, ToolError> {
    let ended = ChildAgent::of(cx, child).run(tool, |state| state.with_user_message(tool)).await;
    let ended = ended.map_err(ChildError::into_tool_error)?;
    let answer = ended.answer().map_err(ChildError::into_tool_error)?;
    Ok(ended.to_output(answer.to_text()))
}

/// What a process does.
#[derive(Clone, Debug)]
enum Work {
    Create,
    Send,
    Decide(Vec<u16>, ApprovalDecision),
    Continue,
}

/// One run with all its processes, one of which is killed.
struct Case {
    store: Arc<MemoryStore>,
    id: SessionId,
    world: Arc<World>,
    kill: Option<(u64, Side)>,
    /// Whether the run continues after each decision, or after the last one.
    continues_between: bool,
    processes: u64,
}

impl Case {
    /// Does one thing in a process of its own.
    fn process(&mut self, work: &Work) -> Ended {
        self.processes += 1;
        let (killed, ended) = channel();
        let done = killed.clone();
        let (store, id, world) =
            (Arc::clone(&self.store), self.id.clone(), Arc::clone(&self.world));
        let (kill, number, work) = (self.kill, self.processes, work.clone());
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let kills = Killer {
                    world: Arc::clone(&world),
                    at: kill,
                    died: killed,
                    number: AtomicU64::new(0),
                };
                let watched = Watched::new(store, kills);
                let clock = FrozenClock::new();
                // The leases of those before it have ended.
                clock.advance(Duration::from_hours(24 * number));
                let runtime = SessionRuntime::new(Arc::new(watched), Agent(Arc::clone(&world)))
                    .with_env(clock.env(number))
                    .with_interrupted(OnInterrupted::RequireApproval)
                    .with_owner(format!("process {number}"));
                perform(&runtime, &id, &work).await;
            });
            done.send(Ended::Done).ok();
        });
        ended.recv_timeout(Duration::from_mins(1)).unwrap()
    }

    fn state(&self) -> Option<AgentState> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Arc::clone(&self.store);
            store.header(&self.id).await.unwrap()?;
            let session = SessionRepository::new(store).load(&self.id).await.unwrap();
            Some(session.state().clone())
        })
    }

    /// What is to be done next, as a user would.
    fn next(&self, has_continued: bool) -> Option<Work> {
        let Some(state) = self.state() else { return Some(Work::Create) };
        let pending = state.pending();
        let waiting = pending.iter().map(|it| (it.address(), self.decision(it)));
        let waiting: Vec<_> = waiting.collect();
        let approved = self.world.approved.lock().unwrap().clone();
        for (address, _) in waiting.iter().filter(|(address, _)| approved.contains(address)) {
            let is_interrupted =
                pending.iter().any(|it| it.address() == *address && is_interrupted(it));
            if !is_interrupted {
                let told = format!("{address:?} waits again");
                self.world.violations.lock().unwrap().push(told);
            }
        }
        match state.status() {
            ExecutionStatus::Pending => Some(Work::Send),
            ExecutionStatus::Completed => None,
            ExecutionStatus::Paused if self.continues_between && !has_continued => {
                Some(Work::Continue)
            }
            ExecutionStatus::Paused => {
                let first = waiting.into_iter().next();
                Some(first.map_or(Work::Continue, |(address, it)| Work::Decide(address, it)))
            }
            _ => Some(Work::Continue),
        }
    }

    /// Returns what was paid, sorted.
    fn paid(&self) -> Vec<u64> {
        let mut paid = self.world.paid.lock().unwrap().clone();
        paid.sort_unstable();
        paid
    }

    /// Approves a call. One that was interrupted is made again only if it had no effect.
    fn decision(&self, pending: &PendingApproval<'_>) -> ApprovalDecision {
        let has_paid = || {
            let paid = self.world.paid.lock().unwrap();
            paid.iter().any(|sum| pending.call.arguments.contains(&sum.to_string()))
        };
        if is_interrupted(pending) && has_paid() {
            ApprovalDecision::Answer(ToolOutput::text("paid"))
        } else {
            ApprovalDecision::Approve
        }
    }

    /// Lets processes work until the run has its answer. Returns how many writes that took.
    fn run(&mut self) -> u64 {
        let mut has_continued = false;
        while let Some(work) = self.next(has_continued) {
            assert!(self.processes < 40, "{work:?}: {:?}", self.state());
            if let Work::Decide(address, _) = &work {
                self.world.approving.lock().unwrap().insert(address.clone());
            }
            let ended = self.process(&work);
            if let (Work::Decide(address, _), Ended::Done) = (&work, ended) {
                self.world.approved.lock().unwrap().insert(address.clone());
            }
            has_continued = matches!(work, Work::Continue);
        }
        let state = self.state().unwrap();
        assert_eq!(state.text(), "go is done", "{:?}", self.kill);
        assert_eq!(*self.world.violations.lock().unwrap(), [""; 0], "{:?}", self.kill);
        self.world.writes.load(SeqCst)
    }
}

/// Returns `true` if a call waits because it was interrupted.
fn is_interrupted(pending: &PendingApproval<'_>) -> bool {
    pending.question.text.starts_with("the tool was interrupted")
}

async fn perform(runtime: &SessionRuntime, id: &SessionId, work: &Work) {
    match work {
        Work::Create => {
            let definition = AgentDefinition::new("payer", "pays", "You pay.");
            let now = loopwright_core::Clock::now(&FrozenClock::new());
            let session =
                SessionFactory::new().create_from(definition, AgentState::new(), id.clone(), now);
            runtime.create(session).await.unwrap();
        }
        Work::Send => {
            runtime.execute(id, &SendMessage::text("go")).await.unwrap();
        }
        Work::Decide(address, resolution) => {
            let decide = DecideCall { path: Some(address.clone()), resolution: resolution.clone() };
            runtime.execute(id, &decide).await.unwrap();
        }
        Work::Continue => {
            runtime.execute(id, &ContinueRun).await.unwrap();
        }
    }
}

fn case(
    store: &Arc<MemoryStore>,
    name: &str,
    kill: Option<(u64, Side)>,
    continues_between: bool,
) -> Case {
    let id = SessionId::new(name).unwrap();
    let world = Arc::default();
    Case { store: Arc::clone(store), id, world, kill, continues_between, processes: 0 }
}

fn killed_at_every_write(store: &Arc<MemoryStore>) {
    for continues_between in [false, true] {
        let name = |kill: &str| format!("{continues_between}-{kill}");
        let mut whole = case(store, &name("whole"), None, continues_between);
        let writes = whole.run();
        assert_eq!((whole.paid(), writes > 20), (vec![0, 1, 2], true), "{writes}");
        for write in 1..=writes {
            for side in [Side::Before, Side::After] {
                let name = name(&format!("{side:?}-{write}").to_lowercase());
                let mut case = case(store, &name, Some((write, side)), continues_between);
                case.run();
                assert_eq!(case.paid(), [0, 1, 2], "{write} {side:?}");
            }
        }
        println!("killed before and after each of {writes} writes");
    }
}

#[test]
fn calls_in_memory_that_wait_survive_a_kill_at_every_write() {
    killed_at_every_write(&Arc::new(MemoryStore::new()));
}
