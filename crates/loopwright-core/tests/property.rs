//! Whatever happens to a run, in whatever order, its state stays true and no effect happens twice.
//!
//! A case is a plan of what the model says and a list of things that befall the run: it is polled a
//! few times and dropped, cancelled, steered, its machine stops at an append, its journal is away, a
//! hook fails. After each of them the invariants of [`World::check`] hold, and in the end the run
//! terminates.

mod world;

use std::{
    env,
    sync::{Arc, Mutex},
    thread,
};

use async_trait::async_trait;
use loopwright_core::{
    AgentState, ApprovalRequest, BoxError, Change, ChangeRecord, ChatModel, Driver, ErrorDecision,
    Execution, Failure, Flow, Hook, HookCx, HookPoint, IdempotencyKey, InferCx, InferenceDecision,
    Key, ModelError, SideEffects, StateEdit, StepError, StepResponse, StopDecision, StopSignal,
    ThinkCx, ToolCx, ToolDecision, ToolError, ToolOptions, ToolOutcome, ToolOutput, ToolRetry,
    messages::{FinishReason, InferenceRequest, InferenceResponse, Message, ToolCall, Usage},
};
use loopwright_testing::{Fault, MemoryJournal, MockTool, ScenarioStep, yield_times};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{Config, RngAlgorithm, TestRunner},
};
use serde_json::{Value, json};

use self::world::World;
use crate::support::lock;

/// How many cases are tried: enough to be sure of a change, or with `LOOPWRIGHT_LONG` of a release.
fn cases() -> u32 {
    if env::var_os("LOOPWRIGHT_LONG").is_some() { 1_000_000 } else { 10_000 }
}

#[test]
fn a_run_survives_whatever_befalls_it() {
    let threads =
        thread::available_parallelism().map_or(1, |it| u32::try_from(it.get()).unwrap_or(1));
    let config = Config {
        cases: cases().div_ceil(threads),
        failure_persistence: None,
        // Cases are no secrets: numbers that are quick to make are as good.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::default()
    };
    let live = || {
        let result = TestRunner::new(config.clone())
            .run(&case(), |case| World::live_through(&case).map_err(TestCaseError::fail));
        if let Err(error) = result {
            panic!("{error}");
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(live);
        }
    });
}

// ------------------------------------------------------------------------------------------------
// Cases

#[derive(Clone, Debug)]
struct Case {
    plan: Vec<Plan>,
    ops: Vec<Op>,
    steps: Option<u32>,
    vetoes: u32,
    retries: u32,
    hook_pauses: u32,
    append_pauses: u32,
    has_hooks: bool,
}

/// What the model says at a step.
#[derive(Clone, Debug)]
enum Plan {
    Answer { pauses: u32 },
    Calls { calls: Vec<CallPlan>, finish: Option<FinishReason>, pauses: u32 },
    Fail { pauses: u32 },
}

#[derive(Clone, Copy, Debug)]
struct CallPlan {
    tool: &'static str,
    decision: &'static str,
    pauses: u32,
}

/// What befalls a run.
#[derive(Clone, Copy, Debug)]
enum Op {
    Next(u32),
    PollAndDrop(u32),
    Cancel,
    Steer,
    Fail(u32, Fault),
    FailHook(HookPoint),
    /// The run is dropped, and another one goes on with its state.
    StartAgain,
    Resolve(u8),
    Say,
}

const TOOLS: &[&str] = &[
    "pure",
    "idempotent",
    "resumable",
    "once",
    "alone",
    "effects",
    "failing",
    "late",
    "stopping",
    "missing",
];

const DECISIONS: &[&str] =
    &["run", "run", "run", "run", "block", "ask", "rewrite", "answer", "stop", "fail"];

fn case() -> impl Strategy<Value = Case> {
    let finish = prop_oneof![
        6 => Just(None),
        1 => Just(Some(FinishReason::Length)),
    ];
    let call = (select(TOOLS), select(DECISIONS), 0..3u32)
        .prop_map(|(tool, decision, pauses)| CallPlan { tool, decision, pauses });
    let plan = prop_oneof![
        2 => (0..3u32).prop_map(|pauses| Plan::Answer { pauses }),
        5 => (vec(call, 1..4), finish, 0..3u32)
            .prop_map(|(calls, finish, pauses)| Plan::Calls { calls, finish, pauses }),
        1 => (0..3u32).prop_map(|pauses| Plan::Fail { pauses }),
    ];
    let fault = select(
        &[
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::Unavailable,
            Fault::Unacknowledged,
            Fault::Conflict,
            Fault::LeaseLost,
        ][..],
    );
    let op = prop_oneof![
        4 => (1..4u32).prop_map(Op::Next),
        6 => (1..8u32).prop_map(Op::PollAndDrop),
        1 => Just(Op::Cancel),
        2 => Just(Op::Steer),
        4 => (0..4u32, fault).prop_map(|(append, fault)| Op::Fail(append, fault)),
        1 => select(HookPoint::ALL).prop_map(Op::FailHook),
        2 => Just(Op::StartAgain),
        2 => (0..4u8).prop_map(Op::Resolve),
        1 => Just(Op::Say),
    ];
    let hooks = (0..2u32, 0..2u32, 0..2u32, prop::bool::weighted(0.8));
    let steps = prop::option::weighted(0.2, 1..4u32);
    (vec(plan, 1..5), vec(op, 1..10), steps, hooks, 0..2u32).prop_map(
        |(plan, ops, steps, (vetoes, retries, hook_pauses, has_hooks), append_pauses)| Case {
            plan,
            ops,
            steps,
            vetoes,
            retries,
            hook_pauses,
            append_pauses,
            has_hooks,
        },
    )
}

// ------------------------------------------------------------------------------------------------
// The world that a case happens in

/// Sees every effect.
#[derive(Default)]
struct Witness {
    journal: MemoryJournal,
    ran: Mutex<Vec<(&'static str, IdempotencyKey)>>,
    problems: Mutex<Vec<String>>,
    failing_hook: Mutex<Option<HookPoint>>,
}

impl Witness {
    fn complain(&self, problem: impl Into<String>) {
        lock(&self.problems).push(problem.into());
    }

    /// A model is asked: its answer is not on record yet, and that it is asked is.
    fn sees_thinking(&self) {
        self.journal.with_changes(|changes| match changes.iter().rev().find_map(milestone) {
            Some(Milestone::Thinking) => (),
            Some(Milestone::Thought) => self.complain("a thought was paid twice"),
            None => self.complain("a model was asked before that was on record"),
        });
    }

    /// A tool or a tool hook is called: the answer that asks for it is on record.
    fn sees_acting(&self, what: &str) {
        let last = self.journal.with_changes(|changes| changes.iter().rev().find_map(milestone));
        if !matches!(last, Some(Milestone::Thought)) {
            self.complain(format!("{what} was called before the thought was on record"));
        }
    }

    fn sees_call(&self, tool: &'static str, key: &IdempotencyKey) {
        self.sees_acting(tool);
        if tool != "pure" && !self.is_started(key) {
            self.complain(format!("{tool} began before that was on record"));
        }
        lock(&self.ran).push((tool, key.clone()));
    }

    fn is_started(&self, key: &IdempotencyKey) -> bool {
        self.journal.with_changes(|changes| {
            let of_step =
                changes.iter().rev().take_while(|it| !matches!(it.change, Change::ModelResponded(_)));
            of_step.into_iter().any(
                |it| matches!(it.change, Change::ToolCallStarted { call, .. } if Some(call) == key.call),
            )
        })
    }
}

enum Milestone {
    Thinking,
    Thought,
}

fn milestone(stamped: &ChangeRecord) -> Option<Milestone> {
    match stamped.change {
        Change::StepStarted { .. } => Some(Milestone::Thinking),
        Change::ModelResponded(_) => Some(Milestone::Thought),
        _ => None,
    }
}

struct PlannedDriver(Vec<Plan>, Arc<Witness>);

struct PlannedModel<'a>(&'a ScenarioStep, u32, &'a Witness);

#[async_trait]
impl ChatModel for PlannedModel<'_> {
    async fn infer(
        &self,
        _request: &InferenceRequest,
        _cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        self.2.sees_thinking();
        yield_times(self.1).await;
        self.0.to_response()
    }
}

#[async_trait]
impl Driver for PlannedDriver {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<StepResponse, StepError> {
        let plan = usize::try_from(state.total_steps()).ok().and_then(|index| self.0.get(index));
        let plan = plan.cloned().unwrap_or(Plan::Answer { pauses: 0 });
        let (step, pauses) = match plan {
            Plan::Answer { pauses } => ("done".into(), pauses),
            Plan::Fail { pauses } => (ScenarioStep::error("down"), pauses),
            Plan::Calls { calls, finish, pauses } => {
                let calls = calls
                    .iter()
                    .map(|it| (it.tool, json!({ "decision": it.decision, "pauses": it.pauses })));
                let step = ScenarioStep::tool_calls(calls);
                (finish.into_iter().fold(step, ScenarioStep::with_finish), pauses)
            }
        };
        let step = step.with_usage(Usage::new(3, 2));
        let model = PlannedModel(&step, pauses, &self.1);
        Ok(StepResponse::from_response(cx.infer(&model, cx.request().await?).await?))
    }
}

fn tool(witness: &Arc<Witness>, name: &'static str, options: ToolOptions) -> MockTool {
    let witness = Arc::clone(witness);
    let call = move |arguments: Value, cx: &ToolCx<'_>| {
        witness.sees_call(name, cx.key);
        let pauses = u32::try_from(arguments["pauses"].as_u64().unwrap_or(0)).unwrap_or(0);
        let call = cx.key.call;
        async move {
            yield_times(pauses).await;
            match name {
                "failing" => Err(ToolError::Failed(BoxError::from("it broke"))),
                "stopping" => Err(StopSignal::requested(name, "enough").into()),
                "effects" => Ok(ToolOutput::text("noted")
                    .with_metadata("noted", json!(call))
                    .with_message(Message::user("a tool says so"))),
                _ => Ok(ToolOutput::text("done")),
            }
        }
    };
    MockTool::with_cx(name, "", move |arguments, cx| Box::pin(call(arguments, cx)))
        .with_options(options)
}

fn tools(witness: &Arc<Witness>) -> Vec<MockTool> {
    let of = |effects| ToolOptions { side_effects: effects, ..ToolOptions::default() };
    let once = of(SideEffects::AtMostOnce);
    let late = ToolOptions {
        timeout: Some(std::time::Duration::from_secs(1)),
        retry: ToolRetry { attempts: 2, ..ToolRetry::default() },
        ..of(SideEffects::Idempotent)
    };
    let tool = |name, options| tool(witness, name, options);
    vec![
        tool("pure", of(SideEffects::ReadOnly)),
        tool("idempotent", of(SideEffects::Idempotent)),
        tool("resumable", of(SideEffects::Resumable)),
        tool("once", once.clone()),
        tool("alone", ToolOptions { exclusive: true, ..once.clone() }),
        tool("effects", once.clone()),
        tool("failing", once.clone()),
        tool("late", late),
        tool("stopping", once),
    ]
}

const SEEN: Key<u32> = Key::execution("property", "seen");
const VETOES: Key<u32> = Key::execution("property", "vetoes");

struct PlannedHook {
    witness: Arc<Witness>,
    pauses: u32,
    vetoes: u32,
    retries: u32,
}

impl PlannedHook {
    async fn at(&self, point: HookPoint) -> Result<(), BoxError> {
        yield_times(self.pauses).await;
        let mut failing = lock(&self.witness.failing_hook);
        match failing.take_if(|it| *it == point) {
            Some(point) => Err(format!("the hook fails at {}", point.as_str()).into()),
            None => Ok(()),
        }
    }

    fn count(state: &mut StateEdit<'_>, key: &Key<u32>) -> Result<u32, BoxError> {
        let count = state.get(key).unwrap_or(0) + 1;
        state.set(key, &count)?;
        Ok(count)
    }
}

#[async_trait]
impl Hook for PlannedHook {
    async fn before_execution(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        state.push_message(Message::system("be good"));
        self.at(HookPoint::BeforeExecution).await?;
        Ok(Flow::Continue)
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Self::count(state, &SEEN)?;
        self.at(HookPoint::BeforeStep).await?;
        Ok(Flow::Continue)
    }

    async fn before_inference(
        &self,
        _request: &mut InferenceRequest,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<InferenceDecision, BoxError> {
        self.at(HookPoint::BeforeInference).await?;
        Ok(InferenceDecision::Send)
    }

    async fn after_inference(
        &self,
        _response: &mut InferenceResponse,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.at(HookPoint::AfterInference).await?;
        Ok(Flow::Continue)
    }

    async fn before_tool(
        &self,
        call: &ToolCall,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<ToolDecision, BoxError> {
        self.witness.sees_acting("a hook");
        self.at(HookPoint::BeforeTool).await?;
        let arguments = call.parse_arguments()?;
        let question = || ApprovalRequest::new("may it?", "property");
        Ok(match arguments["decision"].as_str().unwrap_or_default() {
            "block" => ToolDecision::Block { reason: "no".into() },
            "ask" => ToolDecision::Ask(question()),
            "rewrite" => ToolDecision::Rewrite((&json!({ "decision": "run", "pauses": 1 })).into()),
            "answer" => ToolDecision::Answer(ToolOutput::text("known")),
            "stop" => ToolDecision::Stop(StopSignal::requested("property", "enough")),
            "fail" => return Err("the hook fails".into()),
            _ => ToolDecision::Run,
        })
    }

    async fn after_tool(
        &self,
        _call: &ToolCall,
        _outcome: &mut ToolOutcome,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.at(HookPoint::AfterTool).await?;
        Ok(Flow::Continue)
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Self::count(state, &SEEN)?;
        self.at(HookPoint::AfterStep).await?;
        Ok(Flow::Continue)
    }

    async fn on_stop(
        &self,
        _signal: Option<&StopSignal>,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<StopDecision, BoxError> {
        let vetoes = Self::count(state, &VETOES)?;
        self.at(HookPoint::OnStop).await?;
        Ok(if vetoes <= self.vetoes { StopDecision::Continue } else { StopDecision::Stop })
    }

    async fn on_error(
        &self,
        _failure: &Failure,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<ErrorDecision, BoxError> {
        self.at(HookPoint::OnError).await?;
        let failed = state.execution().map_or(0, Execution::failed_in_a_row);
        Ok(if failed <= self.retries { ErrorDecision::Retry } else { ErrorDecision::Fail })
    }

    async fn after_execution(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<(), BoxError> {
        Self::count(state, &SEEN)?;
        self.at(HookPoint::AfterExecution).await
    }
}
