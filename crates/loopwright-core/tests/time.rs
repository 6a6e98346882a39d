//! When things happened, by the run's own account.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, ApprovalRequest, Budget, CallState, CallableHook,
    Change, ChangeRecord, ChatModel, Clock as _, ExecutionStatus, Flow, IdempotencyKey, InferCx,
    Journal, JournalError, ModelError, RunOptions, Seq, SideEffects, Step, StopReason, Timestamp,
    ToolDecision, ToolOptions, ToolOutcome, ToolOutput,
    messages::{InferenceRequest, InferenceResponse, Message},
};
use loopwright_testing::{
    FakeModel, FrozenClock, MemoryJournal, MockTool, ModelDriver, ScenarioStep, block_on,
    run_until_stuck, test_loop,
};
use serde_json::{Value, json};

use crate::support::{
    agent, asked, execute, execute_with, hooked, journaled, lock, options, outcomes, replay, told,
};

#[test]
fn changes_after_hooks_and_tools_have_the_time_after_them() {
    let (journal, clock) = (MemoryJournal::new(), FrozenClock::new());
    let (hooks, tools) = (clock.clone(), clock.clone());
    let hook = CallableHook::new("slow").before_step(move |state, _| {
        if state.step_count() == 0 {
            hooks.advance(Duration::from_secs(1));
            state.set_metadata("seen", json!(true));
            hooks.advance(Duration::from_secs(2));
        }
        Ok(Flow::Continue)
    });
    let tool = MockTool::new("slow", "", move |_| {
        tools.advance(Duration::from_secs(4));
        Ok::<_, loopwright_core::BoxError>("done".to_owned())
    });
    let agent = agent([ScenarioStep::tool_call("slow", json!({})), "done".into()]).with_tool(tool);
    let (began, options) = (clock.env(1).clock.now(), journaled(&journal));
    let options = RunOptions { env: clock.env(1), ..options };
    let state = block_on(hooked(&agent, hook).start(asked(), options).finish());

    let seconds = |at: Timestamp| at.since(began).as_secs();
    let changes = journal.changes();
    let stamps: Vec<_> = changes.iter().map(|it| (it.change.name(), seconds(it.at))).collect();
    let expect = [
        ("state_edited", 0),
        ("execution_started", 0),
        ("state_edited", 1),
        ("step_started", 3),
        ("model_responded", 3),
        ("tool_call_started", 3),
        ("tool_call_completed", 7),
        ("step_completed", 7),
        ("step_started", 7),
        ("model_responded", 7),
        ("step_completed", 7),
        ("execution_ended", 7),
    ];
    assert_eq!(stamps, expect);
    let durations: Vec<_> = state.steps().map(Step::duration).collect();
    assert_eq!(durations, [Duration::from_secs(7), Duration::ZERO]);
    assert!(matches!(changes[2].change, Change::StateEdited { .. }));
}

/// An exclusive tool that takes so many seconds.
fn taking(name: &str, effects: SideEffects, clock: &FrozenClock, takes: u64) -> MockTool {
    let clock = clock.clone();
    let tool = MockTool::new(name, "", move |_| {
        clock.advance(seconds(takes));
        Ok::<_, loopwright_core::BoxError>("done".to_owned())
    });
    tool.with_options(ToolOptions {
        side_effects: effects,
        exclusive: true,
        ..ToolOptions::default()
    })
}

/// When each call of the first step started and ended, in seconds after a moment.
fn call_times(state: &AgentState, began: Timestamp) -> Vec<(u64, u64)> {
    let times = state.step_at(0).map(Step::tool_times).unwrap_or_default();
    let since = |at: Timestamp| at.since(began).as_secs();
    times.iter().map(|it| (since(it.started_at), since(it.ended_at))).collect()
}

#[test]
fn a_step_keeps_when_each_of_its_calls_started_and_ended() {
    let (journal, clock) = (MemoryJournal::new(), FrozenClock::new());
    let hook = CallableHook::new("block").before_tool(|call, _, _| {
        Ok(match &*call.name {
            "never" => ToolDecision::Block { reason: "no".to_owned() },
            _ => ToolDecision::Run,
        })
    });
    let calls = ["write", "read", "never", "read"].map(|it| (it, json!({})));
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()])
        .with_tool(taking("write", SideEffects::AtMostOnce, &clock, 4))
        .with_tool(taking("read", SideEffects::ReadOnly, &clock, 2))
        .with_tool(taking("never", SideEffects::AtMostOnce, &clock, 9));
    let env = clock.env(1);
    let began = env.clock.now();
    let options = RunOptions { env, ..journaled(&journal) };
    let state = block_on(hooked(&agent, hook).start(asked(), options).finish());

    assert_eq!(call_times(&state, began), [(0, 4), (4, 6), (6, 6), (6, 8)]);
    assert_eq!(state.step_at(0).unwrap().tool_times()[1].duration(), seconds(2));
    assert_eq!(replay(&journal), state);
    let stored = serde_json::to_value(&state).unwrap();
    assert_eq!(serde_json::from_value::<AgentState>(stored).unwrap(), state);
}

#[test]
fn a_call_that_starts_at_once_takes_no_room_in_the_journal_for_its_start() {
    let journal = MemoryJournal::new();
    let calls = ["write", "read"].map(|it| (it, json!({})));
    let clock = FrozenClock::new();
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()])
        .with_tool(taking("write", SideEffects::AtMostOnce, &clock, 0))
        .with_tool(taking("read", SideEffects::ReadOnly, &clock, 0));
    execute_with(&agent, asked(), &journal);
    let starts = |stamped: ChangeRecord| match stamped.change {
        Change::ToolCallCompleted { started_at, .. } => Some(started_at),
        _ => None,
    };
    let starts: Vec<_> = journal.changes().into_iter().filter_map(starts).collect();
    assert_eq!(starts, [None, None]);
}

#[test]
fn a_call_that_was_interrupted_keeps_its_own_start() {
    let (journal, clock) = (MemoryJournal::new(), FrozenClock::new());
    let agent = agent([ScenarioStep::tool_call("pay", json!({})), "done".into()])
        .with_tool(MockTool::hanging("pay"));
    let options = || RunOptions { env: clock.env(1), ..journaled(&journal) };
    let began = clock.env(1).clock.now();
    assert!(run_until_stuck(agent.start(asked(), options()).finish()).is_none());
    clock.advance(seconds(10));
    let state = block_on(agent.start(replay(&journal), options()).finish());
    assert_eq!(outcomes(&state, 0), [ToolOutcome::Unknown]);
    assert_eq!(call_times(&state, began), [(0, 10)]);
}

#[test]
fn a_call_sees_what_became_of_those_before_it() {
    let look = MockTool::with_cx("look", "", |_, cx| {
        let calls =
            cx.state.execution().and_then(|it| it.open_step()).map(|it| it.calls().to_vec());
        let done =
            calls.iter().flatten().filter(|it| matches!(it, CallState::Completed(_))).count();
        Box::pin(async move { Ok(ToolOutput::json(Value::from(done))) })
    });
    let look = look.with_options(ToolOptions { exclusive: true, ..ToolOptions::default() });
    let calls = ["look", "look", "look"].map(|it| (it, json!({})));
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]).with_tool(look);
    assert_eq!(told(&execute(&agent, asked())), ["0", "1", "2"]);
}

const DAY: Duration = Duration::from_hours(24);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn time(limit: u64) -> Budget {
    Budget { time: Some(seconds(limit)), ..Budget::unlimited() }
}

fn run_by(clock: &FrozenClock, agent: &AgentLoop, state: AgentState) -> AgentState {
    block_on(agent.start(state, RunOptions { env: clock.env(1), ..options() }).finish())
}

/// A tool that takes three seconds by the clock.
fn slow(clock: &FrozenClock) -> MockTool {
    let clock = clock.clone();
    MockTool::new("slow", "", move |_| {
        clock.advance(seconds(3));
        Ok::<_, loopwright_core::BoxError>("done".to_owned())
    })
}

/// An agent that calls a slow tool and a tool that is asked about, and then answers.
fn asking(clock: &FrozenClock) -> AgentLoop {
    let calls = [("slow", json!({})), ("pay", json!({}))];
    let ask = CallableHook::new("policy").before_tool(|call, _, _| {
        Ok(match &*call.name {
            "pay" => ToolDecision::Ask(ApprovalRequest::new("?", "policy")),
            _ => ToolDecision::Run,
        })
    });
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]);
    hooked(&agent, ask).with_tool(slow(clock)).with_tool(MockTool::returning("pay", "", "paid"))
}

#[test]
fn time_that_a_person_is_waited_for_does_not_count_against_the_budget() {
    let clock = FrozenClock::new();
    let agent = asking(&clock);
    let paused = run_by(&clock, &agent, asked().with_budget(time(5)));
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    clock.advance(DAY);
    let state = run_by(&clock, &agent, paused.decide(1, ApprovalDecision::Approve));
    assert_eq!((state.status(), state.text().as_str()), (&ExecutionStatus::Completed, "done"));
    assert_eq!(told(&state), ["done", "paid"]);
}

#[test]
fn time_worked_before_a_pause_counts_after_it_and_is_on_record() {
    let clock = FrozenClock::new();
    let (agent, journal) = (asking(&clock), MemoryJournal::new());
    let kept = || RunOptions { env: clock.env(1), ..journaled(&journal) };
    let paused = block_on(agent.start(asked().with_budget(time(3)), kept()).finish());
    assert_eq!(paused.cumulative_time(), seconds(3));
    assert_eq!(replay(&journal), paused);
    let state = run_by(&clock, &agent, paused.clone().decide(1, ApprovalDecision::Approve));
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::TimeLimitReached));
    assert!(matches!(outcomes(&state, 0)[1], ToolOutcome::Skipped { .. }), "it did not begin");

    let longer = paused.with_budget(time(60)).decide(1, ApprovalDecision::Approve);
    let state = run_by(&clock, &agent, longer);
    assert_eq!(state.status(), &ExecutionStatus::Completed);
    assert_eq!(state.steps().map(Step::duration).collect::<Vec<_>>(), [seconds(3), seconds(0)]);
    assert_eq!(state.execution().unwrap().worked(), seconds(3));
}

/// Sets the time of day a day back while it is called, and notes what is left before and after.
struct SetsClock {
    clock: FrozenClock,
    left: Arc<Mutex<Vec<Option<Duration>>>>,
}

#[async_trait]
impl ChatModel for SetsClock {
    async fn infer(
        &self,
        _: &InferenceRequest,
        cx: InferCx<'_>,
    ) -> Result<InferenceResponse, ModelError> {
        let before = cx.time_left();
        self.clock.set_time_of_day(Timestamp::from_millis(self.clock.now().millis() - 86_400_000));
        *lock(&self.left) = vec![before, cx.time_left()];
        ScenarioStep::from("done").to_response()
    }
}

#[test]
fn the_deadline_of_a_model_call_does_not_move_with_the_time_of_day() {
    let clock = FrozenClock::new();
    let left = Arc::default();
    let model = SetsClock { clock: clock.clone(), left: Arc::clone(&left) };
    let agent = test_loop(ModelDriver::new(model));
    let state = asked().with_budget(Budget { time: Some(seconds(9)), ..Budget::default() });
    let options = RunOptions { env: clock.env(1), ..options() };
    block_on(agent.start(state, options).finish());
    assert_eq!(*lock(&left), [Some(seconds(9)), Some(seconds(9))]);
}

#[test]
fn a_call_that_is_approved_after_the_deadline_does_not_begin() {
    let clock = FrozenClock::new();
    let agent = asking(&clock);
    let pay = MockTool::returning("pay", "", "paid");
    let agent = agent.with_tool(pay.clone());
    let deadline = Some(clock.now().plus(DAY));
    let paused = run_by(&clock, &agent, asked().with_budget(Budget { deadline, ..time(60) }));
    clock.advance(DAY);
    let state = run_by(&clock, &agent, paused.decide(1, ApprovalDecision::Approve));
    assert_eq!((pay.keys().len(), state.step_count()), (0, 1));
    assert!(matches!(outcomes(&state, 0)[1], ToolOutcome::Skipped { .. }));
    let signal = state.stop_signal().unwrap();
    assert_eq!(
        (signal.reason, &signal.context["limit"]),
        (StopReason::TimeLimitReached, &json!("deadline"))
    );
}

#[test]
fn time_between_two_steps_of_a_run_that_its_caller_advances_does_not_count() {
    let clock = FrozenClock::new();
    let steps = [ScenarioStep::tool("looking"), ScenarioStep::tool("looking"), "done".into()];
    let options = RunOptions { env: clock.env(1), ..options() };
    let mut run = agent(steps).start(asked().with_budget(time(5)), options);
    while block_on(run.next()).is_some() {
        clock.advance(DAY);
    }
    assert_eq!(run.state().text(), "done");
}

#[test]
fn hooks_between_steps_count_as_work() {
    let clock = FrozenClock::new();
    let advance = clock.clone();
    let hook = CallableHook::new("slow").after_step(move |_, _| {
        advance.advance(seconds(3));
        Ok(Flow::Continue)
    });
    let agent = hooked(&agent([ScenarioStep::tool("looking")]), hook);
    let state = run_by(&clock, &agent, asked().with_budget(time(5)));
    assert_eq!((state.step_count(), state.cumulative_time()), (2, seconds(6)));
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::TimeLimitReached));
}

#[test]
fn the_clock_of_the_machine_can_be_set_and_no_limit_of_time_notices() {
    let clock = FrozenClock::new();
    let jump = clock.clone();
    let set = MockTool::new("set", "", move |_| {
        jump.set_time_of_day(jump.now().plus(DAY));
        Ok::<_, loopwright_core::BoxError>("set".to_owned())
    });
    let steps = [ScenarioStep::tool_call("set", json!({})), "done".into()];
    let agent = agent(steps).with_tool(set);
    let state = run_by(&clock, &agent, asked().with_budget(time(5)));
    assert_eq!(
        (state.status(), state.cumulative_time()),
        (&ExecutionStatus::Completed, seconds(0))
    );
}

#[test]
fn a_clock_that_is_set_back_buys_no_time() {
    let clock = FrozenClock::new();
    let back = clock.clone();
    let slow = MockTool::new("slow", "", move |_| {
        back.advance(seconds(3));
        back.set_time_of_day(Timestamp::from_millis(1));
        Ok::<_, loopwright_core::BoxError>("done".to_owned())
    });
    let agent = agent([ScenarioStep::tool_call("slow", json!({}))]).with_tool(slow);
    let budget = Budget { steps: Some(9), ..time(5) };
    let state = run_by(&clock, &agent, asked().with_budget(budget));
    assert_eq!((state.step_count(), state.cumulative_time()), (2, seconds(6)));
    assert_eq!(state.stop_signal().map(|it| it.reason), Some(StopReason::TimeLimitReached));
}

#[test]
fn a_model_that_does_not_answer_is_given_up_after_what_is_left_of_the_time() {
    let clock = FrozenClock::new();
    let slow = CallableHook::new("slow").before_step({
        let clock = clock.clone();
        move |_, _| {
            clock.advance(seconds(2));
            clock.set_time_of_day(Timestamp::from_millis(1));
            Ok(Flow::Continue)
        }
    });
    let agent = hooked(&test_loop(ModelDriver::new(FakeModel::ignoring_cancel())), slow);
    let began = clock.monotonic();
    let state = run_by(&clock, &agent, asked().with_budget(time(5)));
    assert_eq!(clock.monotonic().checked_sub(began), Some(seconds(5)));
    let signal = state.stop_signal().unwrap();
    assert_eq!(signal.context["elapsed_seconds"], json!(5.0));
    assert_eq!(state.cumulative_time(), seconds(5));
}

/// A journal that takes a second for each append.
struct SlowJournal(MemoryJournal, FrozenClock);

#[async_trait]
impl Journal for SlowJournal {
    async fn append(&self, first: Seq, changes: &[ChangeRecord]) -> Result<(), JournalError> {
        self.0.append(first, changes).await?;
        self.1.advance(seconds(1));
        Ok(())
    }

    fn child(&self, call: &IdempotencyKey) -> Arc<dyn Journal> {
        self.0.child(call)
    }
}

#[test]
fn changes_after_an_append_have_the_time_after_it() {
    let (journal, clock) = (MemoryJournal::new(), FrozenClock::new());
    let slow = SlowJournal(journal.clone(), clock.clone());
    let began = clock.now();
    let options =
        RunOptions { env: clock.env(1), journal: Some(Arc::new(slow)), ..RunOptions::default() };
    drop(block_on(agent([]).start(asked(), options).finish()));
    let stamps: Vec<_> = journal
        .changes()
        .iter()
        .map(|it| (it.change.name(), it.at.since(began).as_secs()))
        .collect();
    let expect = [("state_edited", 0), ("execution_started", 0), ("step_started", 0)];
    let after = [("model_responded", 1), ("step_completed", 1), ("execution_ended", 1)];
    assert_eq!(stamps, [expect, after].concat());
}

#[test]
fn the_time_of_hooks_before_a_call_is_part_of_the_step() {
    let clock = FrozenClock::new();
    let slow = clock.clone();
    let hook = CallableHook::new("slow").before_tool(move |_, _, _| {
        slow.advance(seconds(3));
        Ok(ToolDecision::Block { reason: "no".to_owned() })
    });
    let agent = hooked(&agent([ScenarioStep::tool("looking"), "done".into()]), hook);
    let options = RunOptions { env: clock.env(1), ..RunOptions::default() };
    let state = block_on(agent.start(asked(), options).finish());
    let durations: Vec<_> = state.steps().map(Step::duration).collect();
    assert_eq!(durations, [seconds(3), seconds(0)]);
}

#[test]
fn a_call_begins_after_the_hooks_that_decided_about_it() {
    let (journal, clock) = (MemoryJournal::new(), FrozenClock::new());
    let (slow, began) = (clock.clone(), clock.now());
    let hook = CallableHook::new("slow").before_tool(move |_, _, _| {
        slow.advance(seconds(3));
        Ok(ToolDecision::Run)
    });
    let agent = hooked(&agent([ScenarioStep::tool("looking"), "done".into()]), hook);
    let options = RunOptions { env: clock.env(1), ..journaled(&journal) };
    drop(block_on(agent.start(asked(), options).finish()));
    let changes = journal.changes();
    let started = changes.iter().find(|it| it.change.name() == "tool_call_started").unwrap();
    assert_eq!(started.at.since(began), seconds(3));
}

#[test]
fn the_interrupted_answer_of_an_abandoned_run_has_the_time_of_its_end() {
    let (journal, clock) = (MemoryJournal::new(), FrozenClock::new());
    let plain = RunOptions { env: clock.env(1), ..RunOptions::default() };
    let journaled = RunOptions { env: clock.env(1), ..journaled(&journal) };
    for options in [plain, journaled] {
        let mut run = agent([ScenarioStep::tool("looking"), "done".into()]).start(asked(), options);
        assert!(block_on(run.next()).is_some());
        clock.advance(seconds(5));
        run.handle().steer(Message::user("and?")).unwrap();
        let state = run.into_state();
        assert_eq!(state.updated_at(), Some(clock.now()));
    }
}

#[test]
fn a_tool_that_is_cancelled_because_the_time_is_up_learns_why_and_so_does_a_run_that_it_started() {
    let inner = agent([ScenarioStep::tool_call("hang", json!({})), "done".into()]);
    let inner = inner.with_tool(MockTool::hanging("hang"));
    let ended: Arc<Mutex<Option<AgentState>>> = Arc::default();
    let kept = Arc::clone(&ended);
    let tool = MockTool::with_cx("run", "", move |_, cx| {
        let (inner, kept) = (inner.clone(), Arc::clone(&kept));
        Box::pin(async move {
            let options = RunOptions {
                env: cx.env.clone(),
                cancel: cx.cancel.clone(),
                cancel_reason: cx.cancel_reason.clone(),
                grace: cx.grace / 2,
                ..RunOptions::default()
            };
            // The inner run has no limit of its own.
            *lock(&kept) = Some(inner.start(asked(), options).finish().await);
            Ok(ToolOutput::text("ended"))
        })
    });
    let agent = agent([ScenarioStep::tool_call("run", json!({})), "done".into()]).with_tool(tool);
    let budget = Budget { time: Some(Duration::from_secs(5)), ..Budget::unlimited() };
    let outer = execute(&agent, asked().with_budget(budget));
    let inner = lock(&ended).take().unwrap();
    let reason = |state: &AgentState| state.stop_signal().map(|it| (it.reason, it.message.clone()));
    assert_eq!(reason(&inner), reason(&outer));
    assert_eq!(reason(&inner).unwrap().0, StopReason::TimeLimitReached);
}
