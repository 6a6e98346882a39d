//! Sub-agents of sessions, on every store: a run that ends in the middle of one is continued, forked and answered, and
//! nothing that is finished is repeated.

use std::{
    io::{self, ErrorKind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use loopwright_agent::{AgentDefinition, AgentLoopExt as _, BuildError, LoopFactory};
use loopwright_capabilities::child::{ChildAgent, ChildError};
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ExecutionStatus, OnInterrupted, PendingApproval,
    SideEffects, ToolCx, ToolError, ToolOptions, ToolOutput, ToolPause,
    messages::{InferenceRequest, TurnBody},
};
use loopwright_sessions::{
    AgentSession, ContinueRun, DecideCall, LeaseRequest, Owner, SendMessage, SessionError,
    SessionFactory, SessionHeader, SessionId, SessionQuery, SessionRelation, SessionRuntime,
    SessionStore, StoreError,
};
use loopwright_survival::{
    clock::SlowClock,
    ledger::Entry,
    open::open,
    watched::{Watched, Watcher},
};
use loopwright_testing::{FakeModel, MockTool, ScenarioStep};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::places::{Place, on_every_store};

/// What the innermost agent does besides paying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Task {
    /// Nothing.
    #[default]
    Pay,
    /// It asks for a color.
    Ask,
    /// It looks who may write its session.
    Look,
    /// Nothing, and the whole work is done twice.
    Twice,
}

/// What agents and tools share, over all runs.
#[derive(Default)]
struct World {
    task: Mutex<Task>,
    /// The sums that were paid.
    paid: Mutex<Vec<u64>>,
    /// After which payment the disk is full.
    full_after: Mutex<Option<u64>>,
    is_full: AtomicBool,
    /// What another process that says something to the innermost agent is told.
    refused: Mutex<Option<StoreError>>,
    runtime: Mutex<Option<SessionRuntime>>,
    store: Mutex<Option<Arc<dyn SessionStore>>>,
}

/// A disk that may be full.
struct Disk(Arc<World>);

impl Watcher for Disk {
    fn before(&self, _write: u64) {}

    fn after(&self, _write: u64, _kept: Option<Entry>) {}

    fn refuses_append(&self) -> Option<StoreError> {
        let full = || StoreError::Unavailable(io::Error::from(ErrorKind::StorageFull).into());
        self.0.is_full.load(SeqCst).then(full)
    }
}

/// An agent whose sub-agent has a sub-agent that pays three times.
struct Agent(Arc<World>);

impl LoopFactory for Agent {
    fn instantiate(&self, _: &AgentDefinition) -> Result<AgentLoop, BuildError> {
        let world = Arc::clone(&self.0);
        let model = FakeModel::from_fn(move |request| answer(&world, request).to_response());
        let agent = AgentLoop::simple(model)
            .with_tool(spawning("outer", "helper"))
            .with_tool(spawning("inner", "payer"));
        Ok(agent.with_tool(paying(&self.0)).with_tool(asking()).with_tool(looking(&self.0)))
    }
}

/// Answers as a function of what an agent was asked and has done: asked again, it answers the same.
fn answer(world: &World, request: &InferenceRequest) -> ScenarioStep {
    let said = request.prompt.stable().next().map(|it| it.message().text()).unwrap_or_default();
    let turns = request.prompt.turns.iter();
    let calls = turns.filter(|it| matches!(it.body(), TurnBody::ToolExchange(_))).count();
    match (said.as_str(), calls) {
        ("go", 0) => ScenarioStep::tool_call("outer", json!({})),
        ("go", 1) if *world.task.lock().unwrap() == Task::Twice => {
            ScenarioStep::tool_call("outer", json!({}))
        }
        ("outer", 0) => ScenarioStep::tool_call("inner", json!({})),
        ("inner", 0) => ScenarioStep::tool_call("pay", json!({ "sum": 0 })),
        ("inner", 1) => match *world.task.lock().unwrap() {
            Task::Pay | Task::Twice => ScenarioStep::tool_call("pay", json!({ "sum": 1 })),
            Task::Ask => ScenarioStep::tool_call("ask", json!({})),
            Task::Look => ScenarioStep::tool_call("look", json!({})),
        },
        ("inner", 2) => ScenarioStep::tool_call("pay", json!({ "sum": 2 })),
        (said, _) => ScenarioStep::final_answer(format!("{said} is done")),
    }
}

fn once(tool: MockTool) -> MockTool {
    let side_effects = SideEffects::AtMostOnce;
    tool.with_options(ToolOptions { side_effects, ..ToolOptions::default() })
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

fn paying(world: &Arc<World>) -> MockTool {
    let world = Arc::clone(world);
    once(MockTool::new("pay", "", move |arguments: Value| {
        let sum = arguments["sum"].as_u64().unwrap_or_default();
        world.paid.lock().unwrap().push(sum);
        if *world.full_after.lock().unwrap() == Some(sum) {
            world.is_full.store(true, SeqCst);
        }
        Ok::<_, loopwright_core::BoxError>(format!("paid {sum}"))
    }))
}

fn asking() -> MockTool {
    MockTool::with_cx("ask", "", |_, cx| {
        let answer = cx.answer().cloned();
        Box::pin(async move {
            let schema = json!({ "enum": ["red", "blue"] });
            let pause = || ToolPause::ask("Which color?").with_schema(schema);
            answer.map(ToolOutput::json).ok_or_else(|| pause().into())
        })
    })
}

/// Says something to the session of the agent that calls it, as another process does.
fn looking(world: &Arc<World>) -> MockTool {
    let world = Arc::clone(world);
    MockTool::with_cx("look", "", move |_, _| {
        let world = Arc::clone(&world);
        Box::pin(async move {
            let runtime = world.runtime.lock().unwrap().clone().unwrap();
            let store = world.store.lock().unwrap().clone().unwrap();
            let payer = subagents(&*store, &id("outer")).await.remove(0);
            let payer = subagents(&*store, &payer.id).await.remove(0);
            let steer = SendMessage::text("hurry").steer_if_busy();
            match runtime.execute(&payer.id, &steer).await {
                Err(SessionError::Store(error)) => *world.refused.lock().unwrap() = Some(error),
                other => panic!("it was not refused: {other:?}"),
            }
            Ok(ToolOutput::text("looked"))
        })
    })
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

async fn subagents(store: &dyn SessionStore, of: &SessionId) -> Vec<SessionHeader> {
    let mut query = SessionQuery::first(9);
    query.kinship = SessionRelation::ChildOf(of.clone());
    let mut found = store.list(&query).await.unwrap().sessions;
    found.retain(|it| it.call.is_some());
    found
}

/// A session whose agent has sub-agents.
struct Case<'a> {
    url: &'a str,
    world: Arc<World>,
}

impl<'a> Case<'a> {
    fn new(place: &'a Place, task: Task, full_after: Option<u64>) -> Self {
        let world = World {
            task: Mutex::new(task),
            full_after: Mutex::new(full_after),
            ..World::default()
        };
        Self { url: place.url(), world: Arc::new(world) }
    }

    async fn store(&self) -> Arc<dyn SessionStore> {
        open(self.url).await.unwrap()
    }

    /// Returns the runtime of a process that has just opened the store.
    async fn process(&self) -> SessionRuntime {
        let store = Watched::new(self.store().await, Disk(Arc::clone(&self.world)));
        SessionRuntime::new(Arc::new(store), Agent(Arc::clone(&self.world)))
    }

    /// Runs a session until it ends or waits.
    async fn begin(&self, runtime: &SessionRuntime) -> Result<AgentSession, SessionError> {
        let definition = AgentDefinition::new("payer", "pays", "You pay.");
        let now = loopwright_core::Clock::now(&SlowClock::new(0));
        let session =
            SessionFactory::new().create_from(definition, AgentState::new(), id("outer"), now);
        runtime.create(session).await?;
        let ended = runtime.execute(&id("outer"), &SendMessage::text("go")).await;
        self.world.is_full.store(false, SeqCst);
        ended
    }

    fn paid(&self) -> Vec<u64> {
        self.world.paid.lock().unwrap().clone()
    }
}

fn block_on(work: impl Future<Output = ()>) {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work);
}

fn what_waits_two_deep_is_answered_in_another_process(place: &Place) {
    block_on(async {
        let case = Case::new(place, Task::Ask, None);
        let paused = case.begin(&case.process().await).await.unwrap();
        assert_eq!(paused.state().status(), &ExecutionStatus::Paused);
        let next = case.process().await;
        let path = Some(vec![0, 0, 0]);
        let reply = |color: &str| {
            let resolution = ApprovalDecision::Reply(color.into());
            DecideCall { path: path.clone(), resolution }
        };
        let refused = next.execute(&id("outer"), &reply("green")).await;
        assert!(matches!(refused, Err(SessionError::Decision(_))), "{refused:?}");
        let elsewhere =
            DecideCall { path: Some(vec![0, 1]), resolution: ApprovalDecision::Approve };
        let refused = next.execute(&id("outer"), &elsewhere).await.unwrap_err().to_string();
        assert_eq!(refused, "call 0.1 is not waiting for a decision; waiting calls: 0.0.0");
        next.execute(&id("outer"), &reply("red")).await.unwrap();
        let last = case.process().await;
        let done = last.execute(&id("outer"), &ContinueRun).await.unwrap();
        assert_eq!((done.state().text(), case.paid()), ("go is done".to_owned(), vec![0, 2]));
    });
}

on_every_store!(what_waits_two_deep_is_answered_in_another_process:
    what_waits_two_deep_in_files_is_answered_in_another_process,
    what_waits_two_deep_in_sqlite_is_answered_in_another_process,
    what_waits_two_deep_in_postgres_is_answered_in_another_process);

/// The payment on whose outcome the disk was full is never made again: its outcome is unknown.
fn a_fork_keeps_what_sub_agents_finished(place: &Place) {
    block_on(async {
        let case = Case::new(place, Task::Pay, Some(1));
        let runtime = case.process().await;
        assert!(case.begin(&runtime).await.is_err());
        assert_eq!(case.paid(), [0, 1]);
        let fork = runtime.fork(&id("outer"), None, Some(id("fork"))).await.unwrap();
        let copied = runtime.fork(&fork.id, None, Some(id("copy"))).await.unwrap();
        let store = case.store().await;
        for (session, paid) in [
            (fork.id, vec![0, 1, 2]),
            (id("outer"), vec![0, 1, 2, 2]),
            (copied.id, vec![0, 1, 2, 2, 2]),
        ] {
            let done = runtime.execute(&session, &ContinueRun).await.unwrap();
            assert_eq!((done.state().text(), case.paid()), ("go is done".to_owned(), paid));
            assert_eq!(subagents(&*store, &session).await.len(), 1, "{session}");
        }
        let taken = runtime.fork(&id("outer"), None, Some(id("fork"))).await;
        assert!(matches!(taken, Err(SessionError::Store(StoreError::Exists(_)))), "{taken:?}");
    });
}

on_every_store!(a_fork_keeps_what_sub_agents_finished:
    a_fork_in_files_keeps_what_sub_agents_finished,
    a_fork_in_sqlite_keeps_what_sub_agents_finished,
    a_fork_in_postgres_keeps_what_sub_agents_finished);

fn an_interrupted_call_of_a_sub_agent_waits_for_a_decision(place: &Place) {
    block_on(async {
        let case = Case::new(place, Task::Pay, Some(1));
        let runtime = case.process().await;
        assert!(case.begin(&runtime).await.is_err());
        let runtime = case.process().await.with_interrupted(OnInterrupted::RequireApproval);
        let fork = runtime.fork(&id("outer"), None, Some(id("fork"))).await.unwrap();
        for session in [id("outer"), fork.id] {
            let paused = runtime.execute(&session, &ContinueRun).await.unwrap();
            let waits: Vec<_> =
                paused.state().pending().iter().map(PendingApproval::address).collect();
            assert_eq!((waits, case.paid()), (vec![vec![0, 0, 0]], vec![0, 1]));
        }
        let resolution = ApprovalDecision::Answer(ToolOutput::text("it was paid"));
        let decide = DecideCall { path: None, resolution };
        case.process().await.execute(&id("outer"), &decide).await.unwrap();
        let done = case.process().await.execute(&id("outer"), &ContinueRun).await.unwrap();
        assert_eq!((done.state().text(), case.paid()), ("go is done".to_owned(), vec![0, 1, 2]));
    });
}

on_every_store!(an_interrupted_call_of_a_sub_agent_waits_for_a_decision:
    an_interrupted_call_of_a_sub_agent_in_files_waits_for_a_decision,
    an_interrupted_call_of_a_sub_agent_in_sqlite_waits_for_a_decision,
    an_interrupted_call_of_a_sub_agent_in_postgres_waits_for_a_decision);

fn a_session_of_a_sub_agent_has_one_writer(place: &Place) {
    block_on(async {
        let case = Case::new(place, Task::Look, None);
        let runtime = case.process().await;
        *case.world.runtime.lock().unwrap() = Some(case.process().await);
        *case.world.store.lock().unwrap() = Some(case.store().await);
        let done = case.begin(&runtime).await.unwrap();
        assert_eq!((done.state().text(), case.paid()), ("go is done".to_owned(), vec![0, 2]));
        let Some(StoreError::Busy { owner, .. }) = case.world.refused.lock().unwrap().take() else {
            panic!("it was not refused")
        };
        assert_eq!(Owner::session_of(&owner), Some(id("outer")));
        // Nobody has it when the run is over.
        let store = case.store().await;
        let helper = subagents(&*store, &id("outer")).await.remove(0);
        let said = runtime.execute(&helper.id, &SendMessage::text("thanks")).await.unwrap();
        assert_eq!(said.state().status(), &ExecutionStatus::Completed);
    });
}

on_every_store!(a_session_of_a_sub_agent_has_one_writer:
    a_session_of_a_sub_agent_in_files_has_one_writer,
    a_session_of_a_sub_agent_in_sqlite_has_one_writer,
    a_session_of_a_sub_agent_in_postgres_has_one_writer);

fn a_run_whose_sub_agent_is_in_use_elsewhere_ends_and_resumes_later(place: &Place) {
    block_on(async {
        let case = Case::new(place, Task::Pay, Some(1));
        let runtime = case.process().await;
        assert!(case.begin(&runtime).await.is_err());
        let store = case.store().await;
        let helper = subagents(&*store, &id("outer")).await.remove(0);
        let now = loopwright_core::Clock::now(&SlowClock::new(0));
        let ttl = std::time::Duration::from_mins(1);
        let claim = LeaseRequest { owner: "somebody", replaces: None, now, ttl };
        let lease = store.lease(&helper.id, claim).await.unwrap();
        let failed = runtime.execute(&id("outer"), &ContinueRun).await;
        let told = match &failed {
            Ok(session) => session.state().explain_stop(),
            Err(error) => error.to_string(),
        };
        assert!(told.contains("in use") && told.contains("somebody"), "{told}");
        store.release(&lease).await.unwrap();
        let done = runtime.execute(&id("outer"), &ContinueRun).await.unwrap();
        assert_eq!((done.state().text(), case.paid()), ("go is done".to_owned(), vec![0, 1, 2]));
    });
}

on_every_store!(a_run_whose_sub_agent_is_in_use_elsewhere_ends_and_resumes_later:
    a_run_in_files_whose_sub_agent_is_in_use_elsewhere_ends_and_resumes_later,
    a_run_in_sqlite_whose_sub_agent_is_in_use_elsewhere_ends_and_resumes_later,
    a_run_in_postgres_whose_sub_agent_is_in_use_elsewhere_ends_and_resumes_later);

fn of_a_sub_agent_whose_session_is_gone_the_outcome_is_unknown(place: &Place) {
    block_on(async {
        let case = Case::new(place, Task::Pay, Some(1));
        let runtime = case.process().await;
        assert!(case.begin(&runtime).await.is_err());
        let store = case.store().await;
        let helper = subagents(&*store, &id("outer")).await.remove(0);
        runtime.delete(&helper.id).await.unwrap();
        let fork = runtime.fork(&id("outer"), None, Some(id("fork"))).await.unwrap();
        for session in [id("outer"), fork.id] {
            let done = runtime.execute(&session, &ContinueRun).await.unwrap();
            let step = done.state().step_at(0).unwrap();
            let (_, outcome) = step.tool_executions().next().unwrap();
            assert_eq!(outcome, &loopwright_core::ToolOutcome::Unknown, "{session}");
            assert_eq!((done.state().text(), case.paid()), ("go is done".to_owned(), vec![0, 1]));
        }
    });
}

on_every_store!(of_a_sub_agent_whose_session_is_gone_the_outcome_is_unknown:
    of_a_sub_agent_in_files_whose_session_is_gone_the_outcome_is_unknown,
    of_a_sub_agent_in_sqlite_whose_session_is_gone_the_outcome_is_unknown,
    of_a_sub_agent_in_postgres_whose_session_is_gone_the_outcome_is_unknown);

fn a_call_that_is_made_again_after_a_rewind_runs_another_sub_agent(place: &Place) {
    block_on(async {
        let case = Case::new(place, Task::Twice, None);
        let runtime = case.process().await;
        case.begin(&runtime).await.unwrap();
        let mut paid = [0, 1, 2].repeat(2);
        assert_eq!(case.paid(), paid);
        for _ in 0..2 {
            // The second call is made again, in the same step of the same execution.
            runtime.rewind(&id("outer"), 1).await.unwrap();
            let done = runtime.execute(&id("outer"), &ContinueRun).await.unwrap();
            assert_eq!(done.state().text(), "go is done");
            paid.extend([0, 1, 2]);
            assert_eq!(case.paid(), paid);
        }
    });
}

on_every_store!(a_call_that_is_made_again_after_a_rewind_runs_another_sub_agent:
    a_call_in_files_that_is_made_again_after_a_rewind_runs_another_sub_agent,
    a_call_in_sqlite_that_is_made_again_after_a_rewind_runs_another_sub_agent,
    a_call_in_postgres_that_is_made_again_after_a_rewind_runs_another_sub_agent);
