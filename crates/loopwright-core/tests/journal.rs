//! What is on record before anything happens, and what is made of it afterwards.

mod after_step;
mod failing;
mod repeatable;
mod shared;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use futures_util::FutureExt as _;
use loopwright_core::{
    AgentLoop, AgentState, ApprovalDecision, CallState, CallableHook, Change, ChangeRecord,
    EffectRecord, ExecutionStatus, FailureKind, Flow, IdempotencyKey, OnInterrupted, RunOptions,
    SideEffects, StepResponse, StopSignal, ToolDecision, ToolError, ToolOptions, ToolOutcome,
    ToolOutput,
    messages::{InferenceResponse, Message, Usage},
};
use loopwright_testing::{
    EventRecorder, FakeModel, Fault, FrozenClock, MemoryJournal, MockTool, ModelDriver,
    ScenarioStep, Timeline, block_on, poll_times, run_until_stuck, test_loop, yield_times,
};
use serde_json::json;

use crate::support::{
    agent, asked, execute_with, hooked, is_valid, journaled, outcomes, replay, told,
};

fn with_effects(effects: SideEffects) -> ToolOptions {
    ToolOptions { side_effects: effects, ..ToolOptions::default() }
}

/// Calls one tool of each kind, then answers. Which of the two is a function of the request, so that
/// a thought that was lost is thought again.
fn model_of_each_kind() -> FakeModel {
    let calls = ["pure", "idempotent", "resumable", "once"].map(|name| (name, json!({})));
    let steps = [ScenarioStep::tool_calls(calls).with_usage(Usage::new(3, 4)), "done".into()];
    FakeModel::script_by(|request| usize::from(request.prompt.turns.len() > 1), steps)
}

/// Offers one tool of each kind, each taking a while.
fn tools_of_each_kind() -> [MockTool; 4] {
    let tool = |name, effects| {
        let tool = MockTool::with_cx(name, "", |_, _| {
            Box::pin(yield_times(2).map(|()| Ok(ToolOutput::text("done"))))
        });
        tool.with_options(with_effects(effects))
    };
    [
        tool("pure", SideEffects::ReadOnly),
        tool("idempotent", SideEffects::Idempotent),
        tool("resumable", SideEffects::Resumable),
        tool("once", SideEffects::AtMostOnce),
    ]
}

fn of_each_kind(model: &FakeModel, tools: &[MockTool]) -> AgentLoop {
    let agent = test_loop(ModelDriver::new(model.clone()));
    tools.iter().fold(agent, |agent, tool| agent.with_tool(tool.clone()))
}

// ------------------------------------------------------------------------------------------------
// The order of things

#[test]
fn nothing_begins_and_nothing_is_told_before_what_leads_to_it_is_kept() {
    let timeline = Timeline::new();
    let journal = MemoryJournal::new().with_timeline(&timeline);
    let events = EventRecorder::new().with_timeline(&timeline);
    let noting = timeline.clone();
    let tool = MockTool::new("look", "", move |_| {
        noting.note("ran look");
        Ok::<_, loopwright_core::BoxError>("seen")
    });
    let noting = timeline.clone();
    let hook = CallableHook::new("watch")
        .before_tool(move |_, _, _| {
            noting.note("asked before_tool");
            Ok(ToolDecision::Run)
        })
        .after_step({
            let timeline = timeline.clone();
            move |_, _| {
                timeline.note("asked after_step");
                Ok(Flow::Continue)
            }
        });
    let steps = [ScenarioStep::tool_call("look", json!({})), "done".into()];
    let agent = hooked(&agent(steps), hook).with_tool(tool).with_event_sink(events.sink());
    drop(execute_with(&agent, asked(), &journal));
    let notes: Vec<String> =
        timeline.notes().into_iter().filter(|it| it != "told HookExecuted").collect();
    assert_eq!(
        notes,
        [
            "kept state_edited execution_started step_started",
            "told ExecutionStarted",
            "told StepStarted",
            "begun 1",
            "kept model_responded",
            "asked before_tool",
            "kept tool_call_started",
            "begun 1/0",
            "told ToolCallStarted",
            "ran look",
            "kept tool_call_completed step_completed",
            "told ToolCallCompleted",
            "asked after_step",
            "kept step_started",
            "told StepCompleted",
            "told StateUpdated",
            "told ContinuationEvaluated",
            "told StepStarted",
            "begun 2",
            "kept model_responded step_completed",
            "asked after_step",
            "kept execution_ended",
            "told StepCompleted",
            "told StateUpdated",
            "told ContinuationEvaluated",
            "told ExecutionCompleted",
        ]
    );
}

#[test]
fn without_hooks_the_thought_and_all_beginnings_are_one_append() {
    let journal = MemoryJournal::new();
    let timeline = Timeline::new();
    let calls = [("scripted", json!({})), ("scripted", json!({}))];
    let agent = agent([ScenarioStep::tool_calls(calls), "done".into()]);
    drop(execute_with(&agent, asked(), &journal.clone().with_timeline(&timeline)));
    let kept: Vec<_> =
        timeline.notes().into_iter().filter(|note| note.starts_with("kept")).collect();
    assert_eq!(
        kept,
        [
            "kept state_edited execution_started step_started",
            "kept model_responded tool_call_started tool_call_started",
            "kept tool_call_completed",
            "kept tool_call_completed step_completed step_started",
            "kept model_responded step_completed execution_ended",
        ]
    );
    assert_eq!(replay(&journal).text(), "done");
}

#[test]
fn a_pure_call_needs_no_beginning() {
    let journal = MemoryJournal::new();
    let tool = MockTool::returning("look", "", 1).with_options(with_effects(SideEffects::ReadOnly));
    let agent = agent([ScenarioStep::tool_call("look", json!({})), "done".into()]).with_tool(tool);
    drop(execute_with(&agent, asked(), &journal));
    assert!(!journal.names().contains(&"tool_call_started"));
}

#[test]
fn a_pause_is_one_append_and_everything_before_it_is_settled() {
    let timeline = Timeline::new();
    let journal = MemoryJournal::new().with_timeline(&timeline);
    let hook = CallableHook::new("approval").before_tool(|call, _, _| {
        let question = || loopwright_core::ApprovalRequest::new("?", "approval");
        Ok(if &*call.name == "pay" { ToolDecision::Ask(question()) } else { ToolDecision::Run })
    });
    let calls = [("pay", json!({})), ("scripted", json!({})), ("pay", json!({}))];
    let pay = MockTool::returning("pay", "", "paid");
    let agent = hooked(&agent([ScenarioStep::tool_calls(calls), "done".into()]), hook)
        .with_tool(pay.clone());
    let paused = execute_with(&agent, asked(), &journal);
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    assert_eq!(paused.pending().iter().map(|it| it.index).collect::<Vec<_>>(), [0, 2]);
    let notes = timeline.notes();
    assert_eq!(
        notes.last().unwrap(),
        "kept tool_call_completed approval_requested approval_requested execution_paused"
    );
    let restored = replay(&journal);
    assert_eq!(restored, paused);
    let denied = ApprovalDecision::Deny { reason: "no".into() };
    let state = restored.decide(0, ApprovalDecision::Approve).decide(2, denied);
    let state = execute_with(&agent, state, &journal);
    assert_eq!(told(&state), ["paid", "done", "Blocked: no"]);
    assert_eq!(pay.keys().len(), 1);
    assert_eq!(replay(&journal), state);
}

// ------------------------------------------------------------------------------------------------
// Crashes

/// Lets the machine stop at each append of a run in turn, and goes on from what was kept.
#[track_caller]
fn crash_everywhere(fault: Fault, check: impl Fn(usize, &AgentState, &FakeModel, &[MockTool])) {
    for append in 0.. {
        let (model, tools, journal) =
            (model_of_each_kind(), tools_of_each_kind(), MemoryJournal::new());
        let agent = of_each_kind(&model, &tools);
        journal.fail_at(append, fault);
        let before = run_until_stuck(agent.start(asked(), journaled(&journal)).finish());
        if before.is_some() {
            assert!(append > 5, "the run made {append} appends");
            return;
        }
        journal.recover();
        let kept = replay(&journal);
        let kept = if kept.transcript().is_empty() { kept.with_user_message("go") } else { kept };
        let is_over = kept.status().is_terminal();
        let state = if is_over { kept } else { execute_with(&agent, kept, &journal) };
        assert_eq!(state.status(), &ExecutionStatus::Completed, "append {append}");
        assert_eq!(state.text(), "done");
        assert_eq!(state.step_count(), 2);
        is_valid(&state);
        assert_eq!(replay(&journal), state, "append {append}");
        check(append, &state, &model, &tools);
    }
}

#[track_caller]
fn nothing_happens_twice(append: usize, state: &AgentState, model: &FakeModel, tools: &[MockTool]) {
    let [pure, idempotent, resumable, once] = tools else { panic!("{tools:?}") };
    assert!(once.keys().len() <= 1, "append {append}");
    for tool in [pure, idempotent, resumable] {
        let keys = tool.keys();
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "append {append}");
    }
    let outcomes = outcomes(state, 0);
    assert!(outcomes[..3].iter().all(|it| !it.is_error()), "append {append}: {outcomes:?}");
    match once.keys().len() {
        1 => assert!(matches!(outcomes[3], ToolOutcome::Returned(_) | ToolOutcome::Unknown)),
        _ => assert_eq!(outcomes[3], ToolOutcome::Unknown, "append {append}"),
    }
    assert!(model.asked() <= 3, "append {append}: the model was asked {} times", model.asked());
}

#[test]
fn whatever_append_the_machine_stops_before_no_effect_happens_twice() {
    crash_everywhere(Fault::CrashBefore, nothing_happens_twice);
}

#[test]
fn whatever_append_the_machine_stops_after_no_effect_happens_twice() {
    crash_everywhere(Fault::CrashAfter, nothing_happens_twice);
}

#[test]
fn the_evaluation_of_a_step_is_appended_with_the_start_of_the_next_one() {
    let script = || {
        let calls = (0..3).map(|_| ScenarioStep::tool_call("pay", json!({})));
        agent(calls.chain(["done".into()])).with_tool(MockTool::returning("pay", "Pays.", "paid"))
    };
    let (whole, lazy) = (MemoryJournal::new(), MemoryJournal::new());
    let mut run = script().start(asked(), journaled(&whole));
    while run_until_stuck(run.next()).flatten().is_some() {}
    let kept = run.into_state();
    let mut run = script().start(asked(), journaled(&lazy));
    let mut steps = 0;
    while run_until_stuck(run.step()).unwrap() {
        steps += 1;
    }
    assert_eq!((steps, run.state().unsaved_changes().count()), (4, 0));
    assert_eq!(run.into_state().text(), kept.text());
    assert_eq!(replay(&lazy).text(), kept.text());
    assert_eq!(whole.appends() - lazy.appends(), 3, "each step but the last");
}

#[test]
fn a_thought_on_record_is_not_paid_again() {
    crash_everywhere(Fault::CrashAfter, |append, _, model, _| {
        // The thoughts are the appends 1 and 6; a crash after the appends between costs nothing.
        if append > 0 {
            assert_eq!(model.asked(), 2, "append {append}");
        }
    });
}

#[test]
fn an_interrupted_once_call_is_unknown_and_the_model_is_told() {
    let (journal, pay) = (MemoryJournal::new(), MockTool::hanging("pay"));
    let agent =
        agent([ScenarioStep::tool_call("pay", json!({})), "done".into()]).with_tool(pay.clone());
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    let state = execute_with(&agent, replay(&journal), &journal);
    assert_eq!(pay.keys().len(), 1);
    assert_eq!(outcomes(&state, 0), [ToolOutcome::Unknown]);
    assert!(told(&state)[0].starts_with("Unknown: the tool was interrupted after it started"));
    assert!(state.had_tool_errors());
    assert_eq!(state.status(), &ExecutionStatus::Completed);
}

#[test]
fn an_interrupted_call_can_be_asked_about_and_run_again() {
    let journal = MemoryJournal::new();
    let began = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&began);
    let pay = MockTool::with_cx("pay", "", move |_, _| {
        let first = counter.fetch_add(1, SeqCst) == 0;
        Box::pin(async move {
            if first { std::future::pending().await } else { Ok(ToolOutput::text("paid")) }
        })
    });
    let agent =
        agent([ScenarioStep::tool_call("pay", json!({})), "done".into()]).with_tool(pay.clone());
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    let options =
        RunOptions { on_interrupted: OnInterrupted::RequireApproval, ..journaled(&journal) };
    let paused = block_on(agent.start(replay(&journal), options.clone()).finish());
    assert_eq!(paused.status(), &ExecutionStatus::Paused);
    assert_eq!(&*paused.pending()[0].question.source, "recovery");
    let state =
        block_on(agent.start(paused.decide(0, ApprovalDecision::Approve), options).finish());
    assert_eq!((told(&state), began.load(SeqCst)), (vec!["paid".to_owned()], 2));
    let keys = pay.keys();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}

#[test]
fn an_undecided_interrupted_call_stays_unknown_when_the_run_is_abandoned() {
    let journal = MemoryJournal::new();
    let agent = agent([ScenarioStep::tool_call("pay", json!({})), "done".into()])
        .with_tool(MockTool::hanging("pay"));
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    let options =
        || RunOptions { on_interrupted: OnInterrupted::RequireApproval, ..journaled(&journal) };
    let run = agent.start(replay(&journal), options());
    run.handle().cancel();
    let state = block_on(run.finish());
    assert_eq!(outcomes(&state, 0), [ToolOutcome::Unknown]);
}

#[test]
fn an_idempotent_call_runs_again_with_the_same_key_and_the_effective_arguments() {
    let journal = MemoryJournal::new();
    let began = Arc::new(AtomicUsize::new(0));
    let put = MockTool::with_cx("put", "", move |_, _| {
        let first = began.fetch_add(1, SeqCst) == 0;
        Box::pin(async move {
            if first { std::future::pending().await } else { Ok(ToolOutput::text("put")) }
        })
    });
    let put = put.with_schema(json!({ "type": "object" }));
    let put = put.with_options(with_effects(SideEffects::Idempotent));
    let rewritten = json!({ "to": "elsewhere" });
    let to = rewritten.clone();
    let hook = CallableHook::new("redirect")
        .before_tool(move |_, _, _| Ok(ToolDecision::Rewrite((&to).into())));
    let agent = hooked(&agent([ScenarioStep::tool_call("put", json!({})), "done".into()]), hook)
        .with_tool(put.clone());
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    let interrupted = replay(&journal);
    let open = interrupted.execution().unwrap().open_step().unwrap().clone();
    assert!(matches!(&open.calls()[0], CallState::Started { attempt: 1, .. }));
    // Hooks were asked before the interruption: they are not asked again.
    let agent = agent.with_interceptor(loopwright_core::Interceptor::default());
    let state = execute_with(&agent, interrupted, &journal);
    assert_eq!(told(&state), ["put"]);
    assert_eq!(put.calls(), [rewritten.clone(), rewritten]);
    assert_eq!(put.keys()[0], put.keys()[1]);
    let attempts: Vec<_> = journal.changes().iter().filter_map(attempt_of_call).collect();
    assert_eq!(attempts, [1, 2]);
}

fn attempt_of_call(stamped: &ChangeRecord) -> Option<u32> {
    match stamped.change {
        Change::ToolCallStarted { attempt, .. } => Some(attempt),
        _ => None,
    }
}

#[test]
fn a_step_that_always_crashes_is_given_up_after_max_attempts() {
    let journal = MemoryJournal::new();
    let model = FakeModel::ignoring_cancel();
    let agent = test_loop(ModelDriver::new(model.clone()));
    let options = || RunOptions { max_attempts: 3, ..journaled(&journal) };
    let mut state = asked();
    for _ in 0..3 {
        assert!(run_until_stuck(agent.start(state, options()).finish()).is_none());
        state = replay(&journal);
    }
    let state = block_on(agent.start(state, options()).finish());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.kind, FailureKind::CrashLoop);
    assert_eq!(model.asked(), 3);
}

#[test]
fn a_call_that_always_crashes_is_given_up_after_max_attempts() {
    let journal = MemoryJournal::new();
    let put = MockTool::hanging("put").with_options(with_effects(SideEffects::Idempotent));
    let agent =
        agent([ScenarioStep::tool_call("put", json!({})), "done".into()]).with_tool(put.clone());
    let options = || RunOptions { max_attempts: 3, ..journaled(&journal) };
    let mut state = asked();
    for _ in 0..3 {
        assert!(run_until_stuck(agent.start(state, options()).finish()).is_none());
        state = replay(&journal);
    }
    let state = block_on(agent.start(state, options()).finish());
    let ToolOutcome::Failed(failure) = &outcomes(&state, 0)[0] else { panic!("{state:?}") };
    assert_eq!((failure.kind, put.keys().len()), (FailureKind::CrashLoop, 3));
    assert_eq!(state.status(), &ExecutionStatus::Completed);
}

#[test]
fn a_step_that_is_resumed_is_timed_from_where_it_went_on() {
    let journal = MemoryJournal::new();
    let agent = agent([ScenarioStep::tool_call("pay", json!({})), "done".into()])
        .with_tool(MockTool::hanging("pay"));
    let clock = FrozenClock::new();
    clock.advance(std::time::Duration::from_secs(1000));
    let options = || RunOptions { env: clock.env(1), ..journaled(&journal) };
    assert!(run_until_stuck(agent.start(asked(), options()).finish()).is_none());
    let state = block_on(agent.start(replay(&journal), options()).finish());
    assert_eq!(state.step_at(0).unwrap().duration(), std::time::Duration::ZERO);
}

// ------------------------------------------------------------------------------------------------
// Hosts that replay

#[test]
fn a_call_that_the_journal_has_recorded_does_not_run_again() {
    let journal = MemoryJournal::new();
    let (model, pay) = (FakeModel::echo(), MockTool::returning("pay", "", "paid"));
    let agent = test_loop(ModelDriver::new(model.clone())).with_tool(pay.clone());
    let mut run = agent.start(asked(), journaled(&journal));
    // The id of the execution is known once it has begun.
    journal.fail_at(0, Fault::Delay(1));
    assert!(poll_times(pin!(run.next()), 1).is_none());
    let execution = run.state().execution().unwrap().id().clone();
    let key = |step, call| IdempotencyKey { execution: execution.clone(), step, call };
    let thought = ScenarioStep::tool_call("pay", json!({})).to_thought().unwrap();
    journal.preload(key(1, None), EffectRecord::Response(Arc::new(thought)));
    let outcome = ToolOutcome::Returned(ToolOutput::text("paid before"));
    journal.preload(key(1, Some(0)), EffectRecord::Outcome(Arc::new(outcome)));
    let answer = InferenceResponse::new(Message::assistant("known"), Usage::new(1, 1));
    journal.preload(
        key(2, None),
        EffectRecord::Response(Arc::new(StepResponse::from_response(answer))),
    );
    let state = block_on(run.finish());
    assert_eq!((told(&state), state.text().as_str()), (vec!["paid before".to_owned()], "known"));
    assert_eq!((model.asked(), pay.keys().len()), (0, 0));
    assert_eq!(journal.begun(), [key(1, None), key(1, Some(0)), key(2, None)]);
}

#[test]
fn a_sub_agent_is_entered_again_with_the_journal_of_its_call() {
    let journal = MemoryJournal::new();
    let child = agent([ScenarioStep::tool("child looks"), "child is done".into()]);
    let runs = Arc::new(AtomicUsize::new(0));
    let spawn = MockTool::with_cx("spawn", "", move |_, cx| {
        let (child, attempt) = (child.clone(), runs.fetch_add(1, SeqCst));
        Box::pin(async move {
            let own = cx.journal.ok_or_else(|| ToolError::InvalidArguments("none".into()))?;
            let options = RunOptions {
                env: cx.env.clone(),
                journal: Some(own.child(cx.key)),
                ..RunOptions::default()
            };
            if attempt == 0 {
                // Its first step is on record when the machine stops.
                let mut run = child.start(asked(), options);
                let _first = run.next().await;
                return std::future::pending().await;
            }
            Ok(ToolOutput::text(cx.key.to_string()))
        })
    });
    let spawn = spawn.with_options(with_effects(SideEffects::Resumable));
    let agent = agent([ScenarioStep::tool_call("spawn", json!({})), "done".into()])
        .with_tool(spawn.clone());
    assert!(run_until_stuck(agent.start(asked(), journaled(&journal)).finish()).is_none());
    let state = execute_with(&agent, replay(&journal), &journal);
    assert_eq!(state.text(), "done");
    assert_eq!(spawn.keys()[0], spawn.keys()[1]);
    assert_eq!(told(&state), [spawn.keys()[0].to_string()]);
}

#[test]
fn changes_that_do_not_follow_are_refused_with_their_number() {
    let journal = MemoryJournal::new();
    drop(execute_with(&agent([ScenarioStep::tool("looking"), "done".into()]), asked(), &journal));
    let mut changes = journal.changes();
    let thought = changes.iter().position(|it| it.change.name() == "model_responded").unwrap();
    changes.remove(thought);
    let error = AgentState::new().replay(changes).unwrap_err();
    assert_eq!((error.seq, error.change), (thought as u64, "tool_call_started"));
}

#[test]
fn every_change_survives_the_journal_as_it_was() {
    let journal = MemoryJournal::new();
    let hook = CallableHook::new("busy").after_step(|state, _| {
        state.set_metadata("seen", json!(state.step_count()));
        state.signal(StopSignal::requested("busy", "no"));
        state.withdraw(loopwright_core::StopReason::StopRequested);
        Ok(Flow::Continue)
    });
    let agent = hooked(&agent([ScenarioStep::tool("looking"), "done".into()]), hook);
    let state = execute_with(&agent, asked(), &journal);
    let text = serde_json::to_string(&journal.changes()).unwrap();
    let changes: Vec<ChangeRecord> = serde_json::from_str(&text).unwrap();
    assert_eq!(changes, journal.changes());
    assert_eq!(AgentState::new().replay(changes).unwrap(), state);
}

struct Panicking;

#[async_trait::async_trait]
impl loopwright_core::Journal for Panicking {
    async fn append(
        &self,
        _: u64,
        _: &[loopwright_core::ChangeRecord],
    ) -> Result<(), loopwright_core::JournalError> {
        panic!("the disk is on fire")
    }

    fn child(&self, _: &loopwright_core::IdempotencyKey) -> Arc<dyn loopwright_core::Journal> {
        Arc::new(Self)
    }
}

#[test]
fn a_journal_that_panics_is_not_available() {
    let options = RunOptions { journal: Some(Arc::new(Panicking)), ..crate::support::options() };
    let state = block_on(agent(["done".into()]).start(asked(), options).finish());
    let ExecutionStatus::Failed(failure) = state.status() else { panic!("{state:?}") };
    assert_eq!(failure.kind, loopwright_core::FailureKind::Journal);
    assert!(failure.to_string().contains("the disk is on fire"), "{failure}");
}

#[test]
fn edits_outside_of_a_run_can_be_saved_without_a_run() {
    let journal = MemoryJournal::new();
    let clock = FrozenClock::new();
    let mut state = asked().with_metadata("a", 1);
    journal.fail_at(0, Fault::Unavailable);
    assert!(block_on(state.save(&journal, &clock)).is_err());
    state = state.with_metadata("b", 2);
    block_on(state.save(&journal, &clock)).unwrap();
    assert_eq!(state.unsaved_changes().count(), 0);
    assert_eq!(replay(&journal), state);
    let sent = journal.sent();
    assert_eq!(sent[0], sent[1], "what failed is sent again as it was");
}

#[test]
fn letting_an_execution_go_is_on_record() {
    let journal = MemoryJournal::new();
    let clock = FrozenClock::new();
    let mut state = execute_with(&agent(["one".into()]), asked(), &journal).for_next_execution();
    block_on(state.save(&journal, &clock)).unwrap();
    assert!(state.execution().is_none());
    assert_eq!(replay(&journal), state);
    assert_eq!(journal.names().last(), Some(&"execution_cleared"));
    let again = state.clone().for_next_execution();
    assert_eq!(again.unsaved_changes().count(), 0, "what is not there is not let go");
}
