//! Every ending of a run before its answer, every way to take it up again, on every store: no finished call is
//! made again, and the model is shown everything that came before.

use std::{
    io::{self, ErrorKind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use loopwright_agent::{AgentDefinition, AgentLoopExt as _, BuildError, LoopFactory};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, BoxError, Budget, ChatModel, Delta,
    EventEnvelope, EventSink, ExecutionStatus, Flow, Hook, HookCx, HookPoint, HookPoints, InferCx,
    Interceptor, ModelError, ModelErrorKind, RunOptions, SideEffects, StateEdit, StopSignal,
    ToolDecision, ToolOptions, ToolOutput,
    messages::{
        Cost, InferenceRequest, InferenceResponse, ModelOrigin, Role, ToolCall, TurnBody, Usage,
    },
    tool_fn_with,
};
use loopwright_models::{Quirks, RequestEncoder, WireApi};
use loopwright_sessions::{
    ChangeBudget, ContinueRun, DecideCall, Job, LeaseRequest, SendMessage, SessionFactory,
    SessionId, SessionRuntime, SessionStore, StoreError,
};
use loopwright_survival::{
    clock::SlowClock,
    ledger::Entry,
    open::open,
    watched::{Watched, Watcher},
};
use loopwright_testing::{FrozenClock, ScenarioStep, validate};
use loopwright_worker::{OnIdle, Worker, WorkerOptions};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use crate::places::{Place, on_every_store};

/// How many calls come before the answer.
const CALLS: usize = 4;
/// After how many calls a run ends.
const TROUBLE: usize = 2;

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Answer,
    Steps,
    Tokens,
    Cost,
    Time,
    Stop,
    Cancel,
    CancelInAnswer,
    ProviderError,
    BrokenStream,
    ContextLength,
    Question,
    LeaseLost,
    /// The disk is full when the model has answered.
    FullDisk,
    /// The disk is full when a call has taken effect.
    FullDiskAfterCall,
    /// The output of a listener is closed, and the listener fails from then on.
    FailingListener,
    /// The output of a listener is closed, and the listener cancels the run.
    ClosedOutput,
}

impl Ending {
    const ALL: [Self; 17] = [
        Self::Answer,
        Self::Steps,
        Self::Tokens,
        Self::Cost,
        Self::Time,
        Self::Stop,
        Self::Cancel,
        Self::CancelInAnswer,
        Self::ProviderError,
        Self::BrokenStream,
        Self::ContextLength,
        Self::Question,
        Self::LeaseLost,
        Self::FullDisk,
        Self::FullDiskAfterCall,
        Self::FailingListener,
        Self::ClosedOutput,
    ];

    fn budget(self) -> Budget {
        match self {
            Self::Steps => Budget { steps: Some(2), ..Budget::default() },
            Self::Tokens => Budget { tokens: Some(20), ..Budget::default() },
            Self::Cost => Budget { cost: Some(Cost::from_dollars(0.02)), ..Budget::default() },
            Self::Time => Budget { time: Some(Duration::from_secs(20)), ..Budget::default() },
            _ => Budget::default(),
        }
    }

    /// Returns whether the run ends with an error of the store.
    fn is_error(self) -> bool {
        matches!(self, Self::LeaseLost | Self::FullDisk | Self::FullDiskAfterCall)
    }

    /// Returns the status that the run ends with.
    fn status(self) -> &'static str {
        match self {
            Self::Answer | Self::FailingListener => "completed",
            Self::ProviderError | Self::BrokenStream | Self::ContextLength => "failed",
            Self::Question => "paused",
            _ => "stopped",
        }
    }
}

/// How it is taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Continue,
    Message,
    AnotherProcess,
    Fork,
    ContinueJob,
    MessageJob,
    Library,
}

impl Way {
    const ALL: [Self; 7] = [
        Self::Continue,
        Self::Message,
        Self::AnotherProcess,
        Self::Fork,
        Self::ContinueJob,
        Self::MessageJob,
        Self::Library,
    ];
}

/// What model, tool and hook share, over all runs of a session.
struct World {
    ending: Ending,
    is_over: AtomicBool,
    clock: FrozenClock,
    cancel: CancellationToken,
    made: Mutex<Vec<usize>>,
    requests: Mutex<Vec<InferenceRequest>>,
    store: Arc<dyn SessionStore>,
    session: SessionId,
    disk: Disk,
}

/// A disk that may be full.
#[derive(Clone, Default)]
struct Disk(Arc<AtomicBool>);

impl Disk {
    fn set_full(&self, is_full: bool) {
        self.0.store(is_full, SeqCst);
    }
}

impl Watcher for Disk {
    fn before(&self, _write: u64) {}

    fn after(&self, _write: u64, _kept: Option<Entry>) {}

    fn refuses_append(&self) -> Option<StoreError> {
        let full = || StoreError::Unavailable(io::Error::from(ErrorKind::StorageFull).into());
        self.0.load(SeqCst).then(full)
    }
}

impl World {
    /// Returns `true` once, when the run has come to where it ends.
    fn ends(&self, ending: Ending, exchanges: usize) -> bool {
        self.ending == ending && exchanges == TROUBLE && !self.is_over.swap(true, SeqCst)
    }

    async fn take_lease(&self) {
        let clock = SlowClock::new(0);
        let now = loopwright_core::Clock::now(&clock);
        let lasts = Duration::from_secs(30);
        let claim = LeaseRequest { owner: "thief", replaces: Some("runner"), now, ttl: lasts };
        let lease = self.store.lease(&self.session, claim).await.unwrap();
        self.store.release(&lease).await.unwrap();
    }
}

/// Calls the tool until it sees that it has called it often enough, and then answers.
struct Model(Arc<World>);

#[async_trait]
impl ChatModel for Model {
    async fn infer(
        &self,
        request: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let world = &self.0;
        world.requests.lock().unwrap().push(request.clone());
        let exchanges = exchanges(request);
        let fail = |kind| Err(ModelError::new(kind, "no"));
        if world.ends(Ending::Cancel, exchanges) {
            world.cancel.cancel();
            return fail(ModelErrorKind::Cancelled);
        }
        if world.ends(Ending::CancelInAnswer, exchanges) {
            cx.deltas.push(Delta::Usage(Usage::new(7, 0)));
            cx.deltas.push(Delta::Text("As far as"));
            world.cancel.cancel();
            return fail(ModelErrorKind::Cancelled);
        }
        if world.ends(Ending::ProviderError, exchanges) {
            return fail(ModelErrorKind::InvalidRequest);
        }
        if world.ends(Ending::BrokenStream, exchanges) {
            cx.deltas.push(Delta::Text("As far as"));
            return fail(ModelErrorKind::Protocol);
        }
        if world.ends(Ending::ContextLength, exchanges) {
            return fail(ModelErrorKind::ContextLength);
        }
        if world.ends(Ending::LeaseLost, exchanges) {
            world.take_lease().await;
        }
        if world.ends(Ending::FullDisk, exchanges) {
            world.disk.set_full(true);
        }
        let step = match exchanges {
            CALLS.. => ScenarioStep::final_answer("done"),
            number => ScenarioStep::tool_call("put", json!({ "number": number })),
        };
        let cost = Cost::from_dollars(0.01);
        step.with_usage(Usage::new(9, 1)).with_cost(cost).to_response()
    }
}

fn exchanges(request: &InferenceRequest) -> usize {
    let turns = request.prompt.turns.iter();
    turns.filter(|turn| matches!(turn.body(), TurnBody::ToolExchange(_))).count()
}

#[derive(Deserialize, JsonSchema)]
struct Put {
    number: usize,
}

/// Stops, or asks, when it is time to.
struct Watch(Arc<World>);

#[async_trait]
impl Hook for Watch {
    fn points(&self) -> HookPoints {
        HookPoint::AfterStep | HookPoint::BeforeTool
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        let steps = state.total_steps();
        let ends = self.0.ends(Ending::Stop, usize::try_from(steps)?);
        Ok(if ends { Flow::Stop(StopSignal::requested("test", "enough")) } else { Flow::Continue })
    }

    async fn before_tool(
        &self,
        _call: &ToolCall,
        state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        let steps = usize::try_from(state.total_steps())?;
        let question = ApprovalRequest::new("may it?", "test");
        let asks = self.0.ends(Ending::Question, steps);
        Ok(if asks { ToolDecision::Ask(question) } else { ToolDecision::Run })
    }
}

/// Makes the agent of a world.
#[derive(Clone)]
struct Agent(Arc<World>);

impl Agent {
    fn build(&self) -> AgentLoop {
        let world = Arc::clone(&self.0);
        let put = tool_fn_with("put", "Puts a number.", move |put: Put, _| {
            let world = Arc::clone(&world);
            Box::pin(async move {
                world.made.lock().unwrap().push(put.number);
                if world.ends(Ending::FullDiskAfterCall, put.number) {
                    world.disk.set_full(true);
                }
                world.clock.advance(Duration::from_secs(10));
                Ok(format!("number {}", put.number))
            })
        });
        let put = put.with_options(ToolOptions {
            side_effects: SideEffects::AtMostOnce,
            ..ToolOptions::default()
        });
        let watch = Interceptor::from_hook(Arc::new(Watch(Arc::clone(&self.0))));
        AgentLoop::simple(Model(Arc::clone(&self.0))).with_tool(put).with_interceptor(watch)
    }
}

impl LoopFactory for Agent {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        Ok(self.build())
    }
}

/// A listener whose output is closed once two calls have been made.
struct Listener(Arc<World>);

impl EventSink for Listener {
    fn emit(&self, _envelope: &EventEnvelope) {
        let world = &self.0;
        let made = world.made.lock().unwrap().len();
        if world.ends(Ending::ClosedOutput, made) {
            world.cancel.cancel();
        }
        let is_closed = world.ending == Ending::FailingListener && made >= TROUBLE;
        assert!(!is_closed, "the output is closed");
    }
}

/// A session whose run ends in some way.
struct Case<'a> {
    url: &'a str,
    store: Arc<dyn SessionStore>,
    id: SessionId,
    world: Arc<World>,
}

impl<'a> Case<'a> {
    fn new(url: &'a str, store: &Arc<dyn SessionStore>, ending: Ending, way: Way) -> Self {
        let id = SessionId::new(format!("{ending:?}-{way:?}").to_lowercase()).unwrap();
        let world = World {
            ending,
            is_over: AtomicBool::new(false),
            clock: FrozenClock::manual(),
            cancel: CancellationToken::new(),
            made: Mutex::default(),
            requests: Mutex::default(),
            store: Arc::clone(store),
            session: id.clone(),
            disk: Disk::default(),
        };
        let store = Arc::new(Watched::new(Arc::clone(store), world.disk.clone()));
        Self { url, store, id, world: Arc::new(world) }
    }

    fn agent(&self) -> Agent {
        Agent(Arc::clone(&self.world))
    }

    fn runtime(&self) -> SessionRuntime {
        let runtime = SessionRuntime::new(Arc::clone(&self.store), self.agent());
        let runtime = runtime.with_owner("runner");
        let runtime = runtime.with_event_sink(Arc::new(Listener(Arc::clone(&self.world))));
        if self.world.ending == Ending::Time {
            return runtime.with_env(self.world.clock.env(0));
        }
        runtime
    }

    async fn state(&self) -> AgentState {
        self.runtime().session(&self.id).await.unwrap().state().clone()
    }

    /// Runs to the ending.
    async fn end(&self) {
        let now = loopwright_core::Clock::now(&SlowClock::new(0));
        let definition = AgentDefinition::new("resumed", "resumes", "You resume.");
        let state = AgentState::new().with_budget(self.world.ending.budget());
        let session = SessionFactory::new().create_from(definition, state, self.id.clone(), now);
        self.runtime().create(session).await.unwrap();
        let runtime = self.runtime();
        let ended =
            runtime.execute_until(&self.id, &SendMessage::text("go"), &self.world.cancel).await;
        self.world.disk.set_full(false);
        if self.world.ending.is_error() {
            assert!(ended.is_err(), "{:?}: {ended:?}", self.id);
            return;
        }
        let status = ended.unwrap().state().status().as_str();
        assert_eq!(status, self.world.ending.status(), "{:?}", self.id);
    }

    /// Takes it up again, and returns the state it comes to.
    async fn resume(&mut self, way: Way) -> AgentState {
        let runtime = self.runtime();
        if self.world.ending == Ending::Question {
            let resolution = ApprovalDecision::Approve;
            runtime.execute(&self.id, &DecideCall { path: None, resolution }).await.unwrap();
        }
        let takes_message = matches!(way, Way::Message | Way::MessageJob);
        if self.world.ending.budget() != Budget::default() && !takes_message {
            let unlimited = ChangeBudget(Budget::default());
            runtime.execute(&self.id, &unlimited).await.unwrap();
        }
        match way {
            Way::Continue => drop(runtime.execute(&self.id, &ContinueRun).await.unwrap()),
            // A message renews a budget, and does not raise it.
            Way::Message => {
                for _ in 0..3 {
                    let message = SendMessage::text("and now?");
                    let done = runtime.execute(&self.id, &message).await.unwrap();
                    if *done.state().status() == ExecutionStatus::Completed {
                        break;
                    }
                }
            }
            Way::AnotherProcess => {
                self.store = open(self.url).await.unwrap();
                let runtime = self.runtime().with_owner("another");
                drop(runtime.execute(&self.id, &ContinueRun).await.unwrap());
            }
            Way::Fork => {
                let fork = runtime.fork(&self.id, None, None).await.unwrap();
                self.id = fork.id;
                drop(runtime.execute(&self.id, &ContinueRun).await.unwrap());
            }
            Way::ContinueJob => self.work(Job::resume(self.id.clone())).await,
            Way::MessageJob => {
                for _ in 0..3 {
                    let message = loopwright_core::messages::Message::user("and now?");
                    self.work(Job::send_message(self.id.clone(), message)).await;
                    if *self.state().await.status() == ExecutionStatus::Completed {
                        break;
                    }
                }
            }
            Way::Library => {
                let state = self.state().await;
                if state.is_resumable() {
                    let agent = self.agent().build();
                    return agent.start(state, RunOptions::default()).finish().await;
                }
            }
        }
        self.state().await
    }

    async fn work(&self, job: Job) {
        self.work_once(job).await;
        if self.state().await.pending().is_empty() {
            return;
        }
        // A worker leaves a call with an unknown outcome to the user, who knows here that it took effect.
        assert_eq!(self.world.ending, Ending::FullDiskAfterCall, "{:?}", self.id);
        let resolution = ApprovalDecision::Answer(ToolOutput::text(format!("number {TROUBLE}")));
        self.runtime().execute(&self.id, &DecideCall { path: None, resolution }).await.unwrap();
        self.work_once(Job::resume(self.id.clone())).await;
    }

    async fn work_once(&self, job: Job) {
        let now = loopwright_core::Clock::now(&SlowClock::new(0));
        self.store.jobs().unwrap().push(&job, now).await.unwrap();
        let worker = Worker::new(Arc::clone(&self.store), self.agent()).unwrap();
        let looks = Duration::from_millis(10);
        let options = WorkerOptions {
            on_idle: OnIdle::Exit,
            poll_interval: looks,
            ..WorkerOptions::default()
        };
        worker.with_options(options).run(&CancellationToken::new()).await;
    }
}

/// Returns what is wrong with a session that was taken up again.
fn problems(case: &Case<'_>, state: &AgentState) -> Vec<String> {
    let mut problems = Vec::new();
    let made = case.world.made.lock().unwrap().clone();
    if made != (0..CALLS).collect::<Vec<_>>() {
        problems.push(format!("calls made: {made:?}"));
    }
    if (*state.status() != ExecutionStatus::Completed) || state.text() != "done" {
        problems.push(state.explain_stop());
    }
    let executions = state.execution_count();
    let is_new_turn = matches!(case.world.ending, Ending::Answer | Ending::FailingListener);
    if executions > 1 + u32::from(is_new_turn) {
        problems.push(format!("{executions} executions"));
    }
    if let Err(error) = validate(state.transcript()) {
        problems.push(format!("{error:?}"));
    }
    let roles: Vec<Role> = state.transcript().iter().map(|it| it.message().role()).collect();
    if roles.windows(2).any(|pair| pair == [Role::User, Role::User]) {
        problems.push(format!("two user messages in a row: {roles:?}"));
    }
    let texts: Vec<String> = state.transcript().iter().map(|it| it.message().text()).collect();
    let is_kept = texts.iter().any(|text| text.starts_with("As far as"));
    if case.world.ending == Ending::CancelInAnswer
        && !(is_kept && state.total_spent().usage.input > 9 * 5)
    {
        problems.push(format!("the interrupted answer is lost: {texts:?}"));
    }
    let requests = case.world.requests.lock().unwrap();
    for wire in WireApi::ALL {
        problems.extend(broken_prefix(*wire, &requests));
    }
    problems
}

/// Finds a request that does not begin with the one before it.
fn broken_prefix(wire: WireApi, requests: &[InferenceRequest]) -> Option<String> {
    let origin = ModelOrigin { provider: "p".into(), model: "m".into(), wire: wire.name().into() };
    let encoder = RequestEncoder::new(wire, Arc::new(origin), Quirks::default());
    let bodies: Vec<Vec<u8>> = requests.iter().map(|it| encoder.encode(it)).collect();
    bodies.windows(2).enumerate().find_map(|(at, pair)| {
        let common = pair[0].iter().zip(&pair[1]).take_while(|(one, other)| one == other).count();
        // What closes the list of turns, and what follows it, comes after the next turn.
        let turns = requests[at].prompt.turns.len();
        let whole = requests[at + 1].prompt.turns.iter().take(turns);
        let is_same = requests[at].prompt.turns.iter().eq(whole);
        (!is_same || common * 10 < pair[0].len() * 9).then(|| {
            let (one, other) = (pair[0].as_slice(), pair[1].as_slice());
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            format!("{wire}: request {} is\n{}\nafter\n{}", at + 1, text(other), text(one))
        })
    })
}

fn every_ending_and_way(url: &str) -> usize {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(open(url)).unwrap();
    let (mut tried, mut found) = (0, Vec::new());
    for ending in Ending::ALL {
        for way in Way::ALL {
            let is_shared = way != Way::AnotherProcess || !url.starts_with("memory");
            let is_job = matches!(way, Way::ContinueJob | Way::MessageJob);
            if !is_shared || is_job && store.jobs().is_none() {
                continue;
            }
            let mut case = Case::new(url, &store, ending, way);
            let state = runtime.block_on(async {
                case.end().await;
                case.resume(way).await
            });
            tried += 1;
            let problems = problems(&case, &state);
            found.extend(problems.iter().map(|it| format!("{ending:?}, {way:?}: {it}")));
        }
    }
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.join("\n"));
    tried
}

fn on(place: &Place) {
    println!("{} pairs of an ending and a way on", every_ending_and_way(place.url()));
}

on_every_store!(on:
    every_ending_is_resumed_in_every_way_in_files,
    every_ending_is_resumed_in_every_way_in_sqlite,
    every_ending_is_resumed_in_every_way_in_postgres);

#[test]
fn every_ending_is_resumed_in_every_way_in_memory() {
    assert!(every_ending_and_way("memory:") > 50);
}
