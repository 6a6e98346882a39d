//! Whatever happens to a run, in whatever order, its state stays true and no effect happens twice.
//!
//! A case is a plan of what the model says and a list of things that befall the run: it is polled a
//! few times and dropped, cancelled, steered, its machine stops at an append, its journal is away, a
//! hook fails. After each of them the invariants of [`World::check`] hold, and in the end the run
//! terminates.

use std::{
    collections::BTreeMap,
    env,
    pin::pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, BoxError, Budget, CallState, Change, ChatModel, Driver, EffectKey,
    Effects, Execution, Failure, FailureKind, Flow, Hook, HookCx, HookPoint, HookStack, InferCx,
    InferenceDecision, Key, ModelError, Priority, Question, Recovery, Resolution, Retry, Run,
    RunOptions, Stamped, StateEdit, Status, StepError, StopSignal, ThinkCx, Thought, ToolCx,
    ToolDecision, ToolError, ToolOptions, ToolOutcome, ToolOutput, Verdict,
    messages::{
        FinishReason, InferenceRequest, InferenceResponse, Message, ToolCall, TurnBody, Usage,
    },
};
use loopwright_testing::{
    Fault, FrozenClock, MemoryJournal, MockTool, ScenarioStep, loop_of, pause, poll_times,
    run_until_stuck, validate,
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use crate::support::{lock, replay};

/// How many cases are tried: enough to be sure of a change, or with `LOOPWRIGHT_LONG` of a release.
fn cases() -> u32 {
    if env::var_os("LOOPWRIGHT_LONG").is_some() { 1_000_000 } else { 10_000 }
}

#[test]
fn a_run_survives_whatever_befalls_it() {
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config)
        .run(&case(), |case| World::live_through(&case).map_err(TestCaseError::fail));
    if let Err(error) = result {
        panic!("{error}");
    }
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
        1 => select(HookPoint::EVERY).prop_map(Op::FailHook),
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
    ran: Mutex<Vec<(&'static str, EffectKey)>>,
    problems: Mutex<Vec<String>>,
    failing_hook: Mutex<Option<HookPoint>>,
}

impl Witness {
    fn complain(&self, problem: impl Into<String>) {
        lock(&self.problems).push(problem.into());
    }

    /// A model is asked: its answer is not on record yet, and that it is asked is.
    fn sees_thinking(&self) {
        self.journal.look(|changes| match changes.iter().rev().find_map(milestone) {
            Some(Milestone::Thinking) => (),
            Some(Milestone::Thought) => self.complain("a thought was paid twice"),
            None => self.complain("a model was asked before that was on record"),
        });
    }

    /// A tool or a tool hook is called: the answer that asks for it is on record.
    fn sees_acting(&self, what: &str) {
        let last = self.journal.look(|changes| changes.iter().rev().find_map(milestone));
        if !matches!(last, Some(Milestone::Thought)) {
            self.complain(format!("{what} was called before the thought was on record"));
        }
    }

    fn sees_call(&self, tool: &'static str, key: &EffectKey) {
        self.sees_acting(tool);
        if tool != "pure" && !self.is_started(key) {
            self.complain(format!("{tool} began before that was on record"));
        }
        lock(&self.ran).push((tool, key.clone()));
    }

    fn is_started(&self, key: &EffectKey) -> bool {
        self.journal.look(|changes| {
            let of_step =
                changes.iter().rev().take_while(|it| !matches!(it.change, Change::Thought(_)));
            of_step.into_iter().any(
                |it| matches!(it.change, Change::Started { call, .. } if Some(call) == key.call),
            )
        })
    }
}

enum Milestone {
    Thinking,
    Thought,
}

fn milestone(stamped: &Stamped) -> Option<Milestone> {
    match stamped.change {
        Change::Thinking { .. } => Some(Milestone::Thinking),
        Change::Thought(_) => Some(Milestone::Thought),
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
        pause(self.1).await;
        self.0.to_response()
    }
}

#[async_trait]
impl Driver for PlannedDriver {
    async fn think(&self, state: &AgentState, cx: &ThinkCx<'_>) -> Result<Thought, StepError> {
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
        Ok(Thought::of(cx.infer(&model, cx.request().await?).await?))
    }
}

fn tool(witness: &Arc<Witness>, name: &'static str, options: ToolOptions) -> MockTool {
    let witness = Arc::clone(witness);
    let call = move |arguments: Value, cx: &ToolCx<'_>| {
        witness.sees_call(name, cx.key);
        let pauses = u32::try_from(arguments["pauses"].as_u64().unwrap_or(0)).unwrap_or(0);
        let call = cx.key.call;
        async move {
            pause(pauses).await;
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
    let of = |effects| ToolOptions { effects, ..ToolOptions::default() };
    let once = of(Effects::Once);
    let late = ToolOptions {
        timeout: Some(std::time::Duration::from_secs(1)),
        retry: Retry { attempts: 2, ..Retry::default() },
        ..of(Effects::Idempotent)
    };
    let tool = |name, options| tool(witness, name, options);
    vec![
        tool("pure", of(Effects::Pure)),
        tool("idempotent", of(Effects::Idempotent)),
        tool("resumable", of(Effects::Resumable)),
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
        pause(self.pauses).await;
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
        state.say(Message::system("be good"));
        self.at(HookPoint::BeforeExecution).await?;
        Ok(Flow::Go)
    }

    async fn before_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Self::count(state, &SEEN)?;
        self.at(HookPoint::BeforeStep).await?;
        Ok(Flow::Go)
    }

    async fn before_inference(
        &self,
        _request: &mut InferenceRequest,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<InferenceDecision, BoxError> {
        self.at(HookPoint::BeforeInference).await?;
        Ok(InferenceDecision::Go)
    }

    async fn after_inference(
        &self,
        _response: &mut InferenceResponse,
        _state: &AgentState,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        self.at(HookPoint::AfterInference).await?;
        Ok(Flow::Go)
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
        let question = || Question { text: "may it?".into(), source: "property".into() };
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
        Ok(Flow::Go)
    }

    async fn after_step(
        &self,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Flow, BoxError> {
        Self::count(state, &SEEN)?;
        self.at(HookPoint::AfterStep).await?;
        Ok(Flow::Go)
    }

    async fn on_stop(
        &self,
        _signal: Option<&StopSignal>,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Verdict, BoxError> {
        let vetoes = Self::count(state, &VETOES)?;
        self.at(HookPoint::OnStop).await?;
        Ok(if vetoes <= self.vetoes { Verdict::Continue } else { Verdict::Stop })
    }

    async fn on_error(
        &self,
        _failure: &Failure,
        state: &mut StateEdit<'_>,
        _cx: &HookCx<'_>,
    ) -> Result<Recovery, BoxError> {
        self.at(HookPoint::OnError).await?;
        let failed = state.execution().map_or(0, Execution::failed_in_a_row);
        Ok(if failed <= self.retries { Recovery::Retry } else { Recovery::Fail })
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

// ------------------------------------------------------------------------------------------------
// What befalls the world, and what stays true

struct World {
    agent: AgentLoop,
    witness: Arc<Witness>,
    clock: FrozenClock,
    run: Option<Run>,
    /// What no run holds.
    state: AgentState,
    /// What was said to a run that took it.
    said: Vec<String>,
}

type Checked = Result<(), String>;

impl World {
    fn live_through(case: &Case) -> Checked {
        let mut world = Self::new(case);
        for op in &case.ops {
            world.suffer(*op)?;
            world.check().map_err(|problem| format!("after {op:?}: {problem}"))?;
        }
        world.terminates()
    }

    fn new(case: &Case) -> Self {
        let journal = MemoryJournal::new().delaying(case.append_pauses);
        let witness = Arc::new(Witness { journal, ..Witness::default() });
        let mut agent = loop_of(PlannedDriver(case.plan.clone(), Arc::clone(&witness)));
        for tool in tools(&witness) {
            agent = agent.with_tool(tool);
        }
        if case.has_hooks {
            let mut hooks = HookStack::default();
            hooks.add_at(
                Priority::default(),
                PlannedHook {
                    witness: Arc::clone(&witness),
                    pauses: case.hook_pauses,
                    vetoes: case.vetoes,
                    retries: case.retries,
                },
            );
            agent = agent.with_interceptor(hooks.freeze());
        }
        let budget = Budget { steps: case.steps, ..Budget::default() };
        let state = AgentState::new().with_budget(budget).with_user_message("go");
        Self { agent, witness, clock: FrozenClock::new(), run: None, state, said: Vec::new() }
    }

    fn suffer(&mut self, op: Op) -> Checked {
        match op {
            Op::Next(times) => (0..times).try_for_each(|_| {
                self.next()?;
                self.check()
            })?,
            Op::PollAndDrop(times) => {
                let run = self.run();
                if poll_times(pin!(run.next()), times).is_some_and(|it| it.is_none()) {
                    self.rest();
                }
            }
            Op::Cancel => self.run().handle().cancel(),
            Op::Steer => {
                let text = format!("message {}", self.said.len());
                if self.run().handle().steer(Message::user(text.clone())).is_ok() {
                    self.said.push(text);
                }
            }
            Op::Fail(append, fault) => {
                let journal = &self.witness.journal;
                journal.fail_at(journal.appends() + append as usize, fault);
            }
            Op::FailHook(point) => *lock(&self.witness.failing_hook) = Some(point),
            Op::StartAgain => self.rest(),
            Op::Resolve(how) => {
                self.rest();
                self.resolve(how);
            }
            Op::Say => {
                self.rest();
                self.state = std::mem::take(&mut self.state).with_user_message("more");
            }
        }
        if self.witness.journal.has_crashed() || self.is_fenced() {
            self.restore();
        }
        Ok(())
    }

    /// Returns the run, and begins one if there is none.
    fn run(&mut self) -> &mut Run {
        let options = || RunOptions {
            env: self.clock.env(7),
            journal: Some(Arc::new(self.witness.journal.clone())),
            ..RunOptions::default()
        };
        let (agent, state) = (&self.agent, &mut self.state);
        self.run.get_or_insert_with(|| {
            let mut state = std::mem::take(state);
            let is_journal = |it: &Failure| it.kind == FailureKind::Journal;
            let goes_on = matches!(state.status(), Status::Failed(failure) if is_journal(failure));
            if state.status().is_terminal() && !goes_on {
                state = state.with_user_message("again");
            }
            agent.start(state, options())
        })
    }

    fn next(&mut self) -> Checked {
        let next = run_until_stuck(self.run().next()).map(|state| state.is_some());
        match next {
            Some(true) => (),
            Some(false) => self.rest(),
            None if self.witness.journal.has_crashed() => self.restore(),
            None => return Err("the run waits for nothing".into()),
        }
        Ok(())
    }

    /// Ends the run, and keeps its state.
    fn rest(&mut self) {
        if let Some(run) = self.run.take() {
            self.state = run.into_state();
        }
    }

    /// Forgets everything but what the journal kept.
    fn restore(&mut self) {
        self.run = None;
        self.said.clear();
        let journal = &self.witness.journal;
        journal.heal();
        self.state = replay(journal);
        if self.state.transcript().is_empty() {
            self.state = std::mem::take(&mut self.state).with_user_message("go");
        }
    }

    /// Tells whether somebody else may write to the journal.
    fn is_fenced(&self) -> bool {
        let fenced = |it: &Failure| {
            it.kind == FailureKind::Journal && !it.message().contains("not available")
        };
        matches!(self.live().status(), Status::Failed(failure) if fenced(failure))
    }

    fn resolve(&mut self, how: u8) {
        let calls: Vec<u16> = self.state.pending().iter().map(|it| it.index).collect();
        for call in calls {
            let resolution = match how {
                0 => Resolution::Approve,
                1 => Resolution::Deny { reason: "no".into() },
                _ => Resolution::Answer(ToolOutput::text("as the user says")),
            };
            self.state = std::mem::take(&mut self.state).resolve(call, resolution);
        }
    }

    fn live(&self) -> &AgentState {
        self.run.as_ref().map_or(&self.state, Run::state)
    }

    fn check(&self) -> Checked {
        let state = self.live();
        validate(state.transcript()).map_err(|problems| problems.join("; "))?;
        self.is_the_fold_of_its_changes()?;
        self.nothing_happened_twice()?;
        no_outcome_is_lost(&self.witness.journal.changes(), state)?;
        match lock(&self.witness.problems).first() {
            Some(problem) => Err(problem.clone()),
            None => Ok(()),
        }
    }

    fn is_the_fold_of_its_changes(&self) -> Checked {
        let (state, journal) = (self.live(), &self.witness.journal);
        let is_away =
            matches!(state.status(), Status::Failed(it) if it.kind == FailureKind::Journal);
        if state.unsaved().next().is_some() || is_away {
            return Ok(());
        }
        let replayed =
            AgentState::new().replay(journal.changes()).map_err(|error| error.to_string())?;
        if replayed == *state {
            return Ok(());
        }
        let (replayed, live) = (format!("{replayed:#?}"), format!("{state:#?}"));
        let differ = |(one, other): &(&str, &str)| one != other;
        let first = replayed.lines().zip(live.lines()).find(differ);
        Err(format!("replayed is not live, first in {first:?}: {:?}", journal.names()))
    }

    fn nothing_happened_twice(&self) -> Checked {
        const ONCE: &[&str] = &["once", "alone", "effects", "failing", "stopping"];
        let ran = lock(&self.witness.ran);
        let mut once: Vec<_> = ran.iter().filter(|(tool, _)| ONCE.contains(tool)).collect();
        once.sort();
        match once.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("{} ran twice: {}", pair[0].0, pair[0].1)),
            None => Ok(()),
        }
    }

    fn nothing_said_is_lost(&self) -> Checked {
        let heard = |text: &String| {
            self.state.transcript().iter().any(|turn| turn.message().text() == *text)
        };
        match self.said.iter().find(|text| !heard(text)) {
            Some(text) => Err(format!("{text} is lost")),
            None => Ok(()),
        }
    }

    /// The run ends, once nothing more befalls it.
    fn terminates(&mut self) -> Checked {
        self.witness.journal.heal();
        *lock(&self.witness.failing_hook) = None;
        for _ in 0..60 {
            self.next()?;
            self.check()?;
            if self.run.is_some() {
                continue;
            }
            if !self.state.pending().is_empty() {
                self.resolve(0);
                continue;
            }
            let is_away = matches!(self.state.status(), Status::Failed(it) if it.kind == FailureKind::Journal);
            if self.state.status().is_terminal() && !is_away {
                return self.nothing_said_is_lost();
            }
        }
        Err(format!("the run does not end: {}", self.live().explain_stop()))
    }
}

/// What the journal says of each call is in the conversation, or in the open step.
fn no_outcome_is_lost(changes: &[Stamped], state: &AgentState) -> Checked {
    let (mut execution, mut step) = (None, 0);
    let mut settled = BTreeMap::new();
    for stamped in changes {
        match &stamped.change {
            Change::Opened { execution: id, .. } => (execution, step) = (Some(id.clone()), 1),
            Change::StepClosed { .. } | Change::StepFailed { .. } => step += 1,
            Change::Settled { call, outcome, .. } => {
                settled.insert((execution.clone(), step, *call), Arc::clone(outcome));
            }
            _ => (),
        }
    }
    for ((execution, step, call), outcome) in settled {
        let index = usize::from(call);
        let of_step = state
            .transcript()
            .iter()
            .find(|turn| turn.meta().execution == execution && turn.meta().step == Some(step));
        let told = of_step.and_then(|turn| match turn.body() {
            TurnBody::Exchange(exchange) => exchange.results().get(index).cloned(),
            _ => None,
        });
        let open = state.execution().and_then(|it| it.open_step());
        let open = open.filter(|it| it.number() == step).and_then(|it| it.calls().get(index));
        let is_open = matches!(open, Some(CallState::Done(it)) if *it == outcome);
        if told != Some(outcome.to_result()) && !is_open {
            return Err(format!("the outcome of call {call} of step {step} is lost: {outcome:?}"));
        }
    }
    Ok(())
}
